"""Written by `python -m lab.reference` from what each verb declares."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from analysis.capture.module_at_hand import capture as capture
from analysis.model.ir.workload import Workload
from hwexplorer.api import RequestError as RequestError
from hwexplorer.api import Result as Result
from hwexplorer.api import graph as graph

from analysis.explore.comparison import Comparison
from analysis.explore.constrained_search import ConstrainedSearch
from analysis.explore.difference import Difference
from analysis.explore.difference import Progression
from analysis.explore.divided_run import FallbackReport
from analysis.explore.divided_run import OffloadReport
from analysis.explore.mission import MissionAnswer
from analysis.explore.mission import MissionTable
from analysis.explore.outcome import Findings
from analysis.explore.plans import FormatPlan
from analysis.explore.plans import FusionPlan
from analysis.explore.tuning import KnobReport
from analysis.explore.wavefront_phases import Wavefront
from analysis.serving.served_load import ServingReport
from hwexplorer.reports.advise.advise import Advice
from hwexplorer.reports.compare import Levels
from hwexplorer.reports.devices import DeviceList
from hwexplorer.reports.models import ModelList
from hwexplorer.reports.models import ModelRanking
from hwexplorer.reports.show.events import EventReport
from hwexplorer.reports.show.kernels import KernelReport
from hwexplorer.reports.show.memory import MemoryReport
from hwexplorer.reports.show.structure import StructureReport
from hwexplorer.reports.sweep import Sweep
from hwexplorer.reports.tree.edp import EdpReport
from hwexplorer.reports.validate import Evidence
from hwexplorer.reports.validate import MeasuredComparison
from hwexplorer.reports.why import NodeExplanation

__version__: str
_One = str | float | Path | Workload
_Value = _One | Sequence[_One] | None

def advise(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., aim: Literal["energy", "latency", "edp", "memory", "throughput"] | None = ..., instead: _Value = ..., include_design_targets: bool | None = ..., plan: Literal["formats", "fusion"] | None = ..., formats: _Value = ..., losses: _Value = ..., max_loss: _Value = ..., keep: _Value = ..., metric: Literal["latency", "energy", "edp"] | None = ..., devices_dir: _Value = ...) -> Result[Advice | FormatPlan | FusionPlan]:
    """Suggest changes of batch, precision, runtime and device, each evaluated, the best first."""

def calibrate(device: _Value = ..., file: _Value = ..., *, on: _Value = ..., runtime: _Value = ..., precision: _Value = ..., name: _Value = ..., to: _Value = ..., devices_dir: _Value = ...) -> Result[Any]:
    """Make a device from measurements: results of benchmark tools, rows of a CSV, or a time or rate in words."""

def check(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., rule: _Value = ..., devices_dir: _Value = ...) -> Result[Findings]:
    """Check rules such as "energy(gpu) < 50mJ": PASS, FAIL or UNKNOWN, with margin, odds and what to measure next."""

def compare(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., baseline: _Value = ..., include_design_targets: bool | None = ..., level: Literal["summary", "detailed", "subgraph", "operator"] | None = ..., metric: Literal["edp", "energy", "latency"] | None = ..., cost: bool | None = ..., hourly: _Value = ..., price: _Value = ..., electricity: _Value = ..., carbon: _Value = ..., overhead: _Value = ..., lifetime: _Value = ..., duty: _Value = ..., devices_dir: _Value = ...) -> Result[Comparison | Levels]:
    """Compare devices for one model: latency, energy, EDP, cost, and which is best; in whole or node by node."""

def devices(device: _Value = ..., *, arch: Literal["cpu", "gpu", "tpu", "npu", "kpu"] | None = ..., precision: _Value = ..., devices_dir: _Value = ...) -> Result[Any]:
    """List the devices, or show one with the source of each fact and the energy of each event, or write its file."""

def mission(file: _Value = ..., *, input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., include_design_targets: bool | None = ..., devices_dir: _Value = ...) -> Result[MissionAnswer | MissionTable]:
    """Run several models at their rates on one module, within a power budget or from a battery."""

def models(names: _Value = ..., *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., family: _Value = ..., sort: Literal["energy", "latency", "throughput", "accuracy", "edp"] | None = ..., devices_dir: _Value = ...) -> Result[ModelList | ModelRanking]:
    """List the models that can be opened; with --on DEVICE rank them there, with their published accuracy."""

def report(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., devices_dir: _Value = ...) -> Result[Any]:
    """Write everything about one model on one device: text, Markdown, or a page to open offline."""

def search(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., max_energy: _Value = ..., max_latency: _Value = ..., max_memory: _Value = ..., max_power: _Value = ..., min_throughput: _Value = ..., max_cost: _Value = ..., front: bool | None = ..., models: _Value = ..., sort: Literal["energy", "latency", "edp", "throughput", "cost"] | None = ..., batches: _Value = ..., precisions: _Value = ..., power_modes: bool | None = ..., cap: bool | None = ..., include_design_targets: bool | None = ..., max_ttft: _Value = ..., max_tpot: _Value = ..., devices: _Value = ..., devices_dir: _Value = ...) -> Result[ConstrainedSearch]:
    """Find devices, batches and precisions within limits such as --max-power 20W, or those that no other beats."""

@overload
def show(section: Literal["events"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., node: _Value = ..., devices_dir: _Value = ...) -> Result[EventReport]:
    """Count hardware events (operations, bytes, cycles) and their energy."""

@overload
def show(section: Literal["fallback"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., rest: _Value = ..., devices_dir: _Value = ...) -> Result[FallbackReport]:
    """Show which operators an accelerator's compiler leaves to the CPU or GPU beside it, and what that costs."""

@overload
def show(section: Literal["kernels"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., node: _Value = ..., devices_dir: _Value = ...) -> Result[KernelReport]:
    """Show each kernel: how the device runs it, what bounds it, its time and its rate."""

@overload
def show(section: Literal["load"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., max_ttft: _Value = ..., max_tpot: _Value = ..., devices_dir: _Value = ...) -> Result[ServingReport]:
    """Show a language model under load: time to first token, time per token and joules of a stream of requests."""

@overload
def show(section: Literal["memory"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., devices_dir: _Value = ...) -> Result[MemoryReport]:
    """Show what memory holds: weights, activations, the peak, and what would save some."""

@overload
def show(section: Literal["offload"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., host: _Value = ..., ngl: _Value = ..., n_cpu_moe: _Value = ..., devices_dir: _Value = ...) -> Result[OffloadReport]:
    """Show how a language model runs that keeps layers or experts in the memory of the host or of a second device."""

@overload
def show(section: Literal["plot"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., plot: Literal["roofline", "batch"] | None = ..., devices_dir: _Value = ...) -> Result[Any]:
    """Print the points of a plot: roofline or batch."""

@overload
def show(section: Literal["structure"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., devices_dir: _Value = ...) -> Result[StructureReport]:
    """Show what a model is made of, and what could run at once: operators, subgraphs, stages, critical path."""

@overload
def show(section: Literal["wavefront"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., node: _Value = ..., at: _Value = ..., devices_dir: _Value = ...) -> Result[Wavefront]:
    """Show an operator as it runs on several machines: phases, cycles, energy, and what moves at a moment."""

def sweep(model: _Value = ..., *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., batches: _Value = ..., precisions: _Value = ..., power_modes: bool | None = ..., include_design_targets: bool | None = ..., rates: _Value = ..., clients: _Value = ..., image_sizes: _Value = ..., workers: _Value = ..., cluster: _Value = ..., devices_dir: _Value = ...) -> Result[Sweep]:
    """Tabulate a model over batches, precisions and image sizes; or the whole catalogue."""

def trace(file: _Value, model: _Value = ..., *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., devices_dir: _Value = ...) -> Result[Any]:
    """Compare a measured trace with the prediction, operator by operator."""

@overload
def tree(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., node: _Value = ..., by: Literal["module", "subgraph", "kind"] | None = ..., devices_dir: _Value = ...) -> Result[Any]:
    """Show the parts of a model with their energy-delay product (EDP), the costliest first."""

@overload
def tree(section: Literal["edp"], model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., node: _Value = ..., metric: Literal["edp", "energy", "latency"] | None = ..., devices_dir: _Value = ...) -> Result[EdpReport]:
    """Divide the energy-delay product (EDP): causes, power, the largest parts, what fusion saves."""

@overload
def tune(model: _Value, *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., knob: _Value = ..., devices_dir: _Value = ...) -> Result[KnobReport]:
    """Show what each fact of a device does: effects of 1 %, and a curve over one of them."""

@overload
def tune(section: Literal["design"], *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., base: _Value = ..., workload: _Value = ..., mission: _Value = ..., knobs: _Value = ..., metric: Literal["latency", "energy", "edp"] | None = ..., max_power: _Value = ..., max_area: _Value = ..., top: _Value = ..., devices_dir: _Value = ...) -> Result[Any]:
    """Design search: evaluates a grid of changes of a chip by their cost over several models."""

def validate(files: _Value = ..., *, on: _Value = ..., devices_dir: _Value = ...) -> Result[MeasuredComparison | Evidence]:
    """Show how well estimates are known, or compare your measurements with their predictions."""

def why(model: _Value, sides: _Value = ..., *, load: _Value = ..., batch: _Value = ..., precision: _Value = ..., runtime: _Value = ..., execution: _Value = ..., layout: Literal["nchw", "channels_last"] | None = ..., prices: Literal["own", "measured", "bottom-up"] | None = ..., image_size: _Value = ..., sequence: _Value = ..., kv: _Value = ..., input: _Value = ..., batch_dim: _Value = ..., time_limit: _Value = ..., memory_limit: _Value = ..., show_output: bool | None = ..., again: bool | None = ..., strict: bool | None = ..., run_code: bool | None = ..., on: _Value = ..., node: _Value = ..., metric: Literal["edp", "energy", "latency", "memory"] | None = ..., rule: _Value = ..., devices_dir: _Value = ...) -> Result[NodeExplanation | Difference | Progression]:
    """Explain a cost: of a node, of one device, state or file against another, or of a model on several devices in turn."""
