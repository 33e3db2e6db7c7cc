"""Arithmetic per element, by ATen base name. Adding an operator is adding a row.

Conventions. One flop is one floating-point add, multiply, compare, select or conversion. A *special* is an
evaluation of a transcendental, root, or division; it is one flop as well. Values are what the formula in the
comment needs, as written, with constants folded; how a device evaluates it is the device's business.
"""

from __future__ import annotations

from typing import NamedTuple


class PerElement(NamedTuple):
    """Flops and specials per element of the output (element-wise) or of the input (reductions)."""

    kind: str
    flops: int
    special: int = 0


def _rows(kind: str, flops: int, special: int, names: str) -> dict[str, PerElement]:
    return {name: PerElement(kind, flops, special) for name in names.split()}


def _all(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Per output element.
ELEMENTWISE: dict[str, PerElement] = {
    "relu": PerElement("relu", 1),  # max(x, 0)
    "relu6": PerElement("relu6", 1),  # one clamp
    "hardtanh": PerElement("relu6", 1),  # what nn.ReLU6 becomes
    "gelu": PerElement("gelu", 5, 1),  # 0.5 * x * (1 + erf(x * c)): mul, erf, add, mul, mul
    "silu": PerElement("silu", 4, 2),  # x / (1 + exp(-x)): neg, exp, add, div
    "sigmoid": PerElement("sigmoid", 4, 2),  # 1 / (1 + exp(-x))
    "tanh": PerElement("tanh", 1, 1),
    "hardswish": PerElement("hardswish", 5),  # x * clamp(x + 3, 0, 6) / 6: add, min, max, mul, mul
    "hardsigmoid": PerElement("hardsigmoid", 4),  # clamp(x + 3, 0, 6) / 6: add, min, max, mul
    "leaky_relu": PerElement("elementwise", 2),  # compare-select and multiply
    "prelu": PerElement("elementwise", 2),
    "_prelu_kernel": PerElement("elementwise", 2),
    "rrelu": PerElement("elementwise", 2),
    "threshold": PerElement("elementwise", 1),
    "elu": PerElement("elementwise", 4, 1),  # x > 0 ? x : a * (exp(x) - 1)
    "selu": PerElement("elementwise", 5, 1),
    "celu": PerElement("elementwise", 5, 1),
    "softplus": PerElement("elementwise", 3, 2),  # log(1 + exp(x))
    "log_sigmoid": PerElement("elementwise", 4, 2),
    "mish": PerElement("elementwise", 5, 3),  # x * tanh(log(1 + exp(x)))
    "softsign": PerElement("elementwise", 3, 1),  # x / (1 + |x|)
    "hardshrink": PerElement("elementwise", 2),
    "softshrink": PerElement("elementwise", 3),
    "glu": PerElement("elementwise", 5, 2),  # a * sigmoid(b)
    "swiglu": PerElement("elementwise", 5, 2),
    "add": PerElement("add", 1),
    "sub": PerElement("sub", 1),
    "rsub": PerElement("sub", 1),
    "mul": PerElement("mul", 1),
    "div": PerElement("div", 1, 1),
    "true_divide": PerElement("div", 1, 1),
    "reciprocal": PerElement("div", 1, 1),
    "floor_divide": PerElement("div", 2, 1),
    "remainder": PerElement("div", 4, 1),  # x - floor(x / y) * y
    "fmod": PerElement("div", 4, 1),
    "pow": PerElement("pow", 3, 2),  # exp(y * log(x)); small whole exponents are multiplications, see rules
    "square": PerElement("mul", 1),
    "exp": PerElement("exp", 1, 1),
    "sqrt": PerElement("elementwise", 1, 1),
    "rsqrt": PerElement("rsqrt", 1, 1),
    **_rows("elementwise", 1, 1, "exp2 expm1 log log2 log10 log1p erf erfc erfinv sin cos tan asin acos atan"),
    **_rows("elementwise", 1, 1, "sinh cosh asinh acosh atanh lgamma digamma i0 special_i0e cbrt atan2 hypot"),
    "sinc": PerElement("elementwise", 3, 2),
    "logit": PerElement("elementwise", 3, 2),
    "logaddexp": PerElement("elementwise", 4, 2),
    "xlogy": PerElement("elementwise", 2, 1),
    **_rows("elementwise", 1, 0, "neg abs sign sgn floor ceil round trunc frac maximum minimum fmax fmin"),
    **_rows("elementwise", 1, 0, "nan_to_num conj real imag positive copysign heaviside fill_diagonal"),
    **_rows("clamp", 2, 0, "clamp clip"),
    **_rows("clamp", 1, 0, "clamp_min clamp_max"),
    **_rows("where", 1, 0, "where masked_fill"),
    **_rows("compare", 1, 0, "eq ne lt le gt ge isnan isinf isfinite isclose logical_and logical_or"),
    **_rows("compare", 1, 0, "logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor"),
    **_rows("compare", 1, 0, "__and__ __or__ __xor__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift"),
    "addcmul": PerElement("elementwise", 3),  # a + s * b * c
    "addcdiv": PerElement("elementwise", 3, 1),
    "lerp": PerElement("elementwise", 3),
    "polar": PerElement("elementwise", 4, 2),  # r * cos, r * sin
    "outer": PerElement("mul", 1),
    "fake_quantize_per_tensor_affine": PerElement("cast", 4),  # scale, round, clamp, rescale
    "batch_norm": PerElement("batch_norm", 2),  # evaluation: one multiply and one add, statistics folded
    "_native_batch_norm_legit_no_training": PerElement("batch_norm", 2),
    "cudnn_batch_norm": PerElement("batch_norm", 2),
    # max, subtract, exp, sum, multiply by the reciprocal of the sum (one division per row is not counted)
    **_rows("softmax", 5, 1, "softmax _softmax _safe_softmax"),
    **_rows("softmax", 5, 1, "log_softmax _log_softmax"),  # max, subtract, exp, sum, subtract the logarithm
    "gumbel_softmax": PerElement("softmax", 8, 3),
    "affine_grid_generator": PerElement("elementwise", 5),  # three multiplications, two additions
    "rotary_embedding": PerElement("elementwise", 3),
    **_rows("elementwise", 2, 0, "dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout"),
}

# Per input element.
REDUCTIONS: dict[str, PerElement] = {
    "mean": PerElement("mean", 1),
    "nanmean": PerElement("mean", 2),
    **_rows("reduce", 1, 0, "sum nansum prod amax amin max min aminmax argmax argmin any all count_nonzero"),
    **_rows("reduce", 1, 0, "cumsum cumprod cummax cummin trace median kthvalue mode"),
    **_rows("reduce", 4, 0, "var std var_mean std_mean"),  # subtract, square, add; and the mean
    **_rows("reduce", 2, 0, "norm linalg_vector_norm linalg_norm frobenius_norm dist"),  # square, add
    **_rows("reduce", 4, 1, "logsumexp logcumsumexp"),  # max, subtract, exp, add
    "mse_loss": PerElement("reduce", 3),
    "l1_loss": PerElement("reduce", 3),
    "smooth_l1_loss": PerElement("reduce", 5),
    "cross_entropy_loss": PerElement("reduce", 6, 1),
    "nll_loss_nd": PerElement("reduce", 1),
    "cosine_similarity": PerElement("reduce", 3),  # three dot products share two reads
    "bincount": PerElement("reduce", 1),
    "histc": PerElement("reduce", 3),
    "adaptive_avg_pool1d": PerElement("avg_pool", 1),
    "adaptive_avg_pool2d": PerElement("avg_pool", 1),
    "_adaptive_avg_pool2d": PerElement("avg_pool", 1),
    "adaptive_avg_pool3d": PerElement("avg_pool", 1),
    "_adaptive_avg_pool3d": PerElement("avg_pool", 1),
    "adaptive_max_pool1d": PerElement("max_pool", 1),
    "adaptive_max_pool2d": PerElement("max_pool", 1),
    "adaptive_max_pool3d": PerElement("max_pool", 1),
}

# Normalisations over a group, per element: mean (1), variance (subtract, square, add: 3), subtract and multiply
# by the reciprocal root (2), affine (2); and one special, the root, per group.
NORM_FLOPS = 8
RMS_NORM_FLOPS = 4  # square, add, two multiplications

# 0.5 * x * (1 + tanh(c * (x + d * x^3))): three products, add, product, tanh, add, two products.
GELU_TANH = PerElement("gelu", 9, 1)

# Window pooling: one flop per element of the window and output.
POOLS = {
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), "max_pool"),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices"), "max_pool"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), "avg_pool"),
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool3d"), "max_pool"),
    **dict.fromkeys(("lp_pool1d", "lp_pool2d", "lp_pool3d"), "avg_pool"),
}

# Moves data, computes nothing.
MOVEMENT = {
    **_all(
        "copy",
        "clone contiguous reshape flatten copy repeat tile repeat_interleave flip fliplr flipud rot90 tril"
        " triu pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle im2col col2im diag"
        " diag_embed block_diag movedim resolve_conj view_as_complex view_as_real unfold_copy expand_copy"
        " permute_copy view_copy slice_copy select_copy transpose_copy squeeze_copy unsqueeze_copy to_dense"
        " meshgrid cartesian_prod combinations lift_fresh_copy lift_fresh as_strided_copy ravel",
    ),
    **_all("cat", "cat concat concatenate stack hstack vstack dstack column_stack"),
    **_all(
        "pad",
        "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d"
        " replication_pad2d replication_pad3d",
    ),
    "roll": "roll",
    **_all(
        "fill",
        "fill zero zeros ones full empty arange linspace logspace eye new_zeros new_ones new_full new_empty"
        " zeros_like ones_like full_like empty_like scalar_tensor new_empty_strided empty_strided one_hot"
        " rand randn randint randperm rand_like randn_like randint_like bernoulli normal uniform multinomial"
        " exponential tril_indices triu_indices hann_window hamming_window",
    ),
}

# Reads what an index says, as much as it writes.
GATHERS = {
    **_all("gather", "index index_select gather take take_along_dim masked_select nonzero"),
    **_all("gather", "searchsorted bucketize"),
    "embedding": "embedding",
    **_all(
        "scatter",
        "index_put index_copy index_fill scatter scatter_add scatter_reduce index_add masked_scatter"
        " select_scatter slice_scatter diagonal_scatter put _index_put_impl",
    ),
}

# Resampling, flops per output element: an n-tap interpolation is n multiplications and n - 1 additions.
RESAMPLE = {
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), 0),
    **dict.fromkeys(("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"), 0),
    "upsample_linear1d": 3,
    "upsample_bilinear2d": 7,
    "_upsample_bilinear2d_aa": 7,
    "upsample_trilinear3d": 15,
    "upsample_bicubic2d": 31,
    "_upsample_bicubic2d_aa": 31,
    "grid_sampler": 7,
    "grid_sampler_2d": 7,
    "grid_sampler_3d": 15,
}

SORTS = frozenset(("sort", "argsort", "topk", "msort"))
LIVE_LENGTH = 1 << 16  # of what is sorted or searched along the batch: work goes with its logarithm, 16

# Created without reading anything, whatever tensor they take dtype and device from.
FACTORIES = _set(
    "zeros ones full empty arange linspace logspace eye new_zeros new_ones new_full new_empty zeros_like"
    " ones_like full_like empty_like scalar_tensor new_empty_strided empty_strided tril_indices triu_indices"
    " hann_window hamming_window lift_fresh_copy"
)

# Different at every inference, so never folded.
RANDOM = _set(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli normal uniform multinomial exponential"
)

# Nothing in evaluation, even where an exporter shows a fresh tensor or calls it in place.
IDENTITIES = _set(
    "dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout detach alias lift_fresh"
    " _conj_physical resolve_neg resolve_conj"
)

# In-place operators that overwrite without reading what was there.
OVERWRITES = _set("copy fill zero bernoulli normal uniform exponential")
