"""The answer of a report about a state, for the command line, the screen and Python: a document and views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from analysis.model.ir.workload import uncovered_note
from hardware.base.errors import RequestError, unknown
from hwexplorer import engine, registry
from hwexplorer.declare import Report, Rows
from hwexplorer.export.files import SUFFIXES
from hwexplorer.process import output
from hwexplorer.state import EACH, State, replace
from hwexplorer.state import format as format_state
from hwexplorer.views.captions import headline_of_state, place_in_words
from hwexplorer.views.plain import Page, View

if TYPE_CHECKING:
    from hwexplorer.views.device_rows import LimitsCheck

_APPLIES = {"batch": "applies to one batch, not to a load", "load": "needs a load, e.g. llama3_8b --load rate=5"}
Document = TypeVar("Document")
TITLE_MAX = 96  # characters of a title and its subject: with ` of ` they fit in one line of 100


def _applicable_options(declared: Report, state: State, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that apply to a state: to its load, or to its batch. Raises RequestError for another one."""
    unwanted = "batch" if state.load else "load"
    options = {option.name: option for option in declared.options if option.applies_to == unwanted}
    for name in options.keys() & given.keys():
        if given[name] != options[name].default:
            raise RequestError(f"{options[name].flags[0]} {_APPLIES[unwanted]}")
    return {name: value for name, value in given.items() if name not in options}


class Answer(Generic[Document]):
    """The answer of a report about a state. Its attributes are also the fields of its `document`, the struct of its
    JSON. Documents and views are computed when they are asked for."""

    def __init__(self, name: str, state: State, folders: Sequence[Path] | None = None, **options: Any) -> None:
        """`folders` hold devices of this answer alone; None means those in use."""
        declared = registry.load(name)
        if not isinstance(declared, Report):
            raise unknown("report", name, registry.names())
        self._name, self._report, self._folders = name, declared.about(state), folders
        report = self._report
        self._state = state if report.subject.has("node") else replace(state, at="")
        options_of_report = [option for option in report.options if option.name not in State.__struct_fields__]
        defaults = {option.name: option.default for option in options_of_report}
        self._options = _applicable_options(declared, state, defaults | options)

    def __getstate__(self) -> dict[str, Any]:
        options = {name: value for name, value in self._options.items() if not callable(value)}
        return {**{name: value for name, value in vars(self).items() if name != "_report"}, "_options": options}

    def __setstate__(self, known: dict[str, Any]) -> None:
        declared = registry.load(known["_name"])  # its functions are not pickled
        assert isinstance(declared, Report)
        vars(self).update(known, _report=declared.about(known["_state"]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or hasattr(type(self), name):  # a property that failed: its own error is shown
            return object.__getattribute__(self, name)
        document = self.document
        return document[name] if isinstance(document, dict) and name in document else getattr(document, name)

    def _find_devices(self) -> None:
        if self._folders is not None and tuple(self._folders) != engine.named_folders():
            engine.use_folders(self._folders)

    @cached_property
    def document(self) -> Document:
        """The struct of the answer, in SI units."""
        self._find_devices()
        document: Document = self._report.document(self._state, **self._options)
        return document

    @cached_property
    def missing_rules(self) -> str:
        """A note on operators without a cost rule, if they are too many for meaningful figures; else ''."""
        if not self._report.subject.options:
            return ""
        states = [state for state in self._report.states(self._state, **self._options) if engine.is_ready(state)]
        gaps = {(model := engine.captured_model(state)).name: uncovered_note(model, state.batch) for state in states}
        notes = "; ".join(f"{gap} ({name})" if len(gaps) > 1 else gap for name, gap in gaps.items() if gap)
        if notes or (self._report.view is not None and self._report.fails is None):  # a view that needs no document
            return notes
        return getattr(self.document, "incomplete", "") or ""  # the note in a file of results

    @cached_property
    def limits_check(self) -> LimitsCheck | None:
        """Which devices of the state pass its limits; None without limits."""
        if not self._state.limits or not self._report.subject.options:
            return None
        from hwexplorer.views import device_rows

        self._find_devices()
        return device_rows.check_limits(self._state) if engine.is_ready(self._state) else None

    @property
    def broken_rules(self) -> str:
        """The rules that do not hold (`check`, `diff`, `validate`); '' if all hold."""
        return "" if self._report.fails is None else self._report.fails(self.document)

    @property
    def suffixes(self) -> dict[str, str]:
        """The suffix of a file -> the format that it names, with the formats that only this report has."""
        return SUFFIXES | {f".{form}": form for form in self._report.exports}

    @property
    def rows(self) -> tuple[Any, ...]:
        """The structs of the main table, or the rows of CSV as dictionaries if it does not show structs."""
        parts = self._report.parts
        main = next((part for part in parts if getattr(part, "name", None) == self._report.main), (*parts, None)[-1])
        rows = main.items(self.document) if isinstance(main, Rows) else getattr(self.document, "rows", None)
        if rows is not None:
            return tuple(rows)
        from hwexplorer.export.delimited import grid

        names, *lines = grid(self.view())
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

    def __repr__(self) -> str:
        return self.to_text("text", output.width()).rstrip("\n")

    def _repr_html_(self) -> str:
        from hwexplorer.export.html import as_fragment

        return as_fragment(self.view(is_whole=False))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as plain data in SI units."""
        from hwexplorer.export.render import to_contract

        return to_contract(self.document, self.missing_rules, self.limits_check)

    def view(self, is_whole: bool = True, form: str = "text") -> View | Page:
        """Return the view for people: the brief view of the report, if it has one, unless `is_whole`, or its view for
        HTML. The title of an incomplete answer says so first."""
        self._find_devices()
        special_view = self._report.html if form == "html" else None if is_whole else self._report.brief
        page = self._view(is_whole) if special_view is None else special_view(self._state, **self._options)
        title = "; ".join(filter(None, (page.title, str(self.limits_check or ""))))
        title = ". ".join(filter(None, (self.missing_rules, title)))
        return replace(page, title=title) if title != page.title else page

    def _view(self, is_whole: bool) -> View | Page:
        report = self._report
        if report.view is not None:
            return report.view(self._state, **self._options)
        parts = report.views(self.document, self._state, is_whole)
        if report.title is None:
            return parts[0]
        parts = tuple(part for part in parts if getattr(part, "sections", True) or getattr(part, "steps", False))
        main = [part.name for part in parts].index(report.main) if report.main and is_whole else -1
        return Page(self._name, self._title(), parts, main=main)

    def _title(self) -> str:
        title = self._report.title
        if callable(title):
            return title(self.document, self._state)
        describe = headline_of_state if self._report.subject.several else place_in_words
        subject = describe(self._state)
        return f"{title} of {subject}" if title and len(title) + len(subject) <= TITLE_MAX else subject

    @property
    def command(self) -> str:
        """The command line that gives this answer, without the fields of the state that only the screen shows."""
        split = tuple(key for key in self._state.open if key.endswith(EACH))
        state = replace(self._state, pane=State().pane, zoom=False, find="", filter="", open=split)
        words = ["hwexplorer", *registry.full_name(self._name).split()]
        words += [quote(format_state(state))] if self._report.subject.has("model") else []
        for option in self._report.options:
            value = self._options.get(option.name, option.default)
            if isinstance(value, tuple) and option.is_word:
                words += [quote(format_state(word) if isinstance(word, State) else str(word)) for word in value]
            if value != option.default and isinstance(value, str | int | float) and not option.is_word:
                words += [option.flags[0]] if value is True else [option.flags[0], quote(str(value))]
        return " ".join(words)

    def to_text(self, form: str = "text", width: int = 0, is_whole: bool = False) -> str:
        """Return what `--format` prints: text (brief unless `is_whole`), json, csv, md, html or a format of the report.
        `width` is the columns to fit, 0 for all."""
        from hwexplorer.export.render import encode, plain

        if form in self._report.exports:
            return self._report.exports[form](self.document, self._state)
        if form == "json":
            return encode(self.document, self.missing_rules, self.limits_check)
        is_whole = is_whole or form != "text"
        return plain(self.view(is_whole, form), form, width, is_whole, self.command)


def _flatten(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {
        key: cell
        for inner in value
        for key, cell in _flatten(value[inner], f"{name}.{inner}" if name else inner).items()
    }
