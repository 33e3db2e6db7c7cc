"""Runtimes (hardware/engines/runtimes.toml): how each joins operators into kernels, what the host spends per kernel and
per call, its scheduler, and the libraries of kernels that it uses (libraries.toml), with the rates of their products,
attention and experts."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from hardware.base import file_access, plugins
from hardware.base.errors import hint
from hardware.base.file_access import convert_record, read_list, read_records, read_rows
from hardware.base.records import SourcedValue, exact_value, memoize

if TYPE_CHECKING:
    from hardware.architecture_facts import Tiles

LIBRARIES = Path(__file__).with_name("libraries.toml")


class AttentionLibrary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels of fused attention. Zero stands for the constant of the architecture.

    A block has at most `rows` of queries, padded to multiples of `instruction_rows`, and reads `columns` keys at once;
    `blocks_per_unit` decode beside each other and start in `start_cycles`. Keys are divided among at most `parts`
    blocks. Products run at `rate` of the matrix unit. A library that `packs` puts query heads that share keys into one
    block, in prefill too (decoding does, unless it is False). With `paged_blocks`, decoding reads shared keys once per
    query head, at a `paged_share` of the speed for more heads of sequences."""

    source: str
    base: str = ""
    rows: float = 0.0
    instruction_rows: float = 0.0
    columns: float = 0.0
    blocks_per_unit: float = 0.0
    start_cycles: float = 0.0
    parts: float = float("inf")
    rate: float = 1.0
    packs: bool | None = None
    paged_blocks: float = 0.0
    paged_share: float = 1.0


class ExpertLibrary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Kernels of experts, with `tiles` (rows, columns) of the products of all experts in one kernel.

    Products reach `rate` of the peak; an operand, which a tile shares, takes `operand_cycles`, by default those of the
    generation's instruction. A step of `k_step_bytes` of K waits `step_cycles` for memory; operands reach a unit at
    `feed` bytes/clock (0: no limit). One that `is_fused` routes tokens and unpacks weights within its products; others
    `copies` rows in the order of experts, in blocks of `pads` rows (with `reads_all` for experts without tokens too),
    or read them by index. `adds_all` is what the sum over the experts of a token takes for rows of other devices, over
    reading them; with `writes_all` these are also written as zeros and activated. Widths of a device's experts are
    padded to multiples of `widens`. Products are made of an `instruction` that not all generations have, "wgmma" or
    "tcgen05"; '' is mma.sync, which all have."""

    source: str
    quality: str = "fitted"
    base: str = ""
    tiles: tuple[tuple[float, float], ...] = ()
    operand_cycles: float = 0.0
    k_step_bytes: float = 128.0
    step_cycles: float
    feed: float = 0.0
    rate: float = 1.0
    is_fused: bool = False
    copies: bool = False
    pads: float = 0.0
    reads_all: bool = False
    adds_all: float = 0.0
    writes_all: bool = False
    widens: float = 1.0
    instruction: str = ""

    @memoize(keep=64)
    def menu(self, generation: str, macs_per_clock: float, peak: float, room: float) -> Tiles:
        """Return the tiles that fit in a `room` of bytes, or the last, for so many multiply-adds in 16 bits, of which
        the library's instructions reach a share `peak`, with K undivided."""
        from hardware.architecture_facts import Tiles  # needs numpy, which names of runtimes do without

        usual = file_access.shipped(LIBRARIES)["instructions"][generation]["operand_cycles"]
        macs = macs_per_clock * (self.operand_cycles or usual)
        fitting = [size for size in self.tiles if sum(size) * self.k_step_bytes <= room] or self.tiles[-1:]
        sizes = tuple((m, n, 1.0 / (1.0 / (self.rate * peak) + macs * (1.0 / m + 1.0 / n))) for m, n in fitting)
        return Tiles(sizes=sizes, splits=(1,), k_step_bytes=self.k_step_bytes, source=self.source, quality=self.quality)


class ProductLibrary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels of matrix products and convolutions. Tables are by class of software of the device.

    Warps wait for each matrix instruction with `synchronous_operands`; fp16 products are summed in fp16 with
    `narrow_sums`. `is_untuned`: rules choose a kernel, no timing. `has_winograd` on CPUs. If it `packs_images`, a
    kernel writes the channels of an image, fp32 in NCHW, in groups that tensor cores load. Products reach at most
    `largest_peak_share` of the peak, and have at most `bytes_in_flight` on their way per unit and clock. Of packed
    weights: lanes execute `scaling_ops` for each block of K and result of 8-bit products, `unpack_rows` rows share
    one unpacking, and lanes that unpack execute `unpack_ops_factor` times the operations of the format. Rows of
    each expert are in blocks of `expert_block_rows`. It, `scaling_ops` and `unpack_ops_factor` are by architecture."""

    source: str
    base: str = ""
    synchronous_operands: tuple[str, ...] = ()
    narrow_sums: bool = False
    is_untuned: bool = False
    has_winograd: bool = False
    packs_images: bool = False
    largest_peak_share: dict[str, SourcedValue] = {}
    bytes_in_flight: dict[str, SourcedValue] = {}
    scaling_ops: dict[str, SourcedValue] = {}
    expert_block_rows: dict[str, float] = {}
    unpack_rows: dict[str, SourcedValue] = {}
    unpack_ops_factor: dict[str, SourcedValue] = {}


class KernelUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The library that an engine uses for some calls: the first use that fits a call holds.

    `operator`: attention_prefill, attention_decode, attention_encoder, mla_prefill, mla_decode (latent attention) or
    moe. `generation` of the device; `formats` of the cache, or of weights and activations, by their first words;
    `widths` of a head; `groups`: least and most query heads that share keys; `divided` among devices. `kernel`,
    `version` and `windowed` tell apart kernels that tables name. `before`: each kernel before attention reads and
    writes new queries, keys or values ("q", "k", "v"), nothing (""), all that is cached ("c", with `cast_flops` a
    value), or all queries, keys and values in 16 bits to write them in 8 ("x")."""

    operator: tuple[str, ...]
    library: str
    generation: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()
    groups: tuple[float, float] | None = None
    divided: bool | None = None
    kernel: tuple[str, ...] = ()
    version: str = ""
    windowed: bool | None = None
    before: tuple[str, ...] = ()
    cast_flops: float = 0.0
    source: str = ""

    def fits(self, call: KernelCall) -> bool:
        """Return True if the use holds for a call. A call that names no kernel takes the engine's usual one."""
        form = f"{call.formats} "
        return (
            call.operator in self.operator
            and (not self.generation or call.generation in self.generation)
            and (not self.formats or any(form.startswith(f"{name} ") for name in self.formats))
            and (not self.widths or call.width in self.widths)
            and (self.groups is None or self.groups[0] <= call.group <= self.groups[1])
            and self.divided in (None, call.divided)
            and (not self.kernel or not call.kernel or any(part in call.kernel for part in self.kernel))
            and self.version in call.version
            and self.windowed in (None, call.windowed)
        )


class KernelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of an engine, for which a KernelUse gives the library; the fields are those of KernelUse."""

    operator: str
    generation: str = ""
    formats: str = ""
    width: float = 0.0
    group: float = 1.0
    divided: bool = False
    kernel: str = ""
    version: str = ""
    windowed: bool = False


_NO_USE = KernelUse(operator=(), library="default")


# Functions that return all libraries of a kind by name.
attention_libraries = lru_cache(partial(read_records, LIBRARIES, "attention", AttentionLibrary))
product_libraries = lru_cache(partial(read_records, LIBRARIES, "products", ProductLibrary))
expert_libraries = lru_cache(partial(read_records, LIBRARIES, "experts", ExpertLibrary))


class EngineKernels(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The libraries that an engine `uses` on a generation of devices, with formats of the cache and of products."""

    uses: tuple[KernelUse, ...]
    generation: str
    cache: str
    products: str
    version: str = ""

    @memoize(keep=64)
    def attention(self, operator: str, width: float, group: float) -> AttentionLibrary:
        """Return the library of attention with heads of a `width`, of which a `group` shares keys."""
        call = KernelCall(operator=operator, generation=self.generation, formats=self.cache, width=width, group=group)
        return attention_libraries()[find_use(self.uses, call).library]

    @memoize()
    def experts(self, is_divided: bool) -> ExpertLibrary:
        """Return the library of experts, which are divided among devices or not. Where a generation lacks its
        instruction, experts are multiplied by Triton's kernel, which is compiled for mma.sync too."""
        call = KernelCall(operator="moe", generation=self.generation, formats=self.products, divided=is_divided)
        call = msgspec.structs.replace(call, version=self.version)
        library = expert_libraries()[find_use(self.uses, call).library]
        return expert_libraries()["triton"] if library.instruction and self.generation == "ampere" else library


def find_use(uses: tuple[KernelUse, ...], call: KernelCall) -> KernelUse:
    """Return the first use that fits a call; without one, that of the default library, or of the one that unpacks
    weights."""
    if use := next((use for use in uses if use.fits(call)), None):
        return use
    weights, _, activations = call.formats.partition(" ")
    is_packed = call.operator == "moe" and activations == "bf16" != weights
    return msgspec.structs.replace(_NO_USE, library="marlin") if is_packed else _NO_USE


PATH = Path(__file__).with_name("runtimes.toml")
MODES = ("eager", "compiled", "fused")
AUTO, LIKE_FOR_LIKE = "auto", "like_for_like"  # the latter: one compiler for all devices, of which no host waits
UNKNOWN = "unknown"  # an engine that is not recorded: it runs as such a compiler does, and nothing like it was measured
LAYOUTS = ("nchw", "channels_last")
WORK = ("vision", "encoder", "language", "solver", "training")  # solvers are libraries that factorise matrices


class Chip(Protocol):
    """The facts of a device by which rules and runtimes fit it."""

    @property
    def software_class(self) -> str:
        """The class of its software."""

    @property
    def vendor(self) -> str:
        """The name of its maker."""

    @property
    def memory_technology(self) -> str:
        """The technology of its memory."""

    @property
    def peaks(self) -> dict[tuple[str, str], float]:
        """The peaks by unit and format, FLOP/s."""


class FormatRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The formats that a set of `kernels` runs if a format is `asked`: the first of `runs` that the device multiplies.

    `operators` are kinds of work; `on` are classes of software, all if empty. Matrix units multiply each format of
    `matrix_has` and none of `matrix_lacks`. Weights that stay wide are stored in `wide_format`. The rules are rows of
    runtimes.toml."""

    kernels: str
    asked: tuple[str, ...]
    runs: tuple[str, ...]
    why: str
    source: str
    operators: tuple[str, ...] = ("convolution", "contraction")
    on: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    matrix_has: tuple[str, ...] = ()
    matrix_lacks: tuple[str, ...] = ()
    keeps_weights: bool = False
    wide_format: str = ""

    def fits(self, device: Chip) -> bool:
        """Return True if the rule holds on the device."""
        multiplied = {form for unit, form in device.peaks if unit == "matrix"}
        return (
            (not self.on or device.software_class in self.on)
            and (not self.vendors or device.vendor in self.vendors)
            and multiplied.issuperset(self.matrix_has)
            and multiplied.isdisjoint(self.matrix_lacks)
        )


# Returns the table of formats by runtime and kind of operator.
format_rules = lru_cache(partial(read_list, PATH, "formats", FormatRule))


class Joining(StrEnum):
    """A way in which a runtime joins operators into kernels; analysis/estimate/kernels.py follows it."""

    EAGER = "eager"  # each operator is a kernel, but a bias is joined with its contraction
    COMPILED = "compiled"  # a contraction is a kernel, and the operators after it are another
    FUSED = "fused"  # each subgraph is a kernel
    BIAS_APART = "apart"  # as eager, and the bias of a convolution is a kernel
    SMOOTH_SPLIT = "split"  # as eager, and activations such as SiLU are several kernels
    MODULES = "modules"  # as eager, and norms of root mean squares, rotations and growing caches are Python's operators
    AWAITED = "awaited"  # as modules, and the host waits for the device in the attention of GPT-NeoX
    SMOOTH_APART = "clamped"  # as fused, but activations such as SiLU are kernels of their own
    SERVED = "served"  # as compiled, and products of one input are joined


_MODE_OF = {
    Joining.BIAS_APART: "eager", Joining.SMOOTH_SPLIT: "eager", Joining.MODULES: "eager", Joining.AWAITED: "eager",
    Joining.SMOOTH_APART: "fused", Joining.SERVED: "fused",
}  # fmt: skip


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One runtime: a row of runtimes.toml. Tables are by class of software of the device."""

    id: str = ""
    base: str = ""  # the runtime whose fields it has where it states none
    name: str
    mode: str  # how operators join into kernels, one of MODES
    # What it runs on: classes of software, vendors, technologies of memory by their beginning, and kinds of work.
    runs_on: tuple[str, ...]
    vendors: tuple[str, ...] = ()
    not_vendors: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    work: tuple[str, ...] = WORK[:3]

    # The host. `dispatch` and `launch` multiply the device's facts of these names, for some classes `dispatch_on` and
    # `launch_on`; the first is at least `least_dispatch_s`.
    dispatch: SourcedValue = exact_value(1.0)
    dispatch_on: dict[str, SourcedValue] = {}
    least_dispatch_s: SourcedValue = exact_value(0.0)
    launch: SourcedValue = exact_value(1.0)
    launch_on: dict[str, SourcedValue] = {}
    early_launch: SourcedValue = exact_value(1.0)  # multiplies it where kernels may start early, from Hopper on
    prompt_dispatch: SourcedValue = exact_value(0.0)  # multiplies the dispatch of prompts if graphs hold decoding alone
    interpreted_dispatch: SourcedValue = exact_value(1.0)  # multiplies that of latent attention and experts
    governed_below_s: float = 0.0  # calls one by one that take less leave gaps, in which a governor lowers clocks
    governed_clock_hz: float = 1.0  # the clock to which it goes
    governed_transfer_rate: float = 0.0  # of memory, transfer/s
    dispatches_ahead: bool = False  # dispatches all kernels of a call ahead of the device, not each during the last
    divides_equally: bool = False  # loops are divided equally among all cores, however fast each is
    call_s: SourcedValue = exact_value(0.0)  # wait of the device in each call
    starts_calls: bool = True  # False where the work of the host is taken out of an estimate
    sequence_s: SourcedValue = exact_value(0.0)  # more wait for each sequence

    # Products and memory, by class of software, and where they differ: `gpu_packed` for packed weights, `gpu_int8` for
    # weights of a format, `gpu_vector` on vector units, `gpu_narrow` for values narrower than 32 bits.
    products: str = "default"  # the library of products
    compute: dict[str, dict[str, SourcedValue]] = {}  # multiplies the efficiency of products by operator class
    bandwidth: dict[str, dict[str, SourcedValue]] = {}  # multiplies that of kernels by operator class
    streaming: dict[str, SourcedValue] = {}  # the share of the bandwidth at which weights and cache are read
    formats: tuple[str, ...] = ()  # the sets of kernels whose rules say which formats run
    activations: dict[str, str] = {}  # the format between narrower products
    casts_weights: bool = False  # keeps fp32 weights and casts them in each call
    micro_batch: dict[str, SourcedValue] = {}  # rows of a prompt for which 16-bit kernels unpack weights once
    resident: str = ""  # weights stay on chip between calls: if all fit ('whole'), else a 'part' of them

    # Kernels. Engines of language models join products of one input and leave library kernels alone.
    is_llm_engine: bool = False
    scheduler: str = "other"  # that of its server
    joined_as: dict[str, Joining] = {}  # by class of software, in the mode that allows it
    plain_attention: bool = False  # stores all scores between the products of attention
    asynchronous: bool = False  # attention does not wait for matrix instructions (FlashAttention-3, cuDNN)
    attention_kernels: SourcedValue = exact_value(1.0)  # kernels of one attention
    uses: tuple[KernelUse, ...] = ()  # the libraries of its attention and experts
    version: str = ""  # in the versions of its uses
    library_collectives: bool = False  # NCCL instead of own kernels
    collective_s: SourcedValue = exact_value(0.0)  # the start of each collective

    def joins(self, device: Chip) -> Joining:
        """Return how operators are joined into kernels on the device."""
        joined = Joining.SERVED if self.is_llm_engine else self.joined_as.get(device.software_class)
        return joined if joined is not None and _MODE_OF[joined] == self.mode else Joining(self.mode)

    @property
    def product_library(self) -> ProductLibrary:
        """The library of its products."""
        return product_libraries()[self.products]

    def fits(self, device: Chip, work: str) -> bool:
        """Return True if the runtime runs this kind of work on the device."""
        return (
            device.software_class in self.runs_on
            and (not self.vendors or device.vendor in self.vendors)
            and device.vendor not in self.not_vendors
            and (not self.memory or device.memory_technology.startswith(self.memory))
            and work in self.work
        )


@lru_cache(maxsize=1)
def runtimes() -> plugins.Records[Runtime]:
    """Return all runtimes by id: those of runtimes.toml, and those in the TOML files that plug-ins name."""
    built_in = _make_records(PATH, read_rows(PATH, "runtimes"))
    return plugins.Records("runtimes", built_in, built_in.__getitem__, _read_plugged)


def _read_plugged(name: str, file: str | Path) -> Runtime:
    rows = read_rows(Path(file), "runtimes", before=read_rows(PATH, "runtimes"))
    return _make_records(Path(file), {name: rows[name]})[name]


def _make_records(path: Path, rows: dict[str, dict[str, Any]]) -> dict[str, Runtime]:
    none = msgspec.structs.asdict(exact_value(0.0))  # a whole program is started at once
    dispatch = {key: {"dispatch": none} if row["mode"] == "fused" else {} for key, row in rows.items()}
    rows = {key: {"id": key, **dispatch[key], **row} for key, row in rows.items()}
    records = {key: convert_record(path, f"runtimes.{key}", row, Runtime) for key, row in rows.items()}
    known = {
        "scheduler": file_access.shipped(PATH)["schedulers"],
        "formats": {rule.kernels for rule in format_rules()},
        "products": product_libraries(),
    }
    for (key, record), (field, names) in product(records.items(), known.items()):
        stated = getattr(record, field)
        for name in (stated,) if isinstance(stated, str) else stated:
            if name not in names:
                raise ValueError(f"{path.name}: runtimes.{key}.{field}: unknown name {name!r} ({hint(name, names)})")
    return records


def format_rule(device: Chip, kernels: tuple[str, ...], asked: str, operator: str) -> FormatRule | None:
    """Return the first rule of sets of kernels for a format, or None if they run what the device has."""
    return next(
        (
            rule
            for rule in format_rules()
            if rule.kernels in kernels and asked in rule.asked and operator in rule.operators and rule.fits(device)
        ),
        None,
    )


def common_runtimes() -> tuple[str, ...]:
    """Return the runtimes that help lists, of all that can be asked for."""
    return tuple(file_access.shipped(PATH)["common"])


@lru_cache(maxsize=1)
def runtime_names() -> plugins.Names:
    """Return the names that can be asked for: 'auto', a mode, an unknown engine, or a runtime."""
    return plugins.Names("runtimes", (AUTO, *MODES, UNKNOWN, *runtimes().built_in))


class Scheduler(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values by which a scheduler forms steps; runtimes.toml explains them."""

    base: str = ""
    version: str
    source: str
    max_sequences: int
    max_tokens: int
    mixes: bool
    reserves: bool
    divides_tokens: bool = False
    finds_evicted: bool
    forms_ahead: bool = False
    activations_apart: bool = False
    memory_share: float
    request_s: SourcedValue
    prompt_token_s: SourcedValue
    intake_s: SourcedValue
    chunk_s: SourcedValue
    large: dict[str, dict[str, Any]] = {}

    def of_copies(self, copies: int) -> Scheduler:
        """Return the scheduler of all devices that compute attention, each for its sequences."""
        most = self.max_sequences * copies
        return msgspec.structs.replace(self, max_sequences=most, max_tokens=self.max_tokens * copies)


schedulers = lru_cache(partial(read_records, PATH, "schedulers", Scheduler))  # returns all by name


def find_scheduler(name: str, memory_bytes: float) -> Scheduler:
    """Return a scheduler on a device with this much memory."""
    found = schedulers()[name]
    larger = [values for gib, values in found.large.items() if memory_bytes >= int(gib) * 2**30]
    return msgspec.structs.replace(found, **larger[-1]) if larger else found
