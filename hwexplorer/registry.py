"""The verbs: the modules of hwexplorer.reports, commands and annexes, each with its help in its first line.

Only the module that is asked for is imported. A folder put on the path of one of the packages adds its verbs.
"""

from __future__ import annotations

import pkgutil
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hardware.errors import unknown
from hwexplorer.schema import stamped
from hwexplorer.state import State, replace

if TYPE_CHECKING:
    from hwexplorer.declare import Report, Verb
    from hwexplorer.limits import Held
    from hwexplorer.views.plain import Page, View

_PACKAGES = ("hwexplorer.reports", "hwexplorer.commands", "hwexplorer.annexes")


def names() -> tuple[str, ...]:
    return tuple(_modules())


def helps() -> dict[str, str]:
    """Verb -> help line."""
    return {name: helped(name) for name in _modules()}


def helped(name: str) -> str:
    """The help line of a verb."""
    return _first_line(_modules()[name])


@lru_cache(maxsize=128)
def _first_line(module: str) -> str:
    """Of a verb: its source is read, not run."""
    spec = find_spec(module)
    source = (spec.loader.get_source(module) or "") if spec and isinstance(spec.loader, SourceFileLoader) else ""
    line = source.partition("\n")[0].strip('".')
    return line[:1].lower() + line[1:]


def load(name: str) -> Report | Verb:
    """What a verb declares. Raises RequestError for an unknown one."""
    modules = _modules()
    if name not in modules:
        raise unknown("verb", name, modules)
    verb: Report | Verb = import_module(modules[name]).VERB
    return verb


def _modules() -> dict[str, str]:
    """Verb -> module: reports by name, then the verbs that do something else."""
    return {name: path for package in _PACKAGES for name, path in _inside(package, *_folders(package)).items()}


def _folders(package: str) -> list[str]:
    return list(import_module(package).__path__)


@lru_cache(maxsize=8)
def _inside(package: str, *folders: str) -> dict[str, str]:
    """Helpers begin with an underscore."""
    modules = (module.name for module in pkgutil.iter_modules(folders))
    return {name: f"{package}.{name}" for name in modules if not name.startswith("_")}


def takes_model(name: str) -> bool:
    """Whether the first word after a verb is a model or a state."""
    return any(option.name == "model" for option in load(name).all_options())


def names_model(name: str) -> bool:
    """Whether that model or state follows an option, `--model`."""
    return any("--model" in option.flags for option in load(name).all_options())


def is_report(name: str) -> bool:
    """Whether a verb prints a document, in any of the formats."""
    from hwexplorer.declare import Report

    return isinstance(load(name), Report)


class Answer:
    """What a report finds about a state: a document for programs, a view for people."""

    def __init__(self, name: str, state: State, **options: Any) -> None:
        from hwexplorer.declare import Report

        report = load(name)
        if not isinstance(report, Report):
            raise unknown("report", name, names())
        self.name, self.report = name, report
        self.state = state if report.subject.has("node") else replace(state, at="")
        own = [option for option in report.options if option.name not in State.__struct_fields__]
        self.options = {option.name: option.default for option in own} | options

    @cached_property
    def document(self) -> Any:
        """The struct."""
        return self.report.document(self.state, **self.options)

    @cached_property
    def gap(self) -> str:
        """What of its models has no cost rule, where that is too much for their figures to be the models'."""
        from analysis.model.ir.coverage import lacking
        from hwexplorer import engine

        if not self.report.subject.options:
            return ""
        states = [state for state in self.report.states(self.state, **self.options) if engine.is_ready(state)]
        gaps = {(model := engine.captured(state)).name: lacking(model, state.batch) for state in states}
        said = "; ".join(f"{gap} ({name})" if len(gaps) > 1 else gap for name, gap in gaps.items() if gap)
        if said or self.report.view is not None:  # which needs no document
            return said
        return getattr(self.document, "incomplete", "") or ""  # of a file that was read

    @cached_property
    def held(self) -> Held | None:
        """The devices of a state that sets limits, held against them."""
        if not self.state.limits or not self.report.subject.options:
            return None
        from hwexplorer import engine, limits

        return limits.held(self.state) if engine.is_ready(self.state) else None

    def records(self) -> tuple[Any, ...] | None:
        """The structs that the main table shows, where it is a table of structs of the document."""
        from hwexplorer.declare import Rows

        parts = self.report.parts
        main = next((part for part in parts if getattr(part, "name", None) == self.report.main), (*parts, None)[-1])
        rows = main.items(self.document) if isinstance(main, Rows) else getattr(self.document, "rows", None)
        return None if rows is None else tuple(rows)

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON has it."""
        return stamped(self.document, self.gap, self.held)

    def view(self) -> View | Page:
        """For people. What is incomplete says so in its first line."""
        built = self._view()
        said = (self.gap, built.title, str(self.held or ""))
        return replace(built, title="; ".join(filter(None, said))) if self.gap or self.held else built

    def _view(self) -> View | Page:
        from hwexplorer.views.plain import Page

        report = self.report
        if report.view is not None:
            return report.view(self.state, **self.options)
        views = [(getattr(part, "optional", False), part(self.document, self.state)) for part in report.parts]
        parts = tuple(view for may_lack, view in views if not may_lack or getattr(view, "rows", True))
        if report.title is None:
            return parts[0]
        main = [part.name for part in parts].index(report.main) if report.main else -1
        return Page(self.name, report.title(self.document, self.state), parts, main=main)

    def told(self, form: str, width: int = 0) -> str:
        """As text of a format. `width` is the columns to fit, 0 for all."""
        from hwexplorer.export.render import encode, plain

        return encode(self.document, self.gap, self.held) if form == "json" else plain(self.view(), form, width)
