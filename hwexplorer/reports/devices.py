"""List the devices, or show one with the source of each fact and the energy of each event, or write its file.

`devices DEV -o mine.toml` writes the file of a device, to be edited.
"""

import argparse
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from analysis.document import Column, record
from hardware import device_catalog, event_prices, known_architectures
from hardware.architecture_facts import price_table
from hardware.area import area
from hardware.base.text import of_fact, percent, quantity
from hardware.demand import OpClass
from hardware.device import Device, Fact
from hardware.device_toml import portable_toml
from hardware.plan import make_plan
from hardware.precision import FORMATS, rate_unit
from hwexplorer import declare, engine, options
from hwexplorer.export import files
from hwexplorer.process import output
from hwexplorer.state import State
from hwexplorer.views import plain
from hwexplorer.views.captions import amount_of_one
from hwexplorer.views.tables import list_by_kind, rows

# --- the list -----------------------------------------------------------------------------------------------


class ListedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device of the catalogue, with facts and peaks by name in SI units."""

    id: str
    name: str
    vendor: str
    architecture: str
    year: int | None
    silicon: bool
    aliases: tuple[str, ...]
    power_modes: tuple[str, ...]
    memory_technology: str
    facts: dict[str, float]
    peak_flops: dict[str, float]


class DeviceList(msgspec.Struct, frozen=True):
    """Every device that can be read; `errors` names the files that cannot be read."""

    devices: tuple[ListedDevice, ...]
    errors: tuple[str, ...]


def _devices(arch: str | None) -> tuple[list[Device], list[str]]:
    devices, errors = device_catalog.load_devices(engine.folders())
    return [device for device in devices if arch in (None, device.architecture)], errors


def _list_device(device: Device) -> ListedDevice:
    return record(
        ListedDevice,
        device,
        device.file,
        aliases=tuple(device.file.aliases),
        power_modes=tuple(device.file.power_modes),
        facts={name: fact.value for name, fact in device.facts.items()},
        peak_flops={f"{unit}.{form}": peak for (unit, form), peak in device.peaks.items()},
    )


def _widest_peak(device: Device) -> float:
    """Return the dense peak of the fastest floating-point format of 16 bits or more, else of the fastest format."""
    wide = [v for (_, name), v in device.peaks.items() if FORMATS[name].kind == "float" and FORMATS[name].bits >= 16]
    return max(wide or device.peaks.values())


LISTED = 80  # names of a kind in brief text
LISTED_COLUMNS = (
    Column("id", "Device", role="text", keep=0, of="marked_key"),
    Column("name", "Name", role="text", keep=3),
    Column("architecture", "Arch", role="text", keep=1, of="arch.name"),
    Column(
        "peak", "Peak", "FLOP/s", keep=1, of=_widest_peak, help="dense peak of the fastest 16-bit or wider format"
    ),
    Column(
        "peak_int8", "Int8", "OP/s", keep=3, help="dense peak in int8, a multiply-add being two operations",
        of=lambda d: max((peak for (_, name), peak in d.peaks.items() if name == "int8"), default=None),
    ),
    Column("bandwidth", "Bandwidth", "byte/s", keep=2, of="memory_bandwidth"),
    Column("memory", "Memory", "byte", keep=3, help="beside the chip"),
    Column("limit", "Limit", "W", keep=2, of="power_limit_w", help="sustained power limit of the default mode"),
    Column("idle", "Idle", "W", keep=4),
    Column("process", "nm", "count", keep=5, of="process_nm"),
    Column("modes", "Power modes", role="text", keep=5, of=lambda d: " ".join(d.file.power_modes)),
)  # fmt: skip


def _table(arch: str | None = None) -> plain.Table:
    devices, errors = _devices(arch)
    order = tuple(known_architectures.ALL)
    devices.sort(key=lambda d: (order.index(d.architecture), d.name.lower()))
    listed = rows(LISTED_COLUMNS, devices, key="id", kind="architecture")
    return plain.Table("devices", f"Devices ({len(devices)})", LISTED_COLUMNS, listed, notes=tuple(errors))


def _names(arch: str | None) -> plain.Table | plain.Text:
    """Return the names by architecture. With `arch`, or if the output is not a terminal but a program, return a table
    of rows."""
    table = _table(arch)
    if arch or not output.width():
        return msgspec.structs.replace(table, first=35 if output.width() else 0)
    return list_by_kind(
        table, "All names: hwexplorer devices --arch gpu. Peaks, bandwidth, memory and power: --all", most=LISTED
    )


# --- one device ---------------------------------------------------------------------------------------------


def _value(fact: Fact) -> str:
    text = of_fact(fact.value, fact.unit)
    if fact.low is not None or fact.high is not None:
        low, high = fact.low or fact.value, fact.high or fact.value
        text += f" ({low / (fact.value or 1):.2g}-{high / (fact.value or 1):.2g}x)"
    return text


def _identity(spec: Device) -> tuple[str, ...]:
    file, units = spec.file, f"{spec.units:g} {spec.unit_name}s"
    formats = [f"{form} on {fact.value:g} of {units}" for form, fact in file.format_units.items()]
    return (
        f"{spec.name} ({spec.vendor}{f', {file.year}' if file.year else ''})",
        f"id {spec.key}, architecture {spec.arch.name}, {spec.memory_technology} memory",
        *((f"what if: {', '.join(file.changes)}",) if file.changes else ()),
        *(("design target: no silicon was ever measured",) if not file.is_silicon else ()),
        *_unreachable_peaks(spec),
        *((f"checkerboard: {', '.join(formats)}",) if formats else ()),
        *((f"power modes: {', '.join(file.power_modes)}",) if file.power_modes else ()),
        *file.notes,
    )


def _unreachable_peaks(spec: Device) -> tuple[str, ...]:
    """Return a line on the peaks whose multiply-adds alone need more than the power limit leaves beside rest."""
    macs = [event for event in spec.arch.events if event.argument == "matrix" and event.family in ("mac", "tensor_mac")]
    rest_w = max(spec.idle_w, spec.clocked_idle_w)
    needs = []
    for (unit, form), peak in spec.peaks.items():
        plan = make_plan(spec, form)
        watts = sum(peak / 2.0 * event_prices.price(spec, plan, event).value_j for event in macs)
        if unit == "matrix" and plan.matrix == form and watts > spec.power_limit_w - rest_w:
            needs.append(f"{quantity(watts, 'W')} for {quantity(peak, rate_unit(form))} in {form}")
    if not needs:
        return ()
    limit = f"{quantity(spec.power_limit_w, 'W')}, of which it takes {quantity(rest_w, 'W')} at rest"
    return (f"peaks not reachable within the limit of {limit}: multiply-adds alone need {', '.join(needs)}",)


def _sheet(spec: Device, is_whole: bool) -> plain.Text:
    """Return the facts and peaks: with the source of each, or in brief two in a line."""
    file, peaks = spec.file, {key: quantity(peak, rate_unit(key[1])) for key, peak in spec.peaks.items()}
    if not is_whole:
        facts = [f"{name:25} {_value(fact)}" for name, fact in spec.facts.items()]
        rates = [f"{' '.join(key):25} {peak}" for key, peak in peaks.items()]
        lines = (*_in_pairs(facts), *_in_pairs(rates))
        more = ("--all: the source of each, prices, exceptions",)
        return plain.Text("device", spec.name, (("", _identity(spec)), ("Facts and dense peaks", lines), ("", more)))
    rates = [
        f"{_line(spec, f'{unit} {form}', fact)} -> {peaks[unit, form]}"
        for unit, table in file.fma_per_clock.items()
        for form, fact in table.items()
    ]
    sections: list[tuple[str, tuple[str, ...]]] = [
        ("Device", _identity(spec)),
        ("Facts", tuple(_line(spec, name, fact) for name, fact in spec.facts.items())),
        ("FMA per clock and unit (dense)", tuple(rates)),
    ]
    if file.coefficients:
        prices = [_line(spec, name, fact) for name, fact in file.coefficients.items()]
        sections.append(("Energies stated for this device", (*prices, *_as_designed(spec))))
    if file.exceptions:
        sections.append(("Exceptions", tuple(f"{key}: {why}" for key, why in file.exceptions.items())))
    return plain.Text("device", spec.name, tuple(sections))


def _in_pairs(cells: list[str]) -> list[str]:
    half = (len(cells) + 1) // 2
    return [f"{cell:48} {right}".rstrip() for cell, right in zip_longest(cells[:half], cells[half:], fillvalue="")]


def _as_designed(spec: Device) -> tuple[str, ...]:
    if (designed := device_catalog.device_as_designed(spec)) is None:
        return ()
    return (
        f"prices here are those of silicon at {spec.process_nm:g} nm; {designed.key} has its designer's, and "
        f"{designed.active_w:.3g} W by time while busy where it has {spec.active_w:.3g} W here",
    )


def _line(spec: Device, name: str, fact: Fact) -> str:
    note, source = f"; {fact.note}" if fact.note else "", spec.file.sources.get(fact.source, fact.source)
    return f"{name:32} {_value(fact):30} [{fact.quality}: {source}{note}]"


# --- the energy of each event -------------------------------------------------------------------------------

PRICES = (
    Column("event", "Event", role="text", keep=0, of=lambda row: f"{row.category}.{row.event}"),
    Column("each", "Each", "J", role="quantity", keep=0, of=lambda row: amount_of_one(row.value_j, row.unit)),
    Column("unit", "Counted in", role="text", keep=1),
    Column("low", "Low", "J", role="quantity", keep=2, of=lambda row: amount_of_one(row.low_j, row.unit)),
    Column("high", "High", "J", role="quantity", keep=2, of=lambda row: amount_of_one(row.high_j, row.unit)),
    Column("quality", "Quality", role="text", keep=3),
    Column("source", "Source", role="text", keep=4),
)


def _rates(device: Device) -> tuple[str, ...]:
    """Return the shares of peak and bandwidth that the usual software reaches, by class of operator."""
    rates = device.software
    lines = []
    for name in OpClass.__members__:
        compute, bandwidth = (_ends(table.get(name, table["other"])) for table in (rates.compute, rates.bandwidth))
        lines.append(f"{name.lower()}: {compute} of peak, {bandwidth} of bandwidth")
    if (rates.nchw[0], rates.vector_convolution[0]) != (1.0, 1.0):
        lines.append(
            f"convolutions in NCHW: {_ends(rates.nchw)} of the rate in channels last; on vector units: "
            f"{_ends(rates.vector_convolution)} of the rate on matrix units"
        )
    return tuple(lines)


def _ends(rate: tuple[float, float, float]) -> str:
    nominal, low, high = rate
    return f"{percent(nominal)} ({low * 100:.0f} to {percent(high)})"


def _document(state: State, device: str | None = None, arch: str | None = None) -> DeviceList | dict[str, Any]:
    if device is None:
        devices, errors = _devices(arch)
        return DeviceList(tuple(map(_list_device, devices)), tuple(errors))
    spec = engine.device(device)
    prices = event_prices.coefficients(spec, make_plan(spec, state.precision)).rows
    described = {"precision": state.precision, "coefficients": prices}
    return {**device_catalog.describe_device(spec), "die": area(spec), **described}


def _view(state: State, device: str | None = None, arch: str | None = None) -> plain.Table | plain.Page:
    if device is None:
        return _table(arch)
    spec = engine.device(device)
    priced = event_prices.coefficients(spec, make_plan(spec, state.precision)).rows
    table, title = rows(PRICES, priced, kind="category"), f"Energy per event at {state.precision}"
    cited, known = "; ".join(row.source for row in priced), price_table()["sources"]
    works = [f"{name}: {text}" for name, text in known.items() if name in cited]
    prices = plain.Table("coefficients", title, PRICES, table, footer=(*_rates(spec), *works))
    return plain.Page("devices", f"Facts and prices of {spec.name}", (_sheet(spec, True), prices))


def _brief(state: State, device: str | None = None, arch: str | None = None) -> plain.Table | plain.Text:
    return _names(arch) if device is None else _sheet(engine.device(device), False)


def _run(arguments: argparse.Namespace, print_report: Callable[[argparse.Namespace], None]) -> None:
    """Write the file of the device if the output is named as one, else print the report."""
    path = Path(arguments.output or "")
    if path.suffix.lower() != ".toml" or arguments.format or arguments.device is None:
        print_report(arguments)
        return
    device = engine.device(arguments.device)
    files.check(path, overwrite=False)  # a file that may have been edited
    files.write(path, portable_toml(device, path.stem), overwrite=False)
    edit = f"edit it, then hwexplorer compare MODEL --devices-dir FOLDER --on {path.stem}"
    output.put(f"{path} describes {device.key}: {edit}\n")


VERB = declare.Report(
    subject=declare.CATALOGUE,
    options=(
        options.option("device", nargs="?", metavar="DEV",
               help="a device id, id:power_mode, alias, class, or one with changes: 'h100_sxm{units*2}'"),
        options.choice("--arch", tuple(known_architectures.ALL), help="only devices of this kind"),
        options.PRECISION,
    ),
    document=_document,
    view=_view,
    brief=_brief,
    run=_run,
    view_columns=(*LISTED_COLUMNS, *PRICES),
    examples={"device": "h100_sxm"},
    shown=("", "--arch cpu", "--format csv -o devices.csv"),
)  # fmt: skip
