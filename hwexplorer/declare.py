"""The declaration of a verb. A report is a verb that prints a document: one module of hwexplorer.reports with

    VERB = Report(subject=DEVICE, document=.., title=.., parts=(..), options=(..), examples={..})

and its help in the first line. The command line, JSON, CSV, text, HTML, the screen, the complete report, the golden
tests and the reference read this and nothing else. A verb that does more than print declares `VERB = Verb(..)` in a
module of hwexplorer.commands.
"""

import argparse
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any

import msgspec

from analysis.document import Column
from hardware.precision import rate_unit
from hwexplorer import options
from hwexplorer.options import Option
from hwexplorer.state import State
from hwexplorer.views import plain, tables


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of a verb, by the options that name it. `several` devices may follow --on; without it, `everywhere`
    takes the whole catalogue. A verb that `compares` takes one device, or several to compare."""

    options: tuple[Option, ...] = ()
    several: bool = False
    compares: bool = False
    everywhere: bool = False

    def has(self, name: str) -> bool:
        """Return True if one of its options has this name."""
        return any(option.name == name for option in self.options)


_ASKED = (options.MODEL, *options.SCENARIO, *options.OWN_MODEL)
CATALOGUE = Subject()
MODEL = Subject(options=(options.MODEL, *options.INPUT, *options.OWN_MODEL))
DEVICE = Subject(options=(*_ASKED, options.ON_ONE))
NODE = Subject(options=(*_ASKED, options.ON_ONE, options.NODE))
DEVICES = Subject(options=(*_ASKED, options.ON_SEVERAL), several=True)
EVERYWHERE = Subject(options=DEVICES.options, several=True, everywhere=True)

Lines = Callable[[Any, State], Iterable[str]]


def _lines(lines: tuple[str, ...] | Lines, document: Any, state: State) -> tuple[str, ...]:
    """Return the lines, or the lines that a function makes of the document."""
    return lines if isinstance(lines, tuple) else tuple(lines(document, state))


class Rows(msgspec.Struct, frozen=True):
    """A table. Its rows are the items of `of`, a field (by default `name`) or a function of the document.

    `without` returns the keys of columns that a document leaves out, `rate_format` the format of its rates; `footer`
    and `notes` are lines, or return them. A table that is `optional` is left out of a page if it has no rows. `leads`
    returns the state that the screen opens from a row. Text shows the `first` rows (0: all) unless --all is given.
    `brief` holds the fields with other values in brief text; `digest` merges rows."""

    name: str
    title: str | Callable[[Any], str]
    columns: tuple[Column, ...]
    of: str | Callable[[Any], Iterable[Any]] = ""
    key: tables.Named = ""
    kind: str = ""
    dim: Callable[[Any], bool] | None = None
    children: Callable[[Any], tuple[Any, ...]] | None = None
    leads: Callable[[Any], str] | None = None
    without: Callable[[Any], tuple[str, ...]] | None = None
    rate_format: Callable[[Any], str] | None = None
    footer: tuple[str, ...] | Lines = ()
    notes: tuple[str, ...] | Lines = ()
    optional: bool = False
    first: int = 0
    digest: tables.Digest | None = None
    brief: dict[str, Any] = {}

    def __call__(self, document: Any, state: State) -> plain.Table:
        hidden = self.without(document) if self.without is not None else ()
        columns = tuple(column for column in self.columns if column.key not in hidden)
        if self.rate_format is not None and (unit := rate_unit(self.rate_format(document))) != "FLOP/s":
            columns = tuple(
                msgspec.structs.replace(column, unit=unit) if column.unit == "FLOP/s" else column for column in columns
            )
        table = plain.Table(
            self.name,
            self.title if isinstance(self.title, str) else self.title(document),
            columns,
            tables.rows(columns, self.items(document), self.key, self.kind, self.dim, self.children, self.leads),
            _lines(self.footer, document, state),
            _lines(self.notes, document, state),
            self.first,
        )
        table = tables.name_work(table, "sample") if ":train" in state.model else table
        return table if self.digest is None else tables.summarize(table, self.digest)

    def items(self, document: Any) -> Iterable[Any]:
        """Return the items of the document that the rows are about."""
        source = self.of or self.name
        items: Iterable[Any] = getattr(document, source) if isinstance(source, str) else source(document)
        return items


def summary_text(lines: Lines, name: str = "summary", title: str = "Summary") -> Callable[[Any, State], plain.Text]:
    """Return a part that shows short statements, by default the summary at the top of a report."""
    return lambda document, state: plain.Text(
        name, title, (("", text),) if (text := tuple(lines(document, state))) else ()
    )


# A part of a report: a declared table, or a function that makes a view from the document.
Part = Rows | Callable[[Any, State], plain.View]


def document_of_estimate(find: Callable[..., Any]) -> Callable[..., Any]:
    """Turn `find`, a function of an estimate, into one of a state. A `path` that it takes is the state's node."""

    @wraps(find)
    def document(state: State, **options: Any) -> Any:
        """Return what `find` returns for the estimate of a state."""
        from hwexplorer import engine

        node = {"path": state.at} if "path" in signature(find).parameters else {}
        return find(engine.result(state), **node, **options)

    return document


class Section(msgspec.Struct, frozen=True):
    """The place of a report in the complete one, and its heading."""

    place: int
    heading: str


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """A verb that does something other than print a document."""

    options: tuple[Option, ...] = ()
    run: Callable[[argparse.Namespace], None]
    examples: dict[str, str] = {}
    shown: tuple[str, ...] = ()

    def all_options(self) -> tuple[Option, ...]:
        """Return all options of the verb."""
        return self.options


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A verb with sections. Words that name no section mean the one with the verb's name, unless `choose` is given,
    which returns the words with the section first."""

    choose: Callable[[list[str]], list[str]] | None = None
    shown: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A verb that prints a document, or shows it."""

    subject: Subject
    options: tuple[Option, ...] = ()
    # document(state, **options): a struct in SI units, with the keys of the JSON as fields.
    document: Callable[..., Any]
    # The view of the document: a page if there is a title, else the only part. A title in words comes before the
    # subject: `Energy of resnet50, batch 1, ..`; '' shows the subject alone. `main` names the table for CSV, by
    # default the last part.
    title: str | Callable[[Any, State], str] | None = None
    parts: tuple[Part, ...] = ()
    main: str = ""
    # view(state, **options), for a view that needs more than the document. Its tables have `view_columns`.
    view: Callable[..., plain.View | plain.Page] | None = None
    # The content of text without --all: brief(state, **options), or the parts that `brief_parts` names.
    brief: Callable[..., plain.View | plain.Page] | None = None
    html: Callable[..., plain.View | plain.Page] | None = None  # the content of HTML, if it is another one
    brief_parts: tuple[str, ...] = ()
    view_columns: tuple[Column, ...] = ()
    # pane(state): the view that the pane of this name shows, if it is another one.
    pane: Callable[[State], plain.View | plain.Page] | None = None
    # states(state, **options): the states whose models must be captured first.
    states: Callable[..., Iterable[State]] = lambda state, **_: (state,)
    # The place in the complete report, and whether the screen computes it without a subprocess.
    section: Section | None = None
    on_screen: bool = True
    # fails(document): the rules that do not hold, for the exit code; '' if all hold.
    fails: Callable[[Any], str] | None = None
    # The noun for what `document` counts; it then takes `tick`, a function of (done, total).
    ticks: str = ""
    # run(arguments, print_report) replaces printing, for a verb that sometimes does something else.
    run: Callable[[argparse.Namespace, Callable[[argparse.Namespace], None]], None] | None = None
    # served(report): the report that answers instead if the model is under a load.
    served: Callable[["Report"], "Report"] | None = None
    # export[format](document, state): the text of a format that only this report has.
    exports: dict[str, Callable[[Any, State], str]] = {}
    # Words after the verb, by the name of the golden file with their output; words that help shows before these.
    examples: dict[str, str] = {}
    shown: tuple[str, ...] = ()

    def all_options(self) -> tuple[Option, ...]:
        """Return all options of the verb."""
        return (*self.subject.options, *self.options, *options.output_options(*self.exports))

    @property
    def document_options(self) -> tuple[Option, ...]:
        """The options that its document takes; those named like a field of the state set that."""
        return tuple(option for option in self.options if option.name not in State.__struct_fields__)

    def about(self, state: State) -> "Report":
        """Return the report that answers about a state: another one if its model is under a load."""
        return self if self.served is None or not state.load else self.served(self)

    def views(self, document: Any, state: State, is_whole: bool) -> tuple[plain.View, ...]:
        """Return the views that the parts make of a document, whole or brief."""
        names, views = () if is_whole else self.brief_parts, []
        for part in self.parts:
            if isinstance(part, Rows) and not is_whole:
                part = msgspec.structs.replace(part, **part.brief)
            view = part(document, state)
            is_empty = getattr(part, "optional", False) and not getattr(view, "rows", True)
            if not is_empty and (not names or view.name in names):
                views.append(view)
        return tuple(views)

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of all tables, for the reference."""
        return sum((part.columns for part in self.parts if isinstance(part, Rows)), self.view_columns)


def example_words(verb: Verb | Report) -> tuple[str, ...]:
    """Return words after a verb, as help shows them."""
    return (*verb.shown, *verb.examples.values())


def takes_model(verb: Verb | Report) -> bool:
    """Return True if a verb is about a model or a state."""
    return any(option.name == "model" for option in verb.all_options())
