"""Rows of a report from columns of numbers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Row = TypeVar("Row", bound=msgspec.Struct)


def records(
    kind: type[Row], like: object = None, rows: NDArray[np.integer[Any]] | None = None, **columns: Any
) -> tuple[Row, ...]:
    """A struct for each row of columns of equal length, by the names of its fields; arrays give plain numbers. A field
    that no column gives is the column of that name of `like`, all of it or these rows."""
    for name in kind.__struct_fields__:
        if name not in columns and hasattr(like, name):
            columns[name] = getattr(like, name) if rows is None else getattr(like, name)[rows]
    plain = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    return tuple(kind(**dict(zip(columns, row, strict=True))) for row in zip(*plain, strict=True))
