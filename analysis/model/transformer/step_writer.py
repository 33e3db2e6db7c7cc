"""A step of a transformer with its sizes on one device, and the writer of its graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.model.ir.lengths import cached_dim
from analysis.model.ir.poly import Poly, dim
from analysis.model.transformer.config import Config, StepSettings
from analysis.model.transformer.graph_writer import Tensor, Writer


@dataclass(frozen=True, slots=True)
class StepWriter:
    """A model being written: widths are those of one of `tp` devices, experts those of one of `ep`; where that is all,
    sequences too."""

    config: Config
    run: StepSettings
    w: Writer
    batch: Poly
    sequence: Poly
    kv: Poly
    phase: str = ""
    room: Poly = field(default_factory=Poly)  # tokens that the cache of a request has room for

    @property
    def heads(self) -> int:
        """Query heads of one device."""
        return self.config.heads // self.run.tp

    @property
    def kv_heads(self) -> int:
        """Key and value heads of one device."""
        return max(1, self.config.kv_heads // self.run.tp)

    @property
    def cached_width(self) -> int:
        """Elements that a layer on one device keeps of each token."""
        c = self.config
        return c.kv_lora + c.rotary if c.kv_lora else self.kv_heads * (c.head_dim + c.value_dim)

    @property
    def rows(self) -> tuple[Poly, Poly]:
        """The dimensions before the width: batch and sequence."""
        return self.batch, self.sequence

    def cached(self, layer: int) -> Poly:
        """Earlier tokens that a step reads from the cache."""
        window = self.config.window_of(layer)
        return dim(cached_dim(window, self.phase)) if window else self.kv

    def part(self, width: int) -> int:
        """Return one device's share of a width, rounded up."""
        return -(-width // self.run.tp)

    def all_reduce(self, name: str, x: Tensor) -> Tensor:
        """Write the sum over devices of what each has computed of x; return x itself on one device."""
        if self.run.tp == 1:
            return x
        with self.w.module(name, "AllReduce"):
            return self.w.call("hwexplorer.all_reduce.default", x.shape, input=x)

    def exchange_tokens(self, name: str, x: Tensor) -> Tensor:
        """Write the exchange of tokens between the devices of the experts; return x itself if each device has all
        tokens."""
        if not self.run.spreads_sequences:
            return x
        with self.w.module(name, "AllToAll"):
            return self.w.call("hwexplorer.all_to_all.default", x.shape, input=x)
