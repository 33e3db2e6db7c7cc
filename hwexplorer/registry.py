"""The verbs: the modules of hwexplorer.reports, commands and annexes, each with its help in its first line.

A verb with sections is a folder there: its modules are the sections (`show energy`), each also a verb of its own name
(`energy`), and `VERB` of the folder, a `declare.Group`, selects the section for words that name none. Only the
requested module is imported. A folder put on the path of one of the packages adds its verbs.
"""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, cast

from hardware.errors import RequestError, unknown

if TYPE_CHECKING:
    from hwexplorer.declare import Group, Report, Verb

_PACKAGES = ("hwexplorer.reports", "hwexplorer.commands", "hwexplorer.annexes")
_UNDER_LOAD = "hwexplorer.reports._under_load"
# The verbs by task. FIRST are the verbs used most.
FIRST = ("compare", "tree", "why")
TASKS = {
    "look": ("compare", "tree", "show", "report", "models", "devices"),
    "decide": ("why", "advise", "search", "sweep", "cost", "check", "mission"),
    "what if": ("tune",),
    "measure": ("measure", "trace", "validate"),
    "files": ("capture", "open", "completion", "mcp"),
}

OLD_NAMES = {"elasticity": "knobs"}  # old section -> its replacement: the old name works, but is not listed


class _Module(NamedTuple):
    """The module that declares a verb, and its folder's name if it is a section."""

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
    """Return the sections of a verb, the one with its name first; empty without sections."""
    members = [name for name, module in _modules().items() if module.group == verb]
    return tuple(sorted(members, key=lambda name: name != verb))


def is_verb(word: str) -> bool:
    """Return True for a verb, a section or an old name."""
    return word in _modules() or word in verbs() or word in OLD_NAMES


def full_name(name: str) -> str:
    """Return the words that select a section: `show energy`; for the section with the verb's name, the verb alone."""
    group = _modules()[name].group if name in _modules() else ""
    return f"{group} {name}" if group not in ("", name) else name


def resolve(words: list[str]) -> list[str]:
    """Replace the verb that words begin with by the section that they mean: `show energy conv2d` is `energy conv2d`,
    `why conv2d l4 t4` is `explain conv2d l4 t4`. Raises RequestError."""
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
    count = _count(rest, members, declared)
    section = declared.by_words.get(max((n for n in declared.by_words if n <= count), default=0), verb)
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


def load(name: str, is_served: bool = False) -> Report | Verb:
    """Return the declaration of a verb or a section, or of the report that answers it about a load (`is_served`).
    Raises RequestError for an unknown one."""
    if is_served and (report := import_module(_UNDER_LOAD).UNDER_LOAD.get(name)):
        return cast("Report", report)
    modules = _modules()
    if name not in modules:
        raise unknown("verb", name, modules)
    verb: Report | Verb = import_module(modules[name].path).VERB
    return verb


def group(verb: str) -> Group:
    """Return the declaration of a verb with sections."""
    from hwexplorer.declare import Group

    declared: Group = getattr(import_module(_group_path(verb)), "VERB", Group())
    return declared


def _group_path(verb: str) -> str:
    """Return the module path of the first folder of a verb, which declares it; later folders add sections."""
    return next(module.path for module in _modules().values() if module.group == verb).rpartition(".")[0]


def _modules() -> dict[str, _Module]:
    """Return name -> module: reports by name, then the verbs that do something else."""
    packages = ((package, import_module(package).__path__) for package in _PACKAGES)
    return {name: module for package, path in packages for name, module in _modules_of_package(package, *path).items()}


@lru_cache(maxsize=8)
def _modules_of_package(package: str, *folders: str) -> dict[str, _Module]:
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
