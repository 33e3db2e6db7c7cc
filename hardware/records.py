"""Rows of shipped tables as structs, with errors that name the file and the record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

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
