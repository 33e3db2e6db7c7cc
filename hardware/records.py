"""Rows of shipped tables as structs, with errors that name the file and the record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hardware import file_access
from hardware.names import hint

T = TypeVar("T")


def convert_record(path: Path, record: str, data: dict[str, Any], kind: type[T]) -> T:
    """Return a row as a struct. Raises ValueError with the file, the record and, of an unknown field, the nearest."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        unknown = re.search(r"unknown field `(\w+)`$", str(error))
        near = f" ({hint(unknown[1], getattr(kind, '__struct_fields__', ()))})" if unknown else ""
        places = (path.name, record, _wrong_row(data, kind, str(error)))
        raise ValueError(f"{': '.join(filter(None, places))}: {error}{near}") from None


def _wrong_row(data: dict[str, Any], kind: type[Any], error: str) -> str:
    """Return the row of a table within the data that an error is about, '' if it is about another part."""
    found = re.search(r"`\$\.(\w+)\[\.\.\.\]", error)
    table = found[1] if found else ""
    for name, row in data.get(table, {}).items():
        try:
            msgspec.convert({**data, table: {name: row}}, kind)
        except msgspec.ValidationError as same:
            if str(same) == error:
                return f"{table}.{name}"
    return ""


def read_rows(path: Path, table: str, before: Mapping[str, dict[str, Any]] = {}) -> dict[str, dict[str, Any]]:
    """Return the rows of a table of a shipped file by name, after those `before` it. A row has the fields of its
    `base`, which stands before it, where it states none."""
    rows = {**before}
    for name, row in file_access.shipped(path)[table].items():
        rows[name] = {**rows.get(row.get("base"), {}), **row}
    return rows


def read_records(path: Path, table: str, kind: type[T]) -> dict[str, T]:
    """Return the rows of a table of a shipped file as structs by name. Raises ValueError."""
    return {name: convert_record(path, f"{table}.{name}", row, kind) for name, row in read_rows(path, table).items()}


def read_list(path: Path, table: str, kind: type[T]) -> tuple[T, ...]:
    """Return the rows of a table without names of a shipped file as structs. Raises ValueError."""
    rows = enumerate(file_access.shipped(path)[table], 1)
    return tuple(convert_record(path, f"{table}, row {place}", row, kind) for place, row in rows)
