"""Devices side by side for one model and scenario."""

from __future__ import annotations

from analysis.decide.compare import Comparison
from analysis.decide.compare import compare as compare_devices
from analysis.decide.compare import insights as find_insights
from analysis.decide.compare import recommendations as find_recommendations
from analysis.run.estimate import Estimate
from hardware.device import Device
from hardware.execute import BOUNDS
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.format import delta
from hwexplorer.state import State, pinned
from hwexplorer.views.plain import Column, Row, Table

SUMMARY = (
    Column("device", "Device", role="text", keep=0),
    Column("latency", "Latency", "s", keep=1, help="of the whole batch"),
    Column("energy", "Energy", "J", keep=1, help="of the whole batch"),
    Column("edp", "EDP", "Js", keep=2, help="energy per inference x latency"),
    Column("ratio", "EDP ratio", "x", keep=3, help="to the baseline"),
    Column("throughput", "Throughput", "1/s", keep=3, help="inferences per second"),
    Column("power", "Power", "W", keep=4, help="average over the inference"),
    Column("utilization", "Util", "%", keep=4, help="of the peak of the format that runs"),
    Column("memory", "Memory", "byte", keep=5, help="peak: weights and live activations"),
    Column(
        "bound", "Bound", role="flag", keep=2, help="C compute, M memory, L launch, P power bound, most of the time"
    ),
    Column("precision", "Runs", role="text", keep=5, help="the format most multiply-accumulates run in"),
    Column("band", "Latency band", role="text", keep=6),
    Column("energy_band", "Energy band", role="text", keep=6),
)
DETAILED = (
    Column("compute", "Compute", "J", keep=2),
    Column("memory_energy", "Mem. energy", "J", keep=2),
    Column("static", "Static", "J", keep=2),
    Column("weights", "Weights", "byte", keep=3),
    Column("activations", "Activations", "byte", keep=3),
    Column("limit", "Limit", "W", keep=4),
    Column("tdp", "TDP", "W", keep=5),
    Column("kernels", "Kernels", "count", keep=5),
    Column("bounds", "Bounds", role="text", keep=5, help="kernels by what bounds them"),
    Column("latency_ratio", "Latency ratio", "x", keep=3, help="to the baseline"),
    Column("energy_ratio", "Energy ratio", "x", keep=3, help="to the baseline"),
)
DELTA = Column("delta", "vs pin", "%", role="delta", keep=0, help="EDP against the pinned state")
FLAGS = {"compute": "C", "memory": "M", "launch": "L", "power": "P"}


def comparison(state: State) -> Comparison:
    """The compared figures as a document."""
    devices = [engine.device(name) for name in state.devices]
    return compare_devices(engine.workload(state), devices, engine.scenario(state), engine.device(state.baseline).key)


def compare(state: State, level: str = "summary") -> Table:
    """One row per device, keyed as in `state.devices`; `level` 'detailed' adds the split of energy and memory."""
    results = [engine.result(state, name) for name in state.devices]
    reference = engine.result(state, state.baseline)
    against = _pinned_edp(state)
    columns = SUMMARY + (DETAILED if level == "detailed" else ()) + ((DELTA,) if against else ())
    rows = tuple(
        Row(name, _cells(result, reference, level, against), kind=result.device.architecture, dim=not result.fits)
        for name, result in zip(state.devices, results, strict=True)
    )
    footer = (*_best(results), *find_insights(results, reference))
    notes = (*_marks(results), *results[0].workload.notes)
    return Table("compare", title(state), columns, rows, footer, notes)


def _best(results: list[Estimate]) -> tuple[str, ...]:
    """`best for energy, latency, throughput, balance: Google TPU v4; memory: ...`; nothing to say of one device."""
    names = {result.device.key: label(result.device) for result in results}
    aims: dict[str, list[str]] = {}
    for aim, key in find_recommendations(results).items():
        if key:
            aims.setdefault(names[key], []).append(aim)
    if len(results) < 2 or not aims:
        return ()
    return ("best for " + "; ".join(f"{', '.join(those)}: {name}" for name, those in aims.items()),)


def _marks(results: list[Estimate]) -> tuple[str, ...]:
    """What deviates from the request, each remark once with the devices it is true of."""
    names: dict[str, list[str]] = {}
    for result in results:
        for mark in result.marks:
            names.setdefault(mark, []).append(label(result.device))
    return tuple(f"{', '.join(those)}: {mark}" for mark, those in names.items())


def label(device: Device) -> str:
    """Name of a device with its power mode."""
    return f"{device.name} {device.power_mode}".rstrip()


def title(state: State) -> str:
    """What every figure on screen is about, in one line."""
    model = engine.workload(state)
    macs = model.total(model.operators.macs, batch=1)
    size = f", {state.image_size} px" if state.image_size else ""
    return f"{model.name}{size}: {quantity(macs, 'MAC')}, {quantity(model.parameters, 'SI')} parameters; {words(state)}"


def words(state: State) -> str:
    """The scenario in words: `batch 8, fp16, auto`; of a language model with its lengths."""
    lengths = "".join(f", {name} {value}" for name, value in engine.workload(state).defaults.items())
    layout = "" if state.layout == "nchw" else f", {state.layout.replace('_', ' ')}"
    return f"batch {state.batch}{lengths}, {state.precision}, {state.execution}{layout}"


def place(state: State) -> str:
    """What a node's figures are about: `layer1.0.conv1 of resnet18, batch 8, fp16, auto on Google TPU v4`."""
    model = engine.workload(state).name
    node = f"{state.at} of {model}" if state.at not in ("", "/", model) else model
    return f"{node}, {words(state)} on {label(engine.device(state.on))}"


def _pinned_edp(state: State) -> float:
    other = pinned(state) if state.diff else None
    return engine.result(other).edp_js if other else 0.0


def _cells(result: Estimate, reference: Estimate, level: str, against: float) -> tuple[str | float | None, ...]:
    summary: tuple[str | float | None, ...] = (
        label(result.device),
        result.latency_s,
        result.energy_j,
        result.edp_js,
        result.edp_js / (reference.edp_js or 1.0),
        result.throughput_per_s,
        result.average_power_w,
        result.utilization,
        result.memory.peak_bytes,
        FLAGS[result.bound],
        result.precision_run,
        band(result.latency_band_s, result.latency_s),
        band(result.energy_band_j, result.energy_j),
    )
    detailed: tuple[str | float, ...] = ()
    if level == "detailed":
        detailed = (
            *result.component_j.values(),
            result.memory.weight_bytes,
            result.memory.activation_peak_bytes,
            result.device.power_limit_w,
            result.device.tdp_w,
            result.demand.n_kernels,
            bounds(result),
            result.latency_s / (reference.latency_s or 1.0),
            result.energy_j / (reference.energy_j or 1.0),
        )
    return (*summary, *detailed, *((result.edp_js / against - 1.0,) if against else ()))


def bounds(result: Estimate) -> str:
    """Kernels by what bounds them: `12 C, 51 L`."""
    counts = [(int((result.run.bound == i).sum()), FLAGS[name]) for i, name in enumerate(BOUNDS)]
    return ", ".join(f"{count} {letter}" for count, letter in counts if count)


def band(ends: tuple[float, float], nominal: float) -> str:
    """`-22/+48 %` around the nominal figure."""
    if not nominal:
        return ""
    down, up = (f"{(end / nominal - 1) * 100:+.0f}" for end in ends)
    return f"{down}/{up} %"


def verdict(state: State) -> str:
    """The pinned state against this one, in one line; '' without a pin."""
    other = pinned(state)
    if other is None:
        return ""
    here, there = engine.result(state), engine.result(other)
    return (
        f"{label(here.device)} b{state.batch} vs {label(there.device)} b{other.batch}: "
        f"EDP {delta(here.edp_js / there.edp_js - 1)}, latency {delta(here.latency_s / there.latency_s - 1)}, "
        f"energy {delta(here.energy_j / there.energy_j - 1)}"
    )
