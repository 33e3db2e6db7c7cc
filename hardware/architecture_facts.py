"""The facts of an architecture: its events, the numbers of its data file (joined with tables that all share) and what
software reaches on it. The rest of the product uses these fields and never asks which architecture it has. Published
prices between process nodes and capacities are in coefficients.toml.
"""

import math
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hardware.base import file_access
from hardware.base.file_access import convert_record
from hardware.base.records import SourcedValue
from hardware.demand import Floats, NDArray, OpClass

COEFFICIENTS = Path(__file__).parent / "coefficients.toml"
Triple = tuple[float, float, float]


@cache
def price_table() -> dict[str, Any]:
    """Return the table of published prices, coefficients.toml."""
    return file_access.shipped(COEFFICIENTS)


def log_interpolate(x: float, points: list[tuple[float, Triple]]) -> Triple:
    """Interpolate log-log between the points around x. Beyond an end, return its value (callers extrapolate)."""
    points = sorted(points)
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            w = math.log(x / x0) / math.log(x1 / x0)
            a, b, c = (math.exp((1 - w) * math.log(p) + w * math.log(q)) for p, q in zip(y0, y1, strict=True))
            return a, b, c
    return points[-1][1]


def price_at_node(value: Triple, process_nm: float, by_node: dict[str, float]) -> Triple:
    """Return a stated price with its spread at a node: interpolated between stated nodes, beyond them by logic."""
    points = [(float(node), (each, each, each)) for node, each in by_node.items()]
    nearest = min(max(process_nm, min(points)[0]), max(points)[0])
    at_node = log_interpolate(nearest, points)[0] * logic_scale(process_nm) / logic_scale(nearest)
    return at_node, value[1] / value[0] * at_node, value[2] / value[0] * at_node


@lru_cache(maxsize=64)  # nodes
def logic_scale(process_nm: float) -> float:
    """Return the energy of logic at a node relative to 7 nm."""
    scaling = price_table()["logic_scaling"]
    points = [(n, (f, f, f)) for n, f in zip(scaling["nodes"], scaling["factors"], strict=True)]
    return log_interpolate(process_nm, points)[0]


class Constants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Constants of every architecture: common.toml has the values of those that its own file does not state."""

    price_node: float  # nm
    price_node_gain: float  # exponent
    price_clock: float  # Hz
    price_clock_gain: float  # exponent
    matrix_clock_bound: float  # fraction
    light_launch: float  # fraction
    special_flops: float  # FLOP
    elements_per_block: float  # element
    pinned_share: float  # fraction
    link_words_reached: float  # fraction
    link_blocks_reached: float  # fraction
    link_block_s: float  # s
    exchange_reached: float  # fraction
    exchange_bandwidth: float  # byte/s
    library_words_reached: float  # fraction
    library_block_s: float  # s
    pair_link_bandwidth: float  # byte/s
    pair_blocks_reached: float  # fraction
    library_exchange_words: float  # byte
    step_spread: float  # fraction
    dependent_step_s: float  # s/column
    launch_clocked: float  # fraction
    idle_follows_clock: float  # fraction
    price_allowance: float  # x price
    accumulator_bytes: float  # byte
    vector_operands: float  # register/operation
    dma_bytes: float  # byte
    last_level_reached: float  # fraction
    unpack_rows: float  # row
    split_rate: float  # x unsplit


class CpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of cores that also dispatch: instructions of library code, rearranged tensors, parallel regions."""

    reorder_regions: float  # region
    plain_reorder_regions: float  # region
    serial_elements: float  # element
    preferred_tile: float  # element
    plain_pool_cycles: float  # cycle/tap
    plain_pool_window: float  # tap
    plain_copy_bytes: float  # byte/clock
    reorder_passes: float  # pass
    fma_ports: float  # port
    loads_per_vector_mac: float  # load/instruction
    cycles_per_matrix_instruction: float  # cycle
    matrix_tile_bytes: float  # byte
    scalar_per_vector: float  # instruction/instruction
    scalar_read_bytes: float  # byte/instruction
    scalar_write_bytes: float  # byte/instruction
    vector_reads: float  # register/instruction
    instructions_per_branch: float  # instruction
    mispredicted: float  # fraction
    instructions_per_cycle: float  # instruction/cycle
    loads_per_scalar: float  # access/instruction


class GpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of multiprocessors and of the kernels that libraries have for them."""

    bulk_step_cycles: float  # cycle
    step_cycles: float  # cycle
    fill_steps: float  # step
    scaled_block: float  # value
    preferred_tile: float  # element
    matrix_instruction_macs: float  # MAC
    matrix_instruction_read_bytes: float  # byte
    matrix_instruction_write_bytes: float  # byte
    lane_read_bytes: float  # byte
    lane_write_bytes: float  # byte
    instruction_rows: float  # row
    few_channels_bytes: float  # byte
    few_channels_rate: float  # fraction
    pool_window: float  # element
    pool_rate: float  # element/cycle
    reduce_rate: float  # element/cycle
    indexed_rate: float  # element/cycle
    address_ops: float  # operation
    norm_row_cycles: float  # cycle
    norm_latency_cycles: float  # cycle
    norm_value_cycles: float  # cycle
    depthwise_nchw_rate: float  # fraction
    norm_casts: float  # kernel
    rule_columns: float  # column
    grouped_rate: float  # MAC/cycle
    grouped_tf32_rate: float  # MAC/cycle/column
    grouped_suited_columns: float  # column
    grouped_suited_rate: float  # MAC/cycle
    slice_bytes: float  # byte
    rearranged_passes: float  # x
    rule_kernels_rate: float  # fraction
    rule_tile: float  # row
    feed_overlap: float  # exponent
    packed_rows: float  # row
    attention_rows: float  # row
    attention_columns: float  # key
    attention_partial_tile: float  # tile
    decoding_blocks: float  # block
    attention_start_cycles: float  # cycle
    unpaged_start_cycles: float  # cycle
    vector_rows: float  # row
    grouped_blocks: float  # block
    routing_kernels: float  # kernel
    grouped_unpack_rows: float  # row
    quantised_in_cache: float  # fraction
    warp_threads: float  # thread
    integer_per_element: float  # operation
    warp_bytes: float  # byte
    divergent: float  # fraction
    padding_price: float  # x a MAC
    sampled_bytes: float  # byte/s
    expert_rows: float  # row
    decoding_rows: float  # row
    bulk_decoding_rows: float  # row
    depthwise_instructions: float  # instruction/MAC
    vector_register_tile: float  # element
    matrix_warp_tile: float  # element
    bulk_tile_rows: float  # element
    bulk_tile_columns: float  # element
    bulk_instruction_macs: float  # MAC
    panel_tile: float  # element
    bulk_panel_tile: float  # element
    load_bytes: float  # byte
    path_units: float  # SM
    integer_activity: float  # x the activity
    barrier_k_step: float  # element
    barriers_per_k_step: float  # barrier
    block_threads: float  # thread
    most_registers: float  # register/thread
    register_bytes: float  # byte
    elementwise_registers: float  # register/thread
    tile_registers: float  # register/thread
    tile_stages: float  # stage
    tile_step_bytes: float  # byte
    shared_part: float  # fraction


class TpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of systolic arrays."""

    shift_distance: float  # x rows
    scalar_per_bundle: float  # operation/bundle
    vector_memory_writes: float  # fraction


class NpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of arrays fed by a managed memory."""

    usable_units: float  # fraction
    image_value_flops: float  # FLOP/value
    hops: float  # hop


class KpuConstants(Constants, frozen=True, kw_only=True):
    """Constants of domain-flow fabrics."""

    hops_per_side: float  # hop/tile
    streamed_operands: float  # operand/MAC
    divide_cycles: float  # cycle


PATH = Path(__file__).parent / "efficiency.toml"


class Efficiency(msgspec.Struct, frozen=True):
    """The shares of peak rates that software reaches, for s settings: one, or several that a fit tries.

    `compute`, `bandwidth` and `overhead` are (s, classes); `overhead` is the extra seconds to start a kernel. `nchw`
    (s,) is relative to channels last; `vector_convolution` (s,) is relative to the matrix unit."""

    compute: Floats
    bandwidth: Floats
    nchw: Floats
    vector_convolution: Floats
    overhead: Floats


@lru_cache(maxsize=2)
def usable_cache(is_managed: bool) -> float:
    """Return the share of the last on-chip level that tensors can use, if a compiler manages it or as a cache."""
    return float(file_access.shipped(PATH)["usable_cache"]["managed" if is_managed else "cached"]["value"])


ARITHMETIC = ("mac", "tensor_mac", "flop", "special")


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One kind of event that an architecture spends energy on. `count` is the unit in which it is counted: only events
    by time and static events count time, the others follow from the graph and the mapping. `component` is compute,
    memory (bytes moved) or static (seconds); `family` and `argument` say where the price comes from (event_prices.py).
    """

    category: str
    name: str
    count: str
    component: str
    family: str
    argument: str = ""

    @property
    def label(self) -> str:
        """The unique name of the event within a taxonomy: several categories have a MAC or a read."""
        return f"{self.category}.{self.name}"

    @property
    def is_overhead(self) -> bool:
        """True for everything but arithmetic, data movement and static power."""
        return self.component == "compute" and self.family not in ARITHMETIC

    @property
    def is_static(self) -> bool:
        """True for power that is drawn whatever happens."""
        return self.component == "static"

    @property
    def is_on_chip(self) -> bool:
        """True for events whose energy falls with the voltage of the chip."""
        return self.family != "dram" and not self.is_static

    @property
    def is_by_time(self) -> bool:
        """True for what busy units take in each cycle beside the work that is counted. The argument of such an event is
        what it serves: 'matrix' or 'vector' products, either ('compute'), the last on-chip level ('chip'), or memory
        ('dram'); or it counts the cycles in which cores wait in loops."""
        return self.family in ("by_time", "wait")

    @property
    def is_dynamic(self) -> bool:
        """True for events that are paid for work done, not for time that passes."""
        return not (self.is_static or self.is_by_time)


STATIC = (  # of every architecture
    Event("static", "leakage_and_idle", "s", "static", "static", "logic"),
    Event("static", "memory_background", "s", "static", "static", "memory"),
)


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
    none. `follows` are the facts that it scales with on a what-if device, each with its exponent. It is at least the
    sum of the facts `least`, each times its number."""

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
    least: dict[str, float] = {}

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
    `instructions` is the device's word for them ('' if it fetches none). `prices` says how those of its events are
    known, "measured" or "bottom-up"."""

    delivers: str
    instructions: str = ""
    prices: str = "bottom-up"


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
    inputs: dict[str, Constant] = {}

    def software_for(self, memory_technology: str) -> str:
        """Return the class of software of devices with this memory: the first made for it, else the general one."""
        general = [name for name, software in self.software.items() if not software.memory]
        special = [n for n, s in self.software.items() if s.memory and memory_technology.startswith(s.memory)]
        return (special or general)[0]


def input_constant(name: str) -> Constant:
    """Return a constant of the inputs of measured runs."""
    return convert_record(COMMON, f"inputs.{name}", file_access.shipped(COMMON)["inputs"][name], Constant)


def read(path: Path) -> Data:
    """Read the data file of an architecture. Raises ValueError for a malformed one."""
    shared, own = file_access.shipped(COMMON), file_access.table(path)
    joined = {
        name: {**shared.get(name, {}), **table} if isinstance(table := own.get(name, {}), dict) else table
        for name in {*shared, *own}
    }
    # If both state a fact, the shared file has its meaning and the architecture adds the number.
    joined["facts"] = {name: {**shared["facts"].get(name, {}), **rule} for name, rule in joined["facts"].items()}
    return convert_record(path, "", joined, Data)


UNITS = ("units",)


class ChipLevel(msgspec.Struct, frozen=True, array_like=True):
    """A level of memory on chip: its name, the fact of the bytes of an instance, and the facts whose product is the
    number of instances: UNITS if each unit has one."""

    name: str
    fact: str
    instances: tuple[str, ...] = ()


class ArchitectureFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The facts that devices of an architecture have in common. `id` is its name in device files and on the command
    line; `name` is how texts write it. That of a plug-in names the folder of its `devices`, and its `default_device`.

    `unit` names a unit if a device file does not, and `array` what matrix work is distributed over if that is not a
    unit. `levels` are those of memory on chip, innermost first. `is_managed` says that software decides what the last
    level holds (else it is a cache).

    `execution` is the mode if no runtime is known. `is_host` says that the cores that compute also dispatch, so both
    times add up. `reduction` says how convolutions run with fewer multiplications. `dispatch_event`, `sampling_event`
    and `instruction_event` are labels of events.
    `has_layouts`: the framework chooses the layout. `places_models`: a whole model is laid out at once.
    `splits_batches`: compilers run a batch in parts whose activations stay on chip. `unit_bandwidth` is the fact of the
    bytes that a unit moves in a clock, if that may limit the bandwidth of the memory. `misses` are rates by name:
    (events missed, all events). `count_instruction` returns the events of one instruction, (e,), of loops in which
    units wait."""

    id: str
    name: str
    data_file: Path | None = None
    devices: Path | None = None
    default_device: str = ""
    unit: str
    array: str = ""
    levels: tuple[ChipLevel, ...]
    is_managed: bool
    execution: str
    is_host: bool = False
    reduction: str = (
        "of 3 x 3 run with a quarter of the multiplications (Winograd): figures per FLOP may exceed the peak"
    )
    dispatch_event: str = ""
    sampling_event: str = ""
    instruction_event: str = ""
    has_layouts: bool = False
    places_models: bool = False
    splits_batches: bool = False
    unit_bandwidth: str = ""
    misses: dict[str, tuple[str, str]] = {}
    count_instruction: Callable[["ArchitectureFacts"], Floats] | None = None
    constants_type: type[Constants] = Constants

    @cached_property
    def constants(self) -> Constants:
        """The structural constants, of `constants_type`: an architecture's own code casts them to it."""
        values = {name: constant.value for name, constant in self.data.assumptions.items()}
        return convert_record(self.path, "assumptions", values, self.constants_type)

    @property
    def path(self) -> Path:
        """The data file, by default the one in `architectures`."""
        return self.data_file or Path(__file__).parent / "architectures" / f"{self.id}.toml"

    @cached_property
    def data(self) -> Data:
        """The contents of the data file, which is read at first use."""
        return read(self.path)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events of its taxonomy."""
        return (*self.data.events, *STATIC)

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each event by its label."""
        return {event.label: i for i, event in enumerate(self.events)}

    @cached_property
    def scalar_instruction(self) -> Floats:
        """The events of one scalar instruction, (e,); zeros if units rest while they wait."""
        return self.count_instruction(self) if self.count_instruction else np.zeros(len(self.events))

    @cached_property
    def timed_rows(self) -> list[int]:
        """Rows of the events by time, counted in cycles of units."""
        return [i for i, event in enumerate(self.events) if event.is_by_time]

    @cached_property
    def wait_rows(self) -> list[int]:
        """Rows of the cycles in which units wait in loops: one, or none if units rest while they wait."""
        return [i for i, event in enumerate(self.events) if event.family == "wait"]

    @cached_property
    def event_marks(self) -> tuple[NDArray[np.bool_], ...]:
        """True for events on chip, for those by time and for static ones, (e,) each."""
        marks = [(event.is_on_chip, event.is_by_time, event.is_static) for event in self.events]
        return tuple(np.array(marks).T)

    @cached_property
    def static_rows(self) -> list[int]:
        """Rows of the static events, counted in seconds."""
        return [i for i, event in enumerate(self.events) if event.component == "static"]
