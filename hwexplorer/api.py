"""The Python API: each verb as a function of values, whose result is the document of its JSON.

Sections and old names of verbs are functions too, made by `function` from their declarations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from analysis.model.ir.workload import Workload
from hardware.errors import RequestError as RequestError
from hwexplorer import engine, registry
from hwexplorer.declare import DEVICE, Report
from hwexplorer.headless import answers, asked_state
from hwexplorer.headless.results import Result as Result
from hwexplorer.options import DEVICES_DIR, Option
from hwexplorer.process import output

if TYPE_CHECKING:
    import networkx

    from analysis.explore.comparison import Comparison
    from analysis.explore.rule_check import Findings
    from hwexplorer.reports.advise import Advice

__all__ = (
    "Model", "RequestError", "Result", "advise", "check", "compare", "cost", "devices", "model", "models", "report",
    "search", "show", "sweep", "trace", "tree", "tune", "validate", "why",
)  # fmt: skip
_GROUPS = ("show", "tune")  # verbs without a section of their own


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
        from hwexplorer.reports.tree._model_graph import model_graph, to_networkx

        return to_networkx(model_graph(engine.result(self._state(options))))

    def _state(self, options: dict[str, Any]) -> Any:
        values = {"model": self.name, **self._scenario, **options}
        arguments = _arguments("graph", (*DEVICE.options, DEVICES_DIR), values)
        state = asked_state.state_from_arguments(arguments, DEVICE)
        asked_state.prepare_models((state,))
        return asked_state.with_fixed_batch(state, arguments)


def is_function(name: str) -> bool:
    """Return True if the package has a function of this name."""
    return name in _GROUPS or (name in registry.names() and registry.is_report(name))


@lru_cache(maxsize=64)
def function(name: str) -> Callable[..., Result[Any]]:
    """Return the function of a verb, a section or an old name."""
    if name in __all__:
        written: Callable[..., Result[Any]] = globals()[name]
        return written
    ask = partial(_ask, name)
    ask.__doc__ = "\n".join(
        [registry.help_of(name), "", *(f"{word}: {option.help}" for word, option in parameters(name).items())]
    )
    return ask


def parameters(name: str) -> dict[str, Option]:
    """Return argument -> option: words by their names, options by their flags, `max_power` by `--max-power`."""
    report = registry.load(name)
    assert isinstance(report, Report)
    return _by_argument((*report.subject.options, *report.options, DEVICES_DIR))


def _by_argument(options: Sequence[Option]) -> dict[str, Option]:
    pairs = [(flag.lstrip("-").replace("-", "_"), option) for option in options for flag in option.flags]
    return dict(sorted(pairs, key=lambda pair: not pair[1].is_word))


def _ask(name: str, *words: Any, **values: Any) -> Result[Any]:
    """Return the answer of a verb or section. `words` are its arguments without flags, in their order; `options` are
    further values."""
    values |= values.pop("options", {})
    options = parameters(name)
    places = [argument for argument, option in options.items() if option.is_word]
    if len(words) > len(places):
        raise TypeError(f"{name}() takes {len(places)} positional arguments, not {len(words)}")
    values |= dict(zip(places, words, strict=False))
    arguments = _arguments(name, tuple(options.values()), values)
    with output.Progress() as progress:
        return Result(answers.find_answer(name, arguments, progress), arguments.devices_dir)


def _arguments(verb: str, options: Sequence[Option], values: dict[str, Any]) -> argparse.Namespace:
    """Return values as parsed arguments, defaults included. Raises TypeError, and RequestError for a wrong value."""
    named = _by_argument(options)
    if unknown := [name for name in values if name not in named]:
        raise TypeError(f"{verb}() has no argument {unknown[0]!r}; it takes {', '.join(named)}")
    arguments = argparse.Namespace(verb=verb, **{option.name: option.default for option in options})
    for name, value in values.items():
        if value is not None and value is not False:
            setattr(arguments, named[name].name, named[name].read(value, _text))
    for name, option in named.items():
        if option.is_required and values.get(name) is None:
            raise TypeError(f"{verb}() needs the argument {name!r}")
    engine.use_folders(arguments.devices_dir)
    return arguments


def _text(value: object) -> str:
    return engine.adopt(value) if isinstance(value, Workload) else str(value)


AnyModel = str | Workload | Model
Names = Sequence[str] | str | None
Wholes = Sequence[int] | int | None
Amount = float | str | None  # in SI units, or as text with a unit: "100mJ"


class ScenarioOptions(TypedDict, total=False):
    """The settings of a scenario (hwexplorer/settings.py), and options for capturing the user's own model."""

    batch: int | None
    precision: str | None
    runtime: str | None
    execution: str | None
    like_for_like: bool
    layout: Literal["channels_last", "nchw"] | None
    image_size: int | None
    sequence: int | None
    kv: int | None
    load: str | None
    input: Sequence[str] | str | None
    batch_dim: str | None
    time_limit: Amount
    memory_limit: int | str | None
    show_output: bool
    again: bool
    strict: bool
    run_code: bool
    devices_dir: Sequence[Path | str] | Path | str | None


def model(model: AnyModel, **scenario: Any) -> Model:
    """Return a model by name, state string, file or captured workload, with the scenario of all its reports (`batch`,
    `precision`, `runtime` ..)."""
    return Model(_text(model), scenario)


def compare(
    model: AnyModel,
    *,
    on: Names = None,
    baseline: str | None = None,
    level: Literal["summary", "detailed", "subgraph", "operator"] | None = None,
    metric: Literal["edp", "energy", "latency"] | None = None,
    include_design_targets: bool = False,
    **options: Unpack[ScenarioOptions],
) -> Result[Comparison]:
    """Compare one model on several devices, as a whole or node by node."""
    return _ask("compare", **locals())


def tree(
    model: AnyModel,
    *,
    on: str | None = None,
    node: str | None = None,
    by: Literal["module", "subgraph", "kind"] | None = None,
    **options: Unpack[ScenarioOptions],
) -> Result[dict[str, Any]]:
    """Return model, subgraphs and operators with their energy-delay product."""
    return _ask("tree", **locals())


def show(section: str, model: AnyModel | None = None, **options: Any) -> Result[Any]:
    """Return one aspect of a model on a device: energy, events, mapping, memory, roofline, concurrency, plot; or the
    coefficients of a device. Options are those of `hwexplorer show SECTION --help`."""
    if section not in registry.sections("show"):
        raise RequestError(f"unknown section {section!r} (allowed: {', '.join(registry.sections('show'))})")
    return _ask(section, *(() if model is None else (model,)), **options)


def report(model: AnyModel, *, on: str | None = None, **options: Unpack[ScenarioOptions]) -> Result[dict[str, Any]]:
    """Return everything about one model on one device."""
    return _ask("report", **locals())


def why(model: AnyModel, *others: AnyModel, **options: Any) -> Result[Any]:
    """Explain why a node costs what it costs; with two devices, why one costs more than the other; with another model,
    state or JSON file, what changed between the two."""
    return _ask(("why", "diff", "explain")[min(len(others), 2)], model, *others, **options)


def advise(
    model: AnyModel,
    *,
    on: str | None = None,
    aim: Literal["energy", "latency", "throughput", "memory", "edp"] | None = None,
    instead: Names = None,
    include_design_targets: bool = False,
    **options: Unpack[ScenarioOptions],
) -> Result[Advice]:
    """Suggest what to change, each suggestion estimated with the change."""
    return _ask("advise", **locals())


def search(
    model: AnyModel,
    *,
    on: Names = None,
    max_energy: Amount = None,
    max_latency: Amount = None,
    max_memory: Amount = None,
    max_power: Amount = None,
    min_throughput: Amount = None,
    max_cost: Amount = None,
    max_ttft: Amount = None,
    max_tpot: Amount = None,
    devices: int | None = None,
    sort: Literal["edp", "energy", "latency", "throughput", "cost"] | None = None,
    batches: Wholes = None,
    precisions: Names = None,
    power_modes: bool = False,
    cap: bool = False,
    include_design_targets: bool = False,
    **options: Unpack[ScenarioOptions],
) -> Result[Any]:
    """Find configurations within limits of energy, latency, memory, power, throughput, cost."""
    return _ask("search", **locals())


def sweep(
    model: AnyModel,
    *,
    on: Names = None,
    batches: Wholes = None,
    precisions: Names = None,
    image_sizes: Wholes = None,
    rates: Sequence[float] | float | None = None,
    clients: Wholes = None,
    power_modes: bool = False,
    include_design_targets: bool = False,
    **options: Unpack[ScenarioOptions],
) -> Result[Any]:
    """Estimate a model over batches, precisions, image sizes."""
    return _ask("sweep", **locals())


def tune(device: str, model: AnyModel, *, match: str = "", grid: Names = None, **options: Any) -> Result[Any]:
    """Turn the knobs of a device; with `match` find the least change to match another device, with `grid` search
    designs. Options are those of `hwexplorer tune SECTION --help`."""
    if match:
        return _ask("crossover", model, device, match, **options)
    if grid:
        return _ask("design", base=device, workload=model, knobs=grid, **options)
    return _ask("knobs", model, on=device, **options)


def check(
    model: AnyModel, *, on: str | None = None, rule: Names = None, **options: Unpack[ScenarioOptions]
) -> Result[Findings]:
    """Check rules that must hold; `broken_rules` of the result names those that do not."""
    return _ask("check", **locals())


def cost(
    model: AnyModel,
    *,
    on: Names = None,
    electricity: Amount = None,
    carbon: Amount = None,
    overhead: Amount = None,
    lifetime: Amount = None,
    duty: Amount = None,
    hourly: Names = None,
    price: Names = None,
    include_design_targets: bool = False,
    **options: Unpack[ScenarioOptions],
) -> Result[Any]:
    """Return money and carbon per million inferences, and the break-even of two devices."""
    return _ask("cost", **locals())


def trace(
    file: Path | str, *, model: AnyModel | None = None, on: str | None = None, **options: Unpack[ScenarioOptions]
) -> Result[Any]:
    """Compare a measured trace with a model: measured and predicted time of each operator."""
    return _ask("trace", **locals())


def validate(
    *,
    data: Sequence[Path | str] | Path | str | None = None,
    on: str | None = None,
    kernels: bool = False,
    cross_validate: bool = False,
    served: bool = False,
    devices_dir: Sequence[Path | str] | Path | str | None = None,
) -> Result[Any]:
    """Compare predictions with measurements."""
    return _ask("validate", **locals())


def models() -> Result[Any]:
    """Return the models that can be opened."""
    return _ask("models")


def devices(device: str = "", **options: Any) -> Result[Any]:
    """Return the device catalogue, or one device with the source of every fact."""
    return _ask("device", device, **options) if device else _ask("devices", **options)
