"""One device with the source of every fact.

What it is, its facts and rates, what it runs instead of what it lacks.
"""

from __future__ import annotations

from typing import Any

from hardware import device as catalogue
from hardware.device_file import Fact
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import CATALOGUE, Report
from hwexplorer.options import option
from hwexplorer.state import State
from hwexplorer.views.plain import Text

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


def _document(state: State, device: str) -> dict[str, Any]:
    return catalogue.sheet(engine.device(device))


def _view(state: State, device: str) -> Text:
    spec = engine.device(device)
    file = spec.file
    identity = (
        f"{spec.name} ({spec.vendor}{f', {file.year}' if file.year else ''})",
        f"id {spec.key}, architecture {spec.arch.name}, {spec.memory_technology} memory",
        *(("design target: no silicon was ever measured",) if not file.is_silicon else ()),
        *((f"power modes: {', '.join(file.power_modes)}",) if file.power_modes else ()),
        *file.notes,
    )
    facts = [_line(name, fact) for name, fact in spec.facts.items()]
    rates = [
        _line(f"{unit} {precision}", fact) + f" -> {quantity(spec.peaks[unit, precision], 'FLOP/s')}"
        for unit, table in file.fma_per_clock.items()
        for precision, fact in table.items()
    ]
    sections: list[tuple[str, tuple[str, ...]]] = [
        ("Device", identity),
        ("Facts", tuple(facts)),
        ("FMA per clock and unit (dense)", tuple(rates)),
    ]
    if file.coefficients:
        own = tuple(_line(name, fact) for name, fact in file.coefficients.items())
        sections.append(("Energies stated for this device", own))
    if file.exceptions:
        sections.append(("Exceptions", tuple(f"{key}: {why}" for key, why in file.exceptions.items())))
    sections.append(("Sources", tuple(f"{key}: {text}" for key, text in file.sources.items())))
    return Text("device", spec.name, tuple(sections))


def _line(name: str, fact: Fact) -> str:
    note = f"; {fact.note}" if fact.note else ""
    return f"{name:32} {_value(fact):30} [{fact.quality}: {fact.source}{note}]"


VERB = Report(
    subject=CATALOGUE,
    options=(option("device", help="a device id, id:power_mode, alias, or class"),),
    document=_document,
    view=_view,
    on_screen=False,
    examples={"device": "h100_sxm"},
)
