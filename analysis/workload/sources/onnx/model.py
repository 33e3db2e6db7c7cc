"""An ONNX file as a workload: its graph walked once with a live batch. Nothing is executed, no library is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...graph import Graph, InputShape, Meta, Node, Ref, Source
from ...lower import lower
from ...poly import Poly, dim, poly
from ...targets import Input, fixed_note
from ...workload import BUFFER, INPUT, WEIGHT, Workload
from ..pt2_sizes import expression, layout
from .control import Enter, bodies
from .file import FLOATS, AttributeRef, Function, OnnxError, OnnxGraph, OnnxModel, OnnxNode, TensorInfo, ValueInfo, read
from .fold import folded
from .inputs import OpenSizeError, shapes_of
from .lists import LISTS, part_of, parts_of, split_of
from .names import label, scopes_of, where
from .op import Known, Made, Op, Result, Shape, Value, as_known, contiguous, shape_of
from .operators import handler_of

_MAX_CALLS = 50_000
_QUANTISED = frozenset(("int8", "uint8", "int4", "uint4"))
# Inputs that are no parameters: statistics, scales and zero points.
_NOT_TRAINED = {
    "BatchNormalization": (3, 4), "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2), "ConvInteger": (2, 3),
    "MatMulInteger": (2, 3), "QLinearConv": (1, 2, 4, 5, 6, 7), "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearAdd": (1, 2, 4, 5, 6, 7), "QLinearMul": (1, 2, 4, 5, 6, 7), "MatMulNBits": (2, 3), "Resize": (1, 2, 3),
}  # fmt: skip
_WRONG = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, ZeroDivisionError)


def load(path: Path, asked: Sequence[Input] = ()) -> Workload:
    """The workload of an ONNX file. `asked` gives the sizes that the file leaves open. Raises an `OnnxError`."""
    try:
        model = read(path)
        graph = _graph(model, asked)
        return lower(graph, path.name, "custom", str(path))
    except OnnxError as error:
        raise OnnxError(f"{path.name}: {error}") from None
    except (*_WRONG, RecursionError) as error:
        raise OnnxError(f"{path.name}: its graph is malformed ({type(error).__name__})") from None


def _graph(model: OnnxModel, asked: Sequence[Input]) -> Graph:
    """For any batch where the graph allows it, else at one."""
    try:
        return _Walk(model, asked, None).graph()
    except OnnxError as error:
        sizes = [name for info in model.graph.inputs for name in (info.shape or ())[:1] if not isinstance(name, int)]
        if isinstance(error, OpenSizeError) or not sizes:
            raise
        batch = asked[0].shape[0] if asked else 1
        try:
            fixed = _Walk(model, asked, batch).graph()
        except OnnxError:
            raise error from None
        return replace(fixed, notes=(*fixed.notes, fixed_note(batch, f"the graph fixes it ({error})")))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Names inside one graph, function or loop turn -> values; what is not found here is looked up outside."""

    prefix: str
    values: dict[str, Value]
    outer: _Frame | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        frame: _Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            frame = frame.outer
        return None


class _Walk:
    """One reading of the graph. `batch` is None for a live one."""

    def __init__(self, model: OnnxModel, asked: Sequence[Input], batch: int | None) -> None:
        self.model = model
        self.asked = asked
        self.batch = dim("batch") if batch is None else poly(batch)
        self.symbols: dict[str, Poly] = {}
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        self.notes: dict[str, None] = {}
        self.declared: dict[str, ValueInfo] = {}
        self.storages = 0
        self.names = 0
        self.calls = 0
        self.parameters: dict[str, int] = {}

    def graph(self) -> Graph:
        graph = self.model.graph
        top = _Frame("", {})
        inputs = self._inputs(top)
        self._enter(graph, top)
        outputs = [found.name for info in graph.outputs if (found := top.find(info.name)) is not None]
        if inputs and not any("batch" in item.shape for item in inputs) and self.batch == dim("batch"):
            leading = {item.shape[0] for item in inputs if item.shape}
            number = leading.pop() if len(leading) == 1 else 1
            self.notes[fixed_note(int(number), "the file gives inputs of fixed size (export it with a free batch)")] = (
                None
            )
        return Graph(
            sources=tuple(self.sources),
            nodes=tuple(self.nodes),
            outputs=tuple(outputs),
            parameters=sum(self.parameters.values()),
            inputs=tuple(inputs),
            notes=tuple(self.notes),
            versions={"onnx opset": str(self.model.opset), "producer": self.model.producer},
        )

    # --- what goes in

    def _inputs(self, top: _Frame) -> list[InputShape]:
        stored = {tensor.name for tensor in self.model.graph.initializers}
        declared = [info for info in self.model.graph.inputs if info.name not in stored]
        self.symbols, shapes = shapes_of(declared, self.asked, self.batch)
        found = []
        for info, shape in zip(declared, shapes, strict=True):
            value = self._new(info.name, shape, info.dtype)
            top.values[info.name] = value
            self.sources.append(Source(value.name, info.name, INPUT, value.meta))
            found.append(InputShape(info.name, info.dtype, tuple(label(size) for size in shape)))
        return found

    def _stored(self, tensors: Sequence[TensorInfo], frame: _Frame, untrained: frozenset[str]) -> None:
        for tensor in tensors:
            frame.values[tensor.name] = self._constant(tensor, frame.prefix + tensor.name, tensor.name in untrained)

    def _constant(self, tensor: TensorInfo, name: str, untrained: bool) -> Value:
        is_number = tensor.dtype in FLOATS or tensor.dtype in _QUANTISED
        is_weight = is_number and bool(tensor.shape) and not untrained
        value = self._new(name, shape_of(tensor.shape), tensor.dtype, as_known(tensor), is_weight)
        if is_weight:
            self.parameters[value.name] = value.meta.numel.constant()
        self.sources.append(Source(value.name, name, WEIGHT if is_weight else BUFFER, value.meta))
        return value

    # --- graphs

    def _enter(self, graph: OnnxGraph, frame: _Frame) -> None:
        untrained = frozenset(
            name
            for node in graph.nodes
            for place in _NOT_TRAINED.get(node.op, ())
            for name in node.inputs[place : place + 1]
        )
        self._stored(graph.initializers, frame, untrained)
        self.declared.update({frame.prefix + info.name: info for info in (*graph.values, *graph.outputs)})
        for node in graph.nodes:
            self._node(node, frame)

    def _node(self, node: OnnxNode, frame: _Frame) -> None:
        self._count()
        node = _resolved(node, frame)
        function = self.model.functions.get((node.domain, node.op))
        if function is not None:
            self._function(function, node, frame)
            return
        op = Op(node, tuple(self._input(name, frame, node) for name in node.inputs), self.model.opset)
        if node.op in ("If", "Loop", "Scan") and not node.domain:
            self._control(op, frame)
            return
        if (
            node.op == "Constant"
            and isinstance(tensor := node.attributes.get("value"), TensorInfo)
            and tensor.values is None
        ):
            frame.values[node.outputs[0]] = self._constant(tensor, frame.prefix + node.outputs[0], False)
            return
        if node.op in LISTS and not node.domain:
            self._list(op, frame)
            return
        known = folded(op)
        if known is not None:
            frame.values[node.outputs[0]] = self._settled(frame.prefix + node.outputs[0], known, node, op)
            return
        self._call(op, self._result(op, frame), frame)

    def _count(self) -> None:
        self.calls += 1
        if self.calls > _MAX_CALLS:
            raise OnnxError(f"more than {_MAX_CALLS:,} calls, loops laid out")

    def _input(self, name: str, frame: _Frame, node: OnnxNode) -> Value | None:
        if not name:
            return None
        found = frame.find(name)
        if found is None:
            raise OnnxError(f"{where(node)} reads {name[:40]!r}, which nothing makes")
        return found

    def _result(self, op: Op, frame: _Frame) -> Result:
        """By the operator's rule; else what the file declares about its results, without a cost."""
        handler = handler_of(op.node.domain, op.node.op)
        reason = "it has no rule here"
        if handler is not None:
            try:
                return handler(op)
            except OnnxError:
                raise
            except _WRONG as error:
                reason = str(error) or type(error).__name__
        made = [self._declared(frame.prefix + name) for name in op.node.outputs if name]
        if not made or None in made:
            raise OnnxError(f"{where(op.node)}: the shape of its result cannot be told: {reason[:160]}")
        refs = [Ref(value.name) for value in op.inputs if value is not None]
        unknown = f"{op.node.domain or 'onnx'}.{op.node.op}"
        return Result(tuple(item for item in made if item is not None), unknown, {"tensors": refs})

    def _declared(self, name: str) -> Made | None:
        info = self.declared.get(name)
        if info is None or info.shape is None or None in info.shape:
            return None
        try:
            shape = [
                poly(size) if isinstance(size, int) else expression(str(size), self.symbols) for size in info.shape
            ]
        except ValueError:
            return None
        return Made(tuple(shape), info.dtype)

    def _call(self, op: Op, result: Result, frame: _Frame) -> None:
        if result.note:
            self.notes[result.note] = None
        names = [name for name in op.node.outputs[: len(result.outputs)] if name]
        pairs = [(name, made) for name, made in zip(op.node.outputs, result.outputs, strict=False) if name]
        values = [self._made(frame.prefix + name, made, op) for name, made in pairs]
        frame.values.update(zip(names, values, strict=True))
        if result.target:
            self._emit(op.node, result.target, result.args, values)
        else:
            self._emit(op.node, f"onnx.{op.node.op}", {"self": op.ref(0)}, values)

    def _made(self, name: str, made: Made, op: Op) -> Value:
        if made.strides is None:
            return self._new(name, made.shape, made.dtype)
        base = op.value(made.of)
        meta = Meta(made.shape, made.dtype, base.meta.storage)
        known = base.known if base.meta.shape == made.shape else None
        return Value(self._unique(name), meta, made.strides, known, base.is_weight)

    def _emit(self, node: OnnxNode, target: str, args: dict[str, Any], values: list[Value]) -> None:
        scopes = scopes_of(node)
        metas = tuple(value.meta for value in values)
        if len(values) == 1:
            self.nodes.append(Node(values[0].name, target, args, metas, scopes))
            return
        whole = self._unique(f"{node.name or node.op}#")
        self.nodes.append(Node(whole, target, args, metas, scopes, multiple=True))
        for place, value in enumerate(values):
            getitem = {"self": Ref(whole), "index": place}
            self.nodes.append(Node(value.name, "getitem", getitem, (value.meta,), scopes))

    def _settled(self, name: str, known: Known, node: OnnxNode, op: Op) -> Value:
        """A value that the file and the shapes settle: a constant of the model, whoever reads it."""
        dtype = "int64"
        if node.op == "Constant":
            dtype = next((x.dtype for x in node.attributes.values() if isinstance(x, TensorInfo)), "float32")
        elif op.inputs and op.inputs[0] is not None and node.op not in ("Shape", "Size", "ConstantOfShape"):
            dtype = op.dtype()
        value = self._new(name, shape_of(known.shape), dtype, known)
        self.sources.append(Source(value.name, name, BUFFER, value.meta))
        return value

    def _new(self, name: str, shape: Shape, dtype: str, known: Known | None = None, is_weight: bool = False) -> Value:
        self.storages += 1
        dtype = dtype.replace("uint4", "uint8").replace("int4", "int8") if dtype in ("int4", "uint4") else dtype
        strides = contiguous(layout(shape, ())[0])
        return Value(self._unique(name), Meta(shape, dtype, self.storages), strides, known, is_weight)

    def _unique(self, name: str) -> str:
        """A name of its own in the neutral graph: files need not keep theirs apart."""
        self.names += 1
        return f"{name}@{self.names}"

    # --- graphs inside nodes

    def _function(self, function: Function, node: OnnxNode, frame: _Frame) -> None:
        if frame.prefix.count("/") > 32:
            raise OnnxError(f"the function {function.name[:40]} calls itself")
        values = {
            name: found
            for name, given in zip(function.inputs, node.inputs, strict=False)
            if (found := self._input(given, frame, node))
        }
        inner = _Frame(f"{frame.prefix}{node.name or node.op}/", values, None, function.defaults | node.attributes)
        graph = OnnxGraph(function.nodes)
        self._enter(graph, inner)
        for given, name in zip(node.outputs, function.outputs, strict=False):
            if given and (found := inner.find(name)) is not None:
                frame.values[given] = found

    def _list(self, op: Op, frame: _Frame) -> None:
        """A list is its parts; what makes and joins them are nodes like any other."""
        name = op.node.outputs[0]
        try:
            if op.node.op == "SequenceAt":
                frame.values[name] = part_of(op)
                return
            if op.node.op == "SplitToSequence":
                node = split_of(op)
                self._node(node, frame)
                parts = tuple(frame.values[part] for part in node.outputs)
            elif op.node.op == "ConcatFromSequence":
                names = tuple(f"{name}[{place}]" for place in range(len(op.value(0).parts)))
                frame.values.update(zip(names, op.value(0).parts, strict=True))
                self._node(
                    replace(op.node, op="Stack" if op.int_attr("new_axis", 0) else "Concat", inputs=names), frame
                )
                return
            else:
                parts = parts_of(op)
        except _WRONG as error:
            raise OnnxError(f"{where(op.node)}: {error or type(error).__name__}") from None
        frame.values[name] = replace(self._new(name, (), "float32"), parts=parts)

    def _control(self, op: Op, frame: _Frame) -> None:
        """A branch or the turns of a loop in place of the node."""
        results: list[Value] = []
        for turn in bodies(op):
            if turn.note:
                self.notes[turn.note] = None
            results = self._turn(op, turn, frame, results)
        if not results:
            raise OnnxError(f"{where(op.node)}: a loop that never runs")
        frame.values.update({name: value for name, value in zip(op.node.outputs, results, strict=False) if name})

    def _turn(self, op: Op, turn: Enter, frame: _Frame, carried: list[Value]) -> list[Value]:
        self._count()
        inner = _Frame(f"{frame.prefix}{op.node.name or op.node.op}.{turn.index}/", {}, frame)
        given = turn.inputs(op, carried)
        for info, value in zip(turn.graph.inputs, given, strict=False):
            if isinstance(value, Value):
                inner.values[info.name] = value
            elif isinstance(value, Made):
                fresh = self._new(inner.prefix + info.name, value.shape, value.dtype)
                self._emit(op.node, "aten.select", {"self": op.ref(value.of)}, [fresh])
                inner.values[info.name] = fresh
            else:
                inner.values[info.name] = self._settled(inner.prefix + info.name, value, op.node, Op(op.node, (), 0))
        self._enter(turn.graph, inner)
        found = [inner.find(info.name) for info in turn.graph.outputs]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            raise OnnxError(f"{where(op.node)}: a result of its graph is made by nothing")
        if not turn.is_last:
            return values
        finished = []
        for value, stacked in zip(values[turn.skip :], turn.stacked(len(values) - turn.skip), strict=False):
            if stacked is None:
                finished.append(value)
                continue
            whole = self._new(value.name, (stacked, *value.meta.shape), value.meta.dtype)
            self._emit(op.node, "aten.stack", {"tensors": [Ref(value.name)]}, [whole])
            finished.append(whole)
        return finished


def _resolved(node: OnnxNode, frame: _Frame) -> OnnxNode:
    """Attributes that name those of the function's caller are these."""
    if not any(isinstance(found, AttributeRef) for found in node.attributes.values()):
        return node
    given = {
        name: frame.attributes.get(found.name) if isinstance(found, AttributeRef) else found
        for name, found in node.attributes.items()
    }
    return replace(node, attributes={name: found for name, found in given.items() if found is not None})
