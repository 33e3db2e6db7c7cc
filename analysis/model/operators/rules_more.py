"""Rarer ATen calls: second names, distances, matrix decompositions, spectra, losses, other libraries' products."""

from __future__ import annotations

import math
from typing import Any

from analysis.model.ir.operator_graph import Meta, Ref, references
from analysis.model.ir.poly import poly, product
from analysis.model.operators import contractions, element_costs
from analysis.model.operators.contractions import Contraction, Metas
from analysis.model.operators.cost_rules import Call, Cost, Rule, contract, ints, register, rule_of


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
    shared = product(left.shape[axis] for axis in ints(args["dims_self"]))
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
    points = int(ints(call.args["n_fft"])[0])
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
    levels = math.ceil(math.log2(max(2, tests.constant() if tests.is_constant else element_costs.LIVE_LENGTH)))
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
        return Cost("batch_norm", tensor.numel * element_costs.NORM_FLOPS, tensor.shape[1])
    return Cost("batch_norm", tensor.numel * 2)


def _first(args: dict[str, Any]) -> str:
    return next(ref.name for value in args.values() for ref in references(value) if isinstance(ref, Ref))


register({
    **{name: _decomposition(cubes) for name, cubes in element_costs.DECOMPOSITIONS.items()},
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
register({alias: rule_of(name) for alias, name in element_costs.ALIASES.items()})
