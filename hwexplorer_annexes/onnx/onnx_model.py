"""Convert an ONNX file with a symbolic batch to a workload of ATen calls of the same cost. Nothing is executed.

Sizes that the file leaves open are taken from the user. Branches are chosen, loops unrolled; lists of tensors are free,
since Split and Concat make and join their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hwexplorer.extend import (
    Input,
    lower_graph,
    operator_graph,
    reading_budget,
    workload,
)
from hwexplorer_annexes.onnx.onnx_file import (
    COMPUTED,
    FLOATS,
    IN_A_BYTE,
    INPUT,
    MAX_VALUES,
    AttributeRef,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    Poly,
    Ref,
    SizeError,
    Stored,
    UnreadableError,
    ValueInfo,
    dim,
    expression,
    layout,
    poly,
    product,
    read,
    weights_in_values,
)
from hwexplorer_annexes.onnx.onnx_op import (
    Known,
    NodeResult,
    OnnxOp,
    OnnxValue,
    Shape,
    ShapeError,
    constant,
    contiguous_strides,
    describe_node,
    fold,
    positive_axis,
    scopes_of,
    shape_of,
)
from hwexplorer_annexes.onnx.operator_table import Symbols, is_folded, row_of


class OpenSizeError(UnreadableError):
    """The file leaves sizes open that the user has not given."""


class TimeFirstError(UnreadableError):
    """Dimension 0 was taken as the batch but is the time of a recurrent operator."""


def shapes_of(
    declared: Sequence[ValueInfo], inputs: Sequence[Input], batch: Poly, batch_axis: int
) -> tuple[dict[str, Poly], list[Shape]]:
    """Return the open sizes by name, and the shape of each input. Named `inputs` set the input of that name, others in
    order the remaining inputs that are not scalars. Raises UnreadableError."""
    unknown = {item.name for item in inputs if item.name} - {info.name for info in declared}
    if unknown:
        raise UnreadableError(
            f"it has no input {min(unknown)[:40]!r}: {', '.join(info.name[:40] for info in declared[:8])}"
        )
    named = {item.name: item for item in inputs if item.name}
    unnamed = [item for item in inputs if not item.name]
    places = [info for info in declared if info.shape != () and info.name not in named]
    if len(unnamed) > len(places):
        raise UnreadableError(f"{len(unnamed)} inputs are given, it has {len(places)}")
    chosen = named | {info.name: item for info, item in zip(places, unnamed, strict=False)}
    symbols = dict.fromkeys(batch_names(declared, batch_axis), batch)
    pairs = [(info, chosen.get(info.name) if info.shape != () else None) for info in declared]
    for info, given in pairs:
        for size, to in zip(info.shape or (), given.shape if given else (), strict=False):
            if isinstance(size, str) and symbols.setdefault(size, poly(to)) not in (poly(to), batch):
                raise UnreadableError(
                    f"{info.name[:40]!r} sets {size[:24]!r} to {to}, but it is {symbols[size]} elsewhere"
                )
    return symbols, [_shape(info, given, symbols, batch, batch_axis) for info, given in pairs]


def batch_names(inputs: Sequence[ValueInfo], batch_axis: int) -> set[str]:
    """Return the names of open sizes that are the batch: those that contain `batch`, else those named b, n or bs, else
    those at the batch axis."""
    shapes = [info.shape or () for info in inputs]
    names = {size for shape in shapes for size in shape if isinstance(size, str)}
    called = {name for name in names if "batch" in name.lower()}
    lettered = {name for name in names if name.lower() in ("b", "n", "bs")}
    at_axis = {size for shape in shapes for size in shape[batch_axis : batch_axis + 1] if isinstance(size, str)}
    return called or lettered or at_axis


def _shape(info: ValueInfo, given: Input | None, symbols: dict[str, Poly], batch: Poly, batch_axis: int) -> Shape:
    declared = info.shape
    if declared is None:
        if given is None:
            raise OpenSizeError(f"the file does not state the shape of {info.name[:40]!r}: give --input 1x3x224x224")
        declared = (None,) * len(given.shape)
    if given is not None:
        known = [own if isinstance(size, int) else size for size, own in zip(declared, given.shape, strict=False)]
        if len(declared) != len(given.shape) or known != list(declared):
            raise UnreadableError(f"{info.name[:40]!r} is {format_shape(declared)}, not {given}")
    shape: list[Poly] = []
    for place, size in enumerate(declared):
        if isinstance(size, int):
            shape.append(poly(size))
        elif isinstance(size, str) and size in symbols:
            shape.append(symbols[size])
        elif size is None and place == batch_axis:
            shape.append(batch)
        elif given is not None:
            shape.append(poly(given.shape[place]))
        else:
            raise OpenSizeError(
                f"{info.name[:40]!r} is {format_shape(declared)}: give its sizes, e.g. {example_option(declared)}"
            )
    return tuple(shape)


def format_shape(shape: Sequence[int | str | None]) -> str:
    """Return a declared shape as text, `?` for an open size."""
    return "x".join("?" if size is None else str(size)[:24] for size in shape) or "a number"


def example_option(shape: Sequence[int | str | None]) -> str:
    """Return an example of the option `--input` that gives the open sizes."""
    usual = {4: (1, 3, 224, 224), 5: (1, 3, 16, 112, 112)}.get(len(shape), (1, *[128] * 16))
    return "--input " + "x".join(
        str(size if isinstance(size, int) else usual[place]) for place, size in enumerate(shape)
    )


_MAX_TURNS = 4096
_NO_LIMIT = 1 << 30  # exporters write it for "until the condition fails"


@dataclass(frozen=True, slots=True)
class Turns:
    """`count` iterations of an inner graph. The inputs of each are its number and a condition (if `skip` is 1), the
    `carried` values (later the results of the last iteration), and a slice of each tensor of `taken` along `axes`. The
    first `skip` results are dropped. Unless `length` is None, results after the carried ones are stacked to `length`
    along the axes `piled`."""

    graph: OnnxGraph
    count: int = 1
    carried: tuple[OnnxValue, ...] = ()
    taken: tuple[OnnxValue, ...] = ()
    skip: int = 0
    length: Poly | None = None
    axes: Sequence[int] = ()
    piled: Sequence[int] = ()
    note: str = ""


def _inner(op: OnnxOp, name: str) -> OnnxGraph:
    graph = op.attr(name)
    if not isinstance(graph, OnnxGraph):
        raise UnreadableError(f"{op.node.op} {op.node.name[:40]!r} has no graph")
    return graph


def _branch(op: OnnxOp) -> Turns:
    then, other = _inner(op, "then_branch"), _inner(op, "else_branch")
    condition = op.number(0)
    if condition is not None:
        return Turns(then if condition else other)
    longer = max(then, other, key=lambda graph: len(graph.nodes))
    return Turns(longer, note="the longer branch of each If is counted")


def _loop(op: OnnxOp) -> Turns:
    """Return the iterations of a Loop. Its inputs: count, condition, carried values; its results: carried, stacked."""
    count, note = op.number(0), ""
    if not isinstance(count, int) or count >= _NO_LIMIT:
        count, note = 1, "a loop whose length depends on the data is counted once"
    if count > _MAX_TURNS:
        count, note = 1, f"a loop of more than {_MAX_TURNS} turns is counted once"
    carried = tuple(op.value(place) for place in range(2, len(op.inputs)))
    return Turns(_inner(op, "body"), count, carried, skip=1, length=poly(count), note=note)


def _scan(op: OnnxOp) -> Turns:
    """Return the iterations of a Scan. Its inputs: carried values, then tensors with one slice for each iteration."""
    split = len(op.inputs) - op.int_attr("num_scan_inputs", 1)
    values = tuple(op.value(place) for place in range(len(op.inputs)))
    given = op.int_list("scan_input_axes", [0] * (len(values) - split))
    axes = [positive_axis(axis, len(value.meta.shape)) for axis, value in zip(given, values[split:], strict=True)]
    length = values[split].meta.shape[axes[0]]
    count, note = (int(length.constant()) if length.is_constant else 0), ""
    if not 0 < count <= _MAX_TURNS:
        count, note = 1, "a loop over a free or very long dimension is counted once"
    piled = op.int_list("scan_output_axes")
    return Turns(
        _inner(op, "body"), count, values[:split], values[split:], length=length, axes=axes, piled=piled, note=note
    )


CONTROL: dict[str, Callable[[OnnxOp], Turns]] = {"If": _branch, "Loop": _loop, "Scan": _scan}

LISTS = frozenset((
    "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt", "SplitToSequence",
    "ConcatFromSequence",
))  # fmt: skip


def sequence_result(op: OnnxOp) -> OnnxValue | tuple[OnnxValue, ...] | OnnxNode:
    """Return the result of a list node: a part, the parts of a list, or a Split or Concat node that makes it."""
    name = op.node.outputs[0]
    match op.node.op:
        case "SequenceConstruct":
            return tuple(value for value in op.inputs if value is not None)
        case "SequenceEmpty":
            return ()
        case "SplitToSequence":
            return _split(op, name)
        case "ConcatFromSequence":
            names = tuple(f"{name}[{place}]" for place in range(len(op.value().parts)))
            return replace(op.node, op="Stack" if op.int_attr("new_axis", 0) else "Concat", inputs=names)
    parts = list(op.value().parts)
    place_at = 2 if op.node.op == "SequenceInsert" else 1
    place = op.number(place_at)
    if op.has_input(place_at) and place is None:
        raise ShapeError("which part it takes depends on the data")
    if op.node.op == "SequenceAt":
        return parts[constant(place)]
    if op.node.op == "SequenceInsert":
        parts.insert(len(parts) if place is None else constant(place), op.value(1))
    else:
        parts.pop(-1 if place is None else constant(place))
    return tuple(parts)


def _split(op: OnnxOp, name: str) -> OnnxNode:
    size = constant(op.shape()[op.axis()])
    if size > MAX_VALUES:
        raise ShapeError("its parts are too many")
    sizes = [1] * size
    if op.has_input(1):
        sizes = op.ints(1)
        if not op.shape(1):
            sizes = [min(sizes[0], size - start) for start in range(0, size, max(1, sizes[0]))]
    elif not op.int_attr("keepdims", 1):
        raise ShapeError("it drops the dimension that it splits")
    names = tuple(f"{name}[{place}]" for place in range(len(sizes)))
    attributes = {"axis": op.int_attr("axis", 0), "split": sizes}
    return replace(op.node, op="Split", inputs=op.node.inputs[:1], outputs=names, attributes=attributes)


WRONG = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, ZeroDivisionError)
# Steps of the budget for a node, a value, a name in a node, a known number, and a character of a size expression.
_NODE_STEPS, _VALUE_STEPS, _NAME_STEPS, _NUMBER_STEPS, _LETTER_STEPS = 150, 50, 20, 5, 10
_REPORT_EVERY = 500  # nodes
_TIME_FIRST = frozenset({"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"})  # unless `layout` is 1
_MAX_DEPTH = 32
_MAX_ELEMENTS = 1 << 62  # in a tensor


@dataclass(frozen=True, slots=True)
class Frame:
    """The values by name inside one graph, function or loop iteration. Other names are looked up in `outer`."""

    graph: OnnxGraph
    prefix: str = ""
    values: dict[str, OnnxValue] = field(default_factory=dict)
    outer: Frame | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    depth: int = 0

    def find(self, name: str) -> OnnxValue | None:
        """Return the value of a name, looked up from the innermost frame outwards, else None."""
        frame: Frame | None = self
        while frame is not None and name not in frame.values:
            frame = frame.outer
        return frame.values[name] if frame is not None else None


class GraphWalk:
    """A reader that walks a graph once. A `batch` of None is symbolic. `batch_axis` is the batch dimension of inputs: 1
    if recurrent operators have time first."""

    def __init__(self, model: OnnxModel, budget: reading_budget.Budget, batch: int | None, batch_axis: int = 0) -> None:
        self.model, self.budget, self.batch_axis = model, budget, batch_axis
        self.batch = dim("batch") if batch is None else poly(batch)
        self.symbols: dict[str, Poly] = {}
        self.sources: list[operator_graph.Source] = []
        self.nodes: list[operator_graph.GraphNode] = []
        self.notes: dict[str, None] = {}
        self.constants: dict[int, dict[str, OnnxValue]] = {}
        self.names = 0
        self.parameters = 0

    def graph(self, graph: OnnxGraph, given: Sequence[Input]) -> operator_graph.Graph:
        """Return the graph as ATen calls. `given` has the input sizes that the file leaves open."""
        top = Frame(graph)
        inputs = self._inputs(given, top)
        self._enter(top)
        if inputs and not any("batch" in item.shape for item in inputs) and self.batch == dim("batch"):
            axis = self.batch_axis
            leading = {item.shape[axis] for item in inputs if len(item.shape) > axis}
            number = int(leading.pop()) if len(leading) == 1 else 1
            self.notes[
                workload.fixed_note(number, "the file fixes the size of its inputs (export it with a free batch)")
            ] = None
        return operator_graph.Graph(
            sources=tuple(self.sources),
            nodes=tuple(self.nodes),
            outputs=tuple(value.name for name in graph.outputs if (value := top.find(name)) is not None),
            parameters=self.parameters,
            inputs=tuple(inputs),
            notes=tuple(self.notes),
            versions={"onnx opset": str(self.model.opset), "producer": self.model.producer[:40]},
        )

    def _inputs(self, inputs: Sequence[Input], top: Frame) -> list[workload.InputSpec]:
        stored = {tensor.name for tensor in top.graph.stored}
        declared = [info for info in top.graph.inputs if info.name not in stored]
        self.symbols, shapes = shapes_of(declared, inputs, self.batch, self.batch_axis)
        for info, shape in zip(declared, shapes, strict=True):
            # Sizes may depend on a number that was given as `name=value`.
            value = next((item.shape[0] for item in inputs if item.name == info.name and info.shape == ()), None)
            known = None if value is None else (np.array(value, info.dtype if info.dtype in COMPUTED else "int64"),)
            top.values[info.name] = self._source(info.name, INPUT, self._new(info.name, shape, info.dtype, known))
        written = [tuple(size.label for size in shape) for shape in shapes]
        return [workload.InputSpec(info.name, info.dtype, shape) for info, shape in zip(declared, written, strict=True)]

    def _source(self, name: str, role: int, value: OnnxValue) -> OnnxValue:
        self.sources.append(operator_graph.Source(value.name, name, role, value.meta))
        return value

    def _constants(self, frame: Frame) -> dict[str, OnnxValue]:
        """Return the constants of a graph by name. All iterations of a loop share them."""
        graph = frame.graph
        if id(graph) not in self.constants:
            weights = weights_in_values(graph.nodes)
            self.constants[id(graph)] = {
                tensor.name: self._constant(tensor, frame.prefix + tensor.name, weights.get(tensor.name, 1))
                for tensor in graph.stored
            }
        return self.constants[id(graph)]

    def _constant(self, tensor: Stored, name: str, weights: int = 1) -> OnnxValue:
        """Return a stored tensor, each of whose values holds so many weights if it has trained numbers."""
        values_in_a_byte = IN_A_BYTE.get(tensor.dtype, 0)
        is_weight = (tensor.dtype in FLOATS or values_in_a_byte > 0) and bool(tensor.shape) and weights > 0
        known = None if tensor.values is None else (tensor.values,)
        value = self._new(name, shape_of(tensor.shape), tensor.dtype, known, is_weight)
        values, stored = int(value.meta.numel.constant()), value
        if is_weight:
            self.parameters += values * (weights if tensor.dtype == "uint8" else 1)
        if values_in_a_byte > 1:
            stored = replace(value, meta=replace(value.meta, shape=(poly(-(-values // values_in_a_byte)),)))
        self._source(name, workload.WEIGHT if is_weight else workload.BUFFER, stored)
        return value

    def _enter(self, frame: Frame) -> None:
        if frame.depth > _MAX_DEPTH:
            raise UnreadableError(f"the function {frame.prefix.split('/')[-2][:40]} calls itself")
        stored = Frame(frame.graph, values=self._constants(frame), outer=frame.outer)
        inner = replace(frame, outer=stored)
        for place, node in enumerate(frame.graph.nodes):
            if not frame.prefix and place % _REPORT_EVERY == 0:
                self.budget.report("shapes", place / len(frame.graph.nodes))
            self._node(_resolve_attributes(node, frame), inner)

    def _node(self, node: OnnxNode, frame: Frame) -> None:
        self.budget.spend(_NODE_STEPS + _NAME_STEPS * (len(node.inputs) + len(node.outputs)))
        op = OnnxOp(node, tuple(self._input(name, frame, node) for name in node.inputs), self.model.opset)
        function = self.model.functions.get((node.domain, node.op))
        try:
            if function is not None:
                self._function(function, op, frame)
            elif not node.domain and node.op in CONTROL:
                self._control(op, frame)
            elif not node.domain and node.op in LISTS:
                self._list(op, frame)
            else:
                self._plain(op, frame)
        except UnreadableError:
            raise
        except WRONG as error:
            raise UnreadableError(f"{describe_node(node)}: {error or type(error).__name__}") from None

    def _input(self, name: str, frame: Frame, node: OnnxNode) -> OnnxValue | None:
        value = frame.find(name) if name else None
        if name and value is None:
            raise UnreadableError(f"{describe_node(node)} reads {name[:40]!r}, which no operator writes")
        return value

    def _plain(self, op: OnnxOp, frame: Frame) -> None:
        if op.node.op in _TIME_FIRST and not op.attr("layout"):
            self._note_time(op)
        names = op.node.outputs
        tensor = op.attr("value") if op.node.op == "Constant" else None
        if isinstance(tensor, Stored) and tensor.values is None:
            frame.values[names[0]] = self._constant(tensor, frame.prefix + names[0])
            return
        self.budget.spend(_NUMBER_STEPS * sum(value.known[0].size for value in op.inputs if value and value.known))
        known = fold(op) if is_folded(op) else None
        if known is not None:
            self.budget.spend(_NUMBER_STEPS * known[0].size)
            frame.values[names[0]] = self._known_constant(frame.prefix + names[0], known)
            return
        outputs, target, args = self._result(op, frame)
        results = {
            name: self._value(frame.prefix + name, one, op) for name, one in zip(names, outputs, strict=False) if name
        }
        frame.values.update(results)
        self._emit(op.node, target or f"onnx.{op.node.op}", args, list(results.values()))

    def _note_time(self, op: OnnxOp) -> None:
        """Raise TimeFirstError if dimension 0 was taken as the batch but is the time of a recurrent operator."""
        time, batch = op.shape()[:2]
        leading = {source.meta.shape[0] for source in self.sources if source.role == INPUT and source.meta.shape}
        is_fixed = time in leading and time.is_constant and batch.is_constant and self.batch == dim("batch")
        if self.batch_axis == 0 and (is_fixed or (not time.is_constant and batch.is_constant)):
            raise TimeFirstError(f"{describe_node(op.node)} has time first")

    def _result(self, op: OnnxOp, frame: Frame) -> tuple[list[NodeResult], str, dict[str, Any]]:
        """Return the results of a node, and the target and arguments of a call of the same cost."""
        problem: Exception | None = None
        row = None
        results: list[NodeResult | None] = []
        symbols: Symbols = {}
        try:
            row = row_of(op)
            results += row.result_shapes(op, symbols) if row is not None else []
        except WRONG as error:
            problem = error
        if not results:
            is_window = row is not None and not row.call
            results += [self._declared_result(name, frame, is_window) for name in op.node.outputs if name]
            if row is None and problem is not None:  # its row needs sizes that only the file declares
                with suppress(*WRONG):
                    op = replace(op, declared_shape=results[0].shape if results and results[0] else None)
                    row = row_of(op)
        told = [one for one in results if one is not None]
        if not told or len(told) < len(results):
            is_bounded = op.node.op.startswith("Reduce") if row is not None else problem is None  # its input bounds it
            if not is_bounded or not op.has_input(0):
                reason = str(problem or "no shape rule is known for it") or type(problem).__name__
                reason = " ".join(reason.split())
                raise UnreadableError(f"{describe_node(op.node)}: the shape of its result is unknown: {reason[:160]}")
            self.notes[
                f"the size of what {describe_node(op.node)} writes is unknown: the size of its first input is used"
            ] = None
            told = [NodeResult(op.shape(), op.dtype())] * max(1, len(op.node.outputs))
        symbols.setdefault("out", product(told[0].shape))
        if row is not None:
            try:
                args = row.arguments(op, symbols)
                self.notes.update({row.note: None} if row.note else {})
                return told, row.target(op), args
            except WRONG:
                pass  # its cost depends on unknown sizes
        return told, f"{op.node.domain or 'onnx'}.{op.node.op}", op.arguments("*")

    def _declared_result(self, name: str, frame: Frame, is_window: bool) -> NodeResult | None:
        info = frame.graph.declared.get(name)
        if info is None or info.shape is None or None in info.shape:
            return None
        self.budget.spend(sum(_LETTER_STEPS * len(size) for size in info.shape if isinstance(size, str)))
        try:
            shape = shape_of(
                [size if isinstance(size, int) else expression(str(size), self.symbols) for size in info.shape]
            )
        except ValueError:
            return None
        return NodeResult(shape, info.dtype, contiguous_strides(layout(shape, ())[0]) if is_window else None)

    def _value(self, name: str, result: NodeResult, op: OnnxOp) -> OnnxValue:
        if result.strides is None:
            return self._new(name, result.shape, result.dtype)
        base = op.value()
        known = base.known if base.meta.shape == result.shape else None
        meta = operator_graph.Meta(result.shape, result.dtype, base.meta.storage)
        return OnnxValue(self._unique(name), meta, result.strides, known, base.is_weight)

    def _known_constant(self, name: str, known: Known) -> OnnxValue:
        value = self._new(name, shape_of(known[0].shape), known[0].dtype.name, known)
        return self._source(name, workload.BUFFER, value)

    def _new(
        self, name: str, shape: Shape, dtype: str, known: Known | None = None, is_weight: bool = False
    ) -> OnnxValue:
        self.budget.spend(_VALUE_STEPS)
        dtype = "uint8" if IN_A_BYTE.get(dtype, 1) > 1 else dtype
        meta = operator_graph.Meta(shape, dtype, self.names)
        numbers = layout(shape, ())[0]
        if prod(numbers) > _MAX_ELEMENTS:
            raise UnreadableError(f"{name[:40]!r} is larger than the memory of any device")
        return OnnxValue(self._unique(name), meta, contiguous_strides(numbers), known, is_weight)

    def _unique(self, name: str) -> str:
        self.names += 1
        return f"{name}@{self.names}"

    def _emit(self, node: OnnxNode, target: str, args: dict[str, Any], values: list[OnnxValue]) -> None:
        scopes = scopes_of(node)
        metas = tuple(value.meta for value in values)
        if len(values) == 1:
            self.nodes.append(operator_graph.GraphNode(values[0].name, target, args, metas, scopes))
            return
        name = self._unique(f"{node.name or node.op}#")
        self.nodes.append(operator_graph.GraphNode(name, target, args, metas, scopes, multiple=True))
        for place, value in enumerate(values):
            part = {"self": Ref(name), "index": place}
            self.nodes.append(operator_graph.GraphNode(value.name, "getitem", part, (value.meta,), scopes))

    def _function(self, function: OnnxGraph, op: OnnxOp, frame: Frame) -> None:
        given = {info.name: value for info, value in zip(function.inputs, op.inputs, strict=False) if value is not None}
        attributes = function.defaults | op.node.attributes
        prefix = f"{frame.prefix}{op.node.name or op.node.op}/"
        inner = Frame(function, prefix, given, None, attributes, frame.depth + 1)
        self._enter(inner)
        results = [inner.values.get(name) for name in function.outputs]
        named = zip(op.node.outputs, results, strict=False)
        frame.values.update({name: value for name, value in named if name and value is not None})

    def _list(self, op: OnnxOp, frame: Frame) -> None:
        """Bind a list to its parts. The Split or Concat nodes that make or join them are handled as ordinary nodes."""
        name = op.node.outputs[0]
        result = sequence_result(op)
        if isinstance(result, OnnxNode):
            frame.values.update({f"{name}[{place}]": part for place, part in enumerate(op.value().parts)})
            self._node(result, frame)
            if op.node.op == "ConcatFromSequence":
                return
            result = tuple(frame.values[part] for part in result.outputs)
        if not isinstance(result, OnnxValue):
            result = replace(self._new(name, (), "float32"), parts=result)
        frame.values[name] = result

    def _control(self, op: OnnxOp, frame: Frame) -> None:
        turns = CONTROL[op.node.op](op)
        self.notes.update({turns.note: None} if turns.note else {})
        state, results = list(turns.carried), list[OnnxValue]()
        for turn in range(turns.count):
            prefix = f"{frame.prefix}{op.node.name or op.node.op}.{turn}/"
            inner = Frame(turns.graph, prefix, {}, frame, frame.attributes, frame.depth)
            counted = [self._known_constant(prefix, (np.array(x),)) for x in (np.int64(turn), True)[: turns.skip * 2]]
            slices = [self._slice(prefix, op, *part) for part in zip(turns.taken, turns.axes, strict=True)]
            names = [info.name for info in turns.graph.inputs]
            inner.values.update(zip(names, [*counted, *state, *slices], strict=False))
            self._enter(inner)
            inside = [inner.find(name) for name in turns.graph.outputs]
            results = [value for value in inside if value is not None]
            if len(results) < len(inside):
                raise UnreadableError(f"{describe_node(op.node)}: no operator of its graph writes its result")
            results = results[turns.skip :]
            state = results[: len(state)]
        if not results:
            raise UnreadableError(f"{describe_node(op.node)}: a loop that never runs")
        if turns.length is not None:
            rest = results[len(state) :]
            axes = turns.piled or [0] * len(rest)
            piles = [self._stack_turns(op, value, turns.length, axis) for value, axis in zip(rest, axes, strict=True)]
            results[len(state) :] = piles
        named = zip(op.node.outputs, results, strict=False)
        frame.values.update({name: value for name, value in named if name})

    def _slice(self, prefix: str, op: OnnxOp, tensor: OnnxValue, axis: int) -> OnnxValue:
        shape, strides = ((*row[:axis], *row[axis + 1 :]) for row in (tensor.meta.shape, tensor.strides))
        meta = operator_graph.Meta(shape, tensor.meta.dtype, tensor.meta.storage)
        value = OnnxValue(self._unique(prefix + tensor.name), meta, strides)
        self._emit(op.node, f"onnx.{op.node.op}", {"self": Ref(tensor.name)}, [value])
        return value

    def _stack_turns(self, op: OnnxOp, value: OnnxValue, length: Poly, axis: int) -> OnnxValue:
        shape = list(value.meta.shape)
        shape.insert(axis % (len(shape) + 1), length)
        pile = self._new(value.name, tuple(shape), value.meta.dtype)
        self._emit(op.node, "aten.stack", {"tensors": [Ref(value.name)]}, [pile])
        return pile


def _resolve_attributes(node: OnnxNode, frame: Frame) -> OnnxNode:
    given = node.attributes
    if not any(isinstance(value, AttributeRef) for value in given.values()):
        return node
    found = {n: frame.attributes.get(x.name) if isinstance(x, AttributeRef) else x for n, x in given.items()}
    return replace(node, attributes={name: value for name, value in found.items() if value is not None})


def load(path: Path, inputs: Sequence[Input] = (), budget: reading_budget.Budget | None = None) -> workload.Workload:
    """Return the workload of an ONNX file. `inputs` gives the sizes that the file leaves open. Raises ModelError."""
    budget = budget or reading_budget.Budget()
    try:
        graph = _graph(read(path, budget), inputs, budget)
        budget.report("lower", 0.0)
        return lower_graph(graph, path.name, "custom", str(path))
    except (UnreadableError, reading_budget.TooMuchError) as error:
        raise type(error)(f"{path.name}: {error}") from None
    except SizeError as error:
        raise UnreadableError(f"{path.name}: {error}") from None
    except (*WRONG, RecursionError) as error:
        raise UnreadableError(f"{path.name}: its graph is malformed ({type(error).__name__})") from None


def _graph(model: OnnxModel, inputs: Sequence[Input], budget: reading_budget.Budget) -> operator_graph.Graph:
    top = model.top
    try:
        return GraphWalk(model, budget, None).graph(top, inputs)
    except TimeFirstError:
        return GraphWalk(model, budget, None, batch_axis=1).graph(top, inputs)
    except UnreadableError as error:
        sizes = [name for info in top.inputs for name in (info.shape or ())[:1] if not isinstance(name, int)]
        if isinstance(error, OpenSizeError) or not sizes:
            raise
        scalars = {info.name for info in top.inputs if info.shape == ()}
        batch = next((item.shape[0] for item in inputs if item.shape and item.name not in scalars), 1)
        fixed = GraphWalk(model, budget, batch).graph(top, inputs)
        return replace(fixed, notes=(*fixed.notes, workload.fixed_note(batch, f"the graph fixes it ({error})")))
