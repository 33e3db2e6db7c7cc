"""The device catalogue, and one device's sheet with the source of every fact."""

from __future__ import annotations

from hardware import device as catalogue
from hardware.architectures import registry
from hardware.device import Device
from hardware.device_file import Fact
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.views.plain import Column, Row, Table, Text

COLUMNS = (
    Column("id", "Device", role="text", keep=0),
    Column("name", "Name", role="text", keep=3),
    Column("architecture", "Arch", role="text", keep=1),
    Column("peak", "Peak", "FLOP/s", keep=1, help="dense peak of the fastest 16-bit or wider format"),
    Column("peak_int8", "Int8", "FLOP/s", keep=3, help="dense peak in int8, a multiply-add being two operations"),
    Column("bandwidth", "Bandwidth", "byte/s", keep=2),
    Column("memory", "Memory", "byte", keep=3),
    Column("limit", "Limit", "W", keep=2, help="sustained power limit of the default mode"),
    Column("idle", "Idle", "W", keep=4),
    Column("process", "nm", "count", keep=5),
    Column("modes", "Power modes", role="text", keep=5),
)


def devices() -> Table:
    """Every readable device; files that are not are named in the notes."""
    found, errors = catalogue.load_all(engine.folders())
    found.sort(key=lambda d: (registry.order(d.architecture), d.name.lower()))
    return Table("devices", f"Devices ({len(found)})", COLUMNS, tuple(_row(d) for d in found), notes=tuple(errors))


def widest_peak(device: Device) -> float:
    """Dense peak of the fastest floating-point format of 16 bits or more; of anything where there is none."""
    wide = [v for (_, name), v in device.peaks.items() if name in ("fp32", "tf32", "fp16", "bf16")]
    return max(wide or device.peaks.values())


def _row(device: Device) -> Row:
    cells = (
        device.id,
        device.name + ("" if device.file.is_silicon else " (design target)"),
        device.arch.name,
        widest_peak(device),
        max((value for (_, name), value in device.peaks.items() if name == "int8"), default=None),
        device.memory_bandwidth,
        device.memory_bytes,
        device.power_limit_w,
        device.idle_w,
        device.process_nm,
        " ".join(device.file.power_modes),
    )
    return Row(device.id, cells, kind=device.architecture)


_UNITS = {"byte": "byte", "byte/s": "byte/s", "W": "W", "s": "s", "count": "count"}


def _value(fact: Fact) -> str:
    if fact.unit in _UNITS:
        text = quantity(fact.value, _UNITS[fact.unit])
    elif fact.unit == "Hz":
        text = f"{fact.value / 1e9:.4g} GHz"
    elif fact.unit == "transfer/s":
        text = f"{fact.value / 1e9:.4g} GT/s"
    elif fact.unit.startswith("J"):
        text = f"{fact.value * 1e12:.4g} p{fact.unit}"
    else:
        text = f"{fact.value:g} {fact.unit}"
    if fact.low is not None or fact.high is not None:
        low, high = fact.low or fact.value, fact.high or fact.value
        text += f" ({low / (fact.value or 1):.2g}-{high / (fact.value or 1):.2g}x)"
    return text


def device(name: str) -> Text:
    """One device: identity, facts with sources, rates, what it runs instead of what it lacks."""
    found = engine.device(name)
    spec = found.file
    identity = (
        f"{found.name} ({found.vendor}{f', {spec.year}' if spec.year else ''})",
        f"id {found.key}, architecture {found.arch.name}, {found.memory_technology} memory",
        *(("design target: no silicon was ever measured",) if not spec.is_silicon else ()),
        *((f"power modes: {', '.join(spec.power_modes)}",) if spec.power_modes else ()),
        *spec.notes,
    )
    facts = [_line(name, fact) for name, fact in found.facts.items()]
    rates = [
        _line(f"{unit} {precision}", fact) + f" -> {quantity(found.peaks[unit, precision], 'FLOP/s')}"
        for unit, table in spec.fma_per_clock.items()
        for precision, fact in table.items()
    ]
    sections: list[tuple[str, tuple[str, ...]]] = [
        ("Device", identity),
        ("Facts", tuple(facts)),
        ("FMA per clock and unit (dense)", tuple(rates)),
    ]
    if spec.coefficients:
        own = tuple(_line(name, fact) for name, fact in spec.coefficients.items())
        sections.append(("Energies stated for this device", own))
    if spec.exceptions:
        sections.append(("Exceptions", tuple(f"{key}: {why}" for key, why in spec.exceptions.items())))
    sections.append(("Sources", tuple(f"{key}: {text}" for key, text in spec.sources.items())))
    return Text("device", found.name, tuple(sections))


def _line(name: str, fact: Fact) -> str:
    note = f"; {fact.note}" if fact.note else ""
    return f"{name:32} {_value(fact):30} [{fact.quality}: {fact.source}{note}]"
