"""Give each ONNX node its results and an ATen call of the same cost, by the rows of operator_table.toml.

A pattern names sizes as in einsum: `b q x, b k y -> b q k`. A name is one dimension and `*name` any number of them
(in sums and products: their number of elements); `*1name` is as many dimensions of size 1. `_` matches any size, `-`
an input that must be absent. Other names are attributes of the node, `rank` (dimensions of the first input) and
`inputs` (number of inputs). Results may be expressions of these names: `b kept+past`.

Rows that depend on more than the ranks of inputs are functions of this module. A view in PyTorch is also a view here,
with strides, so a copy is counted only where PyTorch makes one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from hwexplorer.extend import contractions, cost_rules, file_access
from hwexplorer_annexes.onnx.onnx_file import DTYPES, Poly, expression, is_viewable, layout, poly, product
from hwexplorer_annexes.onnx.onnx_op import (
    ONE,
    NodeResult,
    OnnxOp,
    Shape,
    ShapeError,
    broadcast,
    constant,
    contiguous_strides,
    infer,
    positive_axis,
)

Strides = tuple[int, ...] | None  # None for a copy


def identity(op: OnnxOp) -> list[NodeResult]:
    """Return a view of the first input."""
    return [NodeResult(op.shape(), op.dtype(), op.value().strides)]


def normalization_shapes(op: OnnxOp) -> list[NodeResult]:
    """Return the result of a normalisation, and the statistics of its groups if the node has such outputs."""
    axis = op.axis(default=-1)
    row = (*op.shape()[:axis], *(ONE for _ in op.shape()[axis:]))
    return [NodeResult(op.shape(), op.dtype()), *(NodeResult(row, "float32") for _ in op.node.outputs[1:])]


def _concatenate(op: OnnxOp) -> Shape:
    """Return the shape of a quantised concatenation. Each part has a scale and zero point, as has the result, first."""
    shapes = [op.shape(place) for place in range(2, len(op.inputs), 3)]
    axis = positive_axis(op.int_attr("axis", 0), len(shapes[0]))
    return (*shapes[0][:axis], sum((shape[axis] for shape in shapes), poly(0)), *shapes[0][axis + 1 :])


def _stack(op: OnnxOp) -> Shape:
    place = positive_axis(op.int_attr("axis", 0), op.rank + 1)
    return (*op.shape()[:place], poly(len(op.inputs)), *op.shape()[place:])


def _suppress(op: OnnxOp) -> Shape:
    """Return the shape of a box suppression: the most boxes that the node may keep of every class."""
    batch, classes, boxes = op.shape(1)
    kept = min(constant(op.number(2) or 0), constant(boxes)) or constant(boxes)
    return (batch * classes * kept, poly(3))


# Rules for results, by section of operator_table.toml. The library gives the results of other sections.
RESULTS: dict[str, Callable[[OnnxOp], Shape | list[NodeResult]]] = {
    "same_shape": lambda op: op.shape(),
    "broadcast": lambda op: broadcast(*op.shapes()),
    "identity": identity,
    "quantised_concatenation": _concatenate,
    "stack": _stack,
    "compress": lambda op: (product(op.shape()),) if op.attr("axis") is None else op.shape(),
    "suppress": _suppress,
}


# --- views of the first input ------------------------------------------------------------------------------------


def _numbers(shape: Shape) -> tuple[int, ...]:
    return layout(shape, ())[0]


def _reshape(op: OnnxOp, shape: Shape) -> Strides:
    if product(shape) != product(op.shape()):
        raise ShapeError(f"{product(op.shape())} elements do not fill {product(shape)}")
    numbers, held = _numbers(shape), (_numbers(op.shape()), op.value().strides)
    if not is_viewable(held, numbers):
        return None
    # A view of contiguous data is contiguous; a split of strided data needs its strides to count later copies.
    return contiguous_strides(numbers) if held[1] == contiguous_strides(held[0]) else _split_strides(held, numbers)


def _split_strides(held: tuple[tuple[int, ...], tuple[int, ...]], new: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a viewable reshape: each new dimension is cut from the old dimensions that cover it."""
    runs: list[list[int]] = []  # elements, innermost stride
    for size, stride in zip(*held, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    strides: list[int] = []
    size, stride = runs.pop() if runs else [1, 1]
    for wanted in reversed(new):
        if size == 1 and runs and wanted != 1:
            size, stride = runs.pop()
        strides.append(stride)
        stride, size = stride * wanted, size // max(1, wanted)
    return tuple(reversed(strides))


def _transpose(op: OnnxOp, shape: Shape) -> Strides:
    return tuple(op.value().strides[place] for place in op.int_list("perm") or reversed(range(op.rank)))


def _expand(op: OnnxOp, shape: Shape) -> Strides:
    added = len(shape) - op.rank
    old = zip([ONE] * added + [*op.shape()], [0] * added + [*op.value().strides], strict=True)
    return tuple(stride if size == new else 0 for new, (size, stride) in zip(shape, old, strict=True))


def _slice(op: OnnxOp, shape: Shape) -> Strides:
    strides = list(op.value().strides)
    for axis, step in zip(op.axes(3) or range(op.rank), op.ints(4), strict=False):
        strides[axis] *= step
    return tuple(strides)


# Rules for the strides of results from their shapes, by section of operator_table.toml.
VIEWS: dict[str, Callable[[OnnxOp, Shape], Strides]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "expand": _expand,
    "slice": _slice,
    "split": lambda op, shape: op.value().strides,
    "view_if_same": lambda op, shape: op.value().strides if shape == op.shape() else None,
}


Symbols = dict[str, Poly]
Results = Callable[[OnnxOp], Shape | list[NodeResult]]

_CONSTANTS = {
    "NORM_FLOPS": poly(contractions.NORM_FLOPS),
    "RMS_NORM_FLOPS": poly(contractions.RMS_NORM_FLOPS),
    "ATTENTION_FLOPS": poly(contractions.ATTENTION_FLOPS),
    "ATTENTION_SPECIAL": poly(contractions.ATTENTION_SPECIAL),
}


@dataclass(frozen=True, slots=True)
class StatedWork:
    """The cost of a call without an equivalent ATen call: expressions of the names in its row and of `out`, the
    elements of its first result. `gemm` has G M N K; `macs` is by default their product."""

    kind: str
    gemm: str = ""
    macs: str = ""
    flops: str = ""
    special: str = ""

    def arguments_of_cost(self, symbols: Symbols) -> dict[str, Any]:
        """Return the work as arguments of the call, from which its cost rule reads it."""
        gemm = [_size(word, symbols) for word in self.gemm.split()]
        macs = _size(self.macs, symbols) if self.macs else product(gemm) if gemm else poly(0)
        flops, special = (_size(word or "0", symbols) for word in (self.flops, self.special))
        return {"kind": self.kind, "gemm": gemm, "macs": macs, "flops": flops, "special": special}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of operator_table.toml, which documents the fields. `results` is a pattern or the section's function, by
    default the library's inference; `view` gives the strides of results that may be views."""

    call: str = ""
    results: str | Results | None = None
    names: str = "self"
    dtype: str = "0"
    given: dict[str, tuple[str, Any]] = field(default_factory=dict)
    let: str = ""
    work: StatedWork | None = None
    note: str = ""
    when: str = ""
    causal: str = ""
    view: Callable[[OnnxOp, Shape], tuple[int, ...] | None] | None = None
    like: str = ""

    def fits(self, op: OnnxOp) -> bool:
        """Return True if the inputs have the ranks of its pattern and the node has the attribute `when`, if any."""
        is_asked = not self.when or bool(op.attr(self.when))
        return is_asked and (not isinstance(self.results, str) or _fit(self.results, op))

    def result_shapes(self, op: OnnxOp, symbols: Symbols) -> list[NodeResult]:
        """Return the results, and add the sizes of the row's names to `symbols`."""
        several: dict[str, Shape] = {}
        if isinstance(self.results, str):
            _bind_all(self.results, op, symbols, several)
        numbers = {"rank": op.rank, "inputs": len(op.shapes()), **op.node.attributes} if self.work or symbols else {}
        symbols.update({name: poly(x) for name, x in numbers.items() if isinstance(x, int) and name not in symbols})
        for name, _, word in (part.partition("=") for part in self.let.split()):
            if name not in symbols:
                symbols[name] = _size(word, symbols)
        if self.causal:
            is_causal = self.causal == "always" or bool(op.attr(self.causal))
            symbols["seen"] = symbols["p"] + (symbols["q"] + 1) / 2 if is_causal else symbols["l"]
        shapes: Any
        if isinstance(self.results, str):
            terms = _terms(self.results)[1]
            shapes = [tuple(size for word in term for size in _sizes(word, symbols, several)) for term in terms]
        else:
            shapes = self.results(op) if self.results else infer(op, self.like)
        kinds = self.dtype.split()
        results = [
            shape if isinstance(shape, NodeResult) else NodeResult(shape, _dtype(kinds[min(place, len(kinds) - 1)], op))
            for place, shape in enumerate([shapes] if isinstance(shapes, tuple) else shapes)
        ]
        if self.view is not None:
            results = [replace(result, strides=self.view(op, result.shape)) for result in results]
        if self.work is not None:
            symbols["out"] = product(results[0].shape)
        return results

    def arguments(self, op: OnnxOp, symbols: Symbols) -> dict[str, Any]:
        """Return the arguments of the call, with its work if the row states it."""
        given = {name: op.attr(key, default) for name, (key, default) in self.given.items()}
        return {
            **op.arguments(self.names),
            **given,
            **(self.work.arguments_of_cost(_CONSTANTS | symbols) if self.work else {}),
        }

    def target(self, op: OnnxOp) -> str:
        """Return the ATen name of the call."""
        return self.call.format(n=max(1, min(3, op.rank - 2))) if "{" in self.call else self.call


def _dtype(kind: str, op: OnnxOp) -> str:
    return op.dtype(int(kind)) if kind.isdigit() else kind


def first_of(rows: Sequence[TableRow], op: OnnxOp) -> TableRow | None:
    """Return the first row that fits, else the last row, whose error then says what does not match."""
    return next((row for row in rows if row.fits(op)), rows[-1] if rows else None)


def _size(word: str, symbols: Symbols) -> Poly:
    return symbols[word] if word in symbols else expression(word, symbols)


@lru_cache(maxsize=512)
def _terms(pattern: str) -> tuple[list[list[str]], list[list[str]]]:
    given, _, results = pattern.partition("->")
    return [term.split() for term in given.split(",")], [term.split() for term in results.split(",")]


def _fit(pattern: str, op: OnnxOp) -> bool:
    for place, term in enumerate(_terms(pattern)[0]):
        if op.has_input(place):
            rank, has_star = len(op.shape(place)), any(word[0] == "*" for word in term)
            if term == ["-"] or (rank < len(term) - 1 if has_star else rank != len(term)):
                return False
    return True


def _bind_all(pattern: str, op: OnnxOp, symbols: Symbols, several: dict[str, Shape]) -> None:
    if not _fit(pattern, op):
        raise ShapeError(f"its inputs are not {pattern.partition('->')[0].strip()}")
    for place, term in enumerate(_terms(pattern)[0]):
        if op.has_input(place):
            _bind(term, op.shape(place), symbols, several)
    symbols.update({name: product(shape) for name, shape in several.items()})


def _bind(term: list[str], shape: Shape, symbols: Symbols, several: dict[str, Shape]) -> None:
    star = next((place for place, word in enumerate(term) if word[0] == "*"), None)
    if star is not None:
        end = len(shape) - (len(term) - star - 1)
        name = term[star][1:]
        if name != "_":
            several[name] = broadcast(several.get(name, ()), shape[star:end])
        term, shape = [*term[:star], *term[star + 1 :]], (*shape[:star], *shape[end:])
    for name, size in zip(term, shape, strict=True):
        held = symbols.get(name, ONE)
        if name != "_" and held != ONE and size not in (ONE, held):
            raise ShapeError(f"sizes {held} and {size} do not match")
        symbols[name] = size if held == ONE else held


def _sizes(word: str, symbols: Symbols, several: dict[str, Shape]) -> Shape:
    if word[0] != "*":
        return (_size(word, symbols),)
    return several[word[1:]] if word[1:] in several else (ONE,) * len(several[word[2:]])


def row_of(op: OnnxOp) -> TableRow | None:
    """Return the row that fits a node. Return None for an operator without a row."""
    if op.node.domain not in ("", "com.microsoft", "ai.onnx.contrib", "ai.onnx.preview"):
        return None
    rows = _table().get(f"{op.node.domain}.{op.node.op}") or _table().get(op.node.op) or []
    return rows(op) if callable(rows) else first_of(rows, op)


def is_folded(op: OnnxOp) -> bool:
    """Return True if the values of a node are computed where those of its inputs are known."""
    return op.node.op in _FOLDABLE


_SECTIONS = file_access.table(Path(__file__).with_suffix(".toml"))
_FOLDABLE = frozenset(_SECTIONS["foldable"]["operators"].split())
Rows = list[TableRow] | Callable[[OnnxOp], TableRow | None]


@cache
def _table() -> dict[str, Rows]:
    works = {name: StatedWork(**work) for name, work in _SECTIONS["work"].items()}
    return {
        name: _ROWS[entry] if section == "row" else _rows(section, entry if isinstance(entry, list) else [entry], works)
        for section, entries in _SECTIONS.items()
        if section not in ("work", "foldable")
        for name, entry in entries.items()
    }


def _rows(section: str, entries: list[Any], works: dict[str, StatedWork]) -> list[TableRow]:
    rows = [dict(entry) if isinstance(entry, dict) else {"call": entry} for entry in entries]
    for row in rows:
        row.setdefault("results", RESULTS.get(section))
        if "work" in row:
            row["work"] = works[row["work"]] if isinstance(row["work"], str) else StatedWork(**row["work"])
    return [TableRow(view=VIEWS.get(section), **row) for row in rows]


# --- rows that depend on more than ranks -------------------------------------------------------------------

_SAME = TableRow(results=RESULTS["identity"])


def _clip(op: OnnxOp) -> TableRow:
    low = op.attr("min") if op.opset < 11 else op.number(1)
    high = op.attr("max") if op.opset < 11 else op.number(2)
    is_one = low is None or high is None
    return TableRow(
        "aten.relu6" if (low, high) == (0.0, 6.0) else "aten.clamp_min" if is_one else "aten.clamp",
        RESULTS["same_shape"],
    )


def _cast(op: OnnxOp) -> TableRow:
    dtype = op.dtype(1) if op.node.op == "CastLike" else DTYPES.get(op.int_attr("to", 1), "float32")
    return _SAME if dtype == op.dtype() else TableRow("aten.to", RESULTS["same_shape"], dtype=dtype)


def _quantize(op: OnnxOp) -> TableRow:
    name = "quantized_decomposed.quantize_per_tensor"
    return TableRow(name, RESULTS["same_shape"], "input", dtype="2" if op.has_input(2) else "uint8")


def _dequantize(op: OnnxOp) -> TableRow:
    """Return a view for weights, which are dequantized while they are read, else a call."""
    if op.value().is_weight:
        return TableRow(results=lambda op: [NodeResult(op.shape(), op.dtype(1), op.value().strides)])
    return TableRow("quantized_decomposed.dequantize_per_tensor", RESULTS["same_shape"], "input", "1")


def _variadic(op: OnnxOp) -> TableRow:
    """Count Sum, Max and Min of n tensors as n - 1 operations per element, and Mean as n."""
    if len(op.shapes()) == 1:
        return _SAME
    kind = "elementwise" if op.node.op in ("Max", "Min") else "add"
    flops = "out*inputs" if op.node.op == "Mean" else "out*(inputs-1)"
    return TableRow("onnx.Variadic", RESULTS["broadcast"], "*", work=StatedWork(kind, flops=flops))


def _normalization(op: OnnxOp) -> TableRow:
    name = "aten.layer_norm" if op.node.op == "LayerNormalization" else "aten.rms_norm"
    rows = {"normalized_shape": ("", list(op.shape()[op.axis(default=-1) :]))}
    return TableRow(name, normalization_shapes, "input weight bias", given=rows)


def _matrix_product(right: int = 1, dtype: str = "0") -> Callable[[OnnxOp], TableRow | None]:
    gap, names = "*_, " * (right - 1), "self" + " -" * (right - 1) + " other"
    linear = TableRow("onnx.Linear", f"*b k, {gap}k n -> *b n", names, dtype, work=StatedWork("linear", "1 b n k"))
    patterns = (f"*b k, {gap}k -> *b", f"k, {gap}*b k n -> *b n", f"*b m k, {gap}*b k n -> *b m n")
    plain = [TableRow("aten.matmul", pattern, names, dtype) for pattern in patterns]
    return lambda op: linear if op.value(right).is_weight and len(op.shape(right)) == 2 else first_of(plain, op)


def _transposable_product(op: OnnxOp) -> TableRow:
    left, right = ("k m" if op.attr("transA") else "m k"), ("n k" if op.attr("transB") else "k n")
    if op.node.op != "Gemm" and op.node.op != "FusedGemm":
        pattern = f"*b {left}, *b {right} -> *b m n"
        return TableRow("onnx.Product", pattern, "self other", work=StatedWork("matmul", "b m n k"))
    return TableRow("onnx.Gemm", f"{left}, {right} -> m n", "self other bias", work=StatedWork("linear", "1 m n k"))


def _windows_of_rows(op: OnnxOp) -> TableRow:
    """Return the row of a convolution or pooling of images whose channels come last."""
    sides = len(op.shape()) - 2
    pads, steps = op.int_list("pads", [0] * 2 * sides), op.int_list("strides", [1] * sides)
    gaps, groups = op.int_list("dilations", [1] * sides), op.int_attr("group", 1)
    rows = [f"s{i}" for i in range(sides)]
    pooled = op.int_list("kernel_shape") if op.node.op.endswith("Pool") else []
    windows = [str(size) for size in pooled] or [f"k{i}" for i in range(sides)]
    if str(op.attr("auto_pad", "")).startswith("SAME"):
        sizes = [f"(s{i}+{step - 1})//{step}" for i, step in enumerate(steps)]
    else:
        sizes = [
            f"(s{i}+{pads[i] + pads[i + sides] + gap - 1 + step}-{gap}*{windows[i]})//{step}"
            for i, (gap, step) in enumerate(zip(gaps, steps, strict=True))
        ]
    if pooled:
        pattern = f"n {' '.join(rows)} c -> n {' '.join(sizes)} c"
        return TableRow("aten.max_pool{n}d", pattern, "input", given={"kernel_size": ("kernel_shape", [])})
    pattern = f"n {' '.join(rows)} _, m g {' '.join(windows)} -> n {' '.join(sizes)} m"
    work = StatedWork("conv", f"{groups} out//m m//{groups} {'*'.join(['g', *windows])}")
    return TableRow("onnx.Product", pattern, "input weight bias", work=work)


def _einsum(op: OnnxOp) -> TableRow:
    equation = str(op.attr("equation", "")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    if not arrow:
        once = sorted(letter for letter in set(terms) - set(",.") if terms.count(letter) == 1)
        result = ("..." if "..." in terms else "") + "".join(once)
    sides = [", ".join(" ".join(term.replace("...", "*")) for term in side.split(",")) for side in (terms, result)]
    return TableRow("aten.einsum", " -> ".join(sides), "*", given={"equation": ("", f"{terms}->{result}")})


def _resize(op: OnnxOp) -> TableRow:
    mode = str(op.attr("mode", "nearest"))
    shape = op.declared_shape or infer(op)[0].shape
    changed = sum(new != old for new, old in zip(shape, op.shape(), strict=True))
    rank = max(1, min(3, changed or op.rank - 2))
    linear = ("linear1d", "bilinear2d", "trilinear3d")[rank - 1]
    kind = {"cubic": "bicubic2d", "linear": linear, "bilinear": linear}.get(mode, f"nearest{rank}d")
    return TableRow(f"aten.upsample_{kind}")


def _gather(op: OnnxOp) -> TableRow:
    if isinstance(op.number(1), int) and not op.shape(1):
        shape, strides = ((*each[: op.axis()], *each[op.axis() + 1 :]) for each in (op.shape(), op.value().strides))
        return TableRow("", lambda op: [NodeResult(shape, op.dtype(), strides)])  # a view of one row
    is_table = op.value().is_weight and op.axis() == 0 and op.rank == 2
    return TableRow("aten.embedding" if is_table else "aten.index_select", names="0 1")


def _top_k(op: OnnxOp) -> TableRow:
    axis, told = op.axis(default=-1), op.declared_shape
    kept = constant(told[axis] if told else op.number(1) if op.has_input(1) else op.int_attr("k", 1))
    return TableRow("aten.topk", given={"k": ("", kept), "dim": ("", axis)})


def _dft(op: OnnxOp) -> TableRow:
    axis = op.number(2) if op.has_input(2) else op.int_attr("axis", -2 if op.opset >= 20 else 1)
    if axis is None and op.declared_shape is not None:
        axis = -2  # only the cost of the transform depends on it
    return TableRow("onnx.DFT", given={"dim": ("", positive_axis(constant(axis), op.rank))})


def _stft(op: OnnxOp) -> TableRow:
    points = constant(op.number(3) if op.has_input(3) and op.number(3) is not None else op.shape(2)[0])
    given = {"n_fft": ("", points), "onesided": ("", bool(op.int_attr("onesided", 1)))}
    return TableRow("aten.stft", given=given)


def _linear_attention(op: OnnxOp) -> TableRow:
    """Count two outer products per head and token. The delta rule adds a third, which reads the state for the key."""
    rule = str(op.attr("update_rule", "gated_delta"))
    updates = 2 if "delta" in rule else 1
    work = StatedWork(
        "matmul",
        gemm="b*kv_num_heads d e t",
        macs=f"b*t*d*e*(q_num_heads+{updates}*kv_num_heads)",
        flops="b*t*kv_num_heads*d*e" * ("gated" in rule),
    )
    pattern = "b t x, b t y, b t z -> b t q_num_heads*e, b kv_num_heads d e"
    return TableRow("onnx.LinearAttention", pattern, "#", let="d=y//kv_num_heads e=z//kv_num_heads", work=work)


def _causal_convolution(op: OnnxOp) -> TableRow:
    """Count a depthwise convolution over the last tokens. The second result is the state for the next step."""
    is_active = op.attr("activation", "none") not in ("none", "")
    work = StatedWork("depthwise_conv", "c b*l 1 w", flops="4*b*c*l" * is_active, special="2*b*c*l" * is_active)
    return TableRow("onnx.CausalConv", "b c l, c _ w -> b c l, b c w-1", "input weight bias", work=work)


# Functions that return rows, by their name in operator_table.toml.
_ROWS: dict[str, Callable[[OnnxOp], TableRow | None]] = {
    "clip": _clip,
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "variadic": _variadic,
    "normalization": _normalization,
    "transposable_product": _transposable_product,
    "windows_of_rows": _windows_of_rows,
    "einsum": _einsum,
    "resize": _resize,
    "gather": _gather,
    "scatter": lambda op: TableRow(
        f"aten.scatter{'_reduce' * (op.attr('reduction', 'none') != 'none')}", RESULTS["same_shape"], "0 1 2"
    ),
    "fill": lambda op: TableRow("aten.full", names=""),
    "top_k": _top_k,
    "dft": _dft,
    "stft": _stft,
    "linear_attention": _linear_attention,
    "causal_convolution": _causal_convolution,
    "product": _matrix_product(),
    "integer_product": _matrix_product(dtype="int32"),
    "float_product": _matrix_product(dtype="2"),
    "quantized_product": _matrix_product(right=3),
}


# --- costs of calls without an equivalent ATen call ----------------------------------------------------------


def _cost_of_row(call: contractions.OperatorCall) -> cost_rules.OperatorCost:
    args = call.args
    gemm = tuple(args["gemm"]) or None
    return cost_rules.OperatorCost(args["kind"], args["flops"], args["special"], args["macs"], gemm)


def _suppression(call: contractions.OperatorCall) -> cost_rules.OperatorCost:
    """Count per class a sort of the boxes, then the overlap (13 flops) of every pair of boxes."""
    batch, classes, boxes = call.tensors()[1].shape
    count = int(boxes.constant())
    each = count * math.ceil(math.log2(max(2, count))) + count * (count - 1) // 2 * 13
    return cost_rules.OperatorCost("sort", product((batch, classes, each)))


def _transform(call: contractions.OperatorCall) -> cost_rules.OperatorCost:
    """Count 5 N log2 N per transform, half for real input. The last dimension has the real and imaginary part."""
    tensor = call.tensors()[0]
    points = tensor.shape[call.args["dim"]]
    levels = math.log2(max(2, points.constant() if isinstance(points, Poly) else points))
    if tensor.shape[-1] == poly(1):
        return cost_rules.OperatorCost("fft", tensor.numel * round(5 * levels / 2))
    return cost_rules.OperatorCost("fft", tensor.numel // 2 * round(5 * levels))


cost_rules.register({"onnx.NonMaxSuppression": _suppression, "onnx.DFT": _transform})
# Calls whose rows state their cost (see `StatedWork`).
_STATED = (
    "Linear Product Gemm Attention LSTM GRU RNN Variadic SkipLayerNorm SkipRmsNorm LRN LpNormalization"
    " DynamicQuantizeLinear QLinearEach LinearAttention CausalConv MoE QGather"
    " EmbedLayerNorm"
)
cost_rules.register({f"onnx.{name}": _cost_of_row for name in _STATED.split()})
cost_rules.BIASED.add("onnx.Gemm")
