"""A model whose layers run in formats of their own, put together from its executions in each format.

A layer is an operator that multiplies, with the operators after it until the next one. All operators of a kernel run in
the format of its first layer. Conversions of tensors between layers are not counted.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from analysis.model.ir.workload import Ints, Workload
from hardware.base.errors import RequestError, unknown
from hardware.demand import Demand
from hardware.execute import Execution
from hardware.precision import Precision

_Record = TypeVar("_Record")


def layers(workload: Workload, demand: Demand) -> tuple[tuple[str, ...], Ints]:
    """Return the layers of a model and the layer of each operator, (n,)."""
    multiplies = demand.macs > 0
    layer = np.maximum(np.cumsum(multiplies) - 1, 0)
    paths = [path for path, is_first in zip(workload.operators.path, multiplies, strict=True) if is_first]
    names = tuple(f"{path}#{i}" if paths.count(path) > 1 else path for i, path in enumerate(paths))
    return names or ("model",), layer


def is_part(layer: str, path: str) -> bool:
    """Return True if a path names a layer, or a module that holds it."""
    return layer == path or layer.startswith(f"{path}.")


def choose(precision: Precision, formats: Sequence[str], workload: Workload, demand: Demand) -> Ints:
    """Return the place in `formats` of the format of each operator, (n,). Raises RequestError for an unknown layer."""
    names, layer = layers(workload, demand)
    chosen = np.zeros(len(names), dtype=np.int32)
    for path, form in precision.layers:
        named = [i for i, name in enumerate(names) if is_part(name, path)]
        if not named:
            raise unknown("layer", path, names)
        chosen[named] = formats.index(form)
    of_kernel: Ints = np.zeros(demand.n_kernels, dtype=np.int32)
    # The last assignment wins: the first operator that multiplies, else the first.
    order = np.argsort(demand.macs == 0, kind="stable")[::-1]
    of_kernel[demand.kernel[order]] = chosen[layer[order]]
    return of_kernel[demand.kernel]


def mix(runs: Sequence[Execution], demands: Sequence[Demand], chosen: Ints) -> tuple[Execution, Demand]:
    """Return the execution and demand in which each operator, (n,), is that of its format. Prices are those of the
    first format; counts of events that others price otherwise are in multiples of these. Raises RequestError if
    formats have kernels of their own."""
    first = demands[0]
    if any(not np.array_equal(first.kernel, other.kernel) for other in demands[1:]):
        raise RequestError("the runtime joins operators differently in these formats: no layer can have its own")
    of_kernel: Ints = np.zeros(first.n_kernels, dtype=np.int32)
    of_kernel[first.kernel] = chosen
    price = runs[0].prices.value
    priced = [
        msgspec.structs.replace(run, counts=run.counts * _ratio(run.prices.value, price)[:, None]) for run in runs
    ]
    by_size: dict[int, Any] = {first.n: chosen, first.n_kernels: of_kernel}
    transfers = _pick([demand.transfers for demand in demands], {len(first.transfers.op): chosen[first.transfers.op]})
    local_bytes = _pick([demand.local_bytes for demand in demands], by_size)
    return _pick(priced, by_size), first.with_values(transfers=transfers, local_bytes=local_bytes)


def _ratio(price: Any, base: Any) -> Any:
    return np.where(base > 0, price / np.where(base > 0, base, 1.0), 1.0)


def _pick(values: Sequence[_Record], by_size: dict[int, Any]) -> Any:
    """Return a record whose arrays are, along the last axis, those of the chosen record."""
    first = values[0]
    if isinstance(first, np.ndarray):
        if not first.shape or (chosen := by_size.get(first.shape[-1])) is None:
            return first
        return np.choose(chosen, [np.asarray(value) for value in values])
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_pick(columns, by_size) for columns in zip(*values, strict=True)))
    if isinstance(first, msgspec.Struct):
        columns = {name: [getattr(value, name) for value in values] for name in first.__struct_fields__}
        return msgspec.structs.replace(first, **{name: _pick(column, by_size) for name, column in columns.items()})
    return first
