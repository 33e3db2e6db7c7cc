"""Architectural energy events of a node: counts, energy, and the rates derived from them."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, record
from analysis.estimate.causes import CAUSES, cause_of_event
from analysis.estimate.estimate import Estimate
from analysis.estimate.families import family_of
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.totals import weighted_mean
from analysis.estimate.tree_figures import estimate_of_node, operators_of
from hardware.architecture import architecture_of
from hardware.demand import Ints
from hardware.event_prices import Coefficient
from hardware.mapping.common import units_in_all
from hardware.memo import memoize
from hardware.taxonomy import Event


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Count and energy are per batch unless the name says otherwise; `fraction` is of the node's energy. The
    band varies the price at a fixed count; `coefficient_j` is the mean price at the voltages at which it happened.
    `is_dynamic` events are paid for work, not for time. `waits` is the share of the cycles of an event by time in which
    the units it serves are idle (None for other events). `cause` is one of CAUSES, `family` one of FAMILIES, which all
    architectures share."""

    category: str
    event: str
    count: Annotated[float, column("Count", "SI", role="quantity", keep=2, help="in the unit of the next column")]
    unit: Annotated[str, column("of", keep=2)]
    energy_j: Annotated[float, column("Energy/batch", "J", keep=9)]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    energy_low_j: float
    energy_high_j: float
    fraction: Annotated[float, column("%", "%")]
    coefficient_j: Annotated[float, column("Each", "J", key="each", role="quantity", keep=3, help="energy of one")]
    coefficient_low_j: float
    coefficient_high_j: float
    source: str
    quality: str
    component: str
    cause: str
    family: str
    is_dynamic: bool
    waits: Annotated[
        float | None,
        column("Waits", "%", keep=4, help="share of its cycles in which the units it serves are idle"),
    ]


class EventReport(Head, frozen=True, kw_only=True):
    """All events of a node on a device; `total_j` is their exact sum over the batch. Rates are fractions."""

    node: str
    total_j: float
    total_j_per_inference: float
    overhead_j: float
    events: tuple[EventRow, ...]
    rates: dict[str, float]


@memoize(keep=8)
def event_report(result: Estimate, path: str = "") -> EventReport:
    """Return the events of a node ('' is the model). Raises RequestError for an unknown node."""
    members, result = operators_of(result, path), estimate_of_node(result, path)
    counts = result.run.counts[:, members].sum(axis=1)
    energies = result.run.scale_counts(result.run.counts)[:, members].sum(axis=1) * result.run.prices.value
    total, batch = float(energies.sum()), result.scenario.batch
    priced = zip(result.run.prices.rows, result.events, counts.tolist(), energies.tolist(), strict=True)
    rows = tuple(
        record(
            EventRow,
            price,
            event,
            count=count,
            energy_j=energy,
            energy_j_per_inference=energy / batch,
            energy_low_j=energy * _relative(price.low_j, price),
            energy_high_j=energy * _relative(price.high_j, price),
            fraction=energy / total if total else 0.0,
            coefficient_j=(each_j := energy / count if count else price.value_j),
            coefficient_low_j=each_j * _relative(price.low_j, price),
            coefficient_high_j=each_j * _relative(price.high_j, price),
            cause=CAUSES[cause_of_event(event)],
            family=family_of(event),
            is_dynamic=is_dynamic(event),
            waits=_idle_share(result, members, event, count),
        )
        for price, event, count, energy in priced
    )
    return EventReport(
        **head_fields(result, on_device=True),
        node=path,
        total_j=total,
        total_j_per_inference=total / batch,
        overhead_j=sum(row.energy_j for row, event in zip(rows, result.events, strict=True) if event.is_overhead),
        events=rows,
        rates=event_rates(result, members),
    )


def _relative(end_j: float, price: Coefficient) -> float:
    return end_j / price.value_j if price.value_j else 1.0


def is_dynamic(event: Event) -> bool:
    """Return True if the event is paid for work done, not for time that passes."""
    return event.component != "static" and not event.is_by_time


def _idle_share(result: Estimate, members: Ints, event: Event, cycles: float) -> float | None:
    """Return the share of the cycles of an event by time in which the units it serves have no work; None for other
    events."""
    if not event.is_by_time:
        return None
    mapping = result.run.mapping
    matrix_s, vector_s = mapping.matrix_s[0], mapping.vector_s[0]
    seconds = {
        "matrix": matrix_s,
        "vector": vector_s,
        "compute": matrix_s + vector_s,
        "chip": np.broadcast_to(mapping.chip_s, len(matrix_s)),
        "dram": mapping.dram_s[0],
    }
    clocked_s = cycles / (result.device.clock_hz * result.device.units)
    worked_s = float(seconds[event.argument][members].sum())
    return max(1.0 - worked_s / clocked_s, 0.0) if clocked_s else 0.0


def event_rates(result: Estimate, members: np.ndarray[tuple[int], np.dtype[np.int32]]) -> dict[str, float]:
    """Return fractions by name: hit rate of the last on-chip level, units busy, dynamic energy, and the rates of the
    architecture."""
    run, flow = result.run, result.run.mapping.traffic
    chip, dram = float(flow.chip_bytes[members].sum()), float(flow.dram_bytes[members].sum())
    time = run.latency_s[members]
    energy = float(run.energy_j[members].sum())
    static = float(result.component_energy_j[2][members].sum())
    weight = time if time.sum() > 0 else np.ones_like(time)
    busy = np.minimum(run.mapping.units / units_in_all(result.device, run.mapping.on_matrix), 1.0)[members]
    values = {
        "last_level_hit_rate": 1.0 - dram / chip if chip else 1.0,
        "units_busy": weighted_mean(busy, weight),
        "dynamic_fraction": 1.0 - static / energy if energy else 0.0,
    }
    arch = result.device.arch
    for name, (misses_of, every) in arch.misses.items():
        misses, total = (float(run.counts[arch.row[label], members].sum()) for label in (misses_of, every))
        values[name] = 1.0 - misses / total if total else 1.0
    if (occupancy := architecture_of(result.device).occupancy) is not None:
        resident = occupancy(result.demand, result.device, run.mapping)[members]
        values["occupancy"] = weighted_mean(resident, weight)
    return values
