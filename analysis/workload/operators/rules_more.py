"""Rarer ATen calls: second names, distances, matrix decompositions, spectra, losses, other libraries' products."""

from __future__ import annotations

import math
from typing import Any

from ..graph import Meta, Ref, references
from ..poly import Poly, poly, product
from . import contractions, costs
from .contractions import Contraction, Metas
from .rules import Call, Cost, Rule, contract, elementwise, reduction, register, rule_of

# Second names that an exporter keeps as they are written.
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "divide": "div", "multiply": "mul",
    "subtract": "sub", "negative": "neg", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "not_equal": "ne", "fix": "trunc", "float_power": "pow", "ger": "outer", "kron": "mul",
    "logaddexp2": "logaddexp", "log_sigmoid_forward": "log_sigmoid", "nanmedian": "median",
    "_logcumsumexp": "logcumsumexp", "_aminmax": "aminmax", "isposinf": "eq", "isneginf": "eq", "signbit": "lt",
    "special_expit": "sigmoid", "special_erf": "erf", "special_erfc": "erfc", "special_exp2": "exp2",
    "special_expm1": "expm1", "special_log1p": "log1p", "special_logit": "logit", "special_gammaln": "lgamma",
    "special_digamma": "digamma", "special_xlogy": "xlogy", "special_round": "round", "special_sinc": "sinc",
    "special_i0": "i0", "special_log_softmax": "log_softmax", "special_softmax": "softmax",
    "special_logsumexp": "logsumexp", "deg2rad": "abs", "rad2deg": "abs", "nextafter": "abs", "diff": "sub",
    "_unsafe_index": "index", "_unsafe_index_put": "index_put", "index_reduce": "scatter_reduce",
    "nonzero_static": "nonzero", "argwhere": "nonzero", "max_unpool1d": "scatter", "max_unpool2d": "scatter",
    "max_unpool3d": "scatter", "fft_fftshift": "roll", "fft_ifftshift": "roll", "fft_hfft": "fft_irfft",
    "fft_ihfft": "fft_rfft", "fft_hfft2": "fft_irfft2", "fft_ihfft2": "fft_rfft2", "complex": "cat",
    "diagflat": "diag", "chunk_cat": "cat", "_chunk_cat": "cat", "_conv_depthwise2d": "conv2d",
    "conv_depthwise3d": "conv3d", "_convolution_mode": "conv2d", "cudnn_convolution": "conv2d",
    "slow_conv3d": "conv3d", "slow_conv_dilated2d": "conv2d", "slow_conv_dilated3d": "conv3d",
    "thnn_conv2d": "conv2d", "convolution_overrideable": "convolution", "slow_conv_transpose2d": "conv_transpose2d",
    "slow_conv_transpose3d": "conv_transpose3d", "_scaled_mm": "mm", "_int_mm": "mm", "_batch_norm_no_update":
    "batch_norm", "_fused_dropout": "dropout", "linalg_vecdot": "cosine_similarity", "nll_loss": "nll_loss_nd",
    "nll_loss2d": "nll_loss_nd", "nll_loss_forward": "nll_loss_nd", "nll_loss2d_forward": "nll_loss_nd",
    "_upsample_lanczos2d_aa": "upsample_bicubic2d",
}  # fmt: skip

ELEMENTWISE = {
    "addr": costs.PerElement("elementwise", 2),  # a + b c
    "_add_relu": costs.PerElement("add", 2),
    "angle": costs.PerElement("elementwise", 1, 1),
    "ldexp": costs.PerElement("elementwise", 2, 1),
    "frexp": costs.PerElement("elementwise", 2),
    "gcd": costs.PerElement("elementwise", 8),
    "lcm": costs.PerElement("elementwise", 10),
    "polygamma": costs.PerElement("elementwise", 1, 1),
    "igamma": costs.PerElement("elementwise", 1, 1),
    "igammac": costs.PerElement("elementwise", 1, 1),
    "cross": costs.PerElement("elementwise", 3),  # two products and a subtraction
    "linalg_cross": costs.PerElement("elementwise", 3),
    "rrelu_with_noise": costs.PerElement("elementwise", 2),
    "_masked_softmax": costs.PerElement("softmax", 6, 1),
    "_weight_norm": costs.PerElement("norm", 3),  # square, add, scale by g over the norm
    "_weight_norm_interface": costs.PerElement("norm", 3),
    **{
        f"quantized_decomposed.{name}": costs.PerElement("cast", flops)
        for name, flops in (
            ("quantize_per_tensor", 4),  # divide by the scale, round, shift, clamp
            ("quantize_per_channel", 4),
            ("quantize_per_token", 4),
            ("dequantize_per_tensor", 2),
            ("dequantize_per_channel", 2),
            ("dequantize_per_token", 2),
        )
    },
}

REDUCTIONS = {
    "binary_cross_entropy": costs.PerElement("reduce", 7, 2),  # two logarithms, two products, add, mean
    "binary_cross_entropy_with_logits": costs.PerElement("reduce", 8, 2),
    "kl_div": costs.PerElement("reduce", 4, 1),
    "huber_loss": costs.PerElement("reduce", 5),
    "poisson_nll_loss": costs.PerElement("reduce", 4, 1),
    "hinge_embedding_loss": costs.PerElement("reduce", 3),
    "margin_ranking_loss": costs.PerElement("reduce", 4),
    "cosine_embedding_loss": costs.PerElement("reduce", 8),
    "triplet_margin_loss": costs.PerElement("reduce", 8),
    "soft_margin_loss": costs.PerElement("reduce", 5, 2),  # a product, log(1 + exp(x)), mean
    "multi_margin_loss": costs.PerElement("reduce", 4),  # two differences, maximum, add
    "pairwise_distance": costs.PerElement("reduce", 3),
    "equal": costs.PerElement("reduce", 2),
    "allclose": costs.PerElement("reduce", 4),
    "trapezoid": costs.PerElement("reduce", 3),
    "trapz": costs.PerElement("reduce", 3),
    "cumulative_trapezoid": costs.PerElement("reduce", 3),
    "renorm": costs.PerElement("norm", 4),
    "embedding_renorm": costs.PerElement("norm", 4),
    "histogram": costs.PerElement("reduce", 3),
}

# Work of a matrix decomposition in units of n^3 (LAPACK's operation counts, square matrices).
DECOMPOSITIONS = {
    **dict.fromkeys(("linalg_cholesky", "linalg_cholesky_ex", "cholesky"), 1 / 3),
    **dict.fromkeys(("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info"), 2 / 3),
    **dict.fromkeys(("linalg_det", "_linalg_det", "det", "logdet"), 2 / 3),
    **dict.fromkeys(("linalg_slogdet", "_linalg_slogdet", "slogdet"), 2 / 3),
    **dict.fromkeys(("linalg_inv", "linalg_inv_ex", "inverse"), 2.0),
    **dict.fromkeys(("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex"), 8 / 3),
    **dict.fromkeys(("linalg_solve_triangular", "triangular_solve", "cholesky_solve"), 1.0),
    **dict.fromkeys(("linalg_qr", "qr"), 4 / 3),
    **dict.fromkeys(("linalg_eigh", "_linalg_eigh"), 9.0),
    **dict.fromkeys(("linalg_eigvalsh",), 4 / 3),
    **dict.fromkeys(("linalg_svd", "_linalg_svd", "svd", "linalg_pinv", "pinverse", "linalg_lstsq"), 22.0),
    **dict.fromkeys(("linalg_svdvals",), 8 / 3),
    **dict.fromkeys(("linalg_matrix_exp", "matrix_exp"), 16.0),
}  # fmt: skip


def _decomposition(cubes: float) -> Rule:
    def rule(call: Call) -> Cost:
        tensor = call.tensors()[0]
        sides = sorted(size.constant() for size in tensor.shape[-2:])
        each = round(cubes * sides[0] * sides[0] * sides[1])
        return Cost("linalg", product(tensor.shape[:-2]) * each)

    return rule


def _distances(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """Euclidean distances as a product, the norms, and a root each."""
    left = metas[_first(args)]
    width = left.shape[-1]
    gemm = (product(out.shape[:-2]), out.shape[-2], out.shape[-1], width)
    return Contraction("matmul", product(gemm), gemm, out.numel * 4, out.numel)


def _tensordot(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    left, right = metas[args["self"].name], metas[args["other"].name]
    shared = product(left.shape[axis] for axis in _axes(args["dims_self"]))
    rows, columns = left.numel // shared, right.numel // shared
    gemm = (poly(1), rows, columns, shared)
    return Contraction("matmul", product(gemm), gemm)


def _batch_sum(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """addbmm: a sum over the batch of products is one product over batch and inner dimension."""
    left = metas[args["batch1"].name]
    gemm = (poly(1), out.shape[-2], out.shape[-1], left.shape[0] * left.shape[2])
    return Contraction("matmul", product(gemm), gemm)


def _conv_tbc(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    window, inner, outer = metas[args["weight"].name].shape
    gemm = (poly(1), out.numel // outer, outer, window * inner)
    return Contraction("conv", product(gemm), gemm)


def _grouped(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """Rows of one matrix, each through the weights of its group."""
    tensors = [metas[ref.name] for value in args.values() for ref in references(value)]
    left, right = tensors[:2]
    gemm = (poly(1), product(left.shape[:-1]), right.shape[-1], left.shape[-1])
    return Contraction("matmul", product(gemm), gemm)


def _flash(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """Attention kernels that take (batch, sequence, heads, width)."""
    query, key, value = (metas[args[name].name].shape for name in ("query", "key", "value"))
    groups = query[0] * query[2]
    scores = groups * query[1] * key[1]
    gemm = (groups, query[1], key[1], query[3])
    flops = scores * contractions.ATTENTION_FLOPS
    return Contraction("attention", scores * (query[3] + value[3]), gemm, flops, scores)


def _stft(call: Call) -> Cost:
    """Per frame a window and a real transform of n points."""
    points = int(_axes(call.args["n_fft"])[0])
    kept = points // 2 + 1 if call.args.get("onesided", True) is not False else points
    spectrum = call.tensors()[0] if call.name == "istft" else call.out
    frames = spectrum.numel // kept
    if not spectrum.dtype.startswith("complex"):
        frames = frames // 2
    return Cost("fft", frames * (points + round(2.5 * points * math.log2(max(2, points)))))


def _suppression(call: Call) -> Cost:
    """Non-maximum suppression: boxes sorted, then half of all pairs compared (13 flops an overlap)."""
    boxes = call.need("dets", "boxes").shape[0]
    count = boxes.constant()
    return Cost("sort", poly(count * math.ceil(math.log2(max(2, count))) + count * (count - 1) // 2 * 13))


def _pairs_of_classes(call: Call) -> Cost:
    """Every class against every target class: a difference, a maximum, an addition."""
    tensor = call.tensors()[0]
    return Cost("reduce", tensor.numel * tensor.shape[-1] * 3)


def _alignment(call: Call) -> Cost:
    """CTC: per time step and place of the target, blanks between them, three paths summed in logarithms."""
    steps, batch = call.need("log_probs").shape[:2]
    places = call.need("targets").shape[-1] * 2 + 1
    return Cost("reduce", product((steps, batch, places, 7)), product((steps, batch, places, 4)))


def _membership(call: Call) -> Cost:
    tests = call.tensors()[-1].numel
    levels = math.ceil(math.log2(max(2, tests.constant() if tests.is_constant else costs.LIVE_LENGTH)))
    return Cost("sort", call.tensors()[0].numel * levels)


def _pairs(call: Call) -> Cost:
    width = call.tensors()[0].shape[-1]
    return Cost("reduce", call.out.numel * width * 3, call.out.numel)


def _roi_pool(call: Call) -> Cost:
    return Cost("roi_align", call.out.numel * 4, first_read=call.tensors()[0].numel)


def _batch_norm(call: Call) -> Cost:
    """In training mode the statistics are computed as well."""
    tensor = call.tensors()[0]
    if call.args.get("training"):
        return Cost("batch_norm", tensor.numel * costs.NORM_FLOPS, tensor.shape[1])
    return Cost("batch_norm", tensor.numel * 2)


def _first(args: dict[str, Any]) -> str:
    return next(ref.name for value in args.values() for ref in references(value) if isinstance(ref, Ref))


def _axes(value: Any) -> list[int]:
    items = value if isinstance(value, list) else [value]
    return [item.constant() if isinstance(item, Poly) else int(item) for item in items]


register({
    **{name: elementwise(row) for name, row in ELEMENTWISE.items()},
    **{name: reduction(row) for name, row in REDUCTIONS.items()},
    **{name: _decomposition(cubes) for name, cubes in DECOMPOSITIONS.items()},
    **{name: contract(_distances) for name in ("cdist", "_cdist_forward", "_euclidean_dist")},
    "tensordot": contract(_tensordot),
    "addbmm": contract(_batch_sum),
    "conv_tbc": contract(_conv_tbc),
    **dict.fromkeys(("_grouped_mm", "transformers.grouped_mm_fallback", "_scaled_grouped_mm"), contract(_grouped)),
    "_flash_attention_forward": contract(_flash),
    "_efficient_attention_forward": contract(_flash),
    "pdist": _pairs,
    "_pdist_forward": _pairs,
    "stft": _stft,
    "istft": _stft,
    "isin": _membership,
    **dict.fromkeys(("multilabel_margin_loss", "multilabel_margin_loss_forward"), _pairs_of_classes),
    **dict.fromkeys(("ctc_loss", "_ctc_loss"), _alignment),
    "torchvision.nms": _suppression,
    **dict.fromkeys(("torchvision.roi_pool", "torchvision.ps_roi_pool", "torchvision.ps_roi_align"), _roi_pool),
    **dict.fromkeys(("batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), _batch_norm),
})  # fmt: skip
register({alias: rule_of(name) for alias, name in ALIASES.items()})
