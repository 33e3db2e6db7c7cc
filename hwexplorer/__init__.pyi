"""Made by `python -m hwexplorer.generated` of what each report declares: the functions and their types."""

from analysis.annexes.silicon.design_search import Designs
from analysis.annexes.traces.report import TraceReport
from analysis.capture.notebook import Captured
from analysis.explore.advice import Advice
from analysis.explore.comparison import Comparison
from analysis.explore.deployment_cost import CostReport
from analysis.explore.explanation import Explanation
from analysis.explore.node_comparison import Levels
from analysis.explore.result_diff import Diff
from analysis.explore.rules import Findings
from analysis.explore.search.candidates import Pareto, Rank, Search
from analysis.explore.search.model_sweep import Sweep
from analysis.explore.tuning.elasticities import Elasticities
from analysis.explore.tuning.knob_curve import KnobReport
from analysis.explore.tuning.least_change import Crossover
from analysis.model.ir.workload import Workload
from analysis.reports.concurrency_report import ConcurrencyReport
from analysis.reports.edp_report import EdpReport
from analysis.reports.energy_report import EnergyReport
from analysis.reports.event_report import EventReport
from analysis.reports.mapping_report import MappingReport
from analysis.reports.memory_report import MemoryReport
from analysis.reports.partition_report import PartitionReport
from analysis.reports.roofline_report import RooflineReport
from collections.abc import Sequence
from hwexplorer.annexes.validate import KernelGroups, ModelGroups
from hwexplorer.reports.devices.devices import Devices
from hwexplorer.reports.models import Models
from hwexplorer.reports.show.coefficients import Prices
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from hwexplorer.api import Model as Model
from hwexplorer.api import RequestError as RequestError
from hwexplorer.api import Result as Result
from hwexplorer.api import model as model

__version__: str

def capture(model: Any, inputs: Any, *, batch_dim: int | None = 0, name: str = "") -> Captured: ...

class _Options(TypedDict, total=False):
    devices_dir: Path | Sequence[Path | str] | str | None

class _Inputs(TypedDict, total=False):
    batch: int | None
    precision: Any | None
    image_size: int | None
    sequence: int | None
    kv: int | None
    input: Sequence[str] | str | None
    batch_dim: str | None
    time_limit: float | str | None
    memory_limit: int | None
    show_output: bool | None
    again: bool | None
    strict: bool | None
    run_code: bool | None
    devices_dir: Path | Sequence[Path | str] | str | None

class _Scenario(TypedDict, total=False):
    batch: int | None
    precision: Any | None
    runtime: str | None
    execution: str | None
    like_for_like: bool | None
    layout: Literal["channels_last", "nchw"] | None
    image_size: int | None
    sequence: int | None
    kv: int | None
    input: Sequence[str] | str | None
    batch_dim: str | None
    time_limit: float | str | None
    memory_limit: int | None
    show_output: bool | None
    again: bool | None
    strict: bool | None
    run_code: bool | None
    devices_dir: Path | Sequence[Path | str] | str | None

def advise(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    aim: Literal["edp", "energy", "latency", "memory", "throughput"] | None = ...,
    instead: Sequence[str] | str | None = ...,
    include_design_targets: bool | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Advice]:
    """What to change, each suggestion run with the change."""

def check(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    rule: Sequence[str] | str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Findings]:
    """Rules that must hold, for CI: exit 1 where one is broken."""

def compare(
    model: Model | Workload | str,
    *,
    on: Sequence[str] | str | None = ...,
    baseline: str | None = ...,
    include_design_targets: bool | None = ...,
    level: Literal["detailed", "operator", "subgraph", "summary"] | None = ...,
    metric: Literal["edp", "energy", "latency"] | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Comparison | Levels]:
    """One model on several devices, as a whole or node by node."""

def rank(
    models: Sequence[str] | str = ...,
    *,
    on: str | None = ...,
    family: str | None = ...,
    sort: Literal["accuracy", "edp", "energy", "latency", "throughput"] | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Rank]:
    """Models on one device, with their published accuracy."""

def cost(
    model: Model | Workload | str,
    *,
    on: Sequence[str] | str | None = ...,
    electricity: str | None = ...,
    carbon: str | None = ...,
    overhead: str | None = ...,
    lifetime: str | None = ...,
    duty: str | None = ...,
    hourly: Sequence[str] | str | None = ...,
    price: Sequence[str] | str | None = ...,
    include_design_targets: bool | None = ...,
    **options: Unpack[_Scenario],
) -> Result[CostReport]:
    """Money and carbon per million inferences, break-even of two devices."""

def device(
    device: str,
    *,
    save: str | None = ...,
    **options: Unpack[_Options],
) -> Result[dict[str, Any]]:
    """One device with the source of every fact."""

def devices(
    **options: Unpack[_Options],
) -> Result[Devices]:
    """The device catalogue."""

def models(
    **options: Unpack[_Options],
) -> Result[Models]:
    """The models that can be opened."""

def report(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[dict[str, Any]]:
    """Everything about one model on one device: text, Markdown, or a page to open offline."""

def pareto(
    model: Model | Workload | str,
    *,
    on: Sequence[str] | str | None = ...,
    models: Sequence[str] | str | None = ...,
    batches: Sequence[int] | int | None = ...,
    precisions: Sequence[str] | str | None = ...,
    power_modes: bool | None = ...,
    include_design_targets: bool | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Pareto]:
    """What no other configuration beats in energy and latency."""

def search(
    model: Model | Workload | str,
    *,
    on: Sequence[str] | str | None = ...,
    max_energy: str | None = ...,
    max_latency: str | None = ...,
    max_memory: str | None = ...,
    max_power: str | None = ...,
    min_throughput: str | None = ...,
    max_cost: str | None = ...,
    sort: Literal["cost", "edp", "energy", "latency", "throughput"] | None = ...,
    batches: Sequence[int] | int | None = ...,
    precisions: Sequence[str] | str | None = ...,
    power_modes: bool | None = ...,
    include_design_targets: bool | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Search]:
    """Configurations within limits of energy, latency, memory, power, throughput, cost."""

def coefficients(
    *,
    on: str | None = ...,
    precision: Any | None = ...,
    **options: Unpack[_Options],
) -> Result[Prices]:
    """Every energy constant of a device with its spread and source."""

def concurrency(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[ConcurrencyReport]:
    """Stages, critical path, parallelism, hardware units each subgraph can use."""

def energy(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    top: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[EnergyReport]:
    """Where the energy goes: components, power, idle losses, top consumers."""

def events(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    dynamic: bool | None = ...,
    **options: Unpack[_Scenario],
) -> Result[EventReport]:
    """Architectural energy events of a node."""

def mapping(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[MappingReport]:
    """How a device runs a model: utilisation, bounds, and each kernel's grid."""

def memory(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[MemoryReport]:
    """What is held when, live at the peak, fits where, and what would save some."""

def plot(
    model: Model | Workload | str,
    *,
    on: Sequence[str] | str | None = ...,
    plot: Literal["batch", "cumulative", "energy_roofs", "memory", "pareto", "roofline", "roofs"] | None = ...,
    **options: Unpack[_Scenario],
) -> Result[dict[str, Any]]:
    """Points of a plot of the screen: roofline, roofs, energy_roofs, cumulative, batch, pareto, memory."""

def roofline(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[RooflineReport]:
    """Every kernel under its roofs: what bounds it, what would flip it."""

def sweep(
    model: Model | Workload | str = ...,
    *,
    on: Sequence[str] | str | None = ...,
    all: bool | None = ...,
    batches: Sequence[int] | int | None = ...,
    precisions: Sequence[str] | str | None = ...,
    power_modes: bool | None = ...,
    include_design_targets: bool | None = ...,
    image_sizes: Sequence[int] | int | None = ...,
    workers: str | None = ...,
    scheduler: str | None = ...,
    resume: bool | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Sweep]:
    """A model over batches, precisions, image sizes; or the whole catalogue."""

def edp(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    top: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[EdpReport]:
    """Energy-delay product: components, concentration, top nodes, eager against fused."""

def partition(
    model: Model | Workload | str,
    **options: Unpack[_Inputs],
) -> Result[PartitionReport]:
    """Operators and subgraphs by type, traffic, parallelism, dependencies."""

def tree(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    by: Literal["kernel", "kind", "module", "subgraph"] | None = ...,
    **options: Unpack[_Scenario],
) -> Result[dict[str, Any]]:
    """Model, subgraphs and operators with their energy-delay product."""

def crossover(
    model: Model | Workload | str, a: str, b: str,
    *,
    knob: Sequence[str] | str | None = ...,
    metric: Sequence[str] | str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Crossover]:
    """The least change of a device with which it matches another: of one fact, and of the best two."""

def elasticity(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Elasticities]:
    """What matters: per cent of latency, energy and EDP per per cent of each fact of the chip."""

def knobs(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    knob: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[KnobReport]:
    """The knobs of a device: its facts and event prices now and unchanged, their effects, and a curve over one of them."""

def diff(
    model: Model | Workload | str, other: Model | Workload | str,
    *,
    on: str | None = ...,
    rule: Sequence[str] | str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Diff]:
    """What changed between two models, states or JSON files, and where: text for people, Markdown for a pull request."""

def explain(
    model: Model | Workload | str, a: str, b: str,
    *,
    metric: Literal["edp", "energy", "latency", "memory"] | None = ...,
    **options: Unpack[_Scenario],
) -> Result[Explanation]:
    """Why one device costs more than another."""

def why(
    model: Model | Workload | str,
    *,
    on: str | None = ...,
    node: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[dict[str, Any]]:
    """Why a node costs what it costs."""

def trace(
    file: Path | str,
    *,
    model: str | None = ...,
    on: str | None = ...,
    run: bool | None = ...,
    threads: str | None = ...,
    **options: Unpack[_Scenario],
) -> Result[TraceReport]:
    """A measured trace laid over the model: each operator's time beside the predicted one, gaps, what was not matched."""

def design(
    *,
    batch: int | None = ...,
    precision: Any | None = ...,
    runtime: str | None = ...,
    execution: str | None = ...,
    like_for_like: bool | None = ...,
    layout: Literal["channels_last", "nchw"] | None = ...,
    input: Sequence[str] | str | None = ...,
    batch_dim: str | None = ...,
    time_limit: float | str | None = ...,
    memory_limit: int | None = ...,
    show_output: bool | None = ...,
    again: bool | None = ...,
    strict: bool | None = ...,
    run_code: bool | None = ...,
    base: str | None = ...,
    workload: Sequence[str] | str | None = ...,
    knobs: Sequence[str] | str | None = ...,
    metric: Literal["edp", "energy", "latency"] | None = ...,
    max_power: str | None = ...,
    max_area: str | None = ...,
    how: Literal["grid", "local", "random"] | None = ...,
    designs: str | None = ...,
    seed: str | None = ...,
    workers: str | None = ...,
    scheduler: str | None = ...,
    resume: str | None = ...,
    top: str | None = ...,
    **options: Unpack[_Options],
) -> Result[Designs]:
    """Design search: thousands of changed chips over several models, best first, with area and cost."""

def validate(
    *,
    data: Path | Sequence[Path | str] | str | None = ...,
    kernels: bool | None = ...,
    cross_validate: bool | None = ...,
    groups: bool | None = ...,
    **options: Unpack[_Options],
) -> Result[KernelGroups | ModelGroups]:
    """Predictions against measurements."""
