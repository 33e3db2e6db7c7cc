"""Scratch memory that libraries take in addition to the tensors of the graph.

A rule is known for PyTorch eager on CPU, fp32: oneDNN reorders operands of convolutions into blocked layouts and the
result back, and max pooling keeps the positions of its maxima. It was read off the profiler's allocator events (torch
2.13, AVX-512): of 31 torchvision models at batch 1, 4 and 8, 24 are within 0.1 % and all within 13 %;
test_report_memory_measured.py repeats twelve. Without a rule no scratch memory is counted, and reports say so.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.model.ir.workload import INPUT, WEIGHT, Floats, Workload
from hardware.device import Device
from hardware.memo import memoize

SOURCE = (
    "oneDNN reorders into blocks of channels: max(input unless it is an image of up to 3 channels, plus weights; "
    "output); max pooling: int64 positions; read off PyTorch's allocator events on CPU"
)
_UNKNOWN = "libraries choose it layer by layer and publish no rule"
_ADVISED = "; cuBLAS advises 32 MiB on Hopper, 4 MiB on other GPUs (its reference, cublasSetWorkspace)"
_INDEX_BYTES = 8  # int64, whatever the precision
_PLAIN_CHANNELS = 3  # oneDNN reads an image of so few channels as it is
_REORDERED = ("conv", "depthwise_conv", "conv_transpose")


class _Sizes(msgspec.Struct, frozen=True):
    """Elements as coefficients, each (n, m); zero for an operator that takes none."""

    reordered: Floats
    weights: Floats
    output: Floats
    positions: Floats


def block_channels(device: Device, execution: str) -> float:
    """Return the channels per block of a blocked layout, where a partial block takes the memory of a whole one. Return
    0 if the rule does not apply (it does for eager execution on a CPU)."""
    return device.channel_block if device.arch.is_host and execution == "eager" else 0.0


def describe_unknown(device: Device) -> str:
    """Say why no scratch memory is counted without a rule, and what its library advises."""
    return _UNKNOWN + _ADVISED * (device.vendor == "NVIDIA")


def workspace(workload: Workload, batch: int, element_bytes: float, block: float) -> Floats:
    """Scratch bytes of each operator while it runs, shape (n,), under PyTorch eager on a CPU that lays `block` channels
    side by side."""
    sizes, point = _sizes(workload, block), workload.value_at(batch=batch)
    operands = (sizes.reordered + sizes.weights) @ point
    scratch: Floats = np.maximum(operands, sizes.output @ point) * element_bytes
    scratch += sizes.positions @ point * _INDEX_BYTES
    if workload.scratch is not None:
        scratch += workload.scratch @ point * element_bytes
    return scratch


@memoize(shared=True)
def _sizes(workload: Workload, block: float) -> _Sizes:
    ops, tensors = workload.operators, workload.tensors
    once = workload.value_at(**dict.fromkeys(workload.dims, 1))
    reordered, weights, output, positions = (np.zeros((workload.n_operators, len(workload.monomials))) for _ in "iwop")
    plain = tuple(range(_PLAIN_CHANNELS + 1))
    is_image = all(len(spec.shape) == 4 and spec.shape[1] in plain for spec in workload.inputs)
    for i, kind in enumerate(ops.kind):
        result = tensors.numel[ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]].sum(axis=0)
        if kind == "max_pool":
            positions[i] = result
        if kind not in _REORDERED:
            continue
        groups, _, columns, _ = ops.gemm[i] @ once
        output[i] = result * _padding(groups * columns, block)
        if kind == "conv_transpose" and groups == 1:
            output[i] += result  # its result is channels last, and is copied once more
        padding = _padding(groups, block) if kind == "depthwise_conv" else 1.0
        for e in range(ops.in_ptr[i], ops.in_ptr[i + 1]):
            t = ops.in_tensor[e]
            if tensors.role[t] == WEIGHT:
                weights[i] += ops.in_numel[e]
            elif not (is_image and tensors.role[t] == INPUT):
                reordered[i] += ops.in_numel[e] * padding
    return _Sizes(reordered, weights, output, positions)


def _padding(channels: float, block: float) -> float:
    """Return the bytes of a blocked layout over the bytes of the values in it."""
    return float(np.ceil(channels / block) * block / channels) if channels > 0 else 1.0
