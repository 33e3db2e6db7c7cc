"""The verbs: the modules of hwexplorer.reports and commands, and those of plug-ins, each with its help in its first
line.

A verb with sections is a folder there: its modules are the sections (`show memory`), and `VERB` of the folder, a
`declare.Group`, is the verb. Only the requested module is imported. A plug-in's entry point is named `VERB` or
`GROUP.SECTION`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hardware.base import plugins
from hardware.base.errors import RequestError, nearest, unknown

if TYPE_CHECKING:
    from hwexplorer.declare import Group, Report, Verb

_PACKAGES = ("hwexplorer.reports", "hwexplorer.commands")
OPEN = "open"  # the verb that words without a verb mean
# The verbs by task, as help lists them. FIRST are the verbs used most.
FIRST = ("compare", "tree", "why")
TASKS = {
    "look": ("compare", "tree", "show", "report", "models", "devices"),
    "decide": ("why", "advise", "search", "sweep", "check", "mission"),
    "what if": ("tune",),
    "measure": ("calibrate", "trace", "validate"),
    "files": ("capture", "mcp"),
}


class _Module(NamedTuple):
    """The module that declares a verb, its folder's name if it is a section, and its entry point if it is a plug-in."""

    path: str
    group: str = ""
    point: str = ""


class Found(NamedTuple):
    """The verb or section that words ask for: its name, the words that select it, its help line and its declaration;
    and the words after these. A verb without a section of its own is a Group."""

    name: str
    title: str
    help: str
    declaration: Report | Verb | Group
    words: list[str]


def names() -> tuple[str, ...]:
    """Return the names of all verbs and sections."""
    return tuple(_modules())


def verbs() -> tuple[str, ...]:
    """Return the verbs that help lists, sections left out, by task."""
    all_verbs = dict.fromkeys(module.group or name for name, module in _modules().items() if name != OPEN)
    ordered = (name for task in TASKS.values() for name in task if name in all_verbs)
    return tuple(dict.fromkeys((*ordered, *all_verbs)))


def sections(verb: str) -> tuple[str, ...]:
    """Return the sections of a verb, the one with its name first; empty without sections."""
    modules = _built_in()
    if verb in modules and all(module.group != verb for module in modules.values()):
        return ()
    members = [name for name, module in _modules().items() if module.group == verb]
    return tuple(sorted(members, key=lambda name: name != verb))


def is_verb(word: str) -> bool:
    """Return True for a verb, also one of an annex that is not installed."""
    built_in = (module.group or name for name, module in _built_in().items())
    return _may_be_verb(word) and (word in plugins.EXTRA["verbs"] or word in built_in or word in verbs())


def _may_be_verb(word: str) -> bool:
    """Return False for a word that needs no look at the entry points: the name of a model, or no name at all."""
    from analysis.model.names import model_ref, zoo

    return word.isidentifier() and zoo.find_name(word) is None and word not in model_ref.names()


def full_name(name: str) -> str:
    """Return the words that select a section: `show memory`; for the section with the verb's name, the verb alone."""
    group = _find(name).group
    return f"{group} {name}" if group not in ("", name) else name


def resolve(words: list[str]) -> list[str]:
    """Return the name of the verb or section that words ask for, and the words after it: those of `show memory conv2d`
    are `memory conv2d`. Words without a verb open a model. Raises RequestError for an unknown verb or section."""
    if not words or not is_verb(words[0]):
        _check_typo(words)
        return ["compare" if "--level" in words else OPEN, *words]
    verb, rest = words[0], words[1:]
    members = tuple(name for name, module in _built_in().items() if module.group == verb)
    if not members or (rest and rest[0] not in members and _may_be_verb(rest[0])):
        members = sections(verb)
    if not members:
        return words
    if rest and (rest[0] in members or f"{verb}.{rest[0]}" in plugins.EXTRA["verbs"]):
        return rest
    choose = _group(verb).choose
    if choose is not None:
        return choose(rest)
    if verb in members or rest in (["--help"], ["-h"]):
        return words
    raise (
        unknown("section", rest[0], members) if rest else RequestError(f"{verb} needs a section: {', '.join(members)}")
    )


def _check_typo(words: list[str]) -> None:
    """Refuse a misspelt verb: `compre` in `compre resnet50` is not a model, nor is `foo` in `foo resnet50`."""
    if not words or words[0].startswith("-") or not _may_be_verb(words[0]):
        return
    if words[0] in _modules():
        raise RequestError(f"{words[0]} is a section: hwexplorer {full_name(words[0])}")
    followed = len(words) > 1 and not words[1].startswith("-")
    if followed or nearest(words[0], verbs(), cutoff=0.75):
        raise unknown("verb", words[0], verbs())


def find(words: list[str]) -> Found:
    """Return the verb or section that words ask for. Raises RequestError for an unknown one."""
    name, *rest = resolve(words)
    module = _find(name)
    if not module.path and sections(name):
        return Found(name, name, helps()[name], _group(name), rest)
    return Found(name, full_name(name), _help_line(module.path), load(name), rest)


def helps() -> dict[str, str]:
    """Return verb -> help line with its sections, of the verbs that help lists."""
    lines = {}
    for verb in verbs():
        members = sections(verb)
        module = _first_section(verb).path.rpartition(".")[0] if members else _find(verb).path
        others = ", ".join(name for name in members if name != verb)
        lines[verb] = _help_line(module) + f" ({others})" * bool(others)
    return lines


def help_of(name: str) -> str:
    """Return the help line of a section or of a verb without sections."""
    return _help_line(_find(name).path)


@lru_cache(maxsize=128)
def _help_line(module: str) -> str:
    """Return the first docstring line of a module. The source is read, not imported."""
    try:
        spec = find_spec(module)
    except Exception as error:  # of a plug-in's package
        return f"cannot be loaded: {type(error).__name__}"
    source = (spec.loader.get_source(module) or "") if spec and isinstance(spec.loader, SourceFileLoader) else ""
    line = source.partition("\n")[0].strip('".')
    return line[:1].lower() + line[1:]


def load(name: str) -> Report | Verb:
    """Return the declaration of a verb or a section. Raises RequestError for an unknown one."""
    module = _find(name)
    if not module.path and all(name != point.rpartition(".")[2] for point in plugins.EXTRA["verbs"]):
        raise unknown("verb", name, _modules())
    if module.point or not module.path:
        return cast("Report | Verb", plugins.load("verbs", module.point or name, _check))
    return cast("Report | Verb", import_module(module.path).VERB)


def report(name: str) -> Report:
    """Return the declaration of a report. Raises RequestError for another verb and for an unknown one."""
    from hwexplorer.declare import Report

    if not isinstance(declaration := load(name), Report):
        raise unknown("report", name, names())
    return declaration


def _check(name: str, plugged: Any) -> Report | Verb:
    from hwexplorer.declare import Report, Verb

    if not isinstance(plugged, Report | Verb):
        raise TypeError("it is no Report or Verb")
    return plugged


def reports() -> dict[str, Report]:
    """Return name -> declaration of all verbs and sections that print a document. Warn of a plug-in that fails."""
    from hwexplorer.declare import Report

    found: dict[str, Report] = {}
    for name in names():
        try:
            declaration = load(name)
        except RequestError as error:
            plugins.warn(str(error))
        else:
            found |= {name: declaration} if isinstance(declaration, Report) else {}
    return found


def _group(verb: str) -> Group:
    """Return the declaration of a verb with sections."""
    from hwexplorer.declare import Group

    section = _first_section(verb)
    if section.point:
        plugins.load("verbs", section.point)  # raises its error in one line
    declaration: Group = getattr(import_module(section.path.rpartition(".")[0]), "VERB", Group())
    return declaration


def _first_section(verb: str) -> _Module:
    """Return the first section of a verb, whose folder declares it; later folders add sections."""
    sections_of_verb = (module for module in _built_in().values() if module.group == verb)
    return next(sections_of_verb, None) or next(module for module in _modules().values() if module.group == verb)


def _find(name: str) -> _Module:
    """Return the module of a verb or a section, one without a path if it is unknown."""
    return _built_in().get(name) or _modules().get(name, _Module(""))


def _modules() -> dict[str, _Module]:
    """Return name -> module: reports by name, then the verbs that do something else, then those of plug-ins."""
    modules = {**_built_in()}
    for name, point in plugins.entry_points("verbs").items():
        group, _, word = name.rpartition(".")
        modules.setdefault(word, _Module(point.module, group, name))
    return modules


@lru_cache(maxsize=1)
def _built_in() -> dict[str, _Module]:
    modules: dict[str, _Module] = {}
    for package in map(import_module, _PACKAGES):
        for name, path, is_group in _members(package.__path__[0], package.__name__):
            inner = _members(f"{package.__path__[0]}/{name}", path) if is_group else ()
            modules |= {section: _Module(place, name) for section, place, _ in inner} or {name: _Module(path)}
    return modules


def _members(folder: str, package: str) -> Iterator[tuple[str, str, bool]]:
    """Yield name, path and whether it is a folder of each module of a folder; helpers begin with an underscore."""
    for member in pkgutil.iter_modules([folder]):
        if not member.name.startswith("_"):
            yield member.name, f"{package}.{member.name}", member.ispkg
