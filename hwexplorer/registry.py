"""The verbs: the modules of hwexplorer.reports and commands, and those of plug-ins, each with its help in its first
line.

A verb with sections is a folder there: its modules are the sections (`show energy`), each also a verb of its own name
(`energy`), and `VERB` of the folder, a `declare.Group`, selects the section for words that name none. Only the
requested module is imported. A plug-in's entry point is named `VERB` or `GROUP.SECTION`.
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
from hardware.base.errors import RequestError, unknown

if TYPE_CHECKING:
    from hwexplorer.declare import Group, Report, Verb

_PACKAGES = ("hwexplorer.reports", "hwexplorer.commands")
_UNDER_LOAD = "hwexplorer.reports.show.load"
# The verbs by task. FIRST are the verbs used most.
FIRST = ("compare", "tree", "why")
TASKS = {
    "look": ("compare", "tree", "show", "report", "models", "devices"),
    "decide": ("why", "advise", "search", "sweep", "cost", "check", "mission"),
    "what if": ("tune",),
    "measure": ("calibrate", "trace", "validate"),
    "files": ("capture", "open", "completion", "mcp"),
}


class _Module(NamedTuple):
    """The module that declares a verb, its folder's name if it is a section, and its entry point if it is a plug-in."""

    path: str
    group: str = ""
    point: str = ""


def names() -> tuple[str, ...]:
    """Return every word that names a verb or a section."""
    return tuple(_modules())


def verbs() -> tuple[str, ...]:
    """Return the verbs that help lists, sections left out, by task."""
    all_verbs = dict.fromkeys(module.group or name for name, module in _modules().items())
    ordered = (name for task in TASKS.values() for name in task if name in all_verbs)
    return tuple(dict.fromkeys((*ordered, *all_verbs)))


def sections(verb: str) -> tuple[str, ...]:
    """Return the sections of a verb, the one with its name first; empty without sections."""
    modules = _built_in()
    if verb in modules and all(module.group != verb for module in modules.values()):
        return ()
    members = [name for name, module in _modules().items() if module.group == verb]
    return tuple(sorted(members, key=lambda name: name != verb))


def may_be_verb(word: str) -> bool:
    """Return False for a word that needs no look at the entry points: the name of a model, or no name at all."""
    from analysis.model.names.model_ref import names as models

    return word.isidentifier() and word not in models()


def is_verb(word: str) -> bool:
    """Return True for a verb or a section, also one of an annex that is not installed."""
    groups = {module.group for module in _built_in().values()} - {""}
    if any(word in names for names in (_built_in(), groups, plugins.EXTRA["verbs"])):
        return True
    return may_be_verb(word) and (word in _modules() or word in verbs())


def full_name(name: str) -> str:
    """Return the words that select a section: `show energy`; for the section with the verb's name, the verb alone."""
    group = _find(name).group
    return f"{group} {name}" if group not in ("", name) else name


def resolve(words: list[str]) -> list[str]:
    """Replace the verb that words begin with by the section that they mean: `show energy conv2d` is `energy conv2d`,
    `why conv2d l4 t4` is `explain conv2d l4 t4`. Raises RequestError."""
    verb, rest = words[0], words[1:]
    members = tuple(name for name, module in _built_in().items() if module.group == verb)
    if not members or (rest and rest[0] not in members and may_be_verb(rest[0])):
        members = sections(verb)
    if not members:
        return words
    if rest and (rest[0] in members or rest[0] in plugins.EXTRA["verbs"]):
        return rest
    declaration = group(verb)
    if declaration.choose is not None:
        return declaration.choose(rest)
    count = _count(rest, members, declaration)
    section = declaration.by_words.get(max((n for n in declaration.by_words if n <= count), default=0), verb)
    if section not in members:
        raise (
            unknown("section", rest[0], members)
            if rest
            else RequestError(f"{verb} needs a section: {', '.join(members)}")
        )
    return [section, *rest]


def _count(words: list[str], members: tuple[str, ...], declared: Group) -> int:
    """Return how many words are neither options nor their values; 0 if too few to select a section."""
    if sum(not word.startswith("-") for word in words) < min(declared.by_words, default=len(words) + 1):
        return 0
    from hwexplorer.options import DEVICES_DIR, count_words

    usable = [load(name) for name in members if is_usable(name)]
    return count_words(words, [DEVICES_DIR, *(option for verb in usable for option in verb.all_options())])


def helps() -> dict[str, str]:
    """Return verb -> help line, of the verbs that help lists."""
    groups = {verb: _first_section(verb).path.rpartition(".")[0] for verb in verbs() if sections(verb)}
    return {verb: _help_line(groups[verb]) if verb in groups else help_of(verb) for verb in verbs()}


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


def load(name: str, is_served: bool = False) -> Report | Verb:
    """Return the declaration of a verb or a section, or of the report that answers it about a load (`is_served`).
    Raises RequestError for an unknown one."""
    if is_served and (report := import_module(_UNDER_LOAD).UNDER_LOAD.get(name)):
        return cast("Report", report)
    module = _find(name)
    if not module.path and name not in plugins.EXTRA["verbs"]:
        raise unknown("verb", name, _modules())
    if module.point or not module.path:
        return cast("Report | Verb", plugins.load("verbs", module.point or name, _check))
    return cast("Report | Verb", import_module(module.path).VERB)


def _check(name: str, plugged: Any) -> Report | Verb:
    from hwexplorer.declare import Report, Verb

    if not isinstance(plugged, Report | Verb):
        raise TypeError("it is no Report or Verb")
    return plugged


def is_usable(name: str) -> bool:
    """Return False, and warn, for the verb of a plug-in that cannot be loaded."""
    try:
        return bool(load(name))
    except RequestError as error:
        plugins.warn(str(error))
        return False


def group(verb: str) -> Group:
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


def takes_model(name: str) -> bool:
    """Return True if the first word after a verb is a model or a state."""
    return any(option.name == "model" for option in load(name).all_options())


def names_model(name: str) -> bool:
    """Return True if a verb takes its model or state after `--model`."""
    return any("--model" in option.flags for option in load(name).all_options())


def is_report(name: str) -> bool:
    """Return True if a verb prints a document, in any of the formats."""
    from hwexplorer.declare import Report

    return is_usable(name) and isinstance(load(name), Report)
