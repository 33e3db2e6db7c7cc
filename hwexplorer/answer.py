"""The answer of a report about a state: a document for programs, a view for people."""

from __future__ import annotations

from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any

from analysis.model.ir.coverage import uncovered_note
from hardware.errors import RequestError, unknown
from hwexplorer import engine, registry
from hwexplorer.declare import Report, Rows, Verb
from hwexplorer.state import EACH, State, replace
from hwexplorer.state import format as format_state
from hwexplorer.views.captions import headline_of_state, place_in_words
from hwexplorer.views.plain import Page, View

if TYPE_CHECKING:
    from hwexplorer.views.device_limits import LimitsCheck

_APPLIES = {"batch": "applies to one batch, not to a load", "load": "needs a load, e.g. llama3_8b --load rate=5"}
TITLE_MAX = 96  # characters of a title and its subject: with ` of ` they fit in one line of 100


def _applicable_options(declared: Report | Verb, state: State, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that apply to a state: to its load, or to its batch. Raises RequestError for another one."""
    other = "batch" if state.load else "load"
    options = {option.name: option for option in declared.options if option.applies_to == other}
    for name in options.keys() & given.keys():
        if given[name] != options[name].default:
            raise RequestError(f"{options[name].flags[0]} {_APPLIES[other]}")
    return {name: value for name, value in given.items() if name not in options}


class Answer:
    """The answer of a report about a state: a document for programs, a view for people."""

    def __init__(self, name: str, state: State, **options: Any) -> None:
        report = registry.load(name, bool(state.load))
        if not isinstance(report, Report):
            raise unknown("report", name, registry.names())
        self.name, self.report = name, report
        self.state = state if report.subject.has("node") else replace(state, at="")
        own = [option for option in report.options if option.name not in State.__struct_fields__]
        defaults = {option.name: option.default for option in own}
        self.options = _applicable_options(registry.load(name), state, defaults | options)

    def __getstate__(self) -> dict[str, Any]:
        options = {name: value for name, value in self.options.items() if not callable(value)}
        return {**{name: value for name, value in vars(self).items() if name != "report"}, "options": options}

    def __setstate__(self, known: dict[str, Any]) -> None:
        report = registry.load(known["name"], bool(known["state"].load))  # its functions are not pickled
        vars(self).update(known, report=report)

    @cached_property
    def document(self) -> Any:
        """The struct that the report finds, in SI units."""
        return self.report.document(self.state, **self.options)

    @cached_property
    def missing_rules(self) -> str:
        """A note on operators without a cost rule, if they are too many for meaningful figures; else ''."""
        if not self.report.subject.options:
            return ""
        states = [state for state in self.report.states(self.state, **self.options) if engine.is_ready(state)]
        gaps = {(model := engine.captured_model(state)).name: uncovered_note(model, state.batch) for state in states}
        said = "; ".join(f"{gap} ({name})" if len(gaps) > 1 else gap for name, gap in gaps.items() if gap)
        if said or self.report.view is not None:  # a view that needs no document
            return said
        return getattr(self.document, "incomplete", "") or ""  # the note in a file of results

    @cached_property
    def limits_check(self) -> LimitsCheck | None:
        """Which devices of the state pass its limits; None without limits."""
        if not self.state.limits or not self.report.subject.options:
            return None
        from hwexplorer.views import device_limits

        return device_limits.check_limits(self.state) if engine.is_ready(self.state) else None

    @property
    def broken_rules(self) -> str:
        """The rules that do not hold (`check`, `diff`, `validate`); '' if all hold."""
        return "" if self.report.fails is None else self.report.fails(self.document)

    def records(self) -> tuple[Any, ...] | None:
        """Return the structs that the main table shows; None if it does not show structs of the document."""
        parts = self.report.parts
        main = next((part for part in parts if getattr(part, "name", None) == self.report.main), (*parts, None)[-1])
        rows = main.items(self.document) if isinstance(main, Rows) else getattr(self.document, "rows", None)
        return None if rows is None else tuple(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain data, as in JSON."""
        from hwexplorer.export.render import to_contract

        return to_contract(self.document, self.missing_rules, self.limits_check)

    def view(self, is_whole: bool = True, form: str = "text") -> View | Page:
        """Return the view for people: the brief view of the report, if it has one, unless `is_whole`, or its view for
        HTML. The title of an incomplete answer says so first."""
        own = self.report.html if form == "html" else None if is_whole else self.report.brief
        built = self._view(is_whole) if own is None else own(self.state, **self.options)
        title = "; ".join(filter(None, (built.title, str(self.limits_check or ""))))
        title = ". ".join(filter(None, (self.missing_rules, title)))
        return replace(built, title=title) if title != built.title else built

    def _view(self, is_whole: bool) -> View | Page:
        report = self.report
        if report.view is not None:
            return report.view(self.state, **self.options)
        parts = report.views(self.document, self.state, is_whole)
        if report.title is None:
            return parts[0]
        parts = tuple(part for part in parts if getattr(part, "sections", True) or getattr(part, "steps", False))
        main = [part.name for part in parts].index(report.main) if report.main and is_whole else -1
        return Page(self.name, self._title(), parts, main=main)

    def _title(self) -> str:
        title = self.report.title
        if callable(title):
            return title(self.document, self.state)
        describe = headline_of_state if self.report.subject.several else place_in_words
        subject = describe(self.state)
        return f"{title} of {subject}" if title and len(title) + len(subject) <= TITLE_MAX else subject

    @property
    def command(self) -> str:
        """The command line that gives this answer, without the fields of the state that only the screen shows."""
        split = tuple(key for key in self.state.open if key.endswith(EACH))
        state = replace(self.state, pane=State().pane, zoom=False, find="", filter="", open=split)
        words = ["hwexplorer", *registry.full_name(self.name).split()]
        words += [quote(format_state(state))] if self.report.subject.options else []
        for option in self.report.options:
            value = self.options.get(option.name, option.default)
            if value != option.default and isinstance(value, str | int | float) and not option.is_word:
                words += [option.flags[0]] if value is True else [option.flags[0], quote(str(value))]
        return " ".join(words)

    def to_text(self, form: str, width: int = 0, is_whole: bool = False) -> str:
        """Return the answer in a format. `width` is the columns to fit, 0 for all; text is brief unless `is_whole`."""
        from hwexplorer.export.render import encode, plain

        if form in self.report.exports:
            return self.report.exports[form](self.document, self.state)
        if form == "json":
            return encode(self.document, self.missing_rules, self.limits_check)
        is_whole = is_whole or form != "text"
        return plain(self.view(is_whole, form), form, width, is_whole, self.command)
