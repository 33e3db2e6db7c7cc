"""The answer of a verb for Python: the document of its JSON, rows, tables, text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hwexplorer import engine
from hwexplorer.answer import Answer
from hwexplorer.process import output

Document = TypeVar("Document")


class Result(Generic[Document]):
    """The answer of a verb. `document` is the struct of its JSON, whose fields are also those of the result."""

    def __init__(self, answer: Answer, folders: Sequence[Path] = ()) -> None:
        """`folders` hold devices of the answer; views are computed when they are asked for."""
        self._asked, self._folders = answer, folders

    @property
    def _answer(self) -> Answer:
        engine.use_folders(self._folders)
        return self._asked

    @property
    def document(self) -> Document:
        """The struct of the answer, in SI units."""
        document: Document = self._answer.document
        return document

    @property
    def broken_rules(self) -> str:
        """The rules that do not hold (`check`, `diff`, `validate`); '' if all hold."""
        return self._answer.broken_rules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        document = self.document
        if isinstance(document, dict) and name in document:
            return document[name]
        return getattr(document, name)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as plain data in SI units."""
        return self._answer.to_dict()

    @property
    def rows(self) -> tuple[Any, ...]:
        """The structs of the main table, or the rows of CSV as dictionaries if it has no structs."""
        structs = self._answer.records()
        if structs is not None:
            return structs
        from hwexplorer.export.delimited import grid

        names, *lines = grid(self._answer.view())
        return tuple(dict(zip(map(str, names), line, strict=True)) for line in lines)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as flat dictionaries; a field within a field is named after it, `trust.level`."""
        return [_flatten(msgspec.to_builtins(row, enc_hook=str)) for row in self.rows]

    def to_pandas(self) -> Any:
        """Return the rows as a DataFrame. Raises ImportError without pandas."""
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return pandas.DataFrame.from_records(self.records())

    def to_polars(self) -> Any:
        """Return the rows as a DataFrame. Raises ImportError without polars."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_dicts(self.records(), infer_schema_length=None)

    def to_text(self, form: str = "text", width: int = 0, is_whole: bool = False) -> str:
        """Return what `--format` prints: text (all of it if `is_whole`), json, csv, md or html. `width` is the columns
        to fit, 0 for all."""
        return self._answer.to_text(form, width, is_whole)

    def __repr__(self) -> str:
        return self.to_text(width=output.width()).rstrip("\n")

    def _repr_html_(self) -> str:
        from hwexplorer.export.html import as_fragment

        return as_fragment(self._answer.view(is_whole=False))


def _flatten(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {
        key: each
        for inner in value
        for key, each in _flatten(value[inner], f"{name}.{inner}" if name else inner).items()
    }
