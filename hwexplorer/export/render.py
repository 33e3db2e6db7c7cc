"""A view or a document as a string of one format: what `-o`, standard output and the screen's export share."""

from __future__ import annotations

import msgspec

from hardware.errors import unknown
from hardware.safe_text import visible_json
from hwexplorer.export import sheet
from hwexplorer.export.contract import to_contract
from hwexplorer.export.delimited import as_csv, as_markdown
from hwexplorer.export.files import FORMATS, SCREEN
from hwexplorer.export.text import render as as_text
from hwexplorer.views.plain import Page, View


def plain(built: View | Page, form: str, width: int = 0, is_whole: bool = True, command: str = "") -> str:
    """Return a built view in one of the formats for people and spreadsheets; text is brief unless `is_whole`.
    A page says the `command` that made it."""
    if form == "csv":
        return as_csv(built)
    if form == "md":
        return as_markdown(built)
    if form == "text":
        return as_text(built, width, is_whole)
    if form == "html":
        from hwexplorer.export.html import as_html

        return as_html(built, command)
    if form == SCREEN:
        return sheet.encode(built, width)
    raise unknown("format", form, FORMATS)


def encode(document: object, gap: str = "", limits: object = None) -> str:
    """Indented JSON with a final newline, under the name of the contract, nothing in it that steers a terminal."""
    return (
        visible_json(msgspec.json.format(msgspec.json.encode(to_contract(document, gap, limits)), indent=2).decode())
        + "\n"
    )
