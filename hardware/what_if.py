"""What-if devices: a device with changed facts, `kpu_t256{units=512,clock_hz=1.2e9,tile.mac:fp32*0.5}`.

A change sets a fact (`=`), or multiplies or divides it. Dependent facts change by the data files' rules (`follows`,
`matrix_follows`). A different clock needs a different voltage, as in a power mode."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hardware import known_architectures
from hardware.architecture_facts import WHOLE, logic_scale
from hardware.area import silicon_amount
from hardware.base import file_access
from hardware.base.errors import RequestError, match_name, split_list, unknown
from hardware.base.text import parse_amount
from hardware.device import (
    CAPPED,
    DESIGN_TARGET,
    Device,
    DeviceFile,
    Fact,
    check_coefficients,
    check_physics,
    fraction_error,
)
from hardware.precision import UNIT_FORMATS

RANGES = Path(__file__).with_name("what_if.toml")
_CHANGE = r"(?P<name>[^=*/]+)(?P<how>[=*/])(?P<value>.+)"
_MOST = 64  # changes of one device
_CLOSE = 1e-9  # relative, within which a scaled count is whole
_WRITTEN = 1e-5  # relative, within which a fact is that of the file it was written from
ARRAY = "array"  # `array=32x32` is its rows and columns
PRICES = "prices"  # `prices=FILE` takes the prices of events from a table of TOML
EVIDENCE = ("measured", "bottom-up")  # `prices=measured` takes prices of that evidence


class Change(msgspec.Struct, frozen=True):
    """One change as written. `name` is a fact, `matrix` or `vector` (`.fp16` for one format), or an event (`:fp32` for
    one format)."""

    name: str
    how: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{self.how}{self.value}"


def with_unchanged(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of devices, each with changed facts before the unchanged device unless that is listed too."""
    pairs = ((name, split_changes(name)[0]) for name in names)
    return tuple(dict.fromkeys(each for name, base in pairs for each in (name, *([base] * (base not in names)))))


def split_changes(text: str) -> tuple[str, str | None]:
    """Return the device and the text in its braces, None without braces. Raises RequestError if a brace is missing."""
    base, brace, rest = text.strip().partition("{")
    if at := re.fullmatch(r"(.*\})\s*(@[^{}]*)", rest):  # a power cap or clock lock may follow the changes
        base, rest = base.strip() + at[2], at[1]
    if not brace:
        return base, None
    if not rest.endswith("}"):
        raise RequestError(f"device {text[:60]!r}: the changes end with a brace, as in h100_sxm{{memory_bandwidth*2}}")
    return base.strip(), rest[:-1]


def parse_changes(text: str) -> tuple[Change, ...]:
    """Parse the text in the braces of a device. Raises RequestError."""
    parts = split_list(text)
    if len(parts) > _MOST:
        raise RequestError(f"{len(parts)} changes of one device (allowed: {_MOST})")
    changes = []
    for part in parts:
        match = re.fullmatch(_CHANGE, "".join(part.split()))
        if match is None:
            raise RequestError(f"change {part[:40]!r}: expected a name and a value, e.g. clock_hz=1.2e9 or units*2")
        changes.append(Change(match["name"], match["how"], match["value"]))
    names = [change.name for change in changes if change.how == "="]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise RequestError(f"{twice[:40]} is set twice")
    return tuple(changes)


def value_limits(unit: str) -> tuple[float, float]:
    """Return the least and most that a fact or price of a unit may be set to."""
    ranges = file_access.shipped(RANGES)["range"]
    least, most = ranges.get("J" if unit.startswith("J/") else unit, ranges["other"])
    return least, most


def parse_value(text: str, unit: str) -> float:
    """Return an amount in the unit of a fact or price, as people type it. Raises RequestError."""
    return parse_amount(text, "J" if unit.startswith("J/") else unit)


def check_value(value: float, unit: str) -> None:
    """Raise ValueError if facts and prices of this unit cannot have a value."""
    least, most = value_limits(unit)
    if not least <= value <= most:
        raise ValueError(f"{value:g} {unit} is out of range (allowed: {least:g} to {most:g} {unit})")
    if unit in WHOLE and (wrong := fraction_error(value)):
        raise ValueError(wrong)


def find_field(device: Device, name: str) -> tuple[str, str]:
    """Return the full name and the unit of what can be set: a fact, `array`, a unit or one of its formats, or an event.

    Raises RequestError."""
    facts, rates = device.arch.data.facts, device.file.fma_per_clock
    unit, _, format_ = name.partition(".")
    events = {event.label: event for event in device.arch.events}
    if name == ARRAY and "array_rows" in facts:
        return name, "count"
    if (fact := match_name(name, facts)) is not None:
        return fact, facts[fact].unit
    if (
        rates.get(unit) and name.partition(":")[0] not in events
    ):  # an event of the unit, such as vector.flop, has a price
        if format_ and format_ not in rates[unit]:
            raise unknown(f"format of its {unit} unit", format_, rates[unit])
        return name, next(iter(rates[unit].values())).unit
    if (event := events.get(name.partition(":")[0])) is not None:
        return name, f"J/{event.count}"
    listing = f"`hwexplorer devices {device.id}` lists them"
    sides = (ARRAY,) if "array_rows" in facts else ()
    raise unknown(f"fact or event of {device.id}", name, (*facts, *sides, *rates, *events), listing=listing)


def _new(change: Change, unit: str, old: float) -> float:
    """Return the value after a change. Raises RequestError if it is not a value or is out of range."""
    if change.how == "=":
        value = parse_value(change.value, unit)
    else:
        factor = parse_amount(change.value, "")
        if factor <= 0.0:
            raise RequestError(f"{change}: expected a factor greater than 0")
        value = old * factor if change.how == "*" else old / factor
    if not math.isfinite(value):
        raise RequestError(f"{change}: the result is too large")
    if unit in WHOLE and math.isclose(value, round(value), rel_tol=_CLOSE):
        value = float(round(value))
    try:
        if value != old:  # an old value may be out of range: 0 for what the device lacks
            check_value(value, unit)
    except ValueError as error:
        raise RequestError(f"{change}: {error}") from None
    return value


def _fact(old: Fact | None, value: float, unit: str, why: str) -> Fact:
    """Return a changed fact with the relative spread of the old one."""
    if old is not None and value == old.value:
        return old
    if old is None:
        return Fact(value, unit, f"what if: {why}", "assumed")
    scale = value / old.value if old.value else 0.0
    low, high = (None if end is None or not scale else end * scale for end in (old.low, old.high))
    return Fact(value, unit, f"what if: {why}, was {old.value:g}", "assumed", low, high)


def _read_prices(file: str, device: Device) -> dict[str, Fact]:
    """Return the prices in a designer's table for the events of a device. Raises RequestError for a malformed table,
    or one without any of these."""
    every = {event.label: event for arch in known_architectures.ALL.values() for event in arch.data.events}
    every |= {event.label: event for event in device.arch.events}
    try:
        rows = file_access.table(Path(file)).get("coefficients", {})
        prices = msgspec.convert(rows, dict[str, Fact])
        check_coefficients(prices, every)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"{PRICES}={file}: {why}") from None
    labels = device.arch.row
    of_device = {
        name: msgspec.structs.replace(fact, source=f"{Path(file).stem}: {fact.source}")
        for name, fact in prices.items()
        if name.partition(":")[0] in labels
    }
    if not of_device:
        raise RequestError(f"{PRICES}={file}: has no price in [coefficients] of an event of {device.id}")
    return of_device


class _DeviceEditor:
    """A device being changed: its new facts, and the ratio by which each fact that the user named has changed. `adds`
    says whether a change added units, multipliers, memory on chip or clock: what a chip may leave switched off."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.facts = dict(device.facts)
        self.fma = {unit: dict(formats) for unit, formats in device.file.fma_per_clock.items()}
        self.coefficients = dict(device.file.coefficients)
        self.factors = dict(device.file.price_factors)
        self.ratios: dict[str, float] = {}
        self.added_idle_w = device.added_idle_w
        self.adds = False
        # A power cap stays as it is set.
        self.followed = set(CAPPED) if device.power_cap else set()

    def take(self, change: Change) -> Change:
        """Make one change. Return it with its name spelt in full."""
        if change.name == PRICES and change.value in EVIDENCE:
            self.device = self.device.priced_by(change.value)
            return change
        if change.name == PRICES and change.how == "=":
            self.coefficients |= _read_prices(change.value, self.device)
            return change
        name, of_field = find_field(self.device, change.name)
        unit, _, format_ = name.partition(".")
        if name == ARRAY:
            sides = change.value.split("x") * (1 if "x" in change.value else 2)  # 8 is 8x8
            if change.how != "=" or len(sides) != 2:
                raise RequestError(f"{change}: expected rows and columns, e.g. {ARRAY}=128x128")
            for side, length in zip(("array_rows", "array_columns"), sides, strict=True):
                self.take(Change(side, "=", length))
            return change
        change = msgspec.structs.replace(change, name=name)
        if name in self.device.arch.data.facts:
            old = self.facts.get(name)
            value = _new(change, of_field, old.value if old else 0.0)
            if old is not None and old.value:
                self.ratios[name] = self.ratios.get(name, 1.0) * value / old.value
            self.facts[name] = _fact(old, value, of_field, str(change))
            is_switched = name in ("units", *self.device.arch.data.matrix_follows) or of_field == "Hz"
            is_switched = is_switched or name in [level.fact for level in self.device.arch.levels]
            self.adds |= is_switched and old is not None and value > old.value
        elif unit in self.fma and not of_field.startswith("J/"):
            for each in [format_] if format_ else list(self.fma[unit]):
                rate = self.fma[unit][each]
                self.fma[unit][each] = _fact(rate, _new(change, rate.unit, rate.value), rate.unit, str(change))
                self.adds |= self.fma[unit][each].value > rate.value
        else:
            self._price(change, of_field)
        return change

    def _price(self, change: Change, unit: str) -> None:
        """Change the price of an event, for all formats or one."""
        _, colon, format_ = change.name.partition(":")
        if colon and format_ not in UNIT_FORMATS:
            raise unknown("precision", format_, UNIT_FORMATS)
        if change.how == "=":
            self.coefficients[change.name] = Fact(_new(change, unit, 0.0), unit, f"what if: {change}", "assumed")
        else:
            factor = _new(change, "", 1.0)
            self.factors[change.name] = self.factors.get(change.name, 1.0) * factor

    def follow(self, *facts: str) -> None:
        """Change the facts that follow from these, except those that the user changed or that already followed."""
        for name, field in self.device.arch.data.facts.items():
            sources = {fact: power for fact, power in field.follows.items() if fact in facts and fact in self.ratios}
            old = self.facts.get(name)
            if not sources or old is None or name in self.ratios or name in self.followed:
                continue
            self.followed.add(name)
            value = old.value
            for fact, power in sources.items():
                value *= self.ratios[fact] ** power
            self.facts[name] = _fact(old, value, old.unit, f"follows {' and '.join(sources)}")

    def follow_array(self) -> None:
        """Scale the matrix unit with its array, unless its own rate was changed."""
        sides = self.device.arch.data.matrix_follows
        scale = math.prod(self.ratios.get(name, 1.0) for name in sides)
        for name, fact in self.device.file.fma_per_clock.get("matrix", {}).items():
            if scale != 1.0 and self.fma["matrix"][name] is fact:
                self.fma["matrix"][name] = _fact(fact, fact.value * scale, fact.unit, "follows the array")

    def follow_node(self) -> None:
        """Scale prices that the maker states for its own node to the new node."""
        before, after = self.device.facts["process_nm"].value, self.facts["process_nm"].value
        if before != after:
            scale = logic_scale(after) / logic_scale(before)
            for name, fact in self.device.file.coefficients.items():
                if self.coefficients[name] is fact and not fact.by_node:
                    new = _fact(fact, fact.value * scale, fact.unit, "follows process_nm")
                    # A design target stays one at the new node: it does not become a price that is used.
                    is_hope = fact.quality == DESIGN_TARGET
                    self.coefficients[name] = msgspec.structs.replace(new, quality=fact.quality) if is_hope else new

    def follow_silicon(self) -> None:
        """Scale clock power with the amount of logic and its energy at the node, power at rest with all transistors.
        The power limit stays: under it the chip switches off what was added."""
        node, before_w = self.device.process_nm, self._idle_w()
        new = self.build(self.device.file.changes)
        of_node = logic_scale(new.process_nm) / logic_scale(node)
        (logic, memory), (old_logic, old_memory) = silicon_amount(new, node), silicon_amount(self.device, node)
        self.ratios["logic"] = logic / old_logic * of_node
        self.ratios["silicon"] = (logic + memory) / (old_logic + old_memory) * of_node
        self.follow("logic", "silicon")
        self.added_idle_w += max(self._idle_w() - before_w, 0.0)

    def _idle_w(self) -> float:
        return max(self.facts["idle_w"].value, self.facts["clocked_idle_w"].value)

    def build(self, changes: tuple[str, ...]) -> Device:
        """Return the device with the changes so far."""
        # Keep the clock of the file: its figures are at the voltage of that clock.
        old = self.device.facts
        of_file = {name: fact for name, fact in self.facts.items() if name != "clock_hz" and fact is not old.get(name)}
        file: DeviceFile = msgspec.structs.replace(
            self.device.file, facts={**self.device.file.facts, **of_file}, fma_per_clock=self.fma,
            coefficients=self.coefficients, price_factors=self.factors, is_silicon=False, peak_flops={}, exceptions={},
            changes=changes,
        )  # fmt: skip
        added_w = self.added_idle_w
        new = msgspec.structs.replace(self.device, facts=self.facts, file=file, added_idle_w=added_w)
        return msgspec.structs.replace(new, name=new.label)


def follow_base(device: Device, base: Device) -> Device:
    """Return a device of a file that is based on another one: what the file leaves as it was follows what it changes,
    as it does if the same changes are written in braces."""
    unchanged = {
        name
        for name, fact in device.file.facts.items()
        if (old := base.facts.get(name)) and math.isclose(device.facts[name].value, old.value, rel_tol=_WRITTEN)
    }
    changes = [
        Change(name, "=", f"{device.facts[name].value:.10g}")
        for name in sorted(device.file.facts.keys() & base.facts.keys() - unchanged)
    ]
    for unit, formats in device.file.fma_per_clock.items():
        olds = base.file.fma_per_clock.get(unit, {})
        changes += [
            Change(f"{unit}.{name}", "=", f"{rate.value:.10g}")
            for name, rate in formats.items()
            if name in olds and not math.isclose(rate.value, olds[name].value, rel_tol=_WRITTEN)
        ]
    changed = apply_changes(base, tuple(changes))
    own = device.file.facts.keys() - unchanged
    facts = {name: fact if name in own else changed.facts[name] for name, fact in device.facts.items()}
    stated = {name: facts[name] for name in device.file.facts}
    coefficients = {
        name: changed.file.coefficients[name] if base.file.coefficients.get(name) == price else price
        for name, price in device.file.coefficients.items()
    }
    file = msgspec.structs.replace(device.file, facts=stated, coefficients=coefficients)
    switched = {name: getattr(changed, name) for name in ("added_idle_w", "without_added")}
    return msgspec.structs.replace(device, facts=facts, file=file, **switched)


def apply_changes(device: Device, changes: tuple[Change, ...]) -> Device:
    """Return the device with changes, marked as such; without changes, the device itself. Raises RequestError."""
    if not changes:
        return device
    new = _DeviceEditor(device)
    taken, kept = list[Change](), list[Change]()
    for change in changes:
        new.adds = False
        taken.append(new.take(change))
        kept += taken[-1:] * (not new.adds)
    new.follow(*new.ratios)
    new.follow_array()
    new.follow_node()
    new.follow_silicon()
    result = new.build((*device.file.changes, *map(str, taken)))
    try:
        check_physics(result.facts, device.arch.data.facts, result.added_idle_w)
    except ValueError as error:
        raise RequestError(f"{device.id}{{{','.join(result.file.changes)}}}: {error}") from None
    lean = None if len(kept) == len(taken) else apply_changes(device, tuple(kept))
    return msgspec.structs.replace(result, without_added=lean)
