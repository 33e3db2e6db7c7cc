"""Libraries of kernels: how fast products, attention and experts run in each, and which of them an engine uses."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hardware.base.file_access import read_records
from hardware.base.records import memoize
from hardware.published_prices import SourcedValue

if TYPE_CHECKING:
    from hardware.architecture_facts import Tiles

PATH = Path(__file__).with_name("libraries.toml")


class AttentionLibrary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels of fused attention. Zero stands for the constant of the architecture.

    A block has at most `rows` of queries, padded to multiples of `instruction_rows`, and reads `columns` keys at once;
    `blocks_per_unit` decode beside each other and start in `start_cycles`. Keys are divided among at most `parts`
    blocks. Products run at `rate` of the matrix unit, in the format `computes` if stated. A library that `packs` puts
    query heads that share keys into one block, in prefill too (decoding does, unless it is False). With `paged_blocks`,
    decoding reads shared keys once per query head, at a `paged_share` of the speed for more heads of sequences."""

    source: str
    base: str = ""
    rows: float = 0.0
    instruction_rows: float = 0.0
    columns: float = 0.0
    blocks_per_unit: float = 0.0
    start_cycles: float = 0.0
    parts: float = float("inf")
    rate: float = 1.0
    is_synchronous: bool = False
    computes: str = ""
    packs: bool | None = None
    paged_blocks: float = 0.0
    paged_share: float = 1.0


class ExpertLibrary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Kernels of experts: `tiles` (rows, columns, relative rate) of the products of all experts in one kernel.

    A step of `k_step_bytes` of K waits `step_cycles` for memory; operands reach a unit at `feed` bytes/clock (0: no
    limit). One that `is_fused` routes tokens and unpacks weights within its products; others `copies` rows in the order
    of experts, in blocks of `pads` rows, or read them by index. `adds_all` is what the sum over the experts of a token
    takes for rows of other devices, over reading them; with `writes_all` these are also written as zeros and activated.
    Widths of a device's experts are padded to multiples of `widens`. Rates of tiles were found on units that do
    `macs_per_clock` in 16 bits: on others, what is not multiplied takes as many cycles."""

    source: str
    quality: str = "fitted"
    base: str = ""
    tiles: tuple[tuple[float, float, float], ...] = ()
    vendor: str = "NVIDIA"
    k_step_bytes: float = 128.0
    step_cycles: float
    feed: float = 0.0
    rate: float = 1.0
    is_fused: bool = False
    copies: bool = False
    pads: float = 0.0
    adds_all: float = 0.0
    writes_all: bool = False
    widens: float = 1.0
    macs_per_clock: float = 0.0

    @memoize()
    def menu(self, macs_per_clock: float) -> Tiles:
        """Return the tiles for units that do so many multiply-adds in 16 bits, with K undivided."""
        from hardware.architecture_facts import Tiles  # needs numpy, which names of runtimes do without

        faster = macs_per_clock / (self.macs_per_clock or macs_per_clock)
        sizes = tuple((m, n, 1.0 / (1.0 + faster * (1.0 / rate - 1.0))) for m, n, rate in self.tiles)
        return Tiles(sizes=sizes, splits=(1,), k_step_bytes=self.k_step_bytes, source=self.source, quality=self.quality)


class ProductLibrary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels of matrix products and convolutions. Tables are by class of software of the device.

    Warps wait for each matrix instruction with `synchronous_operands`; fp16 products are summed in fp16 with
    `narrow_sums`. `is_untuned`: rules choose a kernel, no timing. `has_winograd` on CPUs. If it `packs_images`, a
    kernel writes the channels of an image, fp32 in NCHW, in groups that tensor cores load. Products reach at most
    `largest_peak_share` of the peak, and have at most `bytes_in_flight` on their way per unit and clock. Of packed
    weights: lanes execute `scaling_ops` for each block of K and value of the result, `unpack_rows` of activations share
    one unpacking, and lanes that unpack execute `unpack_ops_factor` times the operations of the format."""

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
    unpack_rows: dict[str, SourcedValue] = {}
    unpack_ops_factor: dict[str, SourcedValue] = {}


class KernelUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The library that an engine uses for some calls: the first use that fits a call holds.

    `operator`: attention_prefill, attention_decode, attention_encoder, mla_prefill, mla_decode (latent attention) or
    moe. `generation` of the device; `formats` of the cache, or of weights and activations, by their first words;
    `widths` of a head; `groups`: least and most query heads that share keys; `divided` among devices. `kernel`,
    `version` and `windowed` tell apart kernels that tables name. `before`: each kernel before attention reads and
    writes new queries, keys or values ("q", "k", "v"), nothing (""), all that is cached ("c", with `cast_flops` a
    value), or all queries, keys and values in 16 bits to write them in 8 ("x"). `factors` multiply fields of the
    library."""

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
    factors: tuple[tuple[str, float], ...] = ()
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


Library = TypeVar("Library", AttentionLibrary, ExpertLibrary)
_NO_USE = KernelUse(operator=(), library="default")


# Functions that return all libraries of a kind by name.
attention_libraries = lru_cache(partial(read_records, PATH, "attention", AttentionLibrary))
product_libraries = lru_cache(partial(read_records, PATH, "products", ProductLibrary))
expert_libraries = lru_cache(partial(read_records, PATH, "experts", ExpertLibrary))


class EngineKernels(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The libraries that an engine `uses` on a generation of devices, with formats of the cache and of products."""

    uses: tuple[KernelUse, ...]
    generation: str
    cache: str
    products: str

    @memoize(keep=64)
    def attention(self, operator: str, width: float, group: float) -> AttentionLibrary:
        """Return the library of attention with heads of a `width`, of which a `group` shares keys."""
        call = KernelCall(operator=operator, generation=self.generation, formats=self.cache, width=width, group=group)
        return _scale(attention_libraries(), find_use(self.uses, call))

    @memoize()
    def experts(self, is_divided: bool) -> ExpertLibrary:
        """Return the library of experts, which are divided among devices or not."""
        call = KernelCall(operator="moe", generation=self.generation, formats=self.products, divided=is_divided)
        return _scale(expert_libraries(), find_use(self.uses, call))


def _scale(libraries: dict[str, Library], use: KernelUse) -> Library:
    library = libraries[use.library]
    return msgspec.structs.replace(library, **{name: getattr(library, name) * times for name, times in use.factors})


def find_use(uses: tuple[KernelUse, ...], call: KernelCall) -> KernelUse:
    """Return the first use that fits a call; without one, that of the default library, or of the one that unpacks
    weights."""
    if use := next((use for use in uses if use.fits(call)), None):
        return use
    weights, _, activations = call.formats.partition(" ")
    is_packed = call.operator == "moe" and activations == "bf16" != weights
    return msgspec.structs.replace(_NO_USE, library="packed") if is_packed else _NO_USE
