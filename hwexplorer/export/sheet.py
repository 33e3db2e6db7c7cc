"""A view as the screen takes it from a process of its own: all of it as text, and the main table to choose from."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.document import Cell, Column
from hwexplorer.export.text import render
from hwexplorer.views.plain import Page, Row, Table, View


class Sheet(msgspec.Struct, frozen=True):
    """The text of a report, and its main table only where rows lead to another state."""

    title: str
    text: str
    table: Table | None = None


class _Head(msgspec.Struct, frozen=True):
    key: str
    title: str
    unit: str
    role: str
    keep: int
    help: str


class _Line(msgspec.Struct, frozen=True):
    key: str
    cells: tuple[Cell, ...]
    dim: bool
    leads: str


class _Wire(msgspec.Struct, frozen=True):
    """A sheet without what only the process that made it has: where cells come from."""

    title: str
    text: str
    heads: tuple[_Head, ...]
    lines: tuple[_Line, ...]


def sheet(view: View | Page, width: int) -> Sheet:
    main = view.parts[view.main] if isinstance(view, Page) else view
    leads = isinstance(main, Table) and any(row.leads for row in main.rows)
    return Sheet(view.title, render(view, width), main if leads and isinstance(main, Table) else None)


def encode(view: View | Page, width: int) -> str:
    made = sheet(view, width)
    heads, lines = (made.table.columns, made.table.rows) if made.table is not None else ((), ())
    wire = _Wire(made.title, made.text, _all(_Head, heads), _all(_Line, lines))
    return msgspec.json.encode(wire).decode() + "\n"


def decode(text: bytes) -> Sheet:
    """Raises msgspec.MsgspecError where the text is no sheet: a verb that prints something else."""
    wire = msgspec.json.decode(text, type=_Wire)
    columns, rows = _all(Column, wire.heads), _all(Row, wire.lines)
    return Sheet(wire.title, wire.text, Table("results", wire.title, columns, rows) if rows else None)


def _all(kind: type[Any], items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same as structs of another kind, in the fields that both have."""
    return tuple(
        kind(**{name: getattr(item, name) for name in kind.__struct_fields__ if hasattr(item, name)}) for item in items
    )
