"""A device: its file, read and checked, in which every fact has a unit, a source and a quality; its facts and peaks in
one power mode; and what a user sets through its driver, as `nvidia-smi -pl` and `-lgc` do: a power cap and a clock
lock, `h100_sxm@400W@1400MHz`. With these the chip stays what it is: evidence, prices and power at rest are unchanged.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from hardware import known_architectures
from hardware.architecture_facts import (
    UNITS,
    ArchitectureFacts,
    Event,
    Field,
    Software,
    price_table,
)
from hardware.base import file_access as storage
from hardware.base.errors import RequestError, unknown
from hardware.base.records import memoize
from hardware.base.text import parse_amount
from hardware.demand import OpClass
from hardware.engines.runtime import MODES, Runtime, runtimes
from hardware.power_limit import PowerBudget
from hardware.precision import BASE, UNIT_FORMATS

# The range of every figure of a device file except 0, whatever its SI unit: rates of a chip stay below 1e19, the
# energy of an event above 1e-16 J. Products of several figures stay well within the range of a float.
LEAST, MOST = 1e-24, 1e24
CATALOG = Path(__file__).parent / "catalog"
DESIGN_TARGET = "design target"
DESIGNER = "designer"  # the mode in which a design target has its designer's own prices
_PEAK_OFF = 0.05  # largest difference of a stated peak from that of the units
QUALITIES = ("data sheet", "measured", "published", "fitted", "assumed", "derived", DESIGN_TARGET)


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sourced figure. `low` and `high` bound it where sources disagree. `by_node` are its values at other nodes in
    nm, from which prices of events are interpolated."""

    value: float
    unit: str
    source: str
    quality: str
    low: float | None = None
    high: float | None = None
    note: str = ""
    by_node: dict[str, float] | msgspec.UnsetType = msgspec.UNSET


class PowerMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A thermal operating point: `facts` replace the device's own in this mode; `nvpmodel` are the numbers that
    NVIDIA's tool of that name gives the mode."""

    facts: dict[str, Fact]
    note: str = ""
    nvpmodel: tuple[int, ...] = ()


class OwnEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The evidence for estimates with a runtime on this device (for one `work_class` if named): `rows` measured, the
    median error of rows left out of the fit (a fraction), and the factors of the estimate that include them. All work
    with the runtime takes `slower` times as long as its software says, with others `others_slower`. Logarithms of the
    bands of other work are `narrower` by this factor."""

    runtime: str
    mode: str
    rows: int
    median_error: float
    low: float
    high: float
    work_class: str = ""
    narrower: float = 1.0
    slower: float = 1.0
    others_slower: float = 1.0


class DeviceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue file as written. `compiler` names what divides models between an accelerator and the rest of its
    module (a record of analysis/explore/operator_support.toml). A measured device has its own `rates` instead of its
    software class's, its own `runtimes`, of which 'auto' takes the first that fits, `trust`, and the evidence of each
    run that was `timed`, and of its like, by `Scenario.name_run`."""

    id: str
    name: str
    vendor: str
    architecture: str
    memory_technology: str
    facts: dict[str, Fact]
    fma_per_clock: dict[str, dict[str, Fact]]
    year: int = 0
    unit_name: str = ""
    software: str = ""
    compiler: str = ""
    aliases: tuple[str, ...] = ()
    is_silicon: bool = True
    notes: tuple[str, ...] = ()
    sources: dict[str, str] = {}
    peak_flops: dict[str, Fact] = {}
    power_modes: dict[str, PowerMode] = {}
    runs: dict[str, dict[str, str]] = {}
    coefficients: dict[str, Fact] = {}
    exceptions: dict[str, str] = {}
    # A measured device is in the power mode `mode` of the device that it is made from. A what-if device has the
    # changes made, which a file does not state, and the factors of its event prices.
    mode: str = ""
    based_on: str = ""  # the device that a file was written from, to change it
    changes: tuple[str, ...] = ()
    price_factors: dict[str, float] = {}
    rates: Software | None = None
    runtimes: dict[str, Runtime] = {}
    trust: tuple[OwnEvidence, ...] = ()
    timed: dict[str, OwnEvidence] = {}
    format_units: dict[str, Fact] = {}  # units that multiply a format, if not all do: a checkerboard


def fail(file: str, message: object) -> RequestError:
    """Return the RequestError for a message about a device file."""
    return RequestError(f"device file {file}: {message}")


def _check_name(where: str, kind: str, name: str, allowed: Collection[str]) -> None:
    """Raise ValueError if a name is not allowed. As in all checks, it has the place and what is allowed there."""
    if name not in allowed:
        raise ValueError(f"{where}: {unknown(kind, name, allowed)}")


def _check_fact(where: str, fact: Fact, unit: str, is_positive: bool = False) -> None:
    if fact.unit != unit:
        raise ValueError(f"{where}: unit is {fact.unit!r}, expected {unit!r}")
    for name, number in (("value", fact.value), ("low", fact.low), ("high", fact.high)):
        most = 1.0 if unit == "share" else MOST
        if number is not None and not (number == 0.0 or LEAST <= number <= most):
            raise ValueError(f"{where}: {name} {number} is out of range (allowed: 0, or {LEAST:g} to {most:g})")
    if fact.quality not in QUALITIES:
        raise ValueError(f"{where}: quality is {fact.quality!r} (allowed: {', '.join(QUALITIES)})")
    low, high = (fact.value if end is None else end for end in (fact.low, fact.high))
    if not low <= fact.value <= high:
        raise ValueError(f"{where}: value {fact.value} is outside low-high {low}-{high}")
    if is_positive and fact.value <= 0.0:
        raise ValueError(f"{where}: must be greater than 0, is {fact.value}")


def fraction_error(value: float) -> str:
    """Return an error message for a count that is not whole, else ''."""
    if value.is_integer():
        return ""
    near = sorted({max(math.floor(value), 1), math.ceil(value)})
    return f"{value:g} is not a whole number (nearest: {' or '.join(map(str, near))})"


def _check_facts(where: str, known: dict[str, Field], facts: dict[str, Fact]) -> None:
    for name, fact in facts.items():
        _check_name(where, "field", name, known)
        field = known[name]
        divides = field.unit in ("Hz", "byte/s") or name.endswith(("_banks", "_width"))
        _check_fact(f"{where}.{name}", fact, field.unit, is_positive=divides or (field.is_required and not field.of))
        if field.is_whole and (wrong := fraction_error(fact.value)):
            raise ValueError(f"{where}.{name}: {wrong}")


def _check_tables(spec: DeviceFile) -> None:
    for unit, table in spec.fma_per_clock.items():
        _check_name("fma_per_clock", "unit", unit, ("matrix", "vector"))
        for precision, fact in table.items():
            _check_name(f"fma_per_clock.{unit}", "precision", precision, UNIT_FORMATS)
            _check_fact(f"fma_per_clock.{unit}.{precision}", fact, "FMA/clock", is_positive=True)
    if BASE not in spec.fma_per_clock.get("vector", {}):
        raise ValueError(f"fma_per_clock.vector.{BASE} is missing: element-wise work needs a vector unit")
    for precision, fact in spec.peak_flops.items():
        _check_name("peak_flops", "precision", precision, UNIT_FORMATS)
        _check_fact(f"peak_flops.{precision}", fact, "FLOP/s", is_positive=True)
    for precision, fact in spec.format_units.items():
        _check_name("format_units", "precision", precision, spec.fma_per_clock.get("matrix", {}))
        _check_fact(f"format_units.{precision}", fact, "count", is_positive=True)
        if fact.value > spec.facts["units"].value or fraction_error(fact.value):
            raise ValueError(f"format_units.{precision}: must be a whole number of at most all units")
    for precision in spec.exceptions:
        _check_name("exceptions", "precision", precision, UNIT_FORMATS)


def _check_runs(spec: DeviceFile) -> None:
    """Check that each row, as `convolution = "matrix:tf32"`, names a unit and a format that the unit has."""
    for precision, table in spec.runs.items():
        _check_name("runs", "precision", precision, UNIT_FORMATS)
        for work, runs_as in table.items():
            where = f"runs.{precision}.{work}"
            if work in ("convolution", "contraction"):
                units = [f"{unit}:{name}" for unit, formats in spec.fma_per_clock.items() for name in formats]
                _check_name(where, "unit and format", runs_as, units)
            elif work == "stored":
                _check_name(where, "precision", runs_as, UNIT_FORMATS)
            else:
                _check_name(f"runs.{precision}", "name", work, ("convolution", "contraction", "stored", "why"))


def check_coefficients(coefficients: dict[str, Fact], events: dict[str, Event]) -> None:
    """Check that each price, `"tile.mac"` or for one format `"tile.mac:bf16"`, is of an event of the architecture."""
    for name, fact in coefficients.items():
        event, colon, precision = name.partition(":")
        _check_name("coefficients", "event", event, events)
        if colon:
            _check_name(f"coefficients.{event}", "precision", precision, UNIT_FORMATS)
        _check_fact(f"coefficients.{name}", fact, f"J/{events[event].count}", is_positive=bool(fact.by_node))
        for node, value in (fact.by_node or {}).items():
            if not (
                re.fullmatch(r"[0-9]+(\.[0-9]+)?", node) and 1.0 <= float(node) <= 1000.0 and LEAST <= value <= MOST
            ):
                raise ValueError(
                    f"coefficients.{name}.by_node: {node!r} = {value} is no price at a node, as '7' = 3e-13"
                )


_RATES = {
    "compute": (1e-6, 10.0, "1e-6 to 10"),
    "bandwidth": (1e-6, 10.0, "1e-6 to 10"),
    "overhead": (0.0, 1.0, "0 to 1 s"),
}


def _check_measured(spec: DeviceFile) -> None:
    for part, (least, most, allowed) in _RATES.items() if spec.rates is not None else ():
        table: dict[str, tuple[float, float, float]] = getattr(spec.rates, part)
        if "other" not in table and part != "overhead":
            raise ValueError(f"rates.{part}.other is missing")
        for name, (value, low, high) in table.items():
            if name != "other":
                _check_name(f"rates.{part}", "class of operators", name, OpClass.__members__)
            if not least <= low <= value <= high <= most:
                raise ValueError(f"rates.{part}.{name}: [value, low, high] must rise from low to high ({allowed})")
    if spec.rates is not None and not 0.1 <= spec.rates.overlap.value <= 100.0:
        raise ValueError("rates.overlap.value: is out of range (allowed: 0.1 to 100)")
    for name, record in spec.runtimes.items():
        _check_name("runtimes", "runtime", name, runtimes())
        _check_name(f"runtimes.{name}.mode", "mode", record.mode, MODES)
        for ends in (record.dispatch, record.launch, record.call_s, *record.streaming.values()):
            if not 0.0 <= ends.low <= ends.value <= ends.high <= MOST:
                raise ValueError(f"runtimes.{name}: value {ends.value} is outside low-high {ends.low}-{ends.high}")
    for held in (*spec.trust, *spec.timed.values()):
        known = held.rows >= 0 and 0.0 <= held.median_error <= 1e6 and 0.0 < held.low <= 1.0 <= held.high <= 1e6
        if not (known and all(1e-6 <= each <= 1e6 for each in (held.slower, held.others_slower, held.narrower))):
            raise ValueError(f"trust of {held.runtime}: low must be above 0 and hold 1 with high")


def read_device_file(path: Path) -> DeviceFile:
    """Read and check a device file. Raises RequestError naming file, field and allowed values."""
    try:
        data = storage.table(path)
    except OSError as error:
        raise fail(path.name, f"cannot be read ({error.strerror})") from None
    try:
        spec = storage.convert_record(path, "", data, DeviceFile)
    except ValueError as error:
        raise RequestError(f"device file {error}") from None
    try:
        check_file(spec)
        if spec.id != path.stem:
            raise ValueError(f"id: is {spec.id!r}, must equal the file name {path.stem!r}")
    except ValueError as error:
        raise fail(path.name, error) from None
    return spec


def _check_peaks(spec: DeviceFile, facts: dict[str, Fact]) -> None:
    """Raise ValueError if a stated peak is not that of the units, their rates and clock, and no exception says why."""
    for form, peak in spec.peak_flops.items():
        rates = {unit: table[form].value for unit, table in spec.fma_per_clock.items() if form in table}
        per_unit = {unit: 2.0 * rate * facts[f"{unit}_clock_hz"].value for unit, rate in rates.items()}
        made = [facts["units"].value * each for each in per_unit.values()]
        if made and form not in spec.exceptions and all(abs(each / peak.value - 1.0) > _PEAK_OFF for each in made):
            unit, rate = next(iter(rates.items()))
            raise ValueError(
                f"peak_flops.{form}: {peak.value:.4g} FLOP/s, but {facts['units'].value:g} units x {rate:g} FMA x "
                f"{facts[f'{unit}_clock_hz'].value:.4g} Hz make {made[0]:.4g}; [exceptions] may say why"
            )


def check_file(spec: DeviceFile) -> None:
    """Raise ValueError for a device file whose facts, rates or prices cannot be, or contradict each other."""
    if spec.changes:
        raise ValueError("changes: name a changed device by an expression, e.g. h100_sxm{units*2}")
    _check_name("architecture", "architecture", spec.architecture, known_architectures.ALL)
    described = known_architectures.get(spec.architecture)
    known, classes = described.data.facts, described.data.software
    if spec.software:
        _check_name("software", "class of software", spec.software, classes)
    _check_facts("facts", known, spec.facts)
    _check_tables(spec)
    _check_runs(spec)
    check_coefficients(spec.coefficients, {event.label: event for event in described.events})
    _check_measured(spec)
    for mode, point in spec.power_modes.items():
        _check_facts(f"power_modes.{mode}.facts", known, point.facts)
    _check_peaks(spec, complete_facts(spec, spec.facts))


def _derived(field: Field, factor: float, facts: dict[str, Fact]) -> Fact:
    if not field.of:
        return Fact(factor, field.unit, f"rule: {field.why}", "assumed")
    if field.of == "sustained_w":  # or the limit of a mode below it
        base = min((facts[name] for name in ("sustained_w", "power_limit_w")), key=lambda fact: fact.value)
    else:
        base = facts[field.of]
    note = "" if factor == 1.0 else f"{factor:g} x "
    return Fact(base.value * factor, field.unit, f"rule: {note}{field.of}: {field.why}", "derived")


def complete_facts(spec: DeviceFile, stated: dict[str, Fact]) -> dict[str, Fact]:
    """Return stated facts and facts derived by rule, in the order of the architecture's fields. Raises ValueError if
    one is missing or they contradict each other."""
    data = known_architectures.get(spec.architecture).data
    software = spec.software or data.software_for(spec.memory_technology)
    facts: dict[str, Fact] = {}
    for name, field in data.facts.items():
        if name in stated:
            facts[name] = stated[name]
        elif field.value is not None:
            facts[name] = _derived(field, field.software.get(software, field.value), facts)
        elif field.must:
            raise ValueError(f"facts.{name} is missing ({field.unit})")
    try:
        check_physics(facts, data.facts)
    except ValueError as error:
        raise ValueError(f"facts.{error}") from None
    share, active = price_table()["by_time_share"], facts["active_w"]
    rest_w = max(facts["idle_w"].value, facts["clocked_idle_w"].value)
    if active.value > (most_w := share["value"] * (facts["power_limit_w"].value - rest_w)):
        facts["active_w"] = Fact(most_w, "W", f"{active.value:g} W, but {share['source']}", "assumed")
    return facts


def check_physics(facts: dict[str, Fact], fields: dict[str, Field], added_idle_w: float = 0.0) -> None:
    """Raise ValueError, beginning with the name of a fact, if facts contradict each other. The chip can switch off
    `added_idle_w`."""
    value = {name: fact.value for name, fact in facts.items()}
    for name, field in fields.items():
        least = sum(value.get(fact, 0.0) * times for fact, times in field.least.items())
        if field.unit == "byte" and "_bytes" in name and value.get(name):
            least = max(least, LINE_BYTES)
        if name in value and value[name] < least:
            raise ValueError(f"{name}: {value[name]:g} {field.unit} do not hold what its units need, {least:g}")
    limit = value["power_limit_w"]
    if limit <= 0 or value["tdp_w"] <= 0:
        raise ValueError("tdp_w: must be greater than 0")
    for name in ("idle_w", "clocked_idle_w"):
        if value[name] - added_idle_w >= limit:
            raise ValueError(f"{name}: {value[name]:g} W is not below the power limit of {limit:g} W")
    bus, rate = value.get("memory_bus_bits"), value.get("memory_transfer_rate")
    if bus and rate and abs(bus / 8 * rate / value["memory_bandwidth"] - 1) > 0.03:
        raise ValueError(f"memory_bandwidth: bus x rate gives {bus / 8 * rate:g} byte/s, over 3 % off")


LINE_BYTES = 64.0  # that a memory is read and written in, so the least it holds
LEAST_CLOCK = 0.1  # relative to the clock of the device file: boards of NVIDIA take 210 MHz to 2 GHz
ON_PAPER = " (paper)"  # follows the name of a design target, wherever it is shown


class Device(msgspec.Struct, frozen=True, dict=True):
    """A device in one power mode. `facts` has every field of its architecture; derived facts are marked.

    `file.fma_per_clock['matrix' | 'vector'][precision]` counts fused multiply-adds per unit and clock, two FLOPs each;
    `file.runs[precision][kind of work]` names unit and format where customary software deviates."""

    id: str
    name: str
    vendor: str
    architecture: str
    memory_technology: str
    power_mode: str
    file: DeviceFile
    facts: dict[str, Fact]
    operating_point: tuple[str, ...] = ()  # its power cap and clock lock: `400W`, `1400MHz`
    clock_share: float = 1.0  # of the clock of its matrix units, under a clock lock
    added_idle_w: float = 0.0  # of its power at rest, from silicon that changes added, which it can switch off
    without_added: "Device | None" = None  # with units, memory on chip and clock that changes added switched off
    priced: str = ""  # the evidence of its event prices, if it is not that of its architecture

    def __getattr__(self, name: str) -> float:
        """The value of a fact by its name, in its SI unit: `device.tdp_w`. It is an attribute from then on."""
        try:
            value = vars(self)[name] = self.values[name]
        except KeyError:
            raise AttributeError(name) from None
        return value

    @cached_property
    def values(self) -> dict[str, float]:
        """The value of each fact, in its SI unit."""
        return {name: fact.value for name, fact in self.facts.items()}

    @property
    def key(self) -> str:
        """The id as a user writes it: with the power mode if it is not the default, a power cap and a clock lock, and
        what was changed."""
        mode = f":{self.power_mode}" if self.power_mode else ""
        return f"{self.id}{mode}{''.join(f'@{setting}' for setting in self.operating_point)}{self.changes}"

    @memoize()
    def timed_in(self, *runs: str) -> "Device":
        """Return the device as it was in the first of `runs` that was timed on it; itself if none was."""
        own = next((self.file.timed[run] for run in runs if run in self.file.timed), None)
        if own is None or self.operating_point or self.changes:
            return self
        return msgspec.structs.replace(self, file=msgspec.structs.replace(self.file, trust=(own,), timed={}))

    @memoize()
    def priced_by(self, evidence: str) -> "Device":
        """Return the same chip with its events priced by an evidence; `own` changes nothing."""
        priced = {"own": self.priced, self.arch.data.story.prices: ""}.get(evidence, evidence)
        lean = self.without_added and self.without_added.priced_by(evidence)
        return self if priced == self.priced else msgspec.structs.replace(self, priced=priced, without_added=lean)

    @property
    def power_cap(self) -> str:
        """The power cap, `400W`; '' without one."""
        return next((setting for setting in self.operating_point if setting.endswith("W")), "")

    @property
    def changes(self) -> str:
        """The changes of a what-if device, in braces; '' for others."""
        return f"{{{','.join(self.file.changes)}}}" if self.file.changes else ""

    @property
    def mark(self) -> str:
        """The mark of a design target, which follows its name."""
        return "" if self.silicon or self.changes else ON_PAPER

    @property
    def silicon(self) -> bool:
        """False for a design target, which exists on paper only: nothing on it was measured."""
        return self.file.is_silicon

    @property
    def marked_key(self) -> str:
        """The key, with the mark of a design target."""
        return self.key + self.mark

    @property
    def label(self) -> str:
        """The name with the power mode and the operating point, `NVIDIA H100 SXM5 80GB at 400 W`, and with the changes
        or the mark of a design target."""
        name = f"{self.file.name} {self.power_mode}".rstrip() + self.operating_words
        return name + (f", {change_words(self.changes)}" if self.changes else self.mark)

    @property
    def operating_words(self) -> str:
        """The power cap and the clock lock as they follow the name: ` at 400 W and 1400 MHz`."""
        amounts = (re.sub("[WM]", r" \g<0>", setting, count=1) for setting in self.operating_point)
        return f" at {' and '.join(amounts)}" if self.operating_point else ""

    @cached_property
    def arch(self) -> ArchitectureFacts:
        """The facts of its architecture; `architecture` is its id."""
        return known_architectures.get(self.architecture)

    @property
    def unit_name(self) -> str:
        """The name that its maker gives one of its units."""
        return self.file.unit_name or self.arch.unit

    @cached_property
    def software_class(self) -> str:
        """The class of software whose fitted efficiencies apply: stated in its file, else given by its memory."""
        return self.file.software or self.arch.data.software_for(self.memory_technology)

    @cached_property
    def software(self) -> Software:
        """The rates that its customary software reaches: measured on it, else those of its class."""
        return self.file.rates or self.arch.data.software[self.software_class]

    @cached_property
    def divided_equally(self) -> "Device":
        """The device with the units that loops reach whose threads get equal parts and wait for the slowest core."""
        units, share = self.facts["units"], self.values.get("equal_share", 1.0)
        units = msgspec.structs.replace(units, value=units.value * share)
        lean = self.without_added and self.without_added.divided_equally
        changed = {"facts": self.facts | {"units": units}, "without_added": lean}
        return self if share == 1.0 else msgspec.structs.replace(self, **changed)

    @cached_property
    def kernel_generation(self) -> str:
        """The generation whose instructions the kernels of a GPU use, by its facts."""
        if self.vendor != "NVIDIA":
            return self.vendor.lower()
        if not self.has_bulk_instructions:
            return "ampere"  # warps wait for all products, on Ada and workstation Blackwell too
        return "blackwell" if ("matrix", "fp4") in self.peaks else "hopper"

    @cached_property
    def has_bulk_instructions(self) -> bool:
        """True if the matrix units have instructions that no warp waits for, as since Hopper. Only these reach the
        peak."""
        return self.values.get("synchronous_matrix_rate", 1.0) < 1.0

    def ends(self, name: str) -> tuple[float, float, float]:
        """Return a fact with its low and high: the file's, else by the relative spread of its field."""
        fact, relative = self.facts[name], self.arch.data.facts[name].ends
        low = fact.low if fact.low is not None else fact.value * (relative.low if relative else 1.0)
        high = fact.high if fact.high is not None else fact.value * (relative.high if relative else 1.0)
        return fact.value, low, high

    @cached_property
    def kernel_start_s(self) -> float:
        """Seconds to start and end a kernel: a fixed time, plus cycles of the device's clock."""
        return self.launch_s + self.launch_cycles / self.clock_hz

    @cached_property
    def light_start_s(self) -> float:
        """Seconds to start and end a kernel without a product: it does not fill a pipeline of tiles or, if the host is
        the device, prepare a library's primitive."""
        share = self.arch.constants.light_launch
        fixed_s = share * self.launch_s if self.arch.is_host else self.launch_s
        return fixed_s + share * self.launch_cycles / self.clock_hz

    @cached_property
    def _voltage_line(self) -> tuple[float, float]:
        """The slope of the voltage, and the clock at which prices are stated: that of the architecture at this node, or
        that of the device."""
        assumed, stated = self.arch.constants, self.facts.get("nominal_clock_hz") or self.file.facts["clock_hz"]
        at_node = (assumed.price_node / self.process_nm) ** assumed.price_clock_gain
        return price_table()["voltage"]["slope"], assumed.price_clock * at_node or stated.value

    def voltage_at(self, clock_hz: float) -> float:
        """Return the voltage at a clock over that at the nominal clock."""
        slope, nominal_hz = self._voltage_line
        return 1.0 - slope * (1.0 - clock_hz / nominal_hz)

    @property
    def least_clock_hz(self) -> float:
        """The clock below which neither a lock nor the power limit sets it."""
        return min(LEAST_CLOCK * self.file.facts["clock_hz"].value, self.clock_hz)

    def power_budget(self, static_w: float) -> PowerBudget:
        """Return the power that the device may draw, `static_w` of it at rest, and how voltage follows the clock."""
        limit = price_table()["limit"]
        return PowerBudget(
            limit_w=self.power_limit_w,
            # Layers that work at once share the chip's power: none draws it alone, and no part of a call does.
            peak_w=math.inf if self.arch.places_models else self.power_limit_w * limit["peak"]["value"],
            window_s=math.inf if self.arch.places_models else limit["window_s"]["value"],
            static_w=static_w,
            gated_w=min(self.added_idle_w, static_w),
            idle_follows=self.arch.constants.idle_follows_clock,
            slope=1.0 - self.voltage_at(0.0) / self.voltage_at(self.vector_clock_hz),
            least_clock=min(self.least_clock_hz / self.vector_clock_hz, 1.0),
            core_clock=min(self.clock_hz / self.vector_clock_hz, 1.0),
        )

    @cached_property
    def peaks(self) -> dict[tuple[str, str], float]:
        """Dense peak FLOP/s by (unit, precision): units x FMA per clock x clock x 2."""
        clocks = {"matrix": self.matrix_clock_hz, "vector": self.vector_clock_hz}
        return {
            (unit, precision): self.units * fact.value * clocks[unit] * 2.0
            for unit, table in self.file.fma_per_clock.items()
            for precision, fact in table.items()
        }

    def mac_rate(self, unit: str, format_: str) -> float:
        """Return the MAC/s of one unit (core, SM, tile) at full rate; the vector unit's if it has no such format."""
        peak = self.peaks.get((unit, format_)) or self.peaks.get(("vector", format_))
        return (peak or self.peaks["vector", BASE]) / 2.0 / self.units

    @cached_property
    def levels(self) -> tuple[tuple[str, float], ...]:
        """The levels of memory on chip that it has, innermost first, with the bytes of all instances."""
        stated = [level for level in self.arch.levels if level.fact in self.file.facts]
        of_units = f" of {self.units:.0f} {self.unit_name}s"
        return tuple(
            (
                level.name + of_units * (level.instances == UNITS),
                self.values[level.fact] * math.prod(self.values[name] for name in level.instances),
            )
            for level in stated
        )

    def macro_bytes(self, name: str) -> float:
        """Return the bytes of the macro of memory that an access touches: a bank or slice, not the sum of the die."""
        macro = self.arch.data.macros[name]
        size_bytes = math.prod([getattr(self, fact) for fact in macro.of], start=macro.value)
        return size_bytes / self.file.facts["units"].value if macro.per_unit else size_bytes

    @property
    def last_level_bytes(self) -> float:
        """Capacity of the last on-chip level that tensors can stay in between kernels."""
        return self.levels[-1][1]


# Not the `@` of a product's name, `CPU @ 3.40GHz`.
_MARK = re.compile(r"(?<=\S)@(?=\S|$)|\s+@\s*(?=[0-9.]+ *k?w\b)", re.IGNORECASE)
_AT_REST = 0.9  # most of a cap that the device may draw at rest
CAPPED = ("power_limit_w", "sustained_w")  # facts that a cap bounds
_CLOCKS = ("clock_hz", "vector_clock_hz", "matrix_clock_hz")
_ROUNDING = 1.0 + 1e-5  # keys have six digits
_SIGN = re.compile("(?:_(?:hz|w|s|nm|bytes))?([*=]|$)")
_STEPS = 7  # caps that a search tries
_LEAST_SHARE = 0.4  # the least of them, relative to the power limit


def change_words(changes: str) -> str:
    """Return facts, or changes of facts, in words: `clock x2, units 100` for `{clock_hz*2,units=100}`."""
    parts = (_SIGN.split(change, maxsplit=1) for change in changes.strip("{}").split(","))
    return ", ".join(f"{name.replace('_', ' ')} {'x' * (sign == '*')}{value}".strip() for name, sign, value in parts)


def split_operating_point(name: str) -> tuple[str, list[str]]:
    """Return the device and its settings as written: `h100@400w@1.4GHz` is `h100`, `400w` and `1.4GHz`."""
    device, *settings = _MARK.split(name.strip())
    return device, settings


def set_operating_point(device: Device, settings: Sequence[str]) -> Device:
    """Return the device with a power cap and a clock lock. Raises RequestError for one that it cannot take."""
    amounts: dict[str, float] = {}
    for text in settings:
        unit, amount = _parse_setting(text)
        if unit in amounts:
            raise RequestError(f"{device.key}: {'power cap' if unit == 'W' else 'clock lock'} is set twice")
        amounts[unit] = amount
    facts, point, share = dict(device.facts), [], device.clock_share
    if (cap_w := amounts.get("W")) is not None:
        point.append(f"{cap_w:g}W")
        _check_range(f"{device.key}@{cap_w:g}W", cap_w, least_cap_w(device), device.power_limit_w, "W", "power limit")
        _scale(facts, {name: min(cap_w / facts[name].value, 1.0) for name in CAPPED}, point[-1])
    if (lock := amounts.get("MHz")) is not None:
        point.append(f"{lock:g}MHz")
        clocks = {name: facts[name].value / 1e6 for name in _CLOCKS}
        own, highest = clocks["clock_hz"], max(clocks.values())
        _check_range(f"{device.key}@{lock:g}MHz", lock, device.least_clock_hz / 1e6, highest, "MHz", "highest clock")
        follows = {name: field.follows.get("clock_hz", 0.0) for name, field in device.arch.data.facts.items()}
        below = min(lock / own, 1.0)  # a lock bounds the clock: above the usual one it changes nothing
        ratios = {name: below**power for name, power in {**follows, "clock_hz": 1.0}.items() if power}
        ratios |= {name: min(lock / clock, 1.0) for name, clock in clocks.items()}
        _scale(facts, ratios, point[-1])
        share *= ratios["matrix_clock_hz"]
    new = msgspec.structs.replace(device, facts=facts, operating_point=tuple(point), clock_share=share)
    return msgspec.structs.replace(new, name=f"{device.file.name}{new.operating_words}{device.mark}")


def least_cap_w(device: Device) -> float:
    """Return the least power cap of a device, W: a little more than it draws at rest, in steps of 0.1 W."""
    return math.ceil(max(device.idle_w, device.clocked_idle_w) / _AT_REST * 10.0) / 10.0


def power_caps(device: Device) -> Iterator[str]:
    """Yield names of an unchanged device at caps from 40 % of its limit, in watts of two digits; last, its own key."""
    limit_w, least_w = device.power_limit_w, least_cap_w(device)
    shares = (_LEAST_SHARE + (1.0 - _LEAST_SHARE) * step / _STEPS for step in range(_STEPS))
    for cap_w in dict.fromkeys(float(f"{share * limit_w:.2g}") for share in shares):
        if least_w <= cap_w < limit_w and not device.power_cap:
            yield f"{device.key}@{cap_w:g}W"
    yield device.key


def _parse_setting(text: str) -> tuple[str, float]:
    """Return the unit, W or MHz, and the amount of a setting, in the digits that a key has."""
    match = re.fullmatch(r"(.*?)(w|hz)", text.strip(), re.IGNORECASE)
    if match is None:
        raise RequestError(f"@{text[:20]}: expected a power or a clock, as h100_sxm@400W or h100_sxm@1400MHz")
    if match[2].lower() == "w":
        return "W", float(f"{parse_amount(match[1].lower() + 'W', 'W'):g}")
    return "MHz", float(f"{parse_amount(match[1].upper() + 'Hz', 'Hz') / 1e6:g}")


def _check_range(key: str, amount: float, least: float, most: float, unit: str, limit: str) -> None:
    """Raise RequestError if a device cannot take an amount."""
    if amount > most * _ROUNDING:
        raise RequestError(f"{key}: the {limit} is {most:g} {unit} (allowed: {least:g} to {most:g} {unit})")
    if amount < least / _ROUNDING:
        raise RequestError(f"{key}: the least that works is {least:g} {unit} (allowed: {least:g} to {most:g} {unit})")


def _scale(facts: dict[str, Fact], ratios: dict[str, float], setting: str) -> None:
    """Multiply facts, and say in their source what set them."""
    for name, ratio in ratios.items():
        if (old := facts.get(name)) is not None and ratio != 1.0:
            low, high = (None if end is None else end * ratio for end in (old.low, old.high))
            source = f"set to {setting}, was {old.value:g}: {old.source}"
            facts[name] = Fact(old.value * ratio, old.unit, source, "derived", low, high)
