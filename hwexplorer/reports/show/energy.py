"""Show where the energy goes: components, power, idle losses, largest consumers.

Efficiency is the dynamic part of the energy. Energy lost to idle resources is the static energy of the part of the
device that does nothing: static x (1 - utilisation). Peak power is the power of the kernel that draws most.
"""

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import Column, column, columns, records
from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.evaluation import ratio, weighted_mean
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.kernel_rows import kernels, kernels_of
from analysis.estimate.outline import HOST
from analysis.estimate.tree_figures import estimate_of_node, operators_of
from analysis.model.ir.workload import Floats, Ints
from analysis.text.headline import work_word
from hardware.base.text import percent, quantity
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.options import TOP
from hwexplorer.state import State
from hwexplorer.views.captions import category_words, energy_words
from hwexplorer.views.digest import Digest
from hwexplorer.views.plain import Table


class EnergyPart(msgspec.Struct, frozen=True):
    """A share of the energy of the node."""

    name: str
    energy_j: Annotated[float, column("Energy/batch", "J", keep=9)]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", key="per_inference")]
    fraction: Annotated[float, column("Share", "%", key="bar", role="bar", keep=1), column("%", "%")]


def _per_inference(title: str, component: str, **others: str) -> Column:
    return column(title, "J", key=f"{component}_per_inference", keep=2, scale="per_inference", **others)


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """One of the largest consumers. `cumulative` is the share of this row and all rows above it."""

    id: Annotated[str, column("Node", key="name")]
    type: Annotated[str, column("Kind", key="kind", keep=4)]
    energy_j: Annotated[float, column("Energy/batch", "J", keep=9)]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", key="per_inference")]
    fraction: Annotated[float, column("Share", "%", key="bar", role="bar", keep=2), column("%", "%")]
    cumulative: Annotated[float, column("Cum", "%", keep=1)]
    compute_j: Annotated[float, column("Logic/batch", "J", keep=9, scale="energy")]
    memory_j: Annotated[float, column("Data/batch", "J", keep=9, scale="energy")]
    static_j: Annotated[float, column("Static/batch", "J", keep=9, scale="energy")]
    compute_j_per_inference: Annotated[
        float, _per_inference("Logic", "compute", help="arithmetic, registers, control and waiting units")
    ]
    memory_j_per_inference: Annotated[float, _per_inference("Data", "memory", help="moving data, on and off the chip")]
    static_j_per_inference: Annotated[float, _per_inference("Static", "static")]
    latency_s: Annotated[float, column("Latency", "s", keep=3)]


class EnergyReport(Head, frozen=True, kw_only=True):
    """The energy of a node by component and category, its power, and the nodes that use most."""

    node: str
    energy_j: float
    energy_j_per_inference: float
    latency_s: float
    components: tuple[EnergyPart, ...]
    categories: tuple[EnergyPart, ...]
    average_power_w: float
    peak_power_w: float
    peak_power_kernel: str
    static_power_w: float
    power_limit_w: float
    tdp_w: float
    dynamic_j: float
    efficiency: float
    utilization: float
    idle_loss_j: float
    idle_loss_fraction: float
    top_subgraphs: tuple[Consumer, ...]
    top_operators: tuple[Consumer, ...]


def energy_report(result: Estimate, path: str = "", top: int = 10) -> EnergyReport:
    """Return the energy of a node ('' is the model). Raises RequestError for an unknown node."""
    members, whole = operators_of(result, path), result
    result = estimate_of_node(whole, path)
    rest, host = divide_host_work(whole) if result is whole else (result, None)
    run, parts, batch = result.run, result.partition, result.scenario.batch
    component = result.component_energy_j[:, members].sum(axis=1)
    energy, time = float(run.energy_j[members].sum()), float(run.latency_s[members].sum())
    static, of_kernels = float(component[COMPONENTS.index("static")]), run.utilization[result.demand.kernel[members]]
    busy = min(weighted_mean(of_kernels, run.latency_s[members]), 1.0)
    lost = static * (1.0 - busy)
    per_operator, subgraph = _amounts(rest), parts.subgraph[members]
    sums = np.array([np.bincount(subgraph, row[members], minlength=len(parts.id)) for row in per_operator])
    of_host = None if host is None else _amounts(host).sum(axis=1)
    kinds = result.workload.operators.kind
    peak_w, peak_kernel = _peak_power(result, path)
    return EnergyReport(
        **head_fields(result, on_device=True),
        node=path,
        energy_j=energy,
        energy_j_per_inference=energy / batch,
        latency_s=time,
        components=_parts(dict(zip(COMPONENTS, component.tolist(), strict=True)), energy, batch),
        categories=_parts(_by_category(result, members), energy, batch),
        average_power_w=energy / time if time else 0.0,
        peak_power_w=peak_w,
        peak_power_kernel=peak_kernel,
        static_power_w=static / time if time else 0.0,
        power_limit_w=result.power_limit_w,
        tdp_w=result.device.tdp_w * result.workload.devices,
        dynamic_j=energy - static,
        efficiency=(energy - static) / energy if energy else 0.0,
        utilization=busy,
        idle_loss_j=lost,
        idle_loss_fraction=lost / energy if energy else 0.0,
        top_subgraphs=_consumers(parts.id, parts.kind, np.unique(subgraph), sums, of_host, energy, batch, top),
        top_operators=_consumers(parts.operator_id, kinds, members, per_operator, of_host, energy, batch, top),
    )


def _amounts(result: Estimate) -> Floats:
    """Return energy, its components and latency of each operator, shape (5, n)."""
    return np.vstack([result.run.energy_j, result.component_energy_j, result.run.latency_s])


def _by_category(result: Estimate, members: Ints) -> dict[str, float]:
    energies: dict[str, float] = {}
    for event, energy in zip(result.events, result.event_energy_j[:, members].sum(axis=1).tolist(), strict=True):
        energies[event.category] = energies.get(event.category, 0) + energy
    return energies


def _parts(energies: dict[str, float], total_j: float, batch: int) -> tuple[EnergyPart, ...]:
    energy = np.array(list(energies.values()))
    return records(
        EnergyPart,
        name=list(energies),
        energy_j=energy,
        energy_j_per_inference=energy / batch,
        fraction=energy / total_j if total_j else 0.0,
    )


def _peak_power(result: Estimate, path: str) -> tuple[float, str]:
    rows_of_node = kernels_of(result, path)
    if not len(rows_of_node):
        return 0.0, ""
    power = ratio(kernels(result).energy_j[rows_of_node], result.run.kernel_s[rows_of_node])
    return float(power.max()), kernels(result).id[int(rows_of_node[power.argmax()])]


def _consumers(
    ids: tuple[str, ...], kinds: tuple[str, ...], members: Ints, sums: Floats, of_host: Floats | None,
    total_j: float, batch: int, top: int,
) -> tuple[Consumer, ...]:  # fmt: skip
    """Return the `top` members by energy, the largest first, ties in order. `sums` (5, k) holds the amounts of all
    nodes for the batch; `of_host` (5,) holds the amounts of the host's work, which is one more row."""
    if of_host is not None:
        members, sums = np.append(members, len(ids)), np.column_stack([sums, of_host])
        ids, kinds = (*ids, HOST), (*kinds, "host")
    order = members[np.argsort(-sums[0, members], kind="stable")][:top]
    energy, *components, latency = sums[:, order]
    share = energy / (total_j or np.inf)
    of_batch = dict(zip((f"{name}_j" for name in COMPONENTS), components, strict=True), energy_j=energy)
    return records(
        Consumer,
        id=[ids[i] for i in order],
        type=[kinds[i] for i in order],
        fraction=share,
        cumulative=np.cumsum(energy) / (total_j or np.inf),
        latency_s=latency,
        **of_batch,
        **{f"{name}_per_inference": value / batch for name, value in of_batch.items()},
    )


# --- the verb ---------------------------------------------------------------------------------------------------------

# The component `compute` is more than the cause of that name: it includes control and waiting units.
_WORDS = {"compute": "logic", "memory": "data movement", "static": "static power"}
PARTS = (
    Column("name", "Part", role="text", keep=0, of=lambda part: category_words(part.name)),
    *columns(EnergyPart, "bar fraction energy per_inference"),
)
_COMPONENT_COLUMNS = (msgspec.structs.replace(PARTS[0], of=lambda part: _WORDS[part.name]), *PARTS[1:])
CONSUMERS = columns(
    Consumer,
    "name kind bar fraction cumulative per_inference compute_per_inference memory_per_inference static_per_inference "
    "latency energy compute memory static",
)


def _short_name(row: Consumer) -> str:
    """Return the subgraph, with the operator if it has another name: `layer1.0.conv1/relu`."""
    if row.id == HOST:
        return "host"
    subgraph, _, operator = row.id.rpartition("/")
    name = operator.rpartition(".")[2]
    return subgraph if subgraph.endswith(name) else f"{subgraph}/{name}".lstrip("/")


_ALIKE = columns(
    Consumer,
    "name per_inference compute_per_inference memory_per_inference static_per_inference latency",
    name={"of": _short_name},
)


def _alike(report: EnergyReport, state: State) -> Table:
    """Return the operators that use most energy, with alike operators merged."""
    digest = Digest("per_inference", "operator", "%")
    part = Rows("alike", "Operators that use most", _ALIKE, of="top_operators", kind="type", digest=digest)
    result = engine.result(state)
    return part(energy_report(result, state.at, result.demand.n + 1), state)


def _summary(report: EnergyReport, state: State) -> tuple[str, ...]:
    watts = {name: quantity(getattr(report, f"{name}_w"), "W") for name in _POWERS}
    return (
        f"{energy_words(report.energy_j, report.batch, what=work_word(engine.result(state)))} in "
        f"{quantity(report.latency_s, 's')}",
        f"average power {watts['average_power']}; highest {watts['peak_power']}, in {report.peak_power_kernel}; "
        f"limit {watts['power_limit']}, TDP {watts['tdp']}",
        f"static power of {watts['static_power']} takes {percent(1 - report.efficiency)} of the energy, "
        f"{percent(report.idle_loss_fraction)} in idle units (utilisation {percent(report.utilization, 1)})",
    )


_POWERS = ("average_power", "peak_power", "power_limit", "tdp", "static_power")
_PER_INFERENCE = {"without": lambda report: ("energy", "compute", "memory", "static")}  # columns per batch

VERB = Report(
    subject=NODE,
    options=(TOP,),
    document=document_of_estimate(energy_report),
    title="Energy",
    parts=(
        summary_text(_summary),
        Rows("components", "By component", _COMPONENT_COLUMNS, key="name", brief=_PER_INFERENCE),
        Rows("categories", "By category of events", PARTS, key="name"),
        Rows("operators", "Operators that use most", CONSUMERS, of="top_operators", kind="type"),
        _alike,
        Rows("subgraphs", "Subgraphs that use most", CONSUMERS, of="top_subgraphs", kind="type"),
    ),
    brief_parts=("summary", "components", "alike"),
    section=Section(30, "Where the energy goes"),
    examples={"energy": "conv2d --on h100_sxm"},
)
