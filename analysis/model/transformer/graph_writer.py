"""Write a graph call by call, with the module of each call, as a tracer does. Sizes are those of one device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.model.ir.operator_graph import Graph, GraphNode, Meta, Ref, Scope, Source, meta
from analysis.model.ir.poly import Poly, dim
from analysis.model.ir.workload import BUFFER, FIXED_FP32, INPUT, WEIGHT, InputSpec, attended_dim, cached_dim
from analysis.model.transformer.config import Config, StepSettings

Shape = Sequence[Poly | int]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the graph by name, with its shape and dtype."""

    name: str
    meta: Meta

    @property
    def shape(self) -> tuple[Poly, ...]:
        """The sizes."""
        return self.meta.shape


class Writer:
    """The sources and calls written so far. Calls are numbered; weights are named by module and leaf."""

    def __init__(self, root: str) -> None:
        self.sources: list[Source] = []
        self.nodes: list[GraphNode] = []
        self.parameters = 0
        self._scopes: tuple[Scope, ...] = (Scope("", "", root),)
        self._phase = ""
        self._weights: dict[str, Tensor] = {}
        self._storages = 0

    @contextmanager
    def module(self, name: str, kind: str) -> Iterator[None]:
        """Write the calls of the `with` block in a module below the current one."""
        outer = self._scopes
        path = self._path(name)
        self._scopes = (*outer, Scope(path, path, kind))
        try:
            yield
        finally:
            self._scopes = outer

    @contextmanager
    def phase(self, name: str, kind: str) -> Iterator[None]:
        """Write the calls of the `with` block in a module that weight names omit: phases share their weights."""
        with self.module(name, kind):
            self._phase = f"{name}."
            yield
            self._phase = ""

    def _path(self, name: str) -> str:
        return f"{self._scopes[-1].path}.{name}".lstrip(".")

    def _storage(self) -> int:
        self._storages += 1
        return self._storages

    def weight(self, leaf: str, shape: Shape, dtype: str = "float32") -> Tensor:
        """Return a parameter of the current module; all phases share it."""
        return self._shared_tensor(self._path(leaf).removeprefix(self._phase), shape, WEIGHT, dtype)

    def buffer(self, label: str, shape: Shape) -> Tensor:
        """Return an untrained table of the model; modules that use the same label share it."""
        return self._shared_tensor(label, shape, BUFFER)

    def input(self, name: str, shape: Shape, dtype: str = "float32") -> Tensor:
        """Add an input of the model."""
        return self._source(name, meta(tuple(shape), self._storage(), dtype), INPUT)

    def state(self, name: str, shape: Shape, dtype: str = "float32") -> Tensor:
        """Return an input that `update` overwrites; all phases share it."""
        return self._shared_tensor(name, shape, INPUT, dtype)

    def _shared_tensor(self, label: str, shape: Shape, role: int, dtype: str = "float32") -> Tensor:
        return self._weights.get(label) or self._source(label, meta(tuple(shape), self._storage(), dtype), role)

    def _source(self, label: str, description: Meta, role: int) -> Tensor:
        value = Tensor(label, description)
        self._weights[label] = value
        self.sources.append(Source(label, label, role, description))
        if role == WEIGHT:
            self.parameters += description.numel.constant()
        return value

    def call(self, target: str, shape: Shape, /, **args: Any) -> Tensor:
        """Write a call with one new result."""
        return self.calls(target, [shape], **args)[0]

    def call_in(self, module: str, kind: str, target: str, shape: Shape, /, **args: Any) -> Tensor:
        """Write a call with one new result inside a new module."""
        with self.module(module, kind):
            return self.call(target, shape, **args)

    def calls(self, target: str, shapes: Sequence[Shape], dtypes: Sequence[str] = (), /, **args: Any) -> list[Tensor]:
        """Write a call with several new results."""
        kinds = dtypes or ("float32",) * len(shapes)
        results = [meta(tuple(shape), self._storage(), kind) for shape, kind in zip(shapes, kinds, strict=True)]
        return self._add(target, results, args)

    def update(self, target: str, shape: Shape, state: Tensor, /, **args: Any) -> Tensor:
        """Write a call with one new result that also overwrites `state`."""
        return self._add(target, [meta(tuple(shape), self._storage()), state.meta], {"state": state, **args})[0]

    def overwrite(self, target: str, value: Tensor, /, **args: Any) -> Tensor:
        """Write a call whose result takes the place of a tensor."""
        return self._add(target, [value.meta], {"self": value, **args})[0]

    def view(self, value: Tensor, shape: Shape) -> Tensor:
        """Return a view of a tensor or of a part of it, without a copy."""
        return self.views(value, [shape])[0]

    def views(self, value: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
        """Return views of parts of one tensor, without a copy."""
        parts = [meta(tuple(shape), value.meta.storage, value.meta.dtype) for shape in shapes]
        return self._add("aten.view.default", parts, {"self": value})

    def _add(self, target: str, outputs: list[Meta], args: dict[str, Any]) -> list[Tensor]:
        name = f"v{len(self.nodes)}"
        plain = {key: Ref(value.name) if isinstance(value, Tensor) else value for key, value in args.items()}
        multiple = len(outputs) > 1
        self.nodes.append(GraphNode(name, target, plain, tuple(outputs), self._scopes, multiple))
        if not multiple:
            return [Tensor(name, outputs[0])]
        values = []
        for index, output in enumerate(outputs):
            part = f"{name}_{index}"
            self.nodes.append(GraphNode(part, "getitem", {"self": Ref(name), "index": index}, (output,), self._scopes))
            values.append(Tensor(part, output))
        return values

    def graph(
        self,
        outputs: Sequence[Tensor],
        inputs: tuple[InputSpec, ...],
        dims: tuple[str, ...],
        notes: tuple[str, ...],
        repeats: dict[str, Poly] | None = None,
    ) -> Graph:
        """Return the graph of all calls written so far."""
        names = tuple(value.name for value in outputs)
        nodes = tuple(self.nodes)
        return Graph(tuple(self.sources), nodes, names, self.parameters, inputs, dims, notes, repeats=repeats or {})

    # --- the modules that every transformer has -----------------------------------------------------------

    def linear(
        self, name: str, x: Tensor, width: int, bias: bool = False, tied: Tensor | None = None, dtype: str = "float32"
    ) -> Tensor:
        """Write a linear layer. `tied` is the weight of another module to use instead of a new one."""
        if dtype == FIXED_FP32:
            with self.module(f"{name}_cast", "Cast"):
                x = self.calls("aten._to_copy.default", [x.shape], [dtype], self=x)[0]
        with self.module(name, "Linear"):
            args: dict[str, Any] = {"input": x, "weight": tied or self.weight("weight", (width, x.shape[-1]), dtype)}
            if bias:
                args["bias"] = self.weight("bias", (width,))
            return self.call("aten.linear.default", (*x.shape[:-1], width), **args)

    def norm(self, name: str, x: Tensor, kind: str) -> Tensor:
        """Write a normalisation over the last dimension."""
        width = x.shape[-1]
        with self.module(name, "LayerNorm" if "layer" in kind else "RMSNorm"):
            args: dict[str, Any] = {"input": x, "normalized_shape": [width]}
            if kind != "bare":
                args["weight"] = self.weight("weight", (width,))
            if kind == "layer":
                args["bias"] = self.weight("bias", (width,))
            return self.call(f"aten.{'layer' if 'layer' in kind else 'rms'}_norm.default", x.shape, **args)

    def embedding(self, name: str, indices: Tensor, rows: int, width: int) -> tuple[Tensor, Tensor]:
        """Write a lookup. Return the rows and the table."""
        with self.module(name, "Embedding"):
            table = self.weight("weight", (rows, width))
            embedded = self.call("aten.embedding.default", (*indices.shape, width), weight=table, indices=indices)
        return embedded, table

    def add(self, name: str, left: Tensor, right: Tensor) -> Tensor:
        """Write a sum of two tensors."""
        return self.call_in(name, "Add", "aten.add.Tensor", left.shape, self=left, other=right)

    def activation(self, name: str, x: Tensor) -> Tensor:
        """Write an activation function."""
        kind, approximate = ("gelu", "tanh") if name in ("gelu_tanh", "gelu_new") else (name, "none")
        with self.module("activation", "NewGELU" if name == "gelu_new" else kind.capitalize()):
            extra: dict[str, Any] = {"approximate": approximate} if kind == "gelu" else {}
            if kind == "xielu":  # two learned slopes
                extra["alpha"] = self.weight("alpha", (2,))
            return self.call(f"aten.{kind}.default", x.shape, self=x, **extra)


@dataclass(frozen=True, slots=True)
class StepWriter:
    """One step being written: the widths of one of `tp` devices, the experts (and sequences) of one of `ep`."""

    config: Config
    run: StepSettings
    w: Writer
    batch: Poly
    sequence: Poly
    kv: Poly
    phase: str = ""
    room: Poly = field(default_factory=Poly)  # capacity of the cache of a request, in tokens
    # The new and earlier keys and values of the last layer with a window, by window.
    stored: dict[int, tuple[list[Tensor], Tensor | None]] = field(default_factory=dict)
    blocks: list[Tensor] = field(default_factory=list)  # results of earlier blocks of layers, if later ones read them

    def at_layer(self, layer: int) -> "StepWriter":
        """Return the step with the sizes of one layer."""
        return replace(self, config=self.config.of_layer(layer)) if self.config.per_layer else self

    @property
    def heads(self) -> int:
        """Query heads of one device."""
        return self.config.heads // self.run.tp

    @property
    def kv_heads(self) -> int:
        """Key and value heads of one device."""
        return max(1, self.config.kv_heads // self.run.tp)

    @property
    def cached_width(self) -> int:
        """Elements that a layer on one device caches per token."""
        c = self.config
        values = 0 if c.shared_kv else c.value_dim
        return c.kv_lora + c.rotary if c.kv_lora else self.kv_heads * (c.head_dim + values)

    @property
    def rows(self) -> tuple[Poly, Poly]:
        """The dimensions before the width: batch and sequence."""
        return self.batch, self.sequence

    @property
    def capacity(self) -> Poly:
        """The earlier tokens that a cache without a window holds."""
        return self.room if self.phase else self.kv

    def cached(self, layer: int) -> Poly:
        """Return the earlier keys that a step reads from the cache."""
        return self._keys(layer, cached_dim, self.kv)

    def attended_keys(self, layer: int) -> Poly:
        """Return the keys that the average new token attends to."""
        return self._keys(layer, attended_dim, self.tokens_seen)

    def _keys(self, layer: int, name: Callable[[int, str], str], whole: Poly) -> Poly:
        spans = self.config.spans_of(layer)
        return sum(((dim(name(limit, self.phase)) if limit else whole) / ratio for limit, ratio in spans), Poly())

    @property
    def tokens_seen(self) -> Poly:
        """The tokens that the average new token sees without a limit."""
        return self.kv + (self.sequence + 1) / 2

    def stored_keys(self, layer: int) -> Poly:
        """Return the earlier keys that the cache of a layer holds."""
        c = self.config
        window = dim(cached_dim(c.spans_of(layer)[0][0], self.phase)) if c.window_of(layer) else self.capacity
        return window + self.capacity / c.compress if c.compress else window

    def part(self, width: int) -> int:
        """Return one device's share of a width, rounded up."""
        return -(-width // self.run.tp)

    def all_reduce(self, name: str, x: Tensor) -> Tensor:
        """Write the sum of x over devices. Return x itself on one device."""
        if self.run.tp == 1:
            return x
        return self.w.call_in(name, "AllReduce", "hwexplorer.all_reduce.default", x.shape, input=x)

    def exchange_tokens(self, name: str, x: Tensor) -> Tensor:
        """Write the exchange of tokens between devices. Return x itself if they do not split the sequences."""
        if not self.run.spreads_sequences:
            return x
        return self.w.call_in(name, "AllToAll", "hwexplorer.all_to_all.default", x.shape, input=x)
