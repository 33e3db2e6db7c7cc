"""Write a view or a document in one format, for `-o`, standard output and the screen's export."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hardware.base.errors import unknown
from hardware.base.text import visible_json
from hwexplorer.export import sheet
from hwexplorer.export.delimited import as_csv, as_markdown
from hwexplorer.export.files import FORMATS, SCREEN
from hwexplorer.export.text import render as as_text
from hwexplorer.views.plain import Page, View

SCHEMA = "hwexplorer/1"  # the name of the JSON contract (design, section 8), first in every document


def plain(built: View | Page, form: str, width: int = 0, is_whole: bool = True, command: str = "") -> str:
    """Return a built view in one of the formats for people and spreadsheets; text is brief unless `is_whole`.
    An HTML page shows the `command` that made it."""
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
    """Return a document as indented JSON with a final newline, without characters that control a terminal."""
    return (
        visible_json(msgspec.json.format(msgspec.json.encode(to_contract(document, gap, limits)), indent=2).decode())
        + "\n"
    )


def to_contract(document: Any, gap: str = "", limits: Any = None) -> dict[str, Any]:
    """Return a document as plain data, after the name of the contract, the `gap` in its figures and the limits that its
    devices are checked against."""
    lacks = {"incomplete": gap} if gap else {}
    limit_fields = {"limits": msgspec.to_builtins(limits)} if limits is not None else {}
    return {"schema": SCHEMA, **lacks, **limit_fields, **msgspec.to_builtins(document, enc_hook=_encode_command)}


def json_schema(title: str, kinds: Sequence[Any]) -> str:
    """Return the JSON schema of documents of these types, any of them, as `encode` writes them."""
    references, structs = msgspec.json.schema_components(kinds, schema_hook=_schema_of_command)
    common = {"schema": {"const": SCHEMA}, "incomplete": {"type": "string"}, "limits": {"type": "object"}}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, "type": "object",
              "properties": common, "required": ["schema"], "anyOf": list(references), "$defs": structs}  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _schema_of_command(kind: type) -> dict[str, str]:
    """Return the schema of a value that is no struct: a next step is written as a command line, an object may be any
    document."""
    return {"description": "any document"} if kind is object else {"type": "string", "description": "a command line"}


def _encode_command(value: Any) -> str:
    from analysis.explore.comparison import NextStep
    from hwexplorer.text.next_command import command  # imported late: not needed to write a view

    if isinstance(value, NextStep):
        return command(value)
    raise NotImplementedError(type(value).__name__)
