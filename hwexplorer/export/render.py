"""A view or a document as a string of one format: what `-o`, standard output and the screen's export share."""

from __future__ import annotations

from typing import Any

import msgspec

from hardware.errors import unknown
from hardware.safe_text import visible_json
from hwexplorer.export import sheet
from hwexplorer.export.delimited import as_csv, as_markdown
from hwexplorer.export.files import FORMATS, SCREEN
from hwexplorer.export.text import render as as_text
from hwexplorer.views.plain import Page, View

SCHEMA = "hwexplorer/1"  # the name of the JSON contract (design, section 8), which begins every document


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


def to_contract(document: Any, gap: str = "", limits: Any = None) -> dict[str, Any]:
    """A document as plain data, the name of the contract first, then what its figures lack, and the limits that its
    devices are held against."""
    lacks = {"incomplete": gap} if gap else {}
    held = {"limits": msgspec.to_builtins(limits)} if limits is not None else {}
    return {"schema": SCHEMA, **lacks, **held, **msgspec.to_builtins(document, enc_hook=_encode_command)}


def _encode_command(value: Any) -> str:
    from analysis.explore.next_step import NextStep
    from hwexplorer.text.next_command import command  # what computes next steps is not needed to write a view

    if isinstance(value, NextStep):
        return command(value)
    raise NotImplementedError(type(value).__name__)
