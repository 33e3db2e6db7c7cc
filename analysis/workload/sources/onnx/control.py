"""Branches and loops of ONNX laid out flat: which graph runs, how often, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...poly import Poly, poly
from .file import OnnxError, OnnxGraph
from .op import Known, Made, Op, Value, whole_array

Given = Value | Made | Known
_MAX_TURNS = 4096


@dataclass(frozen=True, slots=True)
class Enter:
    """One run of an inner graph. `inputs` says what it is given, from the node and the results of the run before;
    of the last run's results `skip` are no results of the node, and those `stacked` gives a length pile up."""

    graph: OnnxGraph
    inputs: Callable[[Op, list[Value]], list[Given]]
    index: int = 0
    is_last: bool = True
    skip: int = 0
    stacked: Callable[[int], list[Poly | None]] = lambda count: [None] * count
    note: str = ""


def bodies(op: Op) -> Iterator[Enter]:
    match op.node.op:
        case "If":
            yield _branch(op)
        case "Loop":
            yield from _loop(op)
        case _:
            yield from _scan(op)


def _inner(op: Op, name: str) -> OnnxGraph:
    found = op.attr(name)
    if not isinstance(found, OnnxGraph):
        raise OnnxError(f"{op.node.op} {op.node.name[:40]!r} has no graph")
    return found


def _branch(op: Op) -> Enter:
    """The branch that the sizes settle, else the longer one."""
    then, other = _inner(op, "then_branch"), _inner(op, "else_branch")
    condition = op.number(0)
    if condition is not None:
        return Enter(then if condition else other, lambda op, carried: [])
    longer = max(then, other, key=lambda graph: len(graph.nodes))
    return Enter(longer, lambda op, carried: [], note="of each If the longer branch is counted")


def _loop(op: Op) -> Iterator[Enter]:
    """Inputs: trip count, condition, carried values. The graph gives a condition, carried values, scan results."""
    graph = _inner(op, "body")
    count = op.number(0) if op.has(0) else None
    carried = len(op.inputs) - 2
    note = ""
    if not isinstance(count, int) or count >= 1 << 30:
        count, note = 1, "a loop whose length depends on the data is counted once"
    if count > _MAX_TURNS:
        count, note = 1, f"a loop of more than {_MAX_TURNS} turns is counted once"

    def given(turn: int) -> Callable[[Op, list[Value]], list[Given]]:
        def inputs(op: Op, before: list[Value]) -> list[Given]:
            state: list[Given] = (
                [op.value(place) for place in range(2, len(op.inputs))] if turn == 0 else list(before[1 : carried + 1])
            )
            return [whole_array([turn], ()), whole_array([True], ()), *state]

        return inputs

    for turn in range(count):
        yield Enter(graph, given(turn), turn, turn == count - 1, 1, _piles(carried, poly(count)), note)


def _piles(carried: int, length: Poly) -> Callable[[int], list[Poly | None]]:
    def lengths(count: int) -> list[Poly | None]:
        return [None if place < carried else length for place in range(count)]

    return lengths


def _scan(op: Op) -> Iterator[Enter]:
    """Carried values, then tensors that are taken apart along their first dimension, one slice a turn."""
    graph = _inner(op, "body")
    taken = op.int_attr("num_scan_inputs", 1)
    carried = len(op.inputs) - taken
    lengths = {op.shape(place)[0] for place in range(carried, len(op.inputs))}
    length = lengths.pop()
    note = ""
    count = length.constant() if length.is_constant else 0
    if not 0 < count <= _MAX_TURNS:
        count, note = 1, "a loop over a live or very long dimension is counted once"

    def given(turn: int) -> Callable[[Op, list[Value]], list[Given]]:
        def inputs(op: Op, before: list[Value]) -> list[Given]:
            state: list[Given] = [op.value(place) for place in range(carried)] if turn == 0 else list(before[:carried])
            slices: list[Any] = [Made(op.shape(x)[1:], op.dtype(x), of=x) for x in range(carried, len(op.inputs))]
            return [*state, *slices]

        return inputs

    for turn in range(count):
        yield Enter(graph, given(turn), turn, turn == count - 1, 0, _piles(carried, length), note)
