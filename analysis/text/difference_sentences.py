"""Sentences that explain why one estimate costs more than another, from the texts of difference_sentences.toml."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from analysis.estimate.causes import FAMILIES, family_energy, instructions, static_power_w
from analysis.estimate.estimate import Estimate
from analysis.estimate.host_work import divide_host_work
from analysis.text.headline import name_with_format, short_name
from hardware.base import file_access
from hardware.base.text import count_noun, percent, quantity
from hardware.execute import RESOURCES
from hardware.precision import rate_unit

_FILE = Path(__file__).with_suffix(".toml")


def name_side(side: Estimate, other: Estimate) -> str:
    """Return the name of a device, with the settings in which the sides differ, or with all if it is one device, and
    with the format that it runs if the formats differ."""
    own, others = ((f"batch {run.scenario.batch}", run.scenario.precision, run.execution) for run in (side, other))
    is_same = side.device.key == other.device.key
    differing = [ours for ours, theirs in zip(own, others, strict=True) if is_same or ours != theirs]
    name = short_name(side.device) + f" at {', '.join(differing)}" * bool(differing)
    return name_with_format(name, side, (other,))


def difference_sentence(more: Estimate, less: Estimate, cause: str, of: str) -> str:
    """Return the sentence for a cause of more `of` (energy or time); '' if the cause has no sentence."""
    text: str = file_access.shipped(_FILE)[of].get(cause, "")
    figures = _figures(more), _figures(less)
    if figures[0].delivers == figures[1].delivers:
        figures[1].delivers = "does as well"
    return text.format(more=figures[0], less=figures[1], static_cause=_static_cause(more, less))


def _figures(side: Estimate) -> SimpleNamespace:
    """Return the figures of a side that a sentence may name."""
    device, batch, flow = side.device, side.scenario.batch, side.run.mapping.traffic
    dram, chip = flow.dram_bytes.sum(), flow.chip_bytes.sum()
    launch_s, kernels = float(side.run.overhead_s.sum()), side.demand.n_kernels
    own_s = float(divide_host_work(side)[0].run.overhead_s.sum())
    host = f" and {quantity(launch_s - own_s, 's')} for the host" if launch_s > own_s else ""
    peak = max((rate for (_, form), rate in device.peaks.items() if form == side.precision_run), default=0.0)
    share = f"{percent(side.utilization, 1)}"
    energy_j = dict(zip(FAMILIES, family_energy(side).tolist(), strict=True))
    macs = float(side.demand.macs.sum())
    vector_s = float(side.run.busy_s[side.run.resource == RESOURCES.index("vector unit")].sum())
    return SimpleNamespace(
        name=short_name(device),
        format=side.precision_run,
        node=f"{device.process_nm:g} nm{_voltage(side)}",
        delivers=device.arch.data.story.delivers,
        instructions=_instructions(side),
        launch=f"{quantity(own_s, 's')} for {kernels} kernels{host} of {short_name(device)} "
        f"({percent(launch_s / (side.latency_s or 1.0))} of its time)",
        chip=quantity(float(chip) / batch, "byte"),
        dram=quantity(float(dram) / batch, "byte"),
        per_mac={family: _price(joules, macs, "MAC") for family, joules in energy_j.items()},
        per_byte=_price(energy_j["on-chip memory"], float(chip), f"byte{_hops(side, float(chip))}"),
        per_dram_byte=_price(energy_j["DRAM"], float(dram), "byte"),
        memory=device.memory_technology,
        bandwidth=quantity(device.memory_bandwidth, "byte/s"),
        static_power=quantity(static_power_w(side), "W"),
        time=quantity(side.latency_s / batch, "s"),
        compute=f"{short_name(device)} {share} of {quantity(peak, rate_unit(side.precision_run))} {side.precision_run}"
        f"{_rows_per_weight(side)}",
        vector=f"{quantity(vector_s, 's')} in lanes of {short_name(device)}",
        limit=quantity(side.power_limit_w, "W"),
    )


def _voltage(side: Estimate) -> str:
    """Return what a lower voltage at the power limit leaves of the energy of events, if it is lower."""
    scale = float(np.average(side.run.price_scale, weights=side.run.latency_s)) if side.latency_s else 1.0
    return f", at {percent(scale)} of the energy of the full clock" if scale < 0.99 else ""


def _price(joules: float, count: float, unit: str) -> str:
    return f" ({quantity(joules / count, 'J')}/{unit})" if count else ""


def _hops(side: Estimate, moved_bytes: float) -> str:
    """Return how far the network on chip carries each byte, '' without a network: hops grow with the mesh."""
    place = side.device.arch.row.get("network_on_chip.hop")
    if place is None or not moved_bytes:
        return ""
    return f", {side.run.counts[place].sum() / moved_bytes:.3g} hops each"


def _instructions(side: Estimate) -> str:
    batch, kind = side.scenario.batch, side.device.arch.data.story.instructions
    count, macs = instructions(side) / batch, float(side.demand.macs.sum()) / batch
    if not kind:
        return "fetches none, its schedule lies in space"
    per = f", {_per_mac(macs / count)}" if count and macs else ""
    return f"issues {quantity(count, 'SI')} {kind}{per}"


def _per_mac(macs_per_instruction: float) -> str:
    if macs_per_instruction < 1.0:
        return f"{1.0 / macs_per_instruction:.3g} per MAC"
    return f"one per {quantity(macs_per_instruction, 'SI')} MACs"


def _rows_per_weight(side: Estimate) -> str:
    """Say how few rows use each weight of the product that takes longest on arrays, if they do not fill the arrays."""
    slowest = int(side.run.mapping.matrix_s[0].argmax())
    rows = float(side.demand.gemm[1, slowest])
    if not 0.0 < rows < side.device.values.get("array_rows", 0.0):
        return ""
    return f" ({count_noun(rows, 'row')} for each weight that the arrays of {side.device.array_rows:g} rows load)"


def _static_cause(more: Estimate, less: Estimate) -> str:
    """Say whether longer time or higher power causes most of a difference in static energy."""
    (power, time), (less_power, less_time) = (
        (static_power_w(side), side.latency_s / side.scenario.batch) for side in (more, less)
    )
    by_time, by_power = (time - less_time) * (power + less_power) / 2, (power - less_power) * (time + less_time) / 2
    return "static power over the longer time" if by_time >= by_power else "higher static power"


def under_utilisation(more: Estimate, less: Estimate) -> tuple[str, ...]:
    """Return a sentence if the slower side leaves much more of its peak unused, else an empty tuple."""
    if more.utilization * 2 < less.utilization and more.utilization < 0.3:
        return (
            f"under-utilisation: {short_name(more.device)} reaches {percent(more.utilization, 1)} of its peak, "
            f"{short_name(less.device)} {percent(less.utilization, 1)}",
        )
    return ()
