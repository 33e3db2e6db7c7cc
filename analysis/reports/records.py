"""Rows of a report from columns of numbers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np

Row = TypeVar("Row", bound=msgspec.Struct)


def records(kind: type[Row], **columns: Any) -> tuple[Row, ...]:
    """A struct for each row of columns of equal length, by the names of its fields; arrays give plain numbers."""
    plain = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    return tuple(kind(**dict(zip(columns, row, strict=True))) for row in zip(*plain, strict=True))
