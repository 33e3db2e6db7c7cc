"""Columns of reports: each field of a document is declared once, with its title, unit and help.

    class Consumer(msgspec.Struct, frozen=True, kw_only=True):
        id: Annotated[str, column("Node", key="name")]
        energy_j: Annotated[float, column("Energy/batch", "J")]

JSON writes the fields. `columns(Consumer)` returns the columns of a table or of CSV; each struct is a row.
`record` and `records` fill structs by field name, from attributes of objects and from arrays.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np

from hardware.base.text import Unit
from hardware.demand import NDArray

Cell = str | float | int | bool | None
Role = Literal["text", "number", "quantity", "bar", "delta"]
YES_NO = {True: "yes", False: "no"}
# The suffix that a unit adds to the name of a CSV column, as in JSON: `latency_s`.
_SUFFIX = {"s": "_s", "J": "_j", "Js": "_js", "byte": "_bytes", "W": "_w", "1/s": "_per_s", "FLOP/s": "_flop_per_s",
           "OP/s": "_flop_per_s"}  # fmt: skip


class Column(msgspec.Struct, frozen=True):
    """A column of a table. On a narrow screen the column with the highest `keep` is dropped first, 0 never.

    `role`: 'text' left aligned; 'number' right aligned, one prefix for the column; 'quantity' right aligned, each
    cell with a prefix and unit (for columns that span many magnitudes); 'bar' a fraction (0-1) drawn as a bar, and a
    Stack by cause; 'delta' a signed fraction drawn with its sign.

    `of` gives the cell of a row: a field (`edp_js`, `point.edp_js`; by default the field that has the column's name in
    CSV), or a function of the row. `shown` maps values to words, or is a function that does. `scale` names the column
    whose prefix the numbers of this one use. `short` is a title for want of room. `ends` are the keys of the ends of a
    band in CSV."""

    key: str
    title: str
    unit: Unit = ""
    role: Role = "number"
    keep: int = 1
    help: str = ""
    of: str | Callable[[Any], Cell] = ""
    shown: Mapping[Any, str] | Callable[[Any], str] | None = None
    scale: str = ""
    short: str = ""
    ends: tuple[str, ...] = ()

    @property
    def si_name(self) -> str:
        """The name of the column in CSV and JSON: its key with the SI unit of its numbers, `energy_j_per_inference`."""
        suffix, (stem, per, what) = _SUFFIX.get(self.unit, ""), self.key.partition("_per_")
        return self.key if suffix == f"_{self.key}" else stem + suffix + per + what

    @property
    def si_names(self) -> tuple[str, ...]:
        """The names of this column in CSV: one, or for a band both ends."""
        return tuple(end + _SUFFIX.get(self.unit, "") for end in self.ends) or (self.si_name,)


def column(title: str, unit: Unit = "", *, key: str = "", keep: int = 0, **others: Any) -> Column:
    """Declare how tables show a field, inside its `Annotated` type. The default key is the field's name without its
    unit. Fields of str or bool get the role 'text'. A field with two declarations has two columns (bar and number)."""
    return Column(key, title, unit, keep=keep, **others)


@cache
def _columns_by_key(kind: type[msgspec.Struct]) -> dict[str, Column]:
    """Return the columns that the fields of a struct declare, by key, in the order of the fields."""
    found = {}
    for field, hint in get_type_hints(kind, include_extras=True).items():
        for declared in getattr(hint, "__metadata__", ()):
            if isinstance(declared, Column):
                suffix, (stem, per, what) = _SUFFIX.get(declared.unit, ""), field.partition("_per_")
                short = field if field.endswith(suffix) else stem.removesuffix(suffix) + per + what
                key = declared.key or short.removesuffix(suffix)
                is_text = declared.role == "number" and {str, bool} & {hint.__origin__, *get_args(hint.__origin__)}
                role: Role = "text" if is_text else declared.role
                if key in found:
                    raise TypeError(f"{kind.__name__} declares two columns {key!r}")
                found[key] = msgspec.structs.replace(declared, key=key, role=role, of=declared.of or field)
    return found


def columns(
    kind: type[msgspec.Struct], keys: str = "", *others: Column, within: str = "", **changes: int | Mapping[str, Any]
) -> tuple[Column, ...]:
    """Return the columns of a struct and `others`, restricted to `keys` in that order if given. The struct is the row
    itself or its field `within`. `changes` replaces attributes of a column by key; a plain number replaces `keep`:
    `latency=1, power={"title": "W"}`."""
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
    """Return the fields of a struct that any of `types` has as attribute, with the index of the first such type."""
    places = {name: [i for i, one in enumerate(types) if hasattr(one, name)] for name in kind.__struct_fields__}
    return tuple((name, found[0]) for name, found in places.items() if found)


def record(kind: type[Row], /, *sources: object, **values: Any) -> Row:
    """Build a struct from `values`. Any other field is read from the first source with an attribute of that name."""
    for name, place in _sources_of_fields(kind, *map(type, sources)):
        if name not in values:
            values[name] = getattr(sources[place], name)
    return kind(**values)


def records(
    kind: type[Row], /, *sources: object, rows: NDArray[np.integer[Any]] | None = None, **columns: Any
) -> tuple[Row, ...]:
    """Build a struct for each row of `columns` of equal length. Numbers of arrays become plain Python numbers; a value
    that is not an array, list or tuple is repeated in all rows. Any other field is a column of the first source with an
    attribute of that name: all of it, or only `rows`."""
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
    """Return the values as a list with None where `is_known` is False."""
    return [value if known else None for known, value in zip(is_known.tolist(), values.tolist(), strict=True)]
