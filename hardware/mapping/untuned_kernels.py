"""Kernels of a framework that neither times those of its library against each other nor keeps parameters in fp32.

On matrix units, kernels of convolutions want channels last: others rearrange the tensors of a model in NCHW before and
after, but not those of a product (1 x 1) in TF32. Rules choose the kernel: fewer shapes have a good one where
instructions are new. With few input channels, as in the first layer, each value is loaded alone. Two kernels widen the
parameters of a batch norm in 16 bits."""

from __future__ import annotations

import numpy as np

from hardware.demand import READ_WEIGHT, Demand, Floats, OpClass
from hardware.precision import BASE, FORMATS, WIDE
from hardware.setup import Setup

_REARRANGED = 3.0  # a tensor is read and written once more


def untuned_kernels(demand: Demand, setup: Setup) -> tuple[Demand, Floats]:
    """Return the demand with the rates of the kernels that rules choose and the bytes of those that rearrange tensors,
    and how many kernels each operator starts beside its own, (n,)."""
    assumed, is_narrow = setup.device.arch.data.assumed, demand.element_bytes < FORMATS[BASE].bytes
    starts: Floats = np.where(is_narrow & (demand.op_class == OpClass.NORM), assumed("norm_casts"), 0.0)
    is_dense = (demand.op_class == OpClass.CONV) & (setup.plan.convolution[0] == "matrix")
    if not is_dense.any():
        return demand, starts
    window = np.maximum(np.prod(demand.windows[2:4], axis=0), 1.0)
    is_few = demand.gemm[3] / window < assumed("few_channels")
    rate = np.where(is_few, assumed("few_channels_rate"), 1.0)
    rate = rate * (assumed("rule_kernels_rate") if setup.device.synchronous_matrix_rate < 1.0 else 1.0)
    demand = demand.with_values(product_rate=demand.product_rate * np.where(is_dense, rate, 1.0))
    if setup.layout != "nchw":
        return demand, starts
    rearranges = is_dense & ((window > 1.0) | (demand.element_bytes <= FORMATS[WIDE].bytes))
    is_moved = rearranges[demand.transfers.op] & (demand.transfers.role != READ_WEIGHT)
    demand = demand.with_transfers(size_bytes=demand.transfers.size_bytes * np.where(is_moved, _REARRANGED, 1.0))
    return demand, starts + 2.0 * rearranges
