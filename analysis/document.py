"""A report is columns: each field of a document is declared once, with its title, its unit and what it means.

    class Consumer(msgspec.Struct, frozen=True, kw_only=True):
        id: Annotated[str, column("Node", key="name")]
        energy_j: Annotated[float, column("Energy/batch", "J")]

JSON has the fields. `columns(Consumer)` are the columns of a table, and of CSV, with a row for each such struct.
`record` and `records` build structs by the names of their fields, from attributes of objects and from arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from hardware.quantity import Unit

Cell = str | float | int | bool | None
Role = Literal["text", "number", "quantity", "bar", "delta"]
YES_NO = {True: "yes", False: "no"}
# What a number's unit adds to the name of its column in CSV, which says it as JSON does: `latency_s`.
_SUFFIX = {"s": "_s", "J": "_j", "Js": "_js", "byte": "_bytes", "W": "_w", "1/s": "_per_s", "FLOP/s": "_flop_per_s",
           "OP/s": "_flop_per_s"}  # fmt: skip


class Column(msgspec.Struct, frozen=True):
    """A column of a table. `keep` orders what is dropped when the screen is narrow: 0 never drops, higher drops first.

    `role`: 'text' left aligned; 'number' right aligned, one prefix for the column; 'quantity' right aligned, each
    cell with its own prefix and unit (for columns that span many magnitudes); 'bar' a fraction (0-1) drawn as a
    bar, by cause where it is a Stack; 'delta' a signed fraction drawn with its sign.

    `of` is what the column shows of a row of a document: a field (`edp_js`, `point.edp_js`; by default the one named
    as the column is in CSV), or a function of the row. `shown` maps the values of a few to words. Numbers of a column
    are written with the prefix of the column that `scale` names. `ends` are the keys of both ends of a band in CSV."""

    key: str
    title: str
    unit: Unit = ""
    role: Role = "number"
    keep: int = 1
    help: str = ""
    of: str | Callable[[Any], Cell] = ""
    shown: Mapping[Any, str] | None = None
    scale: str = ""
    ends: tuple[str, ...] = ()

    @property
    def si_name(self) -> str:
        """The column in CSV: its key with the SI unit of its numbers."""
        suffix = _SUFFIX.get(self.unit, "")
        return self.key if suffix == f"_{self.key}" else self.key + suffix

    @property
    def si_names(self) -> tuple[str, ...]:
        """The columns in CSV that this one is: of a band its ends."""
        return tuple(end + _SUFFIX.get(self.unit, "") for end in self.ends) or (self.si_name,)


def column(title: str, unit: Unit = "", *, key: str = "", keep: int = 0, **others: Any) -> Column:
    """Declare how tables show a field, inside its `Annotated` type. The key is the name of the field without its unit,
    unless given; text and Booleans are text. A field with two declarations has two columns (a bar and its number)."""
    return Column(key, title, unit, keep=keep, **others)


@cache
def _columns_by_key(kind: type[msgspec.Struct]) -> dict[str, Column]:
    """Return the columns that the fields of a struct declare, by key, in the order of the fields."""
    found = {}
    for field, hint in get_type_hints(kind, include_extras=True).items():
        for declared in getattr(hint, "__metadata__", ()):
            if isinstance(declared, Column):
                key = declared.key or field.removesuffix(_SUFFIX.get(declared.unit, ""))
                is_text = declared.role == "number" and {str, bool} & {hint.__origin__, *get_args(hint.__origin__)}
                role: Role = "text" if is_text else declared.role
                if key in found:
                    raise TypeError(f"{kind.__name__} declares two columns {key!r}")
                found[key] = msgspec.structs.replace(declared, key=key, role=role, of=declared.of or field)
    return found


def columns(
    kind: type[msgspec.Struct], keys: str = "", *others: Column, within: str = "", **changes: int | Mapping[str, Any]
) -> tuple[Column, ...]:
    """Return the columns of a struct, and `others`: those of `keys` in that order, or all. The struct is the row itself
    or its field `within`. `changes` by key are attributes that this table has otherwise, a number being that of
    `keep`: `latency=1, power={"title": "W"}`."""
    path = f"{within}." if within else ""
    known = {key: msgspec.structs.replace(one, of=f"{path}{one.of}") for key, one in _columns_by_key(kind).items()}
    for key, change in changes.items():
        known[key] = msgspec.structs.replace(known[key], **({"keep": change} if isinstance(change, int) else change))
    known |= {one.key: one for one in others}
    return tuple(known[key] for key in keys.split() or known)


Row = TypeVar("Row", bound=msgspec.Struct)
_COLUMN = (np.ndarray, list, tuple)


@cache
def _sources_of_fields(kind: type[msgspec.Struct], *types: type) -> tuple[tuple[str, int], ...]:
    """Return the fields of a struct that instances of some types have, each with the place of the first such type."""
    places = {name: [i for i, one in enumerate(types) if hasattr(one, name)] for name in kind.__struct_fields__}
    return tuple((name, found[0]) for name, found in places.items() if found)


def record(kind: type[Row], /, *sources: object, **values: Any) -> Row:
    """Build a struct from `values` by field; a field without one is that attribute of the first source that has it."""
    for name, place in _sources_of_fields(kind, *map(type, sources)):
        if name not in values:
            values[name] = getattr(sources[place], name)
    return kind(**values)


def records(
    kind: type[Row], /, *sources: object, rows: NDArray[np.integer[Any]] | None = None, **columns: Any
) -> tuple[Row, ...]:
    """Build a struct for each row of columns of equal length; arrays give plain numbers, what is no array, list or
    tuple is the same in all rows. A field without a column is that of the first source that has it: all of it, or
    these `rows`."""
    for name, place in _sources_of_fields(kind, *map(type, sources)):
        if name not in columns:
            values = getattr(sources[place], name)
            is_array = isinstance(values, np.ndarray)
            columns[name] = values if rows is None else values[rows] if is_array else [values[row] for row in rows]
    count = next(len(values) for values in columns.values() if isinstance(values, _COLUMN))
    plain = {name: values if isinstance(values, _COLUMN) else [values] * count for name, values in columns.items()}
    lists = [values.tolist() if isinstance(values, np.ndarray) else values for values in plain.values()]
    return tuple(kind(**dict(zip(plain, row, strict=True))) for row in zip(*lists, strict=True))


def none_unless(is_known: NDArray[np.bool_], values: NDArray[np.floating[Any]]) -> list[float | None]:
    """Return a column that has None where its value is not known."""
    return [value if known else None for known, value in zip(is_known.tolist(), values.tolist(), strict=True)]
