"""The verbs: the modules of hwexplorer.reports, commands and annexes, each with its help in its first line.

A verb with sections is a folder there: its modules are the sections (`show energy`), each also a verb of its own name
(`energy`), and `VERB` of the folder, a `declare.Group`, says which section words mean that name none. Only the module
that is asked for is imported. A folder put on the path of one of the packages adds its verbs.
"""

from __future__ import annotations

import pkgutil
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from hardware.errors import RequestError, unknown
from hwexplorer.state import State, replace

if TYPE_CHECKING:
    from hwexplorer.declare import Group, Report, Verb
    from hwexplorer.views.device_limits import LimitsCheck
    from hwexplorer.views.plain import Page, View

_PACKAGES = ("hwexplorer.reports", "hwexplorer.commands", "hwexplorer.annexes")
# The verbs by what one does with them. The first three are what most people ask.
TITLE_MAX = 96  # characters of a title and its subject: with ` of ` they fit in one line of 100
FIRST = ("compare", "tree", "why")
TASKS = {
    "look": ("compare", "tree", "show", "report", "models", "devices"),
    "decide": ("why", "advise", "search", "sweep", "cost", "check"),
    "what if": ("tune",),
    "measure": ("measure", "trace", "validate"),
    "files": ("capture", "open", "serve", "completion"),
}

OLD_NAMES = {"elasticity": "knobs"}  # of sections that another one answers: they go on working, and are not listed


class _Module(NamedTuple):
    """The module that declares a verb, and its folder's name where it is a section."""

    path: str
    group: str = ""


def names() -> tuple[str, ...]:
    """Return every word that names a verb or a section."""
    return tuple(_modules())


def verbs() -> tuple[str, ...]:
    """Return the verbs that help lists, sections left out, by task."""
    all_verbs = dict.fromkeys(module.group or name for name, module in _modules().items())
    ordered = (name for task in TASKS.values() for name in task if name in all_verbs)
    return tuple(dict.fromkeys((*ordered, *all_verbs)))


def sections(verb: str) -> tuple[str, ...]:
    """Return the sections of a verb, its own first; none of a verb without sections."""
    members = [name for name, module in _modules().items() if module.group == verb]
    return tuple(sorted(members, key=lambda name: name != verb))


def is_verb(word: str) -> bool:
    """Return True for a verb, a section or an old name."""
    return word in _modules() or word in verbs() or word in OLD_NAMES


def full_name(name: str) -> str:
    """Return how a section is asked for: `show energy`; a verb's own section has the verb's name."""
    group = _modules()[name].group if name in _modules() else ""
    return f"{group} {name}" if group not in ("", name) else name


def resolve(words: list[str]) -> list[str]:
    """Return words that begin with a verb, as words that begin with the section that they mean: `show energy conv2d`
    is `energy conv2d`, `why conv2d l4 t4` is `explain conv2d l4 t4`. Raises RequestError."""
    words = [*(OLD_NAMES.get(word, word) for word in words[:2]), *words[2:]]
    verb, rest = words[0], words[1:]
    members = sections(verb)
    if not members:
        return words
    if rest and rest[0] in members:
        return rest
    declared = group(verb)
    if declared.choose is not None:
        return declared.choose(rest)
    section = declared.by_words.get(_count(rest, members, declared), verb)
    if section not in members:
        raise (
            unknown("section", rest[0], members)
            if rest
            else RequestError(f"{verb} needs a section: {', '.join(members)}")
        )
    return [section, *rest]


def _count(words: list[str], members: tuple[str, ...], declared: Group) -> int:
    """Return how many of the words are none of options and their values, where the verb's section depends on it."""
    if sum(not word.startswith("-") for word in words) < min(declared.by_words, default=len(words) + 1):
        return 0
    from hwexplorer.options import DEVICES_DIR, count_words

    return count_words(words, [DEVICES_DIR, *(option for name in members for option in load(name).all_options())])


def helps() -> dict[str, str]:
    """Return verb -> help line, of the verbs that help lists."""
    return {verb: _help_line(_group_path(verb)) if sections(verb) else help_of(verb) for verb in verbs()}


def help_of(name: str) -> str:
    """Return the help line of a section or of a verb without sections."""
    return _help_line(_modules()[name].path)


@lru_cache(maxsize=128)
def _help_line(module: str) -> str:
    """Return the first docstring line of a module. The source is read, not imported."""
    spec = find_spec(module)
    source = (spec.loader.get_source(module) or "") if spec and isinstance(spec.loader, SourceFileLoader) else ""
    line = source.partition("\n")[0].strip('".')
    return line[:1].lower() + line[1:]


def load(name: str) -> Report | Verb:
    """Return what a verb or a section declares. Raises RequestError for an unknown one."""
    modules = _modules()
    if name not in modules:
        raise unknown("verb", name, modules)
    verb: Report | Verb = import_module(modules[name].path).VERB
    return verb


def group(verb: str) -> Group:
    """Return what a verb with sections declares."""
    from hwexplorer.declare import Group

    declared: Group = getattr(import_module(_group_path(verb)), "VERB", Group())
    return declared


def _group_path(verb: str) -> str:
    """Return the first folder of that name, which declares the verb; later ones add sections."""
    return next(module.path for module in _modules().values() if module.group == verb).rpartition(".")[0]


def _modules() -> dict[str, _Module]:
    """Return name -> module: reports by name, then the verbs that do something else."""
    packages = ((package, import_module(package).__path__) for package in _PACKAGES)
    return {name: module for package, path in packages for name, module in _inside(package, *path).items()}


@lru_cache(maxsize=8)
def _inside(package: str, *folders: str) -> dict[str, _Module]:
    """Return the verbs of a package; helpers begin with an underscore."""
    found: dict[str, _Module] = {}
    for module in pkgutil.iter_modules(folders):
        if module.name.startswith("_"):
            continue
        if not module.ispkg:
            found[module.name] = _Module(f"{package}.{module.name}")
            continue
        for member in pkgutil.iter_modules([f"{folder}/{module.name}" for folder in folders]):
            if not member.name.startswith("_"):
                found[member.name] = _Module(f"{package}.{module.name}.{member.name}", module.name)
    return found


def takes_model(name: str) -> bool:
    """Return True if the first word after a verb is a model or a state."""
    return any(option.name == "model" for option in load(name).all_options())


def names_model(name: str) -> bool:
    """Return True if a verb takes its model or state after `--model`."""
    return any("--model" in option.flags for option in load(name).all_options())


def is_report(name: str) -> bool:
    """Return True if a verb prints a document, in any of the formats."""
    from hwexplorer.declare import Report

    return isinstance(load(name), Report)


def _load_about(name: str, state: State) -> Report | Verb:
    """Return what a verb declares, or the report that answers in its place about a model under a load."""
    from hwexplorer.declare import Report

    report = load(name)
    if not isinstance(report, Report) or not report.of_load:
        return report
    from hwexplorer import engine

    if engine.request_under_load(state) is None:
        return report
    stand_in: Report = import_module(report.of_load).VERB
    return stand_in


class Answer:
    """The answer of a report about a state: a document for programs, a view for people."""

    def __init__(self, name: str, state: State, **options: Any) -> None:
        from hwexplorer.declare import Report

        report = _load_about(name, state)
        if not isinstance(report, Report):
            raise unknown("report", name, names())
        self.name, self.report = name, report
        self.state = state if report.subject.has("node") else replace(state, at="")
        own = [option for option in report.options if option.name not in State.__struct_fields__]
        self.options = {option.name: option.default for option in own} | options

    def __getstate__(self) -> dict[str, Any]:
        options = {name: value for name, value in self.options.items() if not callable(value)}
        return {**{name: value for name, value in vars(self).items() if name != "report"}, "options": options}

    def __setstate__(self, known: dict[str, Any]) -> None:
        vars(self).update(known, report=_load_about(known["name"], known["state"]))  # its functions are not pickled

    @cached_property
    def document(self) -> Any:
        """The struct."""
        return self.report.document(self.state, **self.options)

    @cached_property
    def missing_rules(self) -> str:
        """The operators without a cost rule, where they are too many for the figures to be the model's."""
        from analysis.model.ir.coverage import uncovered_note
        from hwexplorer import engine

        if not self.report.subject.options:
            return ""
        states = [state for state in self.report.states(self.state, **self.options) if engine.is_ready(state)]
        gaps = {(model := engine.captured_model(state)).name: uncovered_note(model, state.batch) for state in states}
        said = "; ".join(f"{gap} ({name})" if len(gaps) > 1 else gap for name, gap in gaps.items() if gap)
        if said or self.report.view is not None:  # which needs no document
            return said
        return getattr(self.document, "incomplete", "") or ""  # of a file that was read

    @cached_property
    def limits_check(self) -> LimitsCheck | None:
        """Return which devices of the state pass its limits, None without limits."""
        if not self.state.limits or not self.report.subject.options:
            return None
        from hwexplorer import engine
        from hwexplorer.views import device_limits

        return device_limits.check_limits(self.state) if engine.is_ready(self.state) else None

    def records(self) -> tuple[Any, ...] | None:
        """The structs that the main table shows, where it is a table of structs of the document."""
        from hwexplorer.declare import Rows

        parts = self.report.parts
        main = next((part for part in parts if getattr(part, "name", None) == self.report.main), (*parts, None)[-1])
        rows = main.items(self.document) if isinstance(main, Rows) else getattr(self.document, "rows", None)
        return None if rows is None else tuple(rows)

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON has it."""
        from hwexplorer.export.render import to_contract

        return to_contract(self.document, self.missing_rules, self.limits_check)

    def view(self, is_whole: bool = True) -> View | Page:
        """For people; of a report with a brief view, that one unless the whole is asked for. What is incomplete says so
        in its first line."""
        brief = None if is_whole else self.report.brief
        built = self._view(is_whole) if brief is None else brief(self.state, **self.options)
        title = "; ".join(filter(None, (built.title, str(self.limits_check or ""))))
        title = ". ".join(filter(None, (self.missing_rules, title)))
        return replace(built, title=title) if title != built.title else built

    def _view(self, is_whole: bool) -> View | Page:
        from hwexplorer.views.plain import Page

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
        from hwexplorer.views.captions import headline_of_state, place_in_words

        title = self.report.title
        if callable(title):
            return title(self.document, self.state)
        describe = headline_of_state if self.report.subject.several else place_in_words
        subject = describe(self.state)
        return f"{title} of {subject}" if title and len(title) + len(subject) <= TITLE_MAX else subject

    @property
    def command(self) -> str:
        """The command line that asks the same again."""
        from hwexplorer.state import format as format_state

        words = ["hwexplorer", *full_name(self.name).split()]
        words += [quote(format_state(self.state))] if self.report.subject.options else []
        for option in self.report.options:
            value = self.options.get(option.name, option.default)
            if value != option.default and isinstance(value, str | int | float) and not option.is_word:
                words += [option.flags[0]] if value is True else [option.flags[0], quote(str(value))]
        return " ".join(words)

    def to_text(self, form: str, width: int = 0, is_whole: bool = False) -> str:
        """Return the answer in a format. `width` is the columns to fit, 0 for all; text is brief unless `is_whole`."""
        from hwexplorer.export.render import encode, plain

        if form == "json":
            return encode(self.document, self.missing_rules, self.limits_check)
        is_whole = is_whole or form != "text"
        return plain(self.view(is_whole), form, width, is_whole, self.command)
