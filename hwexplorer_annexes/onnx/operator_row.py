"""One row of the operator table: the results of an ONNX operator and an ATen call of the same cost.

A pattern names sizes as in einsum: `b q x, b k y -> b q k`. A name is one dimension and `*name` any number of them
(in sums and products: their number of elements); `*1name` is as many dimensions of size 1. `_` matches any size, `-`
an input that must be absent. Other names are attributes of the node, `rank` (dimensions of the first input) and
`inputs` (number of inputs). Results may be expressions of these names: `b kept+past`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hwexplorer.extend import contractions, element_costs
from hwexplorer_annexes.onnx.graph_parts import Poly, expression, poly, product
from hwexplorer_annexes.onnx.inference import infer
from hwexplorer_annexes.onnx.onnx_op import ONE, NodeResult, OnnxOp, Shape, ShapeError, broadcast

Symbols = dict[str, Poly]
Results = Callable[[OnnxOp], Shape | list[NodeResult]]

_CONSTANTS = {
    "NORM_FLOPS": poly(element_costs.NORM_FLOPS),
    "RMS_NORM_FLOPS": poly(element_costs.RMS_NORM_FLOPS),
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
            shapes = _shapes_of_pattern(self.results, symbols, several)
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


def _shapes_of_pattern(pattern: str, symbols: Symbols, several: dict[str, Shape]) -> list[Shape]:
    return [tuple(size for word in term for size in _sizes(word, symbols, several)) for term in _terms(pattern)[1]]


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
