"""The data file of an architecture, joined with tables that all share: facts, constants, macros, tiles, rates."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from hardware import file_access
from hardware.demand import Floats, OpClass
from hardware.efficiency import Efficiency
from hardware.quantity import SourcedValue
from hardware.taxonomy import Event

COMMON = Path(__file__).parent / "architectures" / "common.toml"
WHOLE = ("count", "bit")  # units of whole numbers


class Constant(SourcedValue, frozen=True, kw_only=True):
    """A sourced number in a unit."""

    unit: str


class Spread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Low and high relative to a value."""

    low: float
    high: float
    source: str
    quality: str


class Field(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact of device files. If `must`, every file states it; else the default is `value` (`software`, for some
    classes of software) times the fact `of`, or times 1, for the reason `why`. `ends` are low and high if a file states
    none. `follows` are the facts that it scales with on a what-if device, each with its exponent."""

    unit: str
    must: bool = False
    of: str = ""
    why: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    source: str = ""
    quality: str = ""
    software: dict[str, float] = {}
    ends: Spread | None = None
    follows: dict[str, float] = {}

    @property
    def is_required(self) -> bool:
        """True if a device always has it, stated or by rule."""
        return self.must or self.value is not None

    @property
    def is_whole(self) -> bool:
        """True if it counts indivisible things."""
        return self.unit in WHOLE


class Story(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words for explanations: `delivers` completes "this device ..." with how operands reach its arithmetic;
    `instructions` is the device's word for them ('' if it fetches none)."""

    delivers: str
    instructions: str = ""


class Macro(Constant, frozen=True, kw_only=True):
    """Bytes of the memory macro that one access touches: `value` times the facts `of`, per unit if `per_unit`."""

    of: tuple[str, ...]
    per_unit: bool = False


class Tiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Tiles to choose from: `sizes`, (rows, columns, relative rate), or `stretches` of an array's sides. `splits`
    divide K, padded to `k_step` values or `k_step_bytes` of operands. `vendor` names the only one that has them."""

    source: str
    quality: str
    splits: tuple[int, ...]
    sizes: tuple[tuple[float, float, float], ...] = ()
    stretches: tuple[float, ...] = ()
    k_step: float = 1.0
    k_step_bytes: float = 0.0
    vendor: str = ""

    @cached_property
    def shapes(self) -> Floats:
        """Sizes as an array (t, 3): rows, columns, relative rate."""
        return np.array(self.sizes, dtype=np.float64)


class Overlap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exponent with which compute and memory time combine, with its spread."""

    value: float
    low: float
    high: float
    source: str


class Software(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The rates that a class of software reaches, each [nominal, low, high], by operator class. The memory technology
    of its devices begins with `memory` ('' for any). `overlap` is the exponent with which compute and memory time
    combine. `streaming` is the share of bandwidth at which weights and cache are read, unless the runtime has its own.
    `overhead` are extra seconds to start a kernel of a class. `not_fitted` are classes that are not fitted, None if no
    class is. `fits_nchw` says that the rate of NCHW is fitted."""

    compute: dict[str, tuple[float, float, float]]
    bandwidth: dict[str, tuple[float, float, float]]
    overlap: Overlap
    streaming: SourcedValue | None = None
    memory: str = ""
    nchw: tuple[float, float, float] = (1.0, 1.0, 1.0)
    vector_convolution: tuple[float, float, float] = (1.0, 1.0, 1.0)
    overhead: dict[str, tuple[float, float, float]] = {}
    not_fitted: tuple[str, ...] | None = None
    fits_nchw: bool = False
    shares_host_memory: bool = False

    @cached_property
    def efficiency(self) -> Efficiency:
        """The nominal rates as arrays by operator class, one setting."""
        none = {"other": (0.0, 0.0, 0.0)}
        compute, bandwidth, slower = (
            np.array([[table.get(name, table["other"])[0] for name in OpClass.__members__]])
            for table in (self.compute, self.bandwidth, none | self.overhead)
        )
        return Efficiency(compute, bandwidth, np.array(self.nchw[:1]), np.array(self.vector_convolution[:1]), slower)


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The data file of an architecture, joined with the tables that all share. `assumptions` are structural constants
    of its mapping; `logic` are prices of its own events, J at the node `price_node`; `zeros` is what an event takes
    with zeros as data, over what it takes with random data: value, low, high. `by_time` are the shares of `active_w` of
    its events by time, which add up to one (if empty: it has one such event). `matrix_follows` are the facts to which
    the multiply-adds per clock of its matrix unit are proportional."""

    facts: dict[str, Field]
    assumptions: dict[str, Constant]
    macros: dict[str, Macro]
    tiles: dict[str, Tiles]
    software: dict[str, Software]
    events: tuple[Event, ...]
    story: Story
    logic: dict[str, SourcedValue] = {}
    zeros: dict[str, tuple[float, float, float]] = {}
    by_time: dict[str, SourcedValue] = {}
    matrix_follows: tuple[str, ...] = ()

    @cached_property
    def _assumed(self) -> dict[str, float]:
        return {name: constant.value for name, constant in self.assumptions.items()}

    def assumed(self, name: str) -> float:
        """Return the value of a structural constant."""
        return self._assumed[name]

    def software_for(self, memory_technology: str) -> str:
        """Return the class of software of devices with this memory: the first made for it, else the general one."""
        general = [name for name, software in self.software.items() if not software.memory]
        special = [n for n, s in self.software.items() if s.memory and memory_technology.startswith(s.memory)]
        return (special or general)[0]


def common(name: str) -> Constant:
    """Return a structural constant that all architectures share."""
    return msgspec.convert(file_access.shipped(COMMON)["assumptions"][name], Constant)


def read(path: Path) -> Data:
    """Read the data file of an architecture. Raises msgspec.ValidationError for a malformed one."""
    shared, own = file_access.shipped(COMMON), file_access.table(path)
    joined = {
        name: {**shared.get(name, {}), **table} if isinstance(table := own.get(name, {}), dict) else table
        for name in {*shared, *own}
    }
    # If both state a fact, the shared file has its meaning and the architecture adds the number.
    joined["facts"] = {name: {**shared["facts"].get(name, {}), **rule} for name, rule in joined["facts"].items()}
    return msgspec.convert(joined, Data)
