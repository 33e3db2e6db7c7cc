"""Kernels that round activations to the narrow format of a product. Before each product of narrow operands they read
wide activations to find scales, read them again and write them narrow; for scales of small blocks they read once.
Engines of language models keep all else in 16 bits."""

from __future__ import annotations

import numpy as np

from hardware.demand import Demand, OpClass
from hardware.efficiency import Efficiency
from hardware.mapping.common import Mapping, add_serial, last_level_seconds, memory_seconds_of, wide_products
from hardware.precision import FORMATS
from hardware.setup import Setup


def quantise_activations(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Return the mapping with the seconds of the kernels that quantise the left operands of products. Products in one
    kernel share their left operand. The operands of weights that stay wide are not quantised."""
    device, plan = setup.device, setup.plan
    if plan.operand == plan.stored:
        return mapping
    _, m, _, k = demand.gemm
    is_narrow = (demand.op_class == OpClass.GEMM) & demand.head & ~wide_products(demand, plan)
    values = np.where(is_narrow, np.maximum(demand.gemm[0], 1.0) * m * k, 0.0)
    is_local = FORMATS[plan.weights].block > 0  # values of a block are in registers when its scale is known
    moved = values * ((1.0 if is_local else 2.0) * plan.widths.activations + FORMATS[plan.operand].bytes)
    near = np.minimum(moved, device.last_level_bytes * device.arch.data.assumed("quantised_in_cache"))
    bandwidth = float(rates.bandwidth[0, OpClass.ELEMENTWISE if is_local else OpClass.ROW_NORM])
    passes_s = last_level_seconds(device, near) + memory_seconds_of(device, moved - near, bandwidth)
    return add_serial(mapping, demand, passes_s=passes_s, starts_s=is_narrow * device.light_start_s)
