"""Tables of shipped TOML files as records. A record that does not validate is named, with its file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hardware import file_access
from hardware.errors import RequestError
from hardware.names import hint

Record = TypeVar("Record", bound=msgspec.Struct)
_UNKNOWN = re.compile(r"unknown field `(\w+)`(?! at)|unknown field `(\w+)` - at `\$`")


def read_records(
    path: Path,
    kind: str,
    record_type: type[Record],
    table: str | None = None,
    prepare: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _, row: row,
) -> dict[str, Record]:
    """Return the records of a `table` of a file by name, or of the whole file. A record has the fields of its `base`,
    which stands before it, where it states none; `prepare` adds others. Raises RequestError, which names the file, the
    record of this `kind`, and fields like an unknown one."""
    rows, records = dict[str, dict[str, Any]](), dict[str, Record]()
    for name, row in (file_access.shipped(path) if table is None else file_access.shipped(path)[table]).items():
        rows[name] = {**rows.get(row.get("base"), {}), **row}
        try:
            records[name] = msgspec.convert(prepare(name, rows[name]), record_type)
        except msgspec.ValidationError as error:
            raise RequestError(f"{path.name}: {kind} {name!r}: {_explain(str(error), record_type)}") from None
    return records


def _explain(error: str, record_type: type[msgspec.Struct]) -> str:
    """Return the words of msgspec without its subject, and names of fields like an unknown one."""
    words = error.removeprefix("Object contains ")
    unknown = _UNKNOWN.search(words)
    return f"{words}, {hint(unknown[1] or unknown[2], record_type.__struct_fields__)}" if unknown else words
