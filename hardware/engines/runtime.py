"""Runtimes: how each joins operators into kernels, and what the host spends per kernel and per call."""

from enum import StrEnum
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hardware.base import file_access, plugins
from hardware.base.errors import hint
from hardware.base.file_access import convert_record, read_list, read_rows
from hardware.kernels.library import KernelUse, ProductLibrary, product_libraries
from hardware.published_prices import SourcedValue, exact_value

PATH = Path(__file__).with_name("runtimes.toml")
MODES = ("eager", "compiled", "fused")
AUTO, LIKE_FOR_LIKE = "auto", "fused"  # like for like: every device with its ahead-of-time compiler
LAYOUTS = ("nchw", "channels_last")
WORK = ("vision", "encoder", "language", "solver")  # the last is run by libraries that factorise matrices alone


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
    work: tuple[str, ...] = WORK[:-1]

    # The host. `dispatch` and `launch` multiply the device's facts of these names, `dispatch_on` for some classes.
    dispatch: SourcedValue = exact_value(1.0)
    dispatch_on: dict[str, SourcedValue] = {}
    launch: SourcedValue = exact_value(1.0)
    prompt_dispatch: SourcedValue = exact_value(0.0)  # multiplies the dispatch of prompts if graphs hold decoding alone
    interpreted_dispatch: SourcedValue = exact_value(1.0)  # multiplies that of latent attention and experts
    dispatches_ahead: bool = False  # dispatches all kernels of a call ahead of the device, not each during the last
    divides_equally: bool = False  # loops are divided equally among all cores, however fast each is
    call_s: SourcedValue = exact_value(0.0)  # wait of the device in each call
    starts_calls: bool = True  # False where the work of the host is taken out of an estimate
    sequence_s: SourcedValue = exact_value(0.0)  # more wait for each sequence

    # Products and memory, by class of software, and for a kind of work where it differs: `gpu_packed` for packed
    # weights, `gpu_vector` on vector units, `gpu_narrow` for values narrower than 32 bits.
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


@lru_cache(maxsize=1)
def common_runtimes() -> tuple[str, ...]:
    """Return the runtimes that help lists, of all that can be asked for."""
    return tuple(file_access.shipped(PATH)["common"])


def runtime_names() -> plugins.Names:
    """Return the names that can be asked for: 'auto', a mode, or a runtime."""
    return plugins.Names("runtimes", (AUTO, *MODES, *runtimes().built_in))
