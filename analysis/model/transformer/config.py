"""The configuration of a transformer, and its layers that keep a state of constant size (`mixers.toml`)."""

from fractions import Fraction
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

import msgspec

from analysis.model.model_errors import ModelSpecError
from hardware.base import file_access

Terms = dict[str, int]  # a width as a sum: name of a size -> how often it counts


class MixerKind(msgspec.Struct, frozen=True):
    """A kind of recurrent layer: a row of `mixers.toml`, which describes the fields."""

    project: Terms
    convolve: Terms = {}
    low_rank: list[tuple[Terms, Terms]] = []
    vectors: Terms = {}
    norm: Terms = {}
    products: int = 0
    scan: tuple[int, int] = (0, 0)
    chunk: int = 0
    chunk_keys: int = 0
    chunk_values: int = 0


@cache
def kinds() -> dict[str, MixerKind]:
    """Return the kinds of recurrent layers by name."""
    path = Path(__file__).with_name("mixers.toml")
    return {
        name: file_access.convert_record(path, name, row, MixerKind) for name, row in file_access.shipped(path).items()
    }


class Mixer(msgspec.Struct, frozen=True, kw_only=True):
    """A recurrent layer. Each of `heads` has a state of `keys` x `values` numbers; heads of one of `groups` share keys.
    The short convolution spans `conv` tokens."""

    kind: MixerKind
    hidden: int
    heads: int
    groups: int
    keys: int
    values: int
    rank: int
    conv: int

    def width(self, terms: Terms) -> int:
        """Return a width of the table in elements."""
        inner = self.heads * self.values
        sizes = {
            "hidden": self.hidden, "inner": inner, "key_width": self.groups * self.keys, "heads": self.heads,
            "values": self.values, "rank": self.rank, "states": inner * self.keys,
        }  # fmt: skip
        return sum(count * sizes[name] for name, count in terms.items())

    @property
    def inner(self) -> int:
        """Elements of the values of all heads."""
        return self.heads * self.values

    def state_macs(self, is_chunked: bool) -> Fraction:
        """Return the MACs of a token with the state and, if `is_chunked`, with the earlier tokens of its chunk."""
        kind = self.kind
        beside = kind.chunk_keys * self.groups * self.keys + kind.chunk_values * self.inner
        in_chunk = Fraction(kind.chunk + 1, 2) * beside if is_chunked else 0
        return Fraction(kind.products * self.inner * self.keys) + in_chunk


FAMILIES = Path(__file__).with_name("transformers.toml")
MAX_SIZE = 1 << 24
MAX_LAYERS = 1024

CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("rms", "layer", "scaled_layer", "bare"),
    "activation": ("silu", "gelu", "gelu_new", "gelu_tanh", "relu", "xielu"),
    "position": ("rotary", "learned", "none"),
    "qk_norm": ("none", "head", "full", "key"),
    "expert_norm": ("none", "after", "each", "latent"),
    "mixer": ("none", *kinds()),
    "residual": ("sum", "scaled", "sinkhorn", "independent", "altup", "depth"),
}
# The parts of a layer by letter of `pattern`.
LETTERS = {
    "a": "attention ffn",
    "r": "mixer ffn",
    "p": "attention mixer ffn",
    "A": "attention",
    "R": "mixer",
    "M": "ffn",
    "n": "",
}


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder (or, with `encoder`, an encoder) as a stack of equal layers.

    Defaults for 0: `embed` = hidden, `kv_heads` = heads, `head_dim` = hidden / heads, `value_dim` = head_dim,
    `expert_ffn` = ffn, `rotary` = head_dim. Every `sparse_every`-th layer after the first `dense_layers` has `experts`;
    all its tokens also pass `shared_ffn`. `window` limits attention in all layers but every `full_every`-th. `kv_lora`:
    latent attention, which caches one vector of this width plus `rotary` per token; queries pass a bottleneck of width
    `q_lora`. `parallel`: attention and FFN read the same input (with `shared_norm` through the same norm). `post_norm`:
    norms follow each residual add (BERT); `sandwich_norm`: before and after each part. `sinks`: a learned score per
    head. `pattern`: a letter per layer, cyclically: attention (a), a recurrent `mixer` (r) or both in parallel (p),
    each followed by an FFN; A, R, M, n: attention, mixer, FFN alone, nothing. `state_*`: sizes of the mixer (`Mixer`),
    whose state is kept in fp32 with `state_fp32`, else in the type of activations. `router_fp32`: so are weights and
    products of routers. `per_layer`: fields that differ by layer, with their values, cyclically. Only `sparse` layers
    have experts. `idle_experts` take part in the choice and compute nothing. Experts work on `expert_hidden` values
    between two projections. `expert_norm`: a norm after the experts, or norms around them and after the FFN beside
    them. `head_gate`, `shared_gate`: a learned factor for each head, for the shared expert. `keys_are_values`: no
    projection of values. `reuses_cache`: the layer attends to the cache of an earlier layer with the same window.
    `index_heads` of width `index_dim` score all tokens, of which attention sees the best `index_topk`. `layer_input`:
    width of a second embedding, of `layer_vocab` rows, that each layer adds through a gate. `sub_norm`: norms before
    the last projections of attention and FFN. Norms: `scaled_layer` has no bias, `bare` no weights. `qk_norm` "key":
    only that of keys has. `shared_kv`: one projection is key and value, and cached once. `compress`: beyond its window,
    so many tokens share a key, a weighted sum, of which an indexer may choose `index_topk`. `index_weights`: the
    indexer weighs its heads. `labels`: outputs of a head that classifies. `out_groups`: groups of heads have
    projections to `out_lora` values each, before that of all. `residual`: layers add to one vector, with learned scales
    and shifts if `scaled`, or mix `streams` of them; `depth`: each part reads a weighted sum of the results of earlier
    blocks of `block_layers`. `laurel`: rank of a projection beside attention. `head_conv`, `head_mix`: tokens that
    convolutions of queries and keys span, in each channel and in each head. `router_hidden`: width of a router of
    several layers. `wide`: parts of all layers or of one whose weights have another role in checkpoints than QUANTIZED
    of hardware/precision.py.
    """

    hidden: int
    layers: int
    heads: int
    ffn: int
    vocab: int
    embed: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    value_dim: int = 0
    kv_lora: int = 0
    q_lora: int = 0
    experts: int = 0
    active: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0
    sparse_every: int = 1
    gated: bool = True
    tied: bool = False
    norm: str = "rms"
    activation: str = "silu"
    position: str = "rotary"
    positions: int = 0
    rotary: int = 0
    token_types: int = 0
    qk_norm: str = "none"
    parallel: bool = False
    shared_norm: bool = False
    post_norm: bool = False
    sandwich_norm: bool = False
    embed_norm: bool = False
    sinks: bool = False
    router_bias: bool = False
    router_fp32: bool = False
    fused_qkv: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    scale_embedding: bool = False
    pooler: bool = False
    encoder: bool = False
    window: int = 0
    full_every: int = 0
    attention_gate: bool = False
    mixer: str = "none"
    pattern: str = "a"
    state_heads: int = 0
    state_groups: int = 0
    state_keys: int = 0
    state_values: int = 1
    state_rank: int = 0
    state_conv: int = 4
    state_fp32: bool = False
    sparse: bool = True
    idle_experts: int = 0
    expert_hidden: int = 0
    expert_norm: str = "none"
    head_gate: bool = False
    shared_gate: bool = False
    keys_are_values: bool = False
    reuses_cache: bool = False
    index_heads: int = 0
    index_dim: int = 0
    index_topk: int = 0
    index_weights: bool = True
    compress: int = 0
    shared_kv: bool = False
    out_groups: int = 0
    out_lora: int = 0
    residual: str = "sum"
    streams: int = 1
    block_layers: int = 0
    laurel: int = 0
    head_conv: int = 0
    head_mix: int = 0
    router_hidden: int = 0
    wide: tuple[tuple[str, int], ...] = ()
    sub_norm: bool = False
    layer_input: int = 0
    layer_vocab: int = 0
    labels: int = 0
    per_layer: tuple[tuple[str, tuple[int, ...]], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = msgspec.structs.asdict(self)
        for field, allowed in CHOICES.items():
            if values[field] not in allowed:
                raise ModelSpecError(f"{field} {str(values[field])[:40]!r}; allowed: {', '.join(allowed)}")
        for field in ("hidden", "layers", "heads", "ffn", "vocab"):
            most = MAX_LAYERS if field == "layers" else MAX_SIZE
            if not 1 <= values[field] <= most:
                raise ModelSpecError(f"{field} {values[field]} is not between 1 and {most}")
        for field, value in values.items():
            if type(value) is int and not 0 <= value <= MAX_SIZE:
                raise ModelSpecError(f"{field} {value:.3g} is not between 0 and {MAX_SIZE}")
        self._fill()
        if self.heads % self.kv_heads:
            raise ModelSpecError(f"{self.heads} heads cannot share {self.kv_heads} key/value heads evenly")
        if self.rotary > self.head_dim:
            raise ModelSpecError(f"rotary {self.rotary} is more than the head's width {self.head_dim}")
        if bool(self.experts) != bool(self.active) or self.active > self.experts:
            raise ModelSpecError(f"{self.active} active of {self.experts} experts: 1 to {self.experts} must be active")
        if self.sparse_every < 1:
            raise ModelSpecError("sparse_every counts layers: at least 1")
        if self.kv_lora and not self.rotary < self.head_dim:
            raise ModelSpecError("latent attention rotates a part of each head: rotary must be less than head_dim")
        if not self.pattern or {*self.pattern} - {*LETTERS}:
            raise ModelSpecError(f"pattern {self.pattern[:40]!r}: a letter per layer, of {', '.join(LETTERS)}")
        if self.count("mixer") and (self.mixer == "none" or not self.state_heads):
            raise ModelSpecError("layers that keep a state need mixer= and state_heads=")
        if self.position == "learned" and not self.positions:
            raise ModelSpecError("learned positions need positions=N, the rows of their table")
        layers = range(self.layers if self.per_layer else 0)
        for layer in {str(self.sizes_of(layer)): layer for layer in layers}.values():  # one of each kind
            self.of_layer(layer)

    def _fill(self) -> None:
        if not self.head_dim and self.hidden % self.heads:
            raise ModelSpecError(f"hidden {self.hidden} is not a multiple of {self.heads} heads (or give head_dim)")
        head_dim = self.head_dim or self.hidden // self.heads
        derived = {
            "head_dim": head_dim,
            "value_dim": self.value_dim or head_dim,
            "kv_heads": self.kv_heads or self.heads,
            "expert_ffn": self.expert_ffn or (self.ffn if self.experts else 0),
            "rotary": self.rotary or (head_dim if self.position == "rotary" else 0),
            "state_groups": self.state_groups or self.state_heads,
        }
        for field, value in derived.items():
            msgspec.structs.force_setattr(self, field, value)

    def has(self, part: str, layer: int) -> bool:
        """Return True if a layer has attention, a mixer or an FFN."""
        return part in LETTERS[self.pattern[layer % len(self.pattern)]]

    def count(self, part: str) -> int:
        """Return how many layers have attention, a mixer or an FFN."""
        whole, rest = divmod(self.layers, len(self.pattern))
        letters = self.pattern * whole + self.pattern[:rest]
        return sum(letters.count(letter) for letter, parts in LETTERS.items() if part in parts)

    def mixer_sizes(self, tp: int = 1) -> Mixer:
        """Return the share of the recurrent layer on one of `tp` devices."""
        return Mixer(
            kind=kinds()[self.mixer],
            hidden=self.hidden,
            heads=self.state_heads // tp,
            groups=max(1, self.state_groups // tp),
            keys=self.state_keys,
            values=self.state_values,
            rank=self.state_rank,
            conv=self.state_conv,
        )

    def sizes_of(self, layer: int) -> dict[str, int]:
        """Return the fields that a layer has instead of those of the model."""
        return {name: values[layer % len(values)] for name, values in self.per_layer}

    def of_layer(self, layer: int) -> "Config":
        """Return the configuration with the sizes of one layer."""
        sizes = self.sizes_of(layer)
        if not sizes:
            return self
        if (head_dim := sizes.get("head_dim", self.head_dim)) != self.head_dim:
            follows = [name for name in ("value_dim", "rotary") if getattr(self, name) == self.head_dim]
            sizes = dict.fromkeys(follows, head_dim) | sizes
        sizes |= {"kv_heads": 0} if self.kv_lora else {}
        every = 0 if "window" in sizes else self.full_every
        return msgspec.structs.replace(self, per_layer=(), full_every=every, **sizes)

    def is_sparse(self, layer: int) -> bool:
        """Return True if this layer routes its tokens to experts."""
        is_chosen = layer >= self.dense_layers and (layer + 1) % self.sparse_every == 0
        is_chosen = is_chosen and bool(self.sizes_of(layer).get("sparse", self.sparse))
        return bool(self.experts) and is_chosen and self.has("ffn", layer)

    def window_of(self, layer: int) -> int:
        """Return the attention window of this layer in tokens; 0 without a limit."""
        full = self.full_every and (layer + 1) % self.full_every == 0
        return self.sizes_of(layer).get("window", 0 if full else self.window)

    def spans_of(self, layer: int) -> tuple[tuple[int, int], ...]:
        """Return the spans that the attention of this layer sees: the tokens at most, 0 without a limit, and how many
        tokens share a key."""
        window, sizes = self.window_of(layer), self.sizes_of(layer)
        topk, ratio = (sizes.get(name, getattr(self, name)) for name in ("index_topk", "compress"))
        if ratio:
            return (window, 1), (topk * ratio, ratio)
        return ((min(window, topk) if window and topk else window or topk, 1),)


class StepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one step, `sequence` new tokens per sequence after `kv` cached tokens, or of a request that
    generates `output` tokens. `tp` and `ep` are devices, `link` is in bytes per second."""

    phase: str
    sequence: int
    kv: int
    output: int = 0
    tp: int = 1
    ep: int = 1
    link: float = 0.0

    @property
    def spreads_sequences(self) -> bool:
        """True if each device computes attention for its own sequences and sends tokens to the experts of others."""
        return self.ep > 1 and self.tp == 1


PHASES = ("prefill", "decode", "request")
TRAIN = "train"  # the forward pass of training: logits of all tokens, and no cache
# Defaults of sequence, kv and output: a prompt of 512 tokens; a token after 2048; 256 output tokens after 1024.
DEFAULTS = {"prefill": (512, 0, 0), "decode": (1, 2048, 0), "request": (1024, 0, 256)}


def degrees(config: Config) -> list[int]:
    """Return the tensor-parallel degrees that divide heads and FFN of all layers evenly."""
    if config.per_layer:
        kinds = {config.of_layer(layer) for layer in range(config.layers)}
        return sorted(set[int].intersection(*({*degrees(kind)} for kind in kinds)))
    common = gcd(config.heads, config.ffn)
    for width in (config.expert_ffn, config.shared_ffn, config.state_heads):
        common = gcd(common, width) if width else common
    fits = [d for d in range(1, common + 1) if common % d == 0]
    if config.kv_lora:  # one latent vector serves all heads: each device keeps it
        return fits
    return [d for d in fits if config.kv_heads % d == 0 or d % config.kv_heads == 0]


def family(name: str) -> dict[str, Any]:
    """Return the fields of a Config that the models of a family share."""
    return dict(file_access.shipped(FAMILIES)["families"][name])
