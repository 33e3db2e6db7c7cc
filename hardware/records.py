"""Rows of shipped tables as structs, with errors that name the file and the record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hardware import file_access
from hardware.names import hint

T = TypeVar("T", bound=msgspec.Struct)


def convert_record(path: Path, record: str, data: dict[str, Any], kind: type[T]) -> T:
    """Return a row as a struct. Raises ValueError with the file, the record and, of an unknown field, the nearest."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        unknown = re.search(r"unknown field `(\w+)`", str(error))
        near = f" ({hint(unknown[1], kind.__struct_fields__)})" if unknown else ""
        raise ValueError(f"{path.name}: {record}: {error}{near}") from None


def read_rows(path: Path, table: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a table of a shipped file by name. A row has the fields of its `base`, which stands before it,
    where it states none."""
    rows: dict[str, dict[str, Any]] = {}
    for name, row in file_access.shipped(path)[table].items():
        rows[name] = {**rows.get(row.get("base"), {}), **row}
    return rows


def read_records(path: Path, table: str, kind: type[T]) -> dict[str, T]:
    """Return the rows of a table of a shipped file as structs by name. Raises ValueError."""
    return {name: convert_record(path, f"{table}.{name}", row, kind) for name, row in read_rows(path, table).items()}
