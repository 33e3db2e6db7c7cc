"""The graph that exporters and readers pass to `lower_graph`: ATen calls as plain data, without torch."""

from dataclasses import dataclass, field
from typing import Any

from analysis.model.ir.poly import Poly, SizeError, is_negative, poly, product
from analysis.model.ir.workload import InputSpec


@dataclass(frozen=True, slots=True)
class Meta:
    """Shape and dtype of a tensor. A view and its base have the same `storage`. `is_flat`: rows are evenly spaced."""

    shape: tuple[Poly, ...]
    dtype: str
    storage: int
    is_flat: bool = True
    numel: Poly = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numel", product(self.shape))


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that refers by name to the result of a node or to a source."""

    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """An input, weight or buffer. `label` is its name in the model; two sources with one label are one tensor."""

    name: str
    label: str
    role: int
    meta: Meta

    def __post_init__(self) -> None:
        _check(self.label, self.meta)


@dataclass(frozen=True, slots=True)
class Scope:
    """One call of a module. `key` identifies the call; `path` and `type` name the module."""

    key: str
    path: str
    type: str


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One ATen call. `args` by schema name: numbers, strings, None, Poly, Ref and lists of these. If `multiple`, the
    result is a list; `getitem` nodes read its items."""

    name: str
    target: str
    args: dict[str, Any]
    outputs: tuple[Meta, ...]
    scopes: tuple[Scope, ...] = ()
    multiple: bool = False

    def __post_init__(self) -> None:
        _check(self.name, *self.outputs)


@dataclass(frozen=True, slots=True)
class Graph:
    """The operator calls of a model. `held` maps a call to the last call during which its result is kept, if known."""

    sources: tuple[Source, ...]
    nodes: tuple[GraphNode, ...]
    outputs: tuple[str, ...]
    parameters: int
    inputs: tuple[InputSpec, ...]
    dims: tuple[str, ...] = ("batch",)
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    repeats: dict[str, Poly] = field(default_factory=dict)  # path of a module -> how often it runs, if not once
    held: dict[str, str] = field(default_factory=dict)


def _check(name: str, *tensors: Meta) -> None:
    """Raise SizeError for a negative size, which would count as negative work."""
    for tensor in tensors:
        if any(map(is_negative, tensor.shape)):
            raise SizeError(f"a tensor has a negative size ({name[:40]}: {', '.join(map(str, tensor.shape))[:80]})")


def meta(shape: tuple[Poly | int, ...], storage: int, dtype: str = "float32") -> Meta:
    """Return a tensor description from sizes, numbers or polynomials, for graphs written without an exporter."""
    return Meta(tuple(poly(size) for size in shape), dtype, storage)


def references(value: Any) -> list[Ref]:
    """Return the references in one argument, nested lists included, in order."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, list):
        return [ref for item in value for ref in references(item)]
    return []
