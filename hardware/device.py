"""A device in one power mode: its facts, its peaks, and how texts name it."""

from __future__ import annotations

import math
import re
from functools import cached_property

import msgspec

from hardware import known_architectures
from hardware.architecture_facts import UNITS, ArchitectureFacts, Software
from hardware.device_file import DeviceFile, Fact
from hardware.power_limit import PowerBudget
from hardware.precision import BASE
from hardware.published_prices import price_table

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
        """The name with the power mode and the operating point, and with the changes or the mark of a design target."""
        return self.name_in_mode + (f" {self.changes}" if self.changes else self.mark)

    @property
    def name_in_mode(self) -> str:
        """The name with the power mode, the power cap and the clock lock: `NVIDIA H100 SXM5 80GB at 400 W`."""
        return f"{self.file.name} {self.power_mode}".rstrip() + self.operating_words

    @property
    def operating_words(self) -> str:
        """The power cap and the clock lock as they follow the name: ` at 400 W and 1400 MHz`."""
        amounts = (re.sub("[WM]", r" \g<0>", setting, count=1) for setting in self.operating_point)
        return f" at {' and '.join(amounts)}" if self.operating_point else ""

    @cached_property
    def arch(self) -> ArchitectureFacts:
        """The facts of its architecture; `architecture` is its id."""
        return known_architectures.find_architecture(self.architecture, self.file.hierarchy)

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
    def divided_equally(self) -> Device:
        """The device with the units that loops reach whose threads get equal parts and wait for the slowest core."""
        units, share = self.facts["units"], self.values.get("equal_share", 1.0)
        units = msgspec.structs.replace(units, value=units.value * share)
        return self if share == 1.0 else msgspec.structs.replace(self, facts=self.facts | {"units": units})

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

    @property
    def core_size(self) -> float:
        """The energy of an instruction relative to a core with two 256-bit vector units, whose windows, registers and
        caches are larger than those of a core with narrower ones. 1 for accelerators."""
        return min(self.file.fma_per_clock["vector"][BASE].value / 16.0, 1.0) if self.arch.is_host else 1.0

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

    @cached_property
    def voltage_slope(self) -> float:
        """The relative voltage lost per relative clock lost, at the device's clock."""
        return 1.0 - self.voltage_at(0.0) / self.voltage_at(self.vector_clock_hz)

    @property
    def relative_clock(self) -> float:
        """The clock over that of the device file, which a power mode, a lock or a change may have replaced."""
        return self.clock_hz / self.file.facts["clock_hz"].value

    @property
    def least_clock_hz(self) -> float:
        """The clock below which neither a lock nor the power limit sets it."""
        return min(LEAST_CLOCK / self.relative_clock, 1.0) * self.clock_hz

    def power_budget(self, static_w: float) -> PowerBudget:
        """Return the power that the device may draw above `static_w`, and how its voltage follows its clock."""
        return PowerBudget(self.power_limit_w - static_w, self.voltage_slope, self.least_clock_hz / self.clock_hz)

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
