"""What operators ask of a device, as arrays; the only thing a mapping sees of a model."""

from __future__ import annotations

from enum import IntEnum


class OpClass(IntEnum):
    """How hardware sees an operator. A mapping has one efficiency per class and architecture."""

    GEMM = 0  # linear layers and matrix products
    CONV = 1  # dense and grouped convolutions, as implicit GEMM
    DEPTHWISE = 2  # convolutions with one or few channels per group: no reduction over channels
    ATTENTION = 3  # fused scaled-dot-product attention
    ELEMENTWISE = 4  # activations, adds, casts, bias
    NORM = 5  # batch, layer and group normalisation
    SOFTMAX = 6
    REDUCTION = 7  # mean, sum, max over axes
    POOL = 8
    MOVEMENT = 9  # copies, concatenation, padding, transposes that move data
    GATHER = 10  # embedding, indexing, scatter, resampling, sorting
    OTHER = 11  # no rule: bytes only
