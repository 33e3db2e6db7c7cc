"""Lower a graph to a workload: find the operators, the tensors that they read and write, and lifetimes, and assemble
arrays from these rows, with unique names and polynomials as matrices."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from analysis.model.ir.operator_graph import Graph, GraphNode, Meta, Ref, Scope, Source, references
from analysis.model.ir.poly import Monomial, Poly, SizeError, is_negative, poly, product, smaller
from analysis.model.ir.workload import (
    ACTIVATION,
    BUFFER,
    INPUT,
    WEIGHT,
    Floats,
    Operators,
    Tensors,
    Workload,
    base_name,
    csr,
)
from analysis.model.model_errors import EmptyModelError
from analysis.model.operators import contractions
from analysis.model.operators.contractions import OperatorCall, OperatorCost
from analysis.model.operators.cost_rules import bias_of, cost_of, scratch_of

_FIXED_BYTES = {
    "int64": 8, "uint64": 8, "int32": 4, "uint32": 4, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "complex64": 8, "complex128": 16,
    "float32 fixed": 4,  # the recurrent state and the routers of language models that keep them in fp32
}  # fmt: skip


Matrix = Callable[[Iterable[Poly]], Floats]  # rows of coefficients, one for each polynomial


@dataclass(slots=True)
class OperatorRow:
    """One operator without a name. `hint` names the only weight that it reads; `bias_of` is the contraction's row."""

    kind: str
    target: str
    cost: OperatorCost
    scopes: tuple[Scope, ...]
    reads: list[tuple[int, Poly]]
    writes: list[int] = field(default_factory=list)
    hint: str = ""
    bias_of: int | None = None
    scratch: Poly = field(default_factory=Poly)


@dataclass(slots=True)
class TensorRow:
    """One tensor. `shares` is the tensor whose memory it overwrites; `scopes` are the module calls that produced it."""

    name: str
    role: int
    shape: tuple[Poly, ...]
    dtype: str
    shares: int | None = None
    producer: int = -1
    scopes: frozenset[str] = frozenset()
    numel: Poly = field(init=False)

    def __post_init__(self) -> None:
        self.numel = product(self.shape)


@lru_cache(1024)  # the shapes of a model are few
def _shape_labels(shape: tuple[Poly, ...]) -> tuple[int | str, ...]:
    return tuple(size.label for size in shape)


def assemble(
    graph: Graph,
    rows: list[OperatorRow],
    tensors: list[TensorRow],
    live_until: list[int],
    outputs: set[int],
    *,
    name: str,
    family: str,
    origin: str,
    image_size: int | None,
) -> Workload:
    """Return the workload of rows. `live_until` is the last operator that needs each tensor."""
    paths = _paths(rows)
    for row, path in zip(rows, paths, strict=True):
        for position, index in enumerate(row.writes):
            tensors[index].name = path if position == 0 else f"{path}:{position}"
    keep = _tensors_in_use(rows, tensors, outputs)
    index_of = {old: new for new, old in enumerate(keep)}
    kept = [tensors[old] for old in keep]
    monomials = _monomials(graph.dims, rows, kept, graph.repeats.values())
    matrix = partial(_coefficients, {key: place for place, key in enumerate(monomials)})
    operators = _operators(rows, paths, matrix, index_of)
    return Workload(
        name=name,
        family=family,
        origin=origin,
        inputs=graph.inputs,
        image_size=image_size,
        parameters=graph.parameters,
        dims=graph.dims,
        monomials=tuple(tuple(key.count(dim) for dim in graph.dims) for key in monomials),
        operators=operators,
        tensors=Tensors(
            name=tuple(tensor.name for tensor in kept),
            role=_ints(tensor.role for tensor in kept),
            numel=matrix(tensor.numel for tensor in kept),
            fixed_bytes=_ints(_FIXED_BYTES.get(tensor.dtype, 0) for tensor in kept),
            storage=_ints(index_of[_root(tensors, old)] for old in keep),
            producer=_ints(tensor.producer for tensor in kept),
            live_until=_ints(live_until[old] for old in keep),
            is_output=np.array([old in outputs for old in keep], dtype=np.bool_),
            shape=tuple(_shape_labels(tensor.shape) for tensor in kept),
            dtype=tuple(tensor.dtype for tensor in kept),
        ),
        versions=graph.versions,
        notes=graph.notes,
        repeats=matrix(_times(row, graph) for row in rows) if graph.repeats else None,
        scratch=matrix(row.scratch for row in rows) if any(row.scratch.terms for row in rows) else None,
    )


def _times(row: OperatorRow, graph: Graph) -> Poly:
    return next((graph.repeats[scope.path] for scope in row.scopes if scope.path in graph.repeats), poly(1))


def _operators(rows: list[OperatorRow], paths: list[str], matrix: Matrix, index_of: dict[int, int]) -> Operators:
    in_ptr, in_tensor = csr([[index_of[tensor] for tensor, _ in row.reads] for row in rows])
    out_ptr, out_tensor = csr([[index_of[tensor] for tensor in row.writes] for row in rows])
    nothing = Poly()
    gemms = [row.cost.gemm or (nothing,) * 4 for row in rows]
    return Operators(
        path=tuple(paths),
        kind=tuple(row.kind for row in rows),
        target=tuple(row.target for row in rows),
        module_type=tuple(row.scopes[-1].type if row.scopes else "" for row in rows),
        macs=matrix(row.cost.macs for row in rows),
        flops=matrix(row.cost.macs * 2 + row.cost.flops for row in rows),
        special=matrix(row.cost.special for row in rows),
        gemm=matrix(size for gemm in gemms for size in gemm).reshape(len(rows), 4, -1),
        in_ptr=in_ptr,
        in_tensor=in_tensor,
        in_numel=matrix(amount for row in rows for _, amount in row.reads),
        out_ptr=out_ptr,
        out_tensor=out_tensor,
        has_rule=np.array([row.cost.has_rule for row in rows], dtype=np.bool_),
    )


def _tensors_in_use(rows: list[OperatorRow], tensors: list[TensorRow], outputs: set[int]) -> list[int]:
    """Return the indices of all tensors except unread buffers (such as a batch norm's step counter)."""
    read = {index for row in rows for index, _ in row.reads} | outputs
    read |= {_root(tensors, index) for index in range(len(tensors)) if tensors[index].shares is not None}
    return [i for i, tensor in enumerate(tensors) if tensor.role != BUFFER or i in read]


def _root(tensors: list[TensorRow], index: int) -> int:
    shares = tensors[index].shares
    while shares is not None:
        index, shares = shares, tensors[shares].shares
    return index


def _paths(rows: list[OperatorRow]) -> list[str]:
    """Return a unique name per row: the path of a leaf module with one operator; else the path with the name of a
    weight (`in_proj` of nn.MultiheadAttention) or the kind. A second call gets `~2`."""
    parents = {scope.path for row in rows for scope in row.scopes[:-1]}
    alone = Counter(row.scopes[-1].key for row in rows if row.scopes and row.bias_of is None)
    seen: Counter[str] = Counter()
    paths: list[str] = []
    for row in rows:
        if row.bias_of is not None:
            paths.append(paths[row.bias_of] + ".bias")
            continue
        scope = row.scopes[-1] if row.scopes else None
        module = scope.path if scope else ""
        if scope and module and module not in parents and alone[scope.key] == 1:
            path = module
        else:
            path = _name_below(module, row.hint) or f"{module}.{row.kind}".lstrip(".")
        seen[path] += 1
        paths.append(path if seen[path] == 1 else f"{path}~{seen[path]}")
    return paths


def _name_below(module: str, weight: str) -> str:
    """Return `attention.in_proj` for the module `attention` and its weight `attention.in_proj_weight`."""
    prefix = f"{module}." if module else ""
    if not weight.startswith(prefix):
        return ""
    own = weight.removeprefix(prefix)
    for suffix in (".weight", "_weight"):
        if own.endswith(suffix):
            return prefix + own.removesuffix(suffix)
    return ""


def _monomials(
    dims: tuple[str, ...], rows: list[OperatorRow], tensors: list[TensorRow], repeats: Iterable[Poly]
) -> list[Monomial]:
    monomials: set[Monomial] = {(), *((dim,) for dim in dims)}
    for row in rows:
        sizes = [row.cost.macs, row.cost.flops, row.cost.special, *(row.cost.gemm or ()), row.scratch]
        for size in (*sizes, *(amount for _, amount in row.reads)):
            monomials.update(size.terms)
    for tensor in tensors:
        monomials.update(tensor.numel.terms)
    for times in repeats:
        monomials.update(times.terms)
    return sorted(monomials, key=lambda key: (len(key), key))


def _coefficients(column: dict[Monomial, int], sizes: Iterable[Poly]) -> Floats:
    listed = list(sizes)
    result = np.zeros((len(listed), len(column)), dtype=np.float64)
    for row, size in enumerate(listed):
        for key, value in size.terms.items():
            result[row, column[key]] = value
    return result


def _ints(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(list(values), dtype=np.int32)


ZERO = poly(0)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a name in the graph: a view of a storage. `reach` is the number of distinct elements in it."""

    meta: Meta
    storage: int
    reach: Poly


@dataclass(slots=True)
class Lowering:
    """The state of one walk. `version` maps a storage to its newest tensor; each in-place write adds a tensor."""

    graph: Graph
    rows: list[OperatorRow] = field(default_factory=list)
    tensors: list[TensorRow] = field(default_factory=list)
    values: dict[str, list[Value]] = field(default_factory=dict)
    version: dict[int, int] = field(default_factory=dict)
    constant: dict[int, Meta] = field(default_factory=dict)  # storages that do not depend on inputs
    by_label: dict[str, int] = field(default_factory=dict)
    last_row: dict[str, int] = field(default_factory=dict)  # scope key -> last operator inside
    rows_by: dict[str, int] = field(default_factory=dict)  # call -> last operator when it is done
    uses: list[tuple[int, frozenset[str], int]] = field(default_factory=list)  # tensor, scopes, row
    folded: int = 0

    def source(self, source: Source) -> None:
        """Add an input, weight or buffer."""
        storage = self.by_label.setdefault(source.label, source.meta.storage)  # a tied weight has several names
        self.values[source.name] = [Value(source.meta, storage, source.meta.numel)]
        if storage in self.version:
            return
        if source.role == BUFFER:  # becomes a tensor when something reads it
            self.constant[storage] = source.meta
        self.tensors.append(TensorRow(source.label, source.role, source.meta.shape, source.meta.dtype))
        self.version[storage] = len(self.tensors) - 1

    def node(self, node: GraphNode) -> None:
        """Add a call: a view, a constant or an operator."""
        if node.target == "getitem":
            parts = self.values[node.args["self"].name]
            self.values[node.name] = [parts[node.args["index"]]]
            return
        name, in_place = base_name(node.target)
        refs = [ref for argument in node.args.values() for ref in references(argument)]
        read = [value for ref in refs for value in self.values[ref.name]]
        scopes = frozenset(scope.key for scope in node.scopes)
        if self._is_view(name, node, read, in_place):
            self._view(name, node, read, scopes)
        elif self._is_constant(name, node, read, in_place):
            self._fold(node, read, in_place)
        else:
            self._operator(name, node, refs, in_place, scopes)

    def _is_view(self, name: str, node: GraphNode, read: list[Value], in_place: bool) -> bool:
        if name in contractions.IDENTITIES and read and not node.args.get("train"):
            return True
        behind = {value.meta.storage for value in read}
        return not in_place and bool(behind) and all(meta.storage in behind for meta in node.outputs)

    def _view(self, name: str, node: GraphNode, read: list[Value], scopes: frozenset[str]) -> None:
        views = []
        for meta in node.outputs:
            base = next((value for value in read if value.meta.storage == meta.storage), read[0])
            views.append(Value(meta, base.storage, smaller(base.reach, meta.numel)))
            if (tensor := self.version.get(base.storage)) is not None:
                self.uses.append((tensor, scopes, len(self.rows) - 1))
                # The exporter may give an unchanged value (dropout) a new storage.
                self.version.setdefault(meta.storage, tensor)
        self.values[node.name] = views

    def _is_constant(self, name: str, node: GraphNode, read: list[Value], in_place: bool) -> bool:
        if name in contractions.RANDOM or not all(meta.numel.is_constant for meta in node.outputs):
            return False
        if name in contractions.FACTORIES and not in_place:
            return True
        return all(value.storage in self.constant for value in read)

    def _fold(self, node: GraphNode, read: list[Value], in_place: bool) -> None:
        self.folded += 1
        if in_place:
            self.values[node.name] = [replace(read[0], meta=node.outputs[0])]
            return
        for meta in node.outputs:
            self.constant[meta.storage] = meta
        self.values[node.name] = [Value(meta, meta.storage, meta.numel) for meta in node.outputs]

    def _tensor_of(self, value: Value) -> int:
        """Return the tensor of a value. A folded constant becomes a tensor when it is first read."""
        if value.storage not in self.version:
            meta = self.constant.get(value.storage, value.meta)
            self.tensors.append(TensorRow(f"constant.{value.storage}", BUFFER, meta.shape, meta.dtype))
            self.version[value.storage] = len(self.tensors) - 1
        return self.version[value.storage]

    def _operator(self, name: str, node: GraphNode, refs: list[Ref], in_place: bool, scopes: frozenset[str]) -> None:
        metas = {ref.name: self.values[ref.name][0].meta for ref in refs}
        call = OperatorCall(name, node.args, metas, node.outputs)
        cost = cost_of(call)
        if any(map(is_negative, (cost.macs, cost.flops, cost.special))):  # a window of -1 x 2
            raise SizeError(f"an operator does a negative amount of work ({node.name[:40]}: {name[:40]})")
        bias = bias_of(call)
        if name in contractions.FACTORIES and not in_place:
            refs = []
        if in_place and name in contractions.OVERWRITES:
            reads = self._reads(refs[1:], cost)
        elif in_place and cost.kind == "scatter":
            reads = self._reads(refs[1:] + (refs[:1] if cost.flops != ZERO else []), cost)
        else:
            reads = self._reads([ref for ref in refs if ref != bias], cost)
        row = OperatorRow(
            kind=cost.kind,
            target=node.target,
            cost=cost,
            scopes=node.scopes,
            reads=reads,
            hint=self._weight_name(refs, bias),
            scratch=scratch_of(call),
        )
        position = self._append(row, scopes)
        if in_place:
            # The rest of the storage keeps its contents; a scatter writes at most its source elements.
            target = self.values[refs[0].name][0] if refs else self.values[node.args["self"].name][0]
            written = target.meta if cost.kind != "scatter" else metas[refs[-1].name]
            old = self._tensor_of(target)
            self.constant.pop(target.storage, None)
            self._write(row, target.storage, written, position, shares=old)
            self.values[node.name] = [replace(target, meta=node.outputs[0])]
            return
        for meta in node.outputs:  # one of several results may overwrite an operand
            self._write(row, meta.storage, meta, position, shares=self.version.get(meta.storage))
        self.values[node.name] = [Value(meta, meta.storage, meta.numel) for meta in node.outputs]
        if bias is not None:
            self._bias(node, bias, row, scopes)

    def _append(self, row: OperatorRow, scopes: frozenset[str]) -> int:
        self.rows.append(row)
        position = len(self.rows) - 1
        for key in scopes:
            self.last_row[key] = position
        for tensor, _ in row.reads:
            self.uses.append((tensor, scopes, position))
        return position

    def _reads(self, refs: list[Ref], cost: OperatorCost) -> list[tuple[int, Poly]]:
        """Return the distinct elements read per tensor. Reads of several views add up to at most all of it."""
        read: dict[int, Poly] = {}
        for position, ref in enumerate(refs):
            for value in self.values[ref.name]:
                tensor = self._tensor_of(value)
                amount = value.reach
                if position == 0 and cost.first_read is not None:
                    amount = cost.first_read
                so_far = read.get(tensor)
                if so_far is not None:
                    amount = smaller(so_far + amount, self.tensors[_root(self.tensors, tensor)].numel)
                read[tensor] = amount
        return list(read.items())

    def _write(self, row: OperatorRow, storage: int, meta: Meta, position: int, shares: int | None = None) -> None:
        scopes = frozenset(scope.key for scope in row.scopes)
        self.tensors.append(TensorRow("", ACTIVATION, meta.shape, meta.dtype, shares, position, scopes))
        self.version[storage] = len(self.tensors) - 1
        row.writes.append(len(self.tensors) - 1)

    def _bias(self, node: GraphNode, bias: Ref, contraction: OperatorRow, scopes: frozenset[str]) -> None:
        out = node.outputs[0]
        result = contraction.writes[0]
        vector = self.values[bias.name][0]
        row = OperatorRow(
            kind="bias",
            target=node.target,
            cost=OperatorCost("bias", flops=out.numel),
            scopes=node.scopes,
            reads=[(result, out.numel), (self._tensor_of(vector), vector.reach)],
            bias_of=len(self.rows) - 1,
        )
        position = self._append(row, scopes)
        self._write(row, out.storage, out, position, shares=result)

    def _weight_name(self, refs: list[Ref], bias: Ref | None) -> str:
        names = {
            self.tensors[self.version[value.storage]].name
            for ref in refs
            if ref != bias
            for value in self.values[ref.name]
            if value.storage in self.version and self.tensors[self.version[value.storage]].role == WEIGHT
        }
        return names.pop() if len(names) == 1 else ""


def lower_graph(
    graph: Graph, name: str, family: str = "custom", origin: str = "", image_size: int | None = None
) -> Workload:
    """Return the workload of a graph of operator calls. Raises an `EmptyModelError` for a graph without work."""
    walk = Lowering(graph)
    for source in graph.sources:
        walk.source(source)
    for node in graph.nodes:
        walk.node(node)
        walk.rows_by[node.name] = len(walk.rows) - 1
    if not walk.rows:
        raise EmptyModelError(f"{name} has no operator that works on its inputs: there is nothing to estimate")
    outputs = {walk._tensor_of(value) for key in graph.outputs for value in walk.values[key]}
    notes = graph.notes
    if walk.folded:
        notes = (*notes, f"{walk.folded} calls that depend on neither inputs nor weights are folded into constants")
    return assemble(
        replace(graph, notes=notes),
        walk.rows,
        walk.tensors,
        live_until=_lifetimes(walk, outputs),
        outputs=outputs,
        name=name,
        family=family,
        origin=origin,
        image_size=image_size,
    )


def _lifetimes(walk: Lowering, outputs: set[int]) -> list[int]:
    """Return the last operator during which each tensor must be kept: its last reader, or later if `graph.held` says
    so. Without `graph.held`: the end of every module call that got the tensor, since its frame holds the argument."""
    end = len(walk.rows) - 1
    live = [max(tensor.producer, 0) for tensor in walk.tensors]
    for index, scopes, row in walk.uses:
        tensor = walk.tensors[index]
        passed_into = frozenset() if walk.graph.held else scopes - tensor.scopes
        live[index] = max(live[index], row, *(walk.last_row.get(key, row) for key in passed_into))
    for name, until in walk.graph.held.items():
        for value in walk.values.get(name, ()):
            kept = walk.version.get(value.storage)
            if kept is not None:
                live[kept] = max(live[kept], walk.rows_by.get(until, -1))
    for index, tensor in enumerate(walk.tensors):
        if tensor.role in (WEIGHT, BUFFER, INPUT) or index in outputs:
            live[index] = end
    return live
