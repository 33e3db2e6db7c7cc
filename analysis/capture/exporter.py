"""Export a module with torch.export and convert the program to a graph of operator calls.

Graphs that calls hold (branches, regions with another precision) are inlined. How long Python holds a result is
observed during the export; if the exporter has no hook for this, lowering infers lifetimes from the modules that a
value is passed into.
"""

import inspect
import operator
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch
from torch.export.graph_signature import InputKind
from torch.fx.experimental import proxy_tensor
from torch.utils._pytree import SUPPORTED_NODES, GetAttrKey, tree_leaves, tree_map

from analysis.capture.torch_settings import NO_GRADIENTS, SPARSE, add_class, export_settings, versions
from analysis.model.ir.operator_graph import Graph, GraphNode, Meta, Ref, Scope, Source, references
from analysis.model.ir.poly import Poly, dim, expression, poly
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, InputSpec
from hardware.known_architectures import TORCH_HOST

# Regions: operators that execute their graph once. Name -> position of the graph and of its first argument.
_REGIONS = {
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "wrap_activation_checkpoint": (0, 1),
    "tag_activation_checkpoint": (0, 1),
    "invoke_subgraph": (0, 2),
    "wrap": (0, 1),
}


class ExportError(Exception):
    """The model cannot be captured; the message is one line for the user. `where` is the stack of the call."""

    where: str = ""


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A result with its final name, kept because its graph may be walked again under another prefix."""

    name: str
    value: Any
    prefix: str


class InnerGraphs:
    """Inlines the graphs inside calls. `calls` walks a graph; `resolve` and `name` then identify a value."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.alias: dict[Any, Any] = {}  # node of an inner graph or a call that holds one -> the value it stands for
        self.prefix: dict[Any, str] = {}
        self.repeats: dict[str, Any] = {}  # prefix of a loop's body -> how often it runs, with the loops around it
        self.stacked: dict[Any, Any] = {}  # loop -> the results of its body, which it joins
        self._storages: dict[Any, int] = {}

    def calls(self, graph: Any) -> Iterator[Any]:
        """Yield the nodes of a graph in order, with inner graphs in place of the calls that hold them."""
        for node in graph.nodes:
            if node.op != "call_function":
                yield node
                continue
            inner = self._inner(node)
            if (called := inner or self._loop(node)) is not None:
                module, arguments = called
                yield from self._enter(module, f"{self.name(node)}.", [self._bound(x) for x in arguments])
                (self.stacked if inner is None else self.alias)[node] = self.alias.pop(module.graph)
            if inner is None and not self._part(node):
                yield node

    def resolve(self, value: Any) -> Any:
        """Return the value behind an alias: a node of the walked graph, a `BoundValue`, or lists of these."""
        while isinstance(value, torch.fx.Node) and value in self.alias:
            value = self.alias[value]
        return value

    def name(self, node: Any) -> str:
        """Return the final name of a node."""
        return self.prefix.get(node.graph, "") + str(node.name)

    def storage(self, value: Any, prefix: str) -> int:
        """Return a number that identifies the memory behind a tensor in the graph of `prefix`."""
        try:
            key: Any = (prefix, value.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):  # a tensor inside vmap has no storage
            key = ("no storage", len(self._storages))
        return self._storages.setdefault(key, len(self._storages))

    # --- calls with an inner graph

    def _inner(self, node: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the inner graph to inline and its arguments, or None for a plain call."""
        kind, arguments = _kind(node), node.args
        if kind == "cond" and len(arguments) == 4:
            branches = [self._module(branch) for branch in arguments[1:3]]
            if None in branches:
                return None
            self.notes.append("the longer branch of each torch.cond is counted")
            return max(branches, key=lambda branch: len(branch.graph.nodes)), tuple(arguments[3])
        if kind == "while_loop" and len(arguments) >= 3:
            body = self._module(arguments[1])
            self.notes.append("a loop whose length depends on the data is counted once")
            extra = tuple(arguments[3]) if len(arguments) > 3 else ()
            return (body, (*arguments[2], *extra)) if body is not None else None
        if kind in _REGIONS:
            place, first = _REGIONS[kind]
            module = self._module(arguments[place]) if len(arguments) > place else None
            return (module, tuple(arguments[first:])) if module is not None else None
        return None

    def _loop(self, node: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the body of a scan or a map and its arguments, None for another call. Each run of the body selects
        its slice of the inputs."""
        if _kind(node) not in ("scan", "map_impl"):
            return None
        module, *given = self._module(node.args[0]), *map(tuple, node.args[1:])
        carried, slices, *extra = given if _kind(node) == "scan" else ((), *given)
        if module is None or not slices:
            return None
        places = [place for place in module.graph.nodes if place.op == "placeholder"]
        for place in places[len(carried) : len(carried) + len(slices)]:
            if not any("selects" in user.meta for user in place.users):
                with module.graph.inserting_after(places[-1]):
                    part = module.graph.call_function(torch.ops.aten.select.int, (place, 0, 0))
                place.replace_all_uses_with(part, delete_user_cb=lambda user, part=part: user is not part)
                part.meta |= place.meta | {"selects": True}
        times = slices[0].meta["val"].shape[0]
        self.repeats[f"{self.name(node)}."] = self.loop(node)[1] * times
        return module, (*carried, *slices, *(value for values in extra for value in values))

    def loop(self, node: Any) -> tuple[str, Any]:
        """Return the prefix of the innermost loop around a node and how often its body runs; '' and 1 without one."""
        own = self.prefix.get(node.graph, "")
        return max(((key, n) for key, n in self.repeats.items() if own.startswith(key)), default=("", 1))

    def _module(self, node: Any) -> Any:
        node = self.resolve(node)
        if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
            return None
        module = node.graph.owning_module
        for part in str(node.target).split("."):
            module = getattr(module, part, None)
        return module if isinstance(module, torch.fx.GraphModule) else None

    # --- inlining

    def _bound(self, value: Any) -> Any:
        value = self.resolve(value)
        if isinstance(value, (list, tuple)):
            return [self._bound(item) for item in value]
        if isinstance(value, torch.fx.Node) and value.op != "get_attr":
            prefix = self.prefix.get(value.graph, "")
            return BoundValue(prefix + str(value.name), value.meta.get("val"), prefix)
        return value

    def _enter(self, module: Any, prefix: str, arguments: Sequence[Any]) -> Iterator[Any]:
        """Yield the nodes of an inner graph, executed once. Store its results in `alias` under the graph."""
        graph = module.graph
        self.prefix[graph] = prefix
        places = [node for node in graph.nodes if node.op == "placeholder"]
        for place, argument in zip(places, arguments, strict=False):
            self.alias[place] = argument
            self._same_memory(place.meta.get("val"), prefix, argument)
        for node in self.calls(graph):
            if node.op == "output":
                self.alias[graph] = self._bound(node.args[0])
            elif node.op != "placeholder":
                yield node

    def _same_memory(self, inside: Any, prefix: str, argument: Any) -> None:
        """Give the placeholder of an inner graph the memory of its argument."""
        if (
            isinstance(inside, torch.Tensor)
            and isinstance(argument, BoundValue)
            and isinstance(argument.value, torch.Tensor)
        ):
            number = self.storage(argument.value, argument.prefix)
            self._storages[prefix, inside.untyped_storage()._cdata] = number

    def _part(self, node: Any) -> bool:
        """Bind a `getitem` of an inlined call to the selected result. Return False for any other node."""
        if getattr(node.target, "__name__", "") != "getitem":
            return False
        results = self.resolve(node.args[0])
        if not isinstance(results, list):
            return False
        self.alias[node] = results[node.args[1]]
        return True


def _kind(node: Any) -> str:
    return getattr(node.target, "__name__", "") if isinstance(node.target, torch._ops.HigherOrderOperator) else ""


class TensorLifetimes:
    """Records the calls of each traced graph in order and, per call, the newest one when its result was released."""

    def __init__(self) -> None:
        self._order: dict[Any, list[str]] = {}
        self._until: dict[Any, dict[str, str]] = {}
        self.is_open = True

    def record_call(self, result: Any, node: Any) -> None:
        """Record a call now, and the release of its result when it happens."""
        graph, name = node.graph, node.name
        self._order.setdefault(graph, []).append(name)
        weakref.finalize(result, self._record_release, graph, name)

    def _record_release(self, graph: Any, name: str) -> None:
        if self.is_open:
            self._until.setdefault(graph, {})[name] = self._order[graph][-1]

    def last_calls(self, graph: Any) -> dict[str, str]:
        """Return for each call the last call of this graph during which its result is held. Empty if the graph was not
        traced. Traced calls that the graph lacks are skipped."""
        names = [node.name for node in graph.nodes]
        traced = max(self._order, key=lambda each: len({*names} & {*self._order[each]}), default=None)
        if not names or traced is None:
            return {}
        last_kept, newest = {}, ""
        for name in self._order[traced]:
            newest = name if name in names else newest
            last_kept[name] = newest
        until = self._until.get(traced, {})
        held = {name: last_kept[until[name]] if name in until else newest for name in last_kept if name in names}
        return {name: last for name, last in held.items() if last}


@contextmanager
def watch_lifetimes() -> Iterator[TensorLifetimes]:
    """Watch the exports inside the context."""
    held, track = TensorLifetimes(), getattr(proxy_tensor, "track_tensor", None)
    if track is None:
        yield held
        return

    def _track_and_record(tensor: Any, proxy: Any, **options: Any) -> Any:
        done = track(tensor, proxy, **options)
        if hasattr(proxy, "node"):
            held.record_call(tensor, proxy.node)
        return done

    with patch.object(proxy_tensor, "track_tensor", _track_and_record):
        yield held
    held.is_open = False


MAX_BATCH = 65536
Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def export(
    module: Any,
    inputs: Sequence[Any],
    names: Sequence[str] = (),
    batch_dims: Sequence[int | None] | None = None,
    keywords: Mapping[str, Any] | None = None,
    most: int = MAX_BATCH,
) -> Graph:
    """Return the operator graph of `module` in evaluation mode. `batch_dims` gives the batch dimension of each input
    tensor, by default 0. The graph holds for batches up to `most`."""
    labels = _labels(module)
    parameters = sum({_identity(tensor): tensor.numel() for tensor in module.parameters()}.values())
    with suppress(NotImplementedError):  # an exported module cannot change its mode
        module = module.eval()
    batch = torch.export.Dim("batch", min=1, max=most)
    given = (tuple(inputs), dict(keywords or {}))
    if batch_dims is None:
        batch_dims = [0 if value.dim() else None for value in tensors_in(given)]
    positions = iter(batch_dims)
    live = tree_map(lambda value: _live(value, positions, batch), given, is_leaf=_is_object)
    with (
        export_settings(),
        _constant_buffers(module),
        _without_collected_keywords(module, given),
        _symbolic_lengths(module),
    ):
        if any(p.device.type == "meta" for p in module.parameters()):
            module = module.to("meta")
        shapes = dict(inspect.signature(module.forward).bind(*live[0], **live[1]).arguments)
        with watch_lifetimes() as held:
            program = torch.export.export(module, *given, dynamic_shapes=shapes, strict=False)
        if _calls(program, "_make_dual"):
            raise ExportError(NO_GRADIENTS)
        if _calls(program, "_add_batch_dim"):  # inside a vmap, shapes lack the mapped dimension
            program = program.run_decompositions({})
    return replace(graph_of(program, labels, parameters, names), held=held.last_calls(program.graph))


@contextmanager
def _constant_buffers(module: Any) -> Iterator[None]:
    """Take the integers that modules keep in buffers for constants: sizes and branches may depend on them."""
    named = [(part, name, value) for part in module.modules() for name, value in part._buffers.items()]
    numbers = {
        (id(part), name): (value.tolist(), value.dtype)
        for part, name, value in named
        if value is not None and value.numel() == 1 and not value.is_floating_point() and not value.is_meta
    }

    def _number(name: str, part: Any) -> Any:
        if (id(part), name) not in numbers:
            raise AttributeError(name)  # torch then looks among the buffers
        value, dtype = numbers[id(part), name]
        return torch.tensor(value, dtype=dtype)

    def _write(name: str, part: Any, value: Any) -> None:
        numbers.pop((id(part), name), None)
        part._buffers[name] = value

    with ExitStack() as stack:
        for part, name, _ in named:
            if (id(part), name) in numbers:
                access = property(partial(_number, name), partial(_write, name))
                stack.enter_context(patch.object(type(part), name, access, create=True))
                del part._buffers[name]
        try:
            yield
        finally:
            for part, name, value in named:
                part._buffers.setdefault(name, value)


def tensors_in(given: Any) -> list[Any]:
    """Return the tensors among inputs, in order."""
    return [value for value in tree_leaves(given) if isinstance(value, torch.Tensor)]


def _live(value: Any, positions: Iterator[int | None], batch: Any) -> Any:
    """Return the `dynamic_shapes` of an input: {dimension: batch} or None; a list of these for an object of tensors."""
    if _is_object(value):
        return [_live(tensor, positions, batch) for tensor in tree_leaves(value)]
    position = next(positions) if isinstance(value, torch.Tensor) else None
    return None if position is None else {position: batch}


def _is_object(value: Any) -> bool:
    return type(value) in SUPPORTED_NODES and not isinstance(value, (tuple, list, dict, deque))


@contextmanager
def _without_collected_keywords(module: Any, given: Inputs) -> Iterator[None]:
    """Give each input collected in `**kwargs` a named parameter: torch takes no dynamic shapes for a collection."""
    forward, kinds = module.forward, inspect.Parameter
    signature = inspect.signature(forward)
    collected = [name for name in given[1] if name not in signature.parameters]
    if not collected:
        yield
        return
    usual = [parameter for parameter in signature.parameters.values() if parameter.kind is not kinds.VAR_KEYWORD]

    def _plain(*args: Any, **keywords: Any) -> Any:
        return forward(*args, **keywords)

    own = [kinds(name, kinds.KEYWORD_ONLY) for name in collected]
    _plain.__signature__ = signature.replace(parameters=[*usual, *own])  # type: ignore[attr-defined]
    with patch.object(module, "forward", _plain):
        yield


@contextmanager
def _symbolic_lengths(module: Any) -> Iterator[None]:
    """Let `len` of a tensor be a symbolic size in the modules of the user's classes: Python's `len` is a constant."""

    def _length(value: Any) -> Any:
        return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)

    names = {type(part).__module__ for part in module.modules()}
    own = [name for name in names if name in sys.modules and name.partition(".")[0] != "torch"]
    with ExitStack() as stack:
        for name in own:
            if "len" not in vars(sys.modules[name]):
                stack.enter_context(patch.object(sys.modules[name], "len", _length, create=True))
        yield


def register_objects(given: Any) -> None:
    """Let torch see the tensors that are attributes of objects among inputs."""
    for leaf in tree_leaves(given):
        has_tensors = any(isinstance(value, torch.Tensor) for value in getattr(leaf, "__dict__", {}).values())
        if has_tensors and not isinstance(leaf, (torch.Tensor, torch.nn.Module)):
            register_class(type(leaf))


def register_class(kind: Any) -> None:
    """Let torch see the tensors that are attributes of objects of a class."""

    def _rebuild(values: Any, names: Any) -> Any:
        made = object.__new__(kind)
        vars(made).update(zip(names, values, strict=True))
        return made

    def _flatten_with_names(value: Any) -> Any:
        return [(GetAttrKey(name), part) for name, part in vars(value).items()], list(vars(value))

    def _flatten(value: Any) -> Any:
        return list(vars(value).values()), list(vars(value))

    add_class(kind, _flatten, _rebuild, _flatten_with_names)


def _calls(program: Any, name: str) -> bool:
    """Return True if the program or a graph inside it calls a function of this name."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    calls = (node.target for graph in graphs for node in graph.nodes if node.op == "call_function")
    return any(getattr(target, "__name__", "").partition(".")[0] == name for target in calls)


def _labels(module: Any) -> dict[str, str]:
    """Map every name of a parameter or buffer to the first name of that tensor, so that tied weights are one."""
    first: dict[Any, str] = {}
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: first.setdefault(_identity(tensor), name) for name, tensor in named}


def _identity(tensor: Any) -> Any:
    """Return a key that tied weights share: address and shape, or the tensor's id if it has no address on the host."""
    memory = tensor.data_ptr() if tensor.device.type == TORCH_HOST else 0
    return (memory, tensor.shape) if memory else id(tensor)


def graph_of(program: Any, labels: dict[str, str], parameters: int, names: Sequence[str] = ()) -> Graph:
    """Return the operator graph of an exported program."""
    walk = _Walk({spec.arg.name: program.constants.get(spec.target) for spec in program.graph_signature.input_specs})
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if hasattr(spec.arg, "name")}
    sources: list[Source] = []
    nodes: list[GraphNode] = []
    inputs: list[InputSpec] = []
    outputs: tuple[str, ...] = ()
    for fx_node in walk.inline.calls(program.graph):
        if fx_node.op == "placeholder":
            value = fx_node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            spec = specs[fx_node.name]
            if spec.kind is InputKind.USER_INPUT:
                name = names[len(inputs)] if len(inputs) < len(names) else fx_node.name
                walk.learn_dims(value)
                inputs.append(InputSpec(name, _dtype(value), tuple(walk.size(s).label for s in value.shape)))
                sources.append(Source(fx_node.name, name, INPUT, walk.meta(value)))
            else:
                role = WEIGHT if spec.kind is InputKind.PARAMETER else BUFFER
                label = labels.get(spec.target, spec.target or fx_node.name)
                sources.append(Source(fx_node.name, label, role, walk.meta(value)))
        elif fx_node.op == "call_function":
            try:
                node = walk.node(fx_node)
            except ExportError as error:
                error.where = fx_node.meta.get("stack_trace") or ""
                raise
            if node is not None:
                nodes.append(node)
        elif fx_node.op == "output":
            outputs = tuple(ref.name for ref in references(walk.value(list(fx_node.args[0]))))
    known = {source.name for source in sources} | {node.name for node in nodes}
    return Graph(
        sources=tuple(sources),
        nodes=tuple(nodes),
        outputs=tuple(name for name in outputs if name in known),
        parameters=parameters,
        inputs=tuple(inputs),
        notes=tuple(dict.fromkeys(walk.inline.notes)),
        versions=versions(),
        repeats={prefix.rstrip("."): walk.size(times) for prefix, times in walk.inline.repeats.items()},
    )


class _Walk:
    """Converts torch values. `symbols` maps the symbolic sizes of the inputs to polynomials, `constants` the names of
    the module's own tensors that are no parameters or buffers."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self.constants = constants
        self.symbols: dict[str, Poly] = {}
        self.inline = InnerGraphs()

    def learn_dims(self, value: Any) -> None:
        """Bind the one symbol among the sizes of the inputs to the batch."""
        for size in value.shape:
            if isinstance(size, torch.SymInt):
                self.symbols.setdefault(str(size.node.expr), dim("batch"))

    def size(self, size: Any) -> Poly:
        """Return a size as a polynomial. Raises ExportError if it does not follow from the batch."""
        if not isinstance(size, torch.SymInt):
            return poly(int(size))
        try:
            return expression(str(size.node.expr), self.symbols)
        except ValueError as error:
            raise ExportError(f"{error}; a size must follow from the batch ({size})") from error

    def meta(self, value: Any, prefix: str = "") -> Meta:
        """Return the description of a tensor. `prefix` names the inner graph that holds the tensor."""
        if value.layout is not torch.strided:  # its work depends on its values
            raise ExportError(SPARSE)
        shape = tuple(self.size(size) for size in value.shape)
        return Meta(shape, _dtype(value), self.inline.storage(value, prefix), self._is_flat(value, shape))

    def _is_flat(self, value: Any, shape: tuple[Poly, ...]) -> bool:
        rows = [(size, stride) for size, stride in zip(shape, value.stride(), strict=True) if size != poly(1)][:-1]
        try:
            known = [(size, self.size(stride)) for size, stride in rows]
        except ExportError:  # a stride such as Min(8, 8*batch) is unknown: assume that no copy is made
            return True
        return all(outer == inner * size for (_, outer), (size, inner) in pairwise(known))

    def node(self, fx_node: Any) -> GraphNode | None:
        """Return the node of a call, or None for bookkeeping (size arithmetic, assertions)."""
        value = fx_node.meta.get("val")
        values = value if isinstance(value, (list, tuple)) else [value]
        tensors = [item for item in values if isinstance(item, torch.Tensor)]
        if not tensors:
            return None
        return GraphNode(
            name=self.inline.name(fx_node),
            target=_target(fx_node.target),
            args=self._arguments(fx_node),
            outputs=tuple(self.meta(item, self.inline.prefix.get(fx_node.graph, "")) for item in tensors),
            scopes=self._scopes(fx_node),
            multiple=isinstance(value, (list, tuple)),
        )

    def _scopes(self, fx_node: Any) -> tuple[Scope, ...]:
        prefix, own = self.inline.loop(fx_node)[0], _scopes(fx_node)
        return (Scope(prefix, prefix.rstrip("."), "Loop"), *own) if prefix else own

    def _arguments(self, fx_node: Any) -> dict[str, Any]:
        if fx_node in self.inline.stacked:
            return {"parts": self.value(self.inline.stacked[fx_node])}
        if fx_node.target is operator.getitem:
            return {"self": self.value(fx_node.args[0]), "index": int(fx_node.args[1])}
        schema = getattr(fx_node.target, "_schema", None)
        if schema is None:
            own = {"share": self._block_share(fx_node.args[4])} if _kind(fx_node) == "flex_attention" else {}
            return {str(i): self.value(value) for i, value in enumerate(fx_node.args)} | own
        names = [argument.name for argument in schema.arguments]
        given = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
        given |= fx_node.kwargs | dict(zip(names, fx_node.args, strict=False))
        return {name: self.value(given[name]) for name in names if name in given}

    def _block_share(self, mask: Any) -> float:
        """Return the share of the blocks of queries and keys that a mask of flex_attention leaves, 1 if unknown."""
        partly, whole = (self.constants.get(getattr(mask[i], "name", "")) for i in (2, 4))
        if partly is None or partly.is_meta or mask[1] is None:
            self.inline.notes.append("flex_attention without a constant block mask: all blocks are counted")
            return 1.0
        left = partly.sum() + (0 if whole is None else whole.sum())
        return float(left) / float(partly.numel() * -(-int(mask[1]) // int(mask[-2])))

    def value(self, value: Any) -> Any:
        """Return an argument in the types of the operator graph: Ref, Poly, plain value, text, or a list of these."""
        value = self.inline.resolve(value)
        if isinstance(value, torch.fx.Node):
            if value.op == "get_attr":  # an inner graph of a call
                return str(value.target)
            return self._result(self.inline.name(value), value.meta.get("val"))
        if isinstance(value, BoundValue):
            return self._result(value.name, value.value)
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        return str(value)  # dtypes, devices, layouts

    def _result(self, name: str, value: Any) -> Any:
        """Return a tensor by name, a size, or a placeholder text for a number that depends on tensor values."""
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return self.size(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool, float, bool)):
            return "a number"
        return Ref(name)


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _target(target: Any) -> str:
    is_operator = isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))
    return str(target) if is_operator else str(target.__name__)


def _scopes(fx_node: Any) -> tuple[Scope, ...]:
    stack = fx_node.meta.get("nn_module_stack") or {}
    return tuple(
        Scope(key, path.split("@")[0], (kind if isinstance(kind, str) else kind.__qualname__).rpartition(".")[2])
        for key, (path, kind) in stack.items()
        if not key.startswith("_empty")
    )
