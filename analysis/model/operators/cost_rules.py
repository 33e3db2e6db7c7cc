"""The cost of an operator call by its ATen name: kind, multiply-accumulates, other arithmetic, and the contraction.

A PyTorch call on a CPU also takes scratch memory beyond its tensors, in elements, as measured at the allocator (torch
2.13). Recurrent layers keep the gates of all steps; the LSTM of oneDNN also a copy of the weights in another layout.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce

from analysis.model.ir.operator_graph import Meta, Ref, references
from analysis.model.ir.poly import Poly, poly, product, smaller
from analysis.model.operators import contractions
from analysis.model.operators.contractions import CONTRACTIONS, ZERO, OperatorCall, Rule, whole_numbers
from analysis.model.operators.contractions import OperatorCost as OperatorCost


def scratch_of(call: OperatorCall) -> Poly:
    """Return the elements that a call allocates in addition to its arguments and results; 0 without a rule."""
    try:
        return _SCRATCH_RULES[call.name](call) if call.name in _SCRATCH_RULES else ZERO
    except (KeyError, ValueError, IndexError, TypeError):
        return ZERO


def _linear(call: OperatorCall) -> Poly:
    rows = call.tensor("input")
    return ZERO if rows.is_flat else rows.numel


def _maximum(*sizes: Poly) -> Poly:
    return reduce(lambda a, b: b if smaller(a, b) == a else a, sizes)


def _recurrent(gates: int, call: OperatorCall) -> Poly:
    data, state = call.tensor("input"), call.metas[references(call.args["hx"])[0].name]
    given = [call.metas[ref.name] for ref in references(call.args["params"])]
    matrices = [each for each in given if len(each.shape) == 2]
    if len(matrices) != 2 * state.shape[0].constant():
        return ZERO  # projections take another code path
    width, step = matrices[1].shape[1], state.shape[1] * state.shape[2]
    units = product(data.shape[:-1]) * width
    both = bool(call.args.get("bidirectional"))
    copy = data.numel if call.args.get("batch_first") else ZERO  # the kernel needs the steps first
    needed = ZERO
    for layer, weights in enumerate(matrices[:: 4 if both else 2]):
        before = units * (1 + both) if layer else ZERO
        if gates == _LSTM:  # keeps the copy to its end, and both directions with their concatenation
            before = before * (1 + both)
            taken = weights.shape[0] * (weights.shape[1] + width + 1) + units * gates + copy
        else:
            taken = _by_steps(gates, units, step, ZERO if layer else copy, both)
        needed = _maximum(needed, before + taken)
    return needed


def _by_steps(gates: int, units: Poly, step: Poly, copy: Poly, both: bool) -> Poly:
    """Return the scratch memory of a layer of separate operators: gates of all steps, step results and their join."""
    if both:
        return _maximum(units * (2 * gates) + copy, units * (gates + 4))
    return _maximum(units * (gates + 1), units * gates + step * (gates + 2), copy + units * gates - units)


_LSTM = 4  # gates
_SCRATCH_RULES: dict[str, Callable[[OperatorCall], Poly]] = {
    "linear": _linear,
    "lstm": partial(_recurrent, _LSTM),
    "gru": partial(_recurrent, 3),
    "rnn_tanh": partial(_recurrent, 1),
    "rnn_relu": partial(_recurrent, 1),
}


def cost_of(call: OperatorCall) -> OperatorCost:
    """Return the cost of a call; kind `unknown` if no rule exists or the rule does not fit the arguments."""
    cost = _cost(call)
    are_complex = [meta.dtype.startswith("complex") for meta in call.metas.values()]
    return _in_reals(cost, call, all(are_complex)) if any(are_complex) else cost


def _in_reals(cost: OperatorCost, call: OperatorCall, are_all: bool) -> OperatorCost:
    """Return the cost in real arithmetic. A complex product takes four multiplications and two additions, one with a
    real number two multiplications, a magnitude four flops and a root; other work doubles. FFT costs are unchanged."""
    if cost.kind == "fft":
        return cost
    if cost.gemm is not None:
        groups, rows, columns, inner = cost.gemm
        gemm = (groups, rows, columns * 2, inner * (2 if are_all else 1))
        return replace(cost, macs=cost.macs * (4 if are_all else 2), flops=cost.flops * 2, gemm=gemm)
    if call.name in ("abs", "absolute"):
        return replace(cost, flops=cost.flops * 4, special=cost.flops)
    both = {"mul": 6, "div": 11}.get(cost.kind, 2)
    return replace(cost, flops=cost.flops * (both if are_all else 2))


def _cost(call: OperatorCall) -> OperatorCost:
    rule = _RULES.get(call.name)
    if rule is None:
        return OperatorCost("unknown", has_rule=False)
    try:
        return rule(call)
    except (KeyError, ValueError, IndexError, TypeError):
        return OperatorCost("unknown", has_rule=False)


def bias_of(call: OperatorCall) -> Ref | None:
    """Return the tensor that a contraction adds to its result, or None."""
    name = {"addmm": "self", "baddbmm": "self", "addbmm": "self", "addmv": "self"}.get(call.name, "bias")
    value = call.args.get(name) if call.name in BIASED else None
    return value if isinstance(value, Ref) else None


def _elementwise(row: contractions.PerElement, call: OperatorCall) -> OperatorCost:
    size = call.result.numel
    return OperatorCost(row.kind, size * row.flops, size * row.special)


def _gelu(call: OperatorCall) -> OperatorCost:
    exact = call.args.get("approximate", "none") == "none"
    return _elementwise(contractions.ELEMENTWISE["gelu"] if exact else contractions.GELU_TANH, call)


def _add(call: OperatorCall) -> OperatorCost:
    scaled = call.args.get("alpha", 1) != 1
    return OperatorCost("sub" if "sub" in call.name else "add", call.result.numel * (2 if scaled else 1))


def _div(call: OperatorCall) -> OperatorCost:
    size = call.result.numel  # division by a number is multiplication by its reciprocal
    return OperatorCost("div", size, size if isinstance(call.args.get("other"), Ref) else ZERO)


def _pow(call: OperatorCall) -> OperatorCost:
    exponent = call.args.get("exponent")
    if isinstance(exponent, Poly) and exponent.is_constant:
        exponent = exponent.constant()
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and 1 <= exponent <= 8:
        return OperatorCost("pow", call.result.numel * max(1, math.ceil(math.log2(exponent))))
    if exponent in (0.5, -0.5):
        return OperatorCost("pow", call.result.numel, call.result.numel)
    return _elementwise(contractions.ELEMENTWISE["pow"], call)


def _cast(call: OperatorCall) -> OperatorCost:
    is_same = call.tensors()[0].dtype == call.result.dtype
    return OperatorCost("copy") if is_same else OperatorCost("cast", call.result.numel)


def _reduction(row: contractions.PerElement, call: OperatorCall) -> OperatorCost:
    size = call.tensors()[0].numel
    if row.kind == "reduce" and len(call.tensors()) > 1 and call.name in ("max", "min"):
        return OperatorCost("elementwise", call.result.numel)  # max(a, b) is element-wise
    return OperatorCost(row.kind, size * row.flops, size * row.special)


def _pool(kind: str, call: OperatorCall) -> OperatorCost:
    kernel = whole_numbers(call.args["kernel_size"])
    rank = int(call.name[call.name.index("pool") + 4])
    window = kernel[0] ** rank if len(kernel) == 1 else math.prod(kernel)
    return OperatorCost(kind, call.result.numel * window)


def _group_norm(flops: int, kind: str, call: OperatorCall) -> OperatorCost:
    tensor, args = call.tensor("input", "self"), call.args
    groups = product(tensor.shape[:2])  # instance norm: one group per channel
    if "normalized_shape" in args:
        groups = product(tensor.shape[: len(tensor.shape) - len(args["normalized_shape"])])
    elif (stated := args.get("num_groups", args.get("group"))) is not None:
        groups = tensor.shape[0] * whole_numbers(stated)[0]
    return OperatorCost(kind, tensor.numel * flops, groups)


def _movement(kind: str, call: OperatorCall) -> OperatorCost:
    return OperatorCost(kind)


def _gathers(kind: str, call: OperatorCall) -> OperatorCost:
    if kind == "scatter":
        source = call.tensors()[-1]
        adds = "add" in call.name or "reduce" in call.name or bool(call.args.get("accumulate"))
        return OperatorCost(kind, source.numel if adds else ZERO)
    return OperatorCost(kind, first_read=_elements_picked(call.result.numel, call.tensors()[0]))


def _embedding_bag(call: OperatorCall) -> OperatorCost:
    rows, width = call.tensor("indices"), call.tensor("weight").shape[-1]
    read = rows.numel * width
    return OperatorCost("embedding", read, first_read=_elements_picked(read, call.tensor("weight")))


def _elements_picked(read: Poly, table: Meta) -> Poly:
    """Return the elements read of an indexed table: the picked ones, or the whole table if one sample picks more."""
    return smaller(read, table.numel, reference=1)


def _resample(flops: int) -> Rule:
    return lambda call: OperatorCost("resample", call.result.numel * flops)


def _roi_align(call: OperatorCall) -> OperatorCost:
    """Count per output and sampling point a bilinear interpolation (7 flops) and an addition to the average (1)."""
    samples = whole_numbers(call.args.get("samples", call.args.get("sampling_ratio", 2)))[0]
    points = samples * samples if samples > 0 else 4  # adaptive: about 2 x 2 at the usual box sizes
    # Every sampling point reads four pixels; neighbours share them, so the input is an upper bound.
    touched = smaller(call.result.numel * points * 4, call.tensors()[0].numel)
    return OperatorCost("roi_align", call.result.numel * (8 * points), first_read=touched)


def _sort(call: OperatorCall) -> OperatorCost:
    tensor = call.tensor("self")
    axis = call.args.get("dim", -1)
    size = tensor.shape[int(whole_numbers(axis)[0])] if tensor.shape else poly(1)
    length = size.constant() if size.is_constant else contractions.LIVE_LENGTH
    kept = int(whole_numbers(call.args["k"])[0]) + 1 if call.name == "topk" else length
    return OperatorCost("sort", tensor.numel * math.ceil(math.log2(max(2, kept))))


def _fft(call: OperatorCall) -> OperatorCost:
    """Count 5 N log2 N flops per complex transform of N points (radix 2), half for real data."""
    tensor = call.tensors()[0]
    axes = call.args.get("dim")
    chosen = whole_numbers(axes) if axes not in (None, []) else list(range(-2 if "2" in call.name else -1, 0))
    if call.name.endswith("fftn") and axes is None:
        chosen = list(range(len(tensor.shape)))
    real = "rfft" in call.name or "r2c" in call.name or "c2r" in call.name
    points = call.result.numel if "irfft" in call.name or "c2r" in call.name else tensor.numel
    levels = sum(math.log2(max(2, tensor.shape[axis].constant())) for axis in chosen)
    return OperatorCost("fft", points * round(5 * levels / (2 if real else 1)))


def _decomposition(cubes: float, call: OperatorCall) -> OperatorCost:
    tensor = call.tensors()[0]
    sides = sorted(size.constant() for size in tensor.shape[-2:])
    each = round(cubes * sides[0] * sides[0] * sides[1])
    return OperatorCost("linalg", product(tensor.shape[:-2]) * each)


def _factorisation(kind: str, call: OperatorCall) -> OperatorCost:
    """Count LU and Cholesky of n x n matrices as LAPACK does (working note 41). The product with as many multiply-adds
    has the n columns, which follow each other, and the mean depth as K."""
    tensor = call.tensors()[0]
    matrices, n = product(tensor.shape[:-2]), tensor.shape[-1].constant()
    macs, flops = _factor(kind, n)
    gemm = (matrices, poly(n), poly(n), Poly({(): Fraction(macs, n * n)} if macs else {}))
    return OperatorCost(kind, matrices * flops, matrices * n, matrices * macs, gemm)


def _factor(kind: str, n: int) -> tuple[int, int]:
    """Return the multiply-adds and other operations that factor an n x n matrix, zeros for kind ''."""
    cholesky, lu = ((n**3 - n) // 6, n * (n + 1) // 2), ((n - 1) * n * (2 * n - 1) // 6, n * (n - 1) // 2)
    return {"lu": lu, "cholesky": cholesky}.get(kind, (0, 0))


def _solve(kind: str, call: OperatorCall) -> OperatorCost:
    """Count triangular solves of n rows for each right-hand side: one, or two with a factor, which `general` computes
    first (LU)."""
    square = next(x for x in call.tensors() if len(x.shape) > 1 and x.shape[-1] == x.shape[-2])
    matrices, n = product(square.shape[:-2]), square.shape[-1].constant()
    sides, solves = call.result.numel // (matrices * n), 1 if kind == "triangular" else 2
    macs, flops = _factor("lu" * (kind == "general"), n)
    side_macs = max(solves * n * (n - 1) // 2, 1)
    rows = sides + Poly({(): Fraction(macs, side_macs)} if macs else {})  # as if the factor were right-hand sides
    gemm = (matrices, rows, poly(n), Poly({(): Fraction(side_macs, n)}))
    return OperatorCost("solve", matrices * (sides * (solves * n) + flops), matrices * n, product(gemm), gemm)


def _stft(call: OperatorCall) -> OperatorCost:
    """Count per frame the window function and a real transform of n points."""
    points = int(whole_numbers(call.args["n_fft"])[0])
    kept = points // 2 + 1 if call.args.get("onesided", True) is not False else points
    spectrum = call.tensors()[0] if call.name == "istft" else call.result
    frames = spectrum.numel // kept
    if not spectrum.dtype.startswith("complex"):
        frames = frames // 2
    return OperatorCost("fft", frames * (points + round(2.5 * points * math.log2(max(2, points)))))


def _suppression(call: OperatorCall) -> OperatorCost:
    """Count non-maximum suppression: sort the boxes, then compare each pair once (13 flops per overlap)."""
    boxes = call.tensor("dets", "boxes").shape[0]
    count = boxes.constant()
    return OperatorCost("sort", poly(count * math.ceil(math.log2(max(2, count))) + count * (count - 1) // 2 * 13))


def _pairs_of_classes(call: OperatorCall) -> OperatorCost:
    """Count a difference, a maximum and an addition for each pair of class and target class."""
    tensor = call.tensors()[0]
    return OperatorCost("reduce", tensor.numel * tensor.shape[-1] * 3)


def _alignment(call: OperatorCall) -> OperatorCost:
    """Count CTC: per time step and label (targets with blanks between), the log-sum of three paths."""
    steps, batch = call.tensor("log_probs").shape[:2]
    places = call.tensor("targets").shape[-1] * 2 + 1
    return OperatorCost("reduce", product((steps, batch, places, 7)), product((steps, batch, places, 4)))


def _membership(call: OperatorCall) -> OperatorCost:
    tests = call.tensors()[-1].numel
    levels = math.ceil(math.log2(max(2, tests.constant() if tests.is_constant else contractions.LIVE_LENGTH)))
    return OperatorCost("sort", call.tensors()[0].numel * levels)


def _pairs(call: OperatorCall) -> OperatorCost:
    width = call.tensors()[0].shape[-1]
    return OperatorCost("reduce", call.result.numel * width * 3, call.result.numel)


def _batch_norm(call: OperatorCall) -> OperatorCost:
    """Count scale and shift per element; in training mode also the statistics."""
    tensor = call.tensors()[0]
    if call.args.get("training"):
        return OperatorCost("batch_norm", tensor.numel * contractions.NORM_FLOPS, tensor.shape[1])
    return OperatorCost("batch_norm", tensor.numel * 2)


# Operators that may add a bias to their result. Readers of other formats add names.
BIASED = set(contractions.BIASED)

_FFTS = [
    *(f"fft_{way}{real}fft{rank}" for way in ("", "i") for real in ("", "r") for rank in ("", "2", "n")),
    "_fft_c2c",
    "_fft_r2c",
    "_fft_c2r",
]

_RULES: dict[str, Rule] = {
    **{name: partial(_elementwise, row) for name, row in contractions.ELEMENTWISE.items()},
    **{name: partial(_reduction, row) for name, row in contractions.REDUCTIONS.items()},
    **{name: partial(_pool, kind) for name, kind in contractions.POOLS.items()},
    **{name: partial(_movement, kind) for name, kind in contractions.MOVEMENT.items()},
    **{name: partial(_gathers, kind) for name, kind in contractions.GATHERS.items()},
    **{name: _resample(flops) for name, flops in contractions.RESAMPLE.items()},
    **CONTRACTIONS,
    **dict.fromkeys(_FFTS, _fft),
    **dict.fromkeys(contractions.SORTS, _sort),
    **dict.fromkeys(("to", "_to_copy", "type_as", "convert_element_type"), _cast),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), partial(_group_norm, contractions.NORM_FLOPS, "layer_norm")),
    **dict.fromkeys(("group_norm", "native_group_norm"), partial(_group_norm, contractions.NORM_FLOPS, "group_norm")),
    "instance_norm": partial(_group_norm, contractions.NORM_FLOPS, "norm"),
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), partial(_group_norm, contractions.RMS_NORM_FLOPS, "norm")),
    "gelu": _gelu,
    "add": _add,
    "sub": _add,
    "div": _div,
    "pow": _pow,
    **dict.fromkeys(("hwexplorer.roi_align", "torchvision.roi_align"), _roi_align),
    "embedding_bag": _embedding_bag,
    "_embedding_bag": _embedding_bag,
    **{name: partial(_decomposition, cubes) for name, cubes in contractions.DECOMPOSITIONS.items()},
    **{name: partial(_factorisation, kind) for name, kind in contractions.FACTORISATIONS.items()},
    **{name: partial(_solve, kind) for name, kind in contractions.SOLVES.items()},
    "pdist": _pairs,
    "_pdist_forward": _pairs,
    "stft": _stft,
    "istft": _stft,
    "isin": _membership,
    **dict.fromkeys(("multilabel_margin_loss", "multilabel_margin_loss_forward"), _pairs_of_classes),
    **dict.fromkeys(("ctc_loss", "_ctc_loss"), _alignment),
    "torchvision.nms": _suppression,
    **dict.fromkeys(
        ("torchvision.roi_pool", "torchvision.ps_roi_pool", "torchvision.ps_roi_align"),
        lambda call: OperatorCost("roi_align", call.result.numel * 4, first_read=call.tensors()[0].numel),
    ),
    **dict.fromkeys(("batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"), _batch_norm),
}
_RULES |= {alias: _RULES[name] for alias, name in contractions.ALIASES.items()}


def register(rules: dict[str, Rule]) -> None:
    """Add cost rules by base name, for calls outside ATen (`hwexplorer.rotary`)."""
    _RULES.update(rules)
