"""Show one device with the source of each fact, or write its file: -o mine.toml."""

import argparse
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from hardware.area import Area, area
from hardware.base.text import of_fact, percent, quantity
from hardware.device import Device
from hardware.device_catalog import describe_device, device_as_designed
from hardware.device_file import DESIGN_TARGET, DESIGNER, Fact
from hardware.device_toml import portable_toml
from hardware.event_prices import price
from hardware.plan import make_plan
from hardware.precision import DEFAULT, rate_unit
from hwexplorer import engine
from hwexplorer.declare import CATALOGUE, Report
from hwexplorer.export import files
from hwexplorer.options import option
from hwexplorer.process.output import put
from hwexplorer.state import State
from hwexplorer.views.plain import Text


def _value(fact: Fact) -> str:
    text = of_fact(fact.value, fact.unit)
    if fact.low is not None or fact.high is not None:
        low, high = fact.low or fact.value, fact.high or fact.value
        text += f" ({low / (fact.value or 1):.2g}-{high / (fact.value or 1):.2g}x)"
    return text


def _document(state: State, device: str) -> dict[str, Any]:
    spec = engine.device(device)
    return {**describe_device(spec), "die_by_rule": area(spec)}


def _identity(spec: Device) -> tuple[str, ...]:
    file = spec.file
    return (
        f"{spec.name} ({spec.vendor}{f', {file.year}' if file.year else ''})",
        f"id {spec.key}, architecture {spec.arch.name}, {spec.memory_technology} memory",
        *((f"what if: {', '.join(file.changes)}",) if file.changes else ()),
        *(("design target: no silicon was ever measured",) if not file.is_silicon else ()),
        *_unreachable_peaks(spec),
        *_fabric_words(spec),
        *((f"power modes: {', '.join(file.power_modes)}",) if file.power_modes else ()),
        *file.notes,
    )


def _run(arguments: argparse.Namespace, print_report: Callable[[argparse.Namespace], None]) -> None:
    """Write the file of the device if the output is named as one, else print the report."""
    path = Path(arguments.output or "")
    if path.suffix.lower() != ".toml" or arguments.format:
        print_report(arguments)
        return
    device = engine.device(arguments.device)
    files.check(path, overwrite=False)  # a file that may have been edited
    files.write(path, portable_toml(device, path.stem), overwrite=False)
    put(
        f"{path} describes {device.key}: edit it, then hwexplorer compare MODEL --devices-dir FOLDER --on {path.stem}\n"
    )


def _fabric_words(spec: Device) -> tuple[str, ...]:
    """Return what the file of a device states beyond its peaks: levels, checkerboard, gating, banks and prices."""
    units, values, file = spec.unit_name, spec.values, spec.file
    formats = [f"{form} on {fact.value:g} of {spec.units:g} {units}s" for form, fact in file.format_units.items()]
    names = [
        name for name, fact in file.coefficients.items() if fact.quality != DESIGN_TARGET or spec.power_mode == DESIGNER
    ]
    by_node = [name for name in names if file.coefficients[name].by_node]
    levels = [level.name.replace("_", " ") for level in file.hierarchy.levels] if file.hierarchy else []
    stays = f"; what stays: {file.hierarchy.stationary}" if file.hierarchy else ""
    zeros, banks = values.get("zero_inputs", 0.0), values.get("egress_functions", 0.0)
    return (
        *((f"levels of memory: {', '.join(levels)}{stays}",) if levels else ()),
        *((f"checkerboard: {', '.join(formats)}",) if formats else ()),
        *((f"zero gating: {percent(zeros)} of products are with zero and take no energy",) if zeros else ()),
        *((f"special functions at the egress: {banks:g} a clock and {units}",) if banks else ()),
        *((f"prices of its own in use: {', '.join(names)}",) if names else ()),
        *((f"of these by node, here at {spec.process_nm:g} nm: {', '.join(by_node)}",) if by_node else ()),
    )


def _unreachable_peaks(spec: Device) -> tuple[str, ...]:
    """Return a line on the peaks whose multiply-adds alone need more than the power limit leaves beside rest."""
    macs = [event for event in spec.arch.events if event.argument == "matrix" and event.family in ("mac", "tensor_mac")]
    rest_w = max(spec.idle_w, spec.clocked_idle_w)
    needs = []
    for (unit, form), peak in spec.peaks.items():
        plan = make_plan(spec, form)
        watts = sum(peak / 2.0 * price(spec, plan, event).value_j for event in macs)
        if unit == "matrix" and plan.matrix == form and watts > spec.power_limit_w - rest_w:
            needs.append(f"{quantity(watts, 'W')} for {quantity(peak, rate_unit(form))} in {form}")
    if not needs:
        return ()
    limit = f"{quantity(spec.power_limit_w, 'W')}, of which it takes {quantity(rest_w, 'W')} at rest"
    return (f"peaks not reachable within the limit of {limit}: multiply-adds alone need {', '.join(needs)}",)


def _brief(state: State, device: str) -> Text:
    """Return the facts without their sources, two in a line."""
    spec = engine.device(device)
    facts = [f"{name:25} {_value(fact)}" for name, fact in spec.facts.items()]
    rates = [f"{f'{unit} {form}':25} {quantity(peak, rate_unit(form))}" for (unit, form), peak in spec.peaks.items()]
    lines = [*_in_pairs(facts), *_in_pairs(rates)]
    sections = (
        ("", _identity(spec)),
        ("Facts and dense peaks", tuple(lines)),
        ("", ("--all: the source of each, prices, die, exceptions",)),
    )
    return Text("device", spec.name, sections)


def _in_pairs(cells: list[str]) -> list[str]:
    half = (len(cells) + 1) // 2
    return [f"{cell:48} {right}".rstrip() for cell, right in zip_longest(cells[:half], cells[half:], fillvalue="")]


def _view(state: State, device: str) -> Text:
    spec = engine.device(device)
    file = spec.file
    facts = [_line(name, fact) for name, fact in spec.facts.items()]
    rates = [
        _line(f"{unit} {precision}", fact) + f" -> {quantity(spec.peaks[unit, precision], rate_unit(precision))}"
        for unit, table in file.fma_per_clock.items()
        for precision, fact in table.items()
    ]
    sections: list[tuple[str, tuple[str, ...]]] = [
        ("Device", _identity(spec)),
        ("Facts", tuple(facts)),
        ("FMA per clock and unit (dense)", tuple(rates)),
    ]
    if file.coefficients:
        lines = tuple(
            f"{_line(name, fact)}; here {_effective_price(spec, name)}" for name, fact in file.coefficients.items()
        )
        sections.append(("Energies stated for this device", (*lines, *_as_designed(spec))))
    sections.append(
        ("Estimated die area: compute and memories only, a third to a half of a graphics chip", _die(area(spec)))
    )
    if file.exceptions:
        sections.append(("Exceptions", tuple(f"{key}: {why}" for key, why in file.exceptions.items())))
    sections.append(("Sources", tuple(f"{key}: {text}" for key, text in file.sources.items())))
    return Text("device", spec.name, tuple(sections))


def _effective_price(spec: Device, name: str) -> str:
    label, _, form = name.partition(":")
    event = spec.arch.events[spec.arch.row[label]]
    return f"{price(spec, make_plan(spec, form or DEFAULT), event).value_j * 1e12:.4g} pJ"


def _as_designed(spec: Device) -> tuple[str, ...]:
    designed = device_as_designed(spec)
    if designed is None:
        return ()
    rule = f"prices here are those of silicon at {spec.process_nm:g} nm"
    return (
        f"{rule}; {designed.key} has its designer's, and {designed.active_w:.3g} W by time while "
        f"busy where it has {spec.active_w:.3g} W here",
    )


def _die(die: Area) -> tuple[str, ...]:
    parts = {"arithmetic": die.compute_mm2, "memories": die.memory_mm2, "PHYs": die.phy_mm2, "other": die.uncore_mm2}
    dies = f"{die.dies} dies, " if die.dies > 1 else ""
    return (
        f"{die.total_mm2:.0f} mm2 ({die.low_mm2:.0f}-{die.high_mm2:.0f}): "
        + ", ".join(f"{name} {mm2:.0f}" for name, mm2 in parts.items()),
        f"{dies}{percent(die.yield_share)} good, {die.cost_usd:.0f} USD "
        f"({die.cost_low_usd:.0f}-{die.cost_high_usd:.0f}) of silicon: no memory, package, test, design or margin",
    )


def _line(name: str, fact: Fact) -> str:
    note = f"; {fact.note}" if fact.note else ""
    return f"{name:32} {_value(fact):30} [{fact.quality}: {fact.source}{note}]"


VERB = Report(
    subject=CATALOGUE,
    options=(
        option("device", help="a device id, id:power_mode, alias, class, or one with changes: 'h100_sxm{units*2}'"),
    ),
    document=_document,
    view=_view,
    brief=_brief,
    on_screen=False,
    run=_run,
    examples={"device": "h100_sxm"},
)
