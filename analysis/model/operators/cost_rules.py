"""What one ATen call costs: kind, multiply-accumulates, arithmetic, and the contraction's dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from analysis.model.ir.operator_graph import Meta, Ref, references
from analysis.model.ir.poly import Poly, poly, product, smaller
from analysis.model.operators import contractions, element_costs
from analysis.model.operators.contractions import Gemm

ZERO = poly(0)
# An argument that is none of the operator's: its FLOPs, where its author has stated a formula.
STATED = "flops stated by its author"


@dataclass(frozen=True, slots=True)
class Cost:
    """`flops` is the work beside the 2 per MAC."""

    kind: str
    flops: Poly = ZERO
    special: Poly = ZERO
    macs: Poly = ZERO
    gemm: Gemm | None = None
    has_rule: bool = True
    # Elements read of the first tensor where that is not all of them (an index reads what it writes).
    first_read: Poly | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """An ATen call with the shapes of everything in it."""

    name: str
    args: dict[str, Any]
    metas: dict[str, Meta]  # of every reference among the arguments
    outputs: tuple[Meta, ...]

    def tensor(self, *names: str) -> Meta | None:
        """The first argument of these names that is a tensor."""
        for name in names:
            value = self.args.get(name)
            if isinstance(value, Ref):
                return self.metas[value.name]
        return None

    def need(self, *names: str) -> Meta:
        meta = self.tensor(*names)
        if meta is None:
            raise ValueError(f"{self.name} has no tensor argument {' or '.join(names)}")
        return meta

    def tensors(self) -> list[Meta]:
        return [self.metas[ref.name] for value in self.args.values() for ref in references(value)]

    @property
    def out(self) -> Meta:
        return self.outputs[0]


Rule = Callable[[Call], Cost]


def cost_of(call: Call) -> Cost:
    """The cost of a call; kind `unknown` where no rule exists or the rule does not fit the arguments."""
    cost = _cost(call)
    are_complex = [meta.dtype.startswith("complex") for meta in call.metas.values()]
    return _in_reals(cost, call, all(are_complex)) if any(are_complex) else cost


def _in_reals(cost: Cost, call: Call, are_all: bool) -> Cost:
    """Complex numbers are pairs. A product of two takes four multiplications and two additions, with a real number
    two multiplications; a magnitude four and a root; anything else is done twice. Transforms count reals already."""
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


def _cost(call: Call) -> Cost:
    rule = _RULES.get(call.name)
    if rule is None and isinstance(stated := call.args.get(STATED), Poly):
        return Cost("custom", flops=stated)
    if rule is None:
        return Cost("unknown", has_rule=False)
    try:
        return rule(call)
    except (KeyError, ValueError, IndexError, TypeError):
        return Cost("unknown", has_rule=False)


def bias_of(call: Call) -> Ref | None:
    """The tensor a contraction adds to its result, or None."""
    name = {"addmm": "self", "baddbmm": "self", "addbmm": "self", "addmv": "self"}.get(call.name, "bias")
    value = call.args.get(name) if call.name in BIASED else None
    return value if isinstance(value, Ref) else None


def elementwise(row: element_costs.PerElement) -> Rule:
    def rule(call: Call) -> Cost:
        size = call.out.numel
        return Cost(row.kind, size * row.flops, size * row.special)

    return rule


def _gelu(call: Call) -> Cost:
    exact = call.args.get("approximate", "none") == "none"
    return elementwise(element_costs.ELEMENTWISE["gelu"] if exact else element_costs.GELU_TANH)(call)


def _add(call: Call) -> Cost:
    scaled = call.args.get("alpha", 1) != 1
    return Cost("sub" if "sub" in call.name else "add", call.out.numel * (2 if scaled else 1))


def _div(call: Call) -> Cost:
    # Division by a number is multiplication by its reciprocal.
    by_tensor = isinstance(call.args.get("other"), Ref)
    return Cost("div", call.out.numel, call.out.numel if by_tensor else ZERO)


def _pow(call: Call) -> Cost:
    exponent = call.args.get("exponent")
    if isinstance(exponent, Poly) and exponent.is_constant:
        exponent = exponent.constant()
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and 1 <= exponent <= 8:
        return Cost("pow", call.out.numel * max(1, math.ceil(math.log2(exponent))))
    if exponent in (0.5, -0.5):
        return Cost("pow", call.out.numel, call.out.numel)
    row = element_costs.ELEMENTWISE["pow"]
    return Cost("pow", call.out.numel * row.flops, call.out.numel * row.special)


def _cast(call: Call) -> Cost:
    if call.tensors()[0].dtype == call.out.dtype:
        return Cost("copy")
    return Cost("cast", call.out.numel)


def reduction(row: element_costs.PerElement) -> Rule:
    def rule(call: Call) -> Cost:
        size = call.tensors()[0].numel
        if row.kind == "reduce" and len(call.tensors()) > 1 and call.name in ("max", "min"):
            return Cost("elementwise", call.out.numel)  # max(a, b) is element-wise
        return Cost(row.kind, size * row.flops, size * row.special)

    return rule


def _pool(kind: str) -> Rule:
    def rule(call: Call) -> Cost:
        kernel = ints(call.args["kernel_size"])
        rank = int(call.name[call.name.index("pool") + 4])
        window = kernel[0] ** rank if len(kernel) == 1 else math.prod(kernel)
        return Cost(kind, call.out.numel * window)

    return rule


def _group_norm(flops: int, kind: str) -> Rule:
    def rule(call: Call) -> Cost:
        tensor = call.need("input", "self")
        return Cost(kind, tensor.numel * flops, _groups_normalised(call, tensor))

    return rule


def _groups_normalised(call: Call, tensor: Meta) -> Poly:
    if "normalized_shape" in call.args:
        shape = call.args["normalized_shape"]
        return product(tensor.shape[: len(tensor.shape) - len(shape)])
    if "num_groups" in call.args:
        return tensor.shape[0] * int(ints(call.args["num_groups"])[0])
    if "group" in call.args:
        return tensor.shape[0] * int(ints(call.args["group"])[0])
    return product(tensor.shape[:2])  # instance norm: one group per channel


def _moves(kind: str) -> Rule:
    return lambda call: Cost(kind)


def _gathers(kind: str) -> Rule:
    def rule(call: Call) -> Cost:
        if kind == "scatter":
            source = call.tensors()[-1]
            adds = "add" in call.name or "reduce" in call.name or bool(call.args.get("accumulate"))
            return Cost(kind, source.numel if adds else ZERO)
        return Cost(kind, first_read=_picked(call.out.numel, call.tensors()[0]))

    return rule


def _embedding_bag(call: Call) -> Cost:
    rows, width = call.need("indices"), call.need("weight").shape[-1]
    read = rows.numel * width
    return Cost("embedding", read, first_read=_picked(read, call.need("weight")))


def _picked(read: Poly, table: Meta) -> Poly:
    """What is read of an indexed table: every element picked, or all of it where one sample already picks
    more. (At large batches picks repeat; they are counted each time.)"""
    return smaller(read, table.numel, reference=1)


def _resample(flops: int) -> Rule:
    return lambda call: Cost("resample", call.out.numel * flops)


def _roi_align(call: Call) -> Cost:
    """Per output and sampling point a bilinear interpolation (7) and its share of the average (1)."""
    samples = ints(call.args.get("samples", call.args.get("sampling_ratio", 2)))[0]
    points = samples * samples if samples > 0 else 4  # adaptive: about 2 x 2 at the usual box sizes
    # Every sampling point reads four pixels, shared between neighbours.
    touched = smaller(call.out.numel * points * 4, call.tensors()[0].numel)
    return Cost("roi_align", call.out.numel * (8 * points), first_read=touched)


def _sort(call: Call) -> Cost:
    tensor = call.need("self")
    axis = call.args.get("dim", -1)
    size = tensor.shape[int(ints(axis)[0])] if tensor.shape else poly(1)
    length = size.constant() if size.is_constant else element_costs.LIVE_LENGTH
    kept = int(ints(call.args["k"])[0]) + 1 if call.name == "topk" else length
    return Cost("sort", tensor.numel * math.ceil(math.log2(max(2, kept))))


def _fft(call: Call) -> Cost:
    """5 N log2 N per complex transform of N points (radix 2), half for real data."""
    tensor = call.tensors()[0]
    axes = call.args.get("dim")
    chosen = ints(axes) if axes not in (None, []) else list(range(-2 if "2" in call.name else -1, 0))
    if call.name.endswith("fftn") and axes is None:
        chosen = list(range(len(tensor.shape)))
    real = "rfft" in call.name or "r2c" in call.name or "c2r" in call.name
    points = call.out.numel if "irfft" in call.name or "c2r" in call.name else tensor.numel
    levels = sum(math.log2(max(2, tensor.shape[axis].constant())) for axis in chosen)
    return Cost("fft", points * round(5 * levels / (2 if real else 1)))


def contract(function: contractions.Function, kind: str | None = None) -> Rule:
    def rule(call: Call) -> Cost:
        contraction = function(call.args, call.metas, call.out)
        return Cost(
            kind or contraction.kind,
            flops=contraction.flops,
            special=contraction.special,
            macs=contraction.macs,
            gemm=contraction.gemm,
        )

    return rule


def ints(value: Any) -> list[int]:
    items = value if isinstance(value, list) else [value]
    return [item.constant() if isinstance(item, Poly) else int(item) for item in items]


_CONTRACTIONS: dict[str, contractions.Function] = {
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "mkldnn_convolution"),
        contractions.convolution,
    ),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), contractions.transposed),
    "linear": contractions.linear,
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), contractions.addmm),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "matmul", "linalg_matmul"), contractions.matmul),
    "inner": contractions.inner,
    "einsum": contractions.einsum,
    "bilinear": contractions.bilinear,
    **dict.fromkeys(element_costs.ATTENTIONS, contractions.attention),
    "lstm": contractions.recurrent(4, 14, 5),
    "gru": contractions.recurrent(3, 13, 3),
    "rnn_tanh": contractions.recurrent(1, 3, 1),
    "rnn_relu": contractions.recurrent(1, 3, 0),
    "lstm_cell": contractions.cell(4, 14, 5),
    "gru_cell": contractions.cell(3, 13, 3),
    "rnn_tanh_cell": contractions.cell(1, 3, 1),
    "rnn_relu_cell": contractions.cell(1, 3, 0),
    "torchvision.deform_conv2d": contractions.deformable,
}
# Those that may add a bias to their result: readers of other formats add theirs.
BIASED = set(element_costs.BIASED)

_FFTS = [
    *(f"fft_{way}{real}fft{rank}" for way in ("", "i") for real in ("", "r") for rank in ("", "2", "n")),
    "_fft_c2c",
    "_fft_r2c",
    "_fft_c2r",
]

_RULES: dict[str, Rule] = {
    **{name: elementwise(row) for name, row in element_costs.ELEMENTWISE.items()},
    **{name: reduction(row) for name, row in element_costs.REDUCTIONS.items()},
    **{name: _pool(kind) for name, kind in element_costs.POOLS.items()},
    **{name: _moves(kind) for name, kind in element_costs.MOVEMENT.items()},
    **{name: _gathers(kind) for name, kind in element_costs.GATHERS.items()},
    **{name: _resample(flops) for name, flops in element_costs.RESAMPLE.items()},
    **{name: contract(function) for name, function in _CONTRACTIONS.items()},
    **dict.fromkeys(_FFTS, _fft),
    **dict.fromkeys(element_costs.SORTS, _sort),
    **dict.fromkeys(("to", "_to_copy", "type_as", "convert_element_type"), _cast),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _group_norm(element_costs.NORM_FLOPS, "layer_norm")),
    **dict.fromkeys(("group_norm", "native_group_norm"), _group_norm(element_costs.NORM_FLOPS, "group_norm")),
    "instance_norm": _group_norm(element_costs.NORM_FLOPS, "norm"),
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), _group_norm(element_costs.RMS_NORM_FLOPS, "norm")),
    "gelu": _gelu,
    "add": _add,
    "sub": _add,
    "div": _div,
    "pow": _pow,
    **dict.fromkeys(("hwexplorer.roi_align", "torchvision.roi_align"), _roi_align),
    "embedding_bag": _embedding_bag,
    "_embedding_bag": _embedding_bag,
}


def has_rule(name: str) -> bool:
    return name in _RULES


def rule_of(name: str) -> Rule:
    return _RULES[name]


def register(rules: dict[str, Rule]) -> None:
    """Add rules for calls of one's own, by base name (`hwexplorer.rotary`)."""
    _RULES.update(rules)
