"""Assemble the arrays of a workload from the rows of a lowering: unique names, polynomials as matrices."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from analysis.model.ir.operator_graph import Graph, Scope
from analysis.model.ir.poly import Monomial, Poly, poly, product
from analysis.model.ir.workload import BUFFER, Floats, Operators, Tensors, Workload, csr
from analysis.model.operators.operator_call import OperatorCost

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
