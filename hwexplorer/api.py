"""The Python API: each verb as a function of values, whose result is the document of its JSON.

`function` makes those of verbs from their declarations; a section is the first word: `hx.show("memory", "resnet50")`.
hwexplorer/__init__.pyi, written by `python -m lab.reference`, shows them to type checkers and editors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from analysis.model.ir.workload import Workload
from hardware.base import plugins
from hardware.base.errors import RequestError as RequestError
from hwexplorer import answer, declare, engine, registry
from hwexplorer.answer import Answer as Result
from hwexplorer.options import DEVICES_DIR, Option
from hwexplorer.process import output

if TYPE_CHECKING:
    import networkx

__all__ = ("RequestError", "Result", "graph")


def is_function(name: str) -> bool:
    """Return True if the package has a function of this name: a verb that prints a document."""
    if name in registry.verbs():
        return isinstance(registry.load(_sections(name)[0]), declare.Report)
    return name in __all__ or name in plugins.EXTRA["verbs"]  # which says how to install it


def _sections(verb: str) -> tuple[str, ...]:
    """Return the names of the reports of a verb, its own first."""
    return registry.sections(verb) or (verb,)


@lru_cache(maxsize=64)
def function(verb: str) -> Callable[..., Result[Any]]:
    """Return the function of a verb, with its signature and its help. Its first word may name a section."""

    def ask(*words: Any, **values: Any) -> Result[Any]:
        """Return the answer of the verb."""
        if not registry.sections(verb):
            return _ask(verb, *words, **values)
        name, *rest = registry.resolve([verb, *map(_text, words)])
        return _ask(name, *rest, **values)

    names = _sections(verb)
    ask.__name__, ask.__signature__ = verb, signature(names[0], names[1:])  # type: ignore[attr-defined]
    helps = [f"{name}: {registry.help_of(name)}" for name in names[1:]] if len(names) > 1 else []
    helps += [f"{word}: {option.help}" for word, option in parameters(names[0]).items() if option.help]
    ask.__doc__ = "\n".join([registry.helps()[verb], "", *helps])
    return ask


def signature(name: str, others: Sequence[str] = ()) -> Signature:
    """Return the parameters of the function of a report: its words, then its options by name. A verb with `others`,
    sections with options of their own, takes any."""
    if others:
        return Signature([Parameter("words", Parameter.VAR_POSITIONAL), Parameter("options", Parameter.VAR_KEYWORD)])
    options = parameters(name)
    words = [
        Parameter(word, Parameter.POSITIONAL_OR_KEYWORD, default=Parameter.empty if option.is_required else None)
        for word, option in options.items()
        if option.is_word
    ]
    keywords = [
        Parameter(argument, Parameter.KEYWORD_ONLY, default=option.default)
        for argument, option in options.items()
        if not option.is_word and not iskeyword(argument)
    ]
    return Signature([*words, *keywords])


def parameters(name: str) -> dict[str, Option]:
    """Return argument -> option: words by their names, options by their flags, `max_power` by `--max-power`."""
    report = registry.report(name)
    return _by_argument((*report.subject.options, *report.options, DEVICES_DIR))


def _by_argument(options: Sequence[Option]) -> dict[str, Option]:
    pairs = [(flag.lstrip("-").replace("-", "_"), option) for option in options for flag in option.flags]
    return dict(sorted(pairs, key=lambda pair: 2 - pair[1].is_word - (pair[1].is_word and pair[1].is_required)))


def _ask(name: str, *words: Any, **values: Any) -> Result[Any]:
    """Return the answer of a section or of a verb without sections. `words` are its arguments without flags, in their
    order."""
    options = parameters(name)
    places = [argument for argument, option in options.items() if option.is_word]
    if len(words) > len(places) and options[places[-1]].settings.get("nargs") == "*":
        words = (*words[: len(places) - 1], words[len(places) - 1 :])  # the last word is a list
    if len(words) > len(places):
        raise TypeError(f"{name}() takes {len(places)} positional arguments, not {len(words)}")
    values |= dict(zip(places, words, strict=False))
    arguments = _arguments(name, tuple(options.values()), values)
    with output.Progress() as progress:
        return answer.find_answer(name, arguments, progress)


def _arguments(verb: str, options: Sequence[Option], values: dict[str, Any]) -> argparse.Namespace:
    """Return values as parsed arguments, defaults included. Raises TypeError, and RequestError for a wrong value."""
    by_argument = _by_argument(options)
    if wrong := [name for name in values if name not in by_argument]:
        raise TypeError(f"{verb}() has no argument {wrong[0]!r}; it takes {', '.join(by_argument)}")
    arguments = argparse.Namespace(verb=verb, **{option.name: option.default for option in options})
    for name, value in values.items():
        if value is not None and value is not False:
            setattr(arguments, by_argument[name].name, by_argument[name].read(value, _text))
    for name, option in by_argument.items():
        if option.is_required and values.get(name) is None:
            raise TypeError(f"{verb}() needs the argument {name!r}")
    engine.use_folders(arguments.devices_dir)
    return arguments


def _text(value: object) -> str:
    return engine.adopt(value) if isinstance(value, Workload) else str(value)


def graph(model: str | Workload, **options: Any) -> networkx.DiGraph[str]:
    """Return the operators as a graph, with their costs on a device (`on="h100_sxm"`) as attributes."""
    from hwexplorer.reports.show.structure import to_networkx

    return to_networkx(_ask("structure", model, **options).document)
