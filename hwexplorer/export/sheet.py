"""A view as a subprocess sends it to the screen: all of it as text, and the main table to choose from."""

from typing import Any

import msgspec

from analysis.document import Column
from hwexplorer.export.text import render
from hwexplorer.views import plain


class Sheet(msgspec.Struct, frozen=True):
    """The text of a report, and its main table if its rows lead to another state."""

    title: str
    text: str
    table: plain.Table | None = None


_HEAD = ("key", "title", "unit", "role", "keep", "help")  # of a column: not the source of its cells


class _Wire(msgspec.Struct, frozen=True):
    title: str
    text: str
    heads: tuple[dict[str, Any], ...]
    rows: tuple[plain.Row, ...]


def sheet(view: plain.View | plain.Page, width: int) -> Sheet:
    """Return the text of a view, and its main table if the rows lead to another state."""
    main = view.parts[view.main] if isinstance(view, plain.Page) else view
    leads = isinstance(main, plain.Table) and any(row.leads for row in main.rows)
    return Sheet(view.title, render(view, width), main if leads and isinstance(main, plain.Table) else None)


def encode(view: plain.View | plain.Page, width: int) -> str:
    """Return a view as one line of JSON that `decode` reads."""
    content = sheet(view, width)
    table = content.table or plain.EMPTY_TABLE
    heads = tuple({name: getattr(column, name) for name in _HEAD} for column in table.columns)
    return msgspec.json.encode(_Wire(content.title, content.text, heads, table.rows)).decode() + "\n"


def decode(text: bytes) -> Sheet:
    """Return the sheet of a line. Raises msgspec.MsgspecError for the text of a verb that prints no sheet."""
    wire = msgspec.json.decode(text, type=_Wire)
    columns = tuple(Column(**head) for head in wire.heads)
    return Sheet(wire.title, wire.text, plain.Table("results", wire.title, columns, wire.rows) if wire.rows else None)
