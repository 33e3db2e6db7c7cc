"""The Python API: each verb as a function of values, whose result is the document of its JSON.

`function` makes those of verbs, sections and old names from their declarations. hwexplorer/__init__.pyi, written by
`python -m tests.reference`, shows them to type checkers and editors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from analysis.model.ir.workload import Workload
from hardware.base import plugins
from hardware.base.errors import RequestError as RequestError
from hardware.base.errors import unknown
from hwexplorer import engine, registry
from hwexplorer.answer import Answer as Result
from hwexplorer.declare import DEVICE, Report
from hwexplorer.headless import answers, asked_state
from hwexplorer.options import DEVICES_DIR, Option
from hwexplorer.process import output

if TYPE_CHECKING:
    import networkx

__all__ = ("Model", "RequestError", "Result", "model", "show", "tune")


class Model:
    """A model in a scenario. Every report about a model is a method: `model("resnet50", batch=8).tree(on="l4")`."""

    def __init__(self, name: str, scenario: dict[str, Any]) -> None:
        self.name, self._scenario = name, scenario

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self._scenario.items())
        return f"hwexplorer.model({self.name!r}{settings})"

    def __getattr__(self, verb: str) -> Callable[..., Result[Any]]:
        if not is_function(verb) or not (verb == "why" or registry.takes_model(verb)):
            raise AttributeError(f"a model has no report {verb!r}")
        return partial(function(verb), self.name, **self._scenario)

    @property
    def workload(self) -> Workload:
        """Return the operators and tensors of the model. Capture it if necessary."""
        return engine.workload(self._state({}))

    def graph(self, **options: Any) -> networkx.DiGraph[str]:
        """Return the operators as a graph, with their costs on a device (`on="h100_sxm"`) as attributes."""
        from hwexplorer.reports.show.structure import structure, to_networkx

        return to_networkx(structure(engine.result(self._state(options))))

    def _state(self, options: dict[str, Any]) -> Any:
        values = {"model": self.name, **self._scenario, **options}
        arguments = _arguments("graph", (*DEVICE.options, DEVICES_DIR), values)
        state = asked_state.state_from_arguments(arguments, DEVICE)
        asked_state.prepare_models((state,))
        return asked_state.with_fixed_batch(state, arguments)


def is_function(name: str) -> bool:
    """Return True if the package has a function of this name."""
    if name in registry.names():
        return registry.is_report(name)
    return name in __all__ or name in plugins.EXTRA["verbs"]  # which says how to install it


@lru_cache(maxsize=64)
def function(name: str) -> Callable[..., Result[Any]]:
    """Return the function of a verb, a section or an old name, with its signature and its help."""

    def ask(*words: Any, **values: Any) -> Result[Any]:
        """Return the answer of the verb; the number of its words may select a section."""
        by_words = registry.group(name).by_words if registry.sections(name) else {}
        count = max((count for count in by_words if count <= len(words)), default=0)
        return _ask(by_words.get(count, name), *words, **values)

    ask.__name__, ask.__signature__ = name, signature(name)  # type: ignore[attr-defined]
    ask.__doc__ = "\n".join(
        [registry.help_of(name), "", *(f"{word}: {option.help}" for word, option in parameters(name).items())]
    )
    return ask


def signature(name: str) -> Signature:
    """Return the parameters of the function of a verb: its words, then its options by name. `others` are words that
    select a section."""
    options = parameters(name)
    words = [
        Parameter(word, Parameter.POSITIONAL_OR_KEYWORD, default=Parameter.empty if option.is_required else None)
        for word, option in options.items()
        if option.is_word
    ]
    if registry.sections(name) and registry.group(name).by_words:
        words.append(Parameter("others", Parameter.VAR_POSITIONAL))
    keywords = [
        Parameter(argument, Parameter.KEYWORD_ONLY, default=option.default)
        for argument, option in options.items()
        if not option.is_word and not iskeyword(argument)
    ]
    return Signature([*words, *keywords])


def parameters(name: str) -> dict[str, Option]:
    """Return argument -> option: words by their names, options by their flags, `max_power` by `--max-power`."""
    report = registry.load(name)
    assert isinstance(report, Report)
    return _by_argument((*report.subject.options, *report.options, DEVICES_DIR))


def _by_argument(options: Sequence[Option]) -> dict[str, Option]:
    pairs = [(flag.lstrip("-").replace("-", "_"), option) for option in options for flag in option.flags]
    return dict(sorted(pairs, key=lambda pair: not pair[1].is_word))


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
        return answers.find_answer(name, arguments, progress)


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


def model(model: str | Workload | Model, **scenario: Any) -> Model:
    """Return a model by name, state string, file or captured workload, with the scenario of all its reports (`batch`,
    `precision`, `runtime` ..)."""
    return Model(_text(model), scenario)


def show(section: str, model: str | Workload | Model | None = None, **options: Any) -> Result[Any]:
    """Return one aspect of a model on a device: events, kernels, structure, memory, plot; or the
    coefficients of a device. Options are those of `hwexplorer show SECTION --help`."""
    if section not in registry.sections("show"):
        raise unknown("section", section, registry.sections("show"))
    return _ask(section, *(() if model is None else (model,)), **options)


def tune(
    device: str,
    model: str | Workload | Model,
    *,
    grid: Sequence[str] | str | None = None,
    **options: Any,
) -> Result[Any]:
    """Turn the knobs of a device, or with `grid` search designs, with the options of `hwexplorer tune`."""
    if grid:
        return _ask("design", base=device, workload=model, knobs=grid, **options)
    return _ask("tune", model, on=device, **options)
