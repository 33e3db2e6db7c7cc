"""Parameters and MACs of a transformer in closed form: the oracle of the graphs that the product writes.

`python -m lab.closed_form` writes the sizes that lists of models show (analysis/model/transformer/sizes.toml).
"""

from pathlib import Path

import msgspec

from analysis.model.ir.workload import steps, through_window
from analysis.model.transformer import transformer_request
from analysis.model.transformer.config import Config, Mixer, StepSettings

SIZES = Path(transformer_request.__file__).with_name("sizes.toml")
HEAD = """\
# Family, parameters of each transformer, and MACs of a step at the default lengths and batch 1, as lists of models show
# them. They follow from transformers.toml: `python -m lab.closed_form` writes this file, a test holds it.
"""


class Size(msgspec.Struct, frozen=True):
    """Elements of matrices that multiply every token (`linear`), of the head, of tables that are looked up, of vectors;
    `idle` are those of experts that a token does not pass."""

    linear: int
    head: int
    tables: int
    vectors: int
    idle: int

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return self.linear + self.head + self.tables + self.vectors + self.idle


def size(config: Config) -> Size:
    """Return the parameters of a model, tied weights once (then the head's table counts under `head`)."""
    c = config
    layers = [c.of_layer(layer) for layer in range(c.layers)]
    linear = idle = 0
    for layer, own in enumerate(layers):
        mats = 3 if own.gated else 2
        linear += _projections(own) if c.has("attention", layer) else 0
        linear += _mixer_projections(own.mixer_sizes()) if c.has("mixer", layer) else 0
        if c.is_sparse(layer):
            expert = mats * (own.expert_hidden or own.hidden) * own.expert_ffn
            linear += own.active * expert + own.hidden * (own.experts + 2 * own.expert_hidden)
            linear += mats * own.hidden * own.shared_ffn + (own.hidden if own.shared_gate else 0)
            idle += (own.experts - own.active) * (expert + _mlp_bias(own, own.expert_ffn))
        elif c.has("ffn", layer):
            linear += mats * own.hidden * own.ffn
    linear += c.hidden * c.hidden if c.pooler else 0
    table = c.vocab * c.hidden
    head = 0 if c.encoder else table
    tables = (c.positions if c.position == "learned" else 0) * c.hidden + c.token_types * c.hidden
    tables += table if c.encoder or not c.tied else 0
    return Size(linear, head, tables, _vectors(c, layers) + costs_between_layers(c)[0], idle)


def _projections(c: Config) -> int:
    wide, groups = c.heads * c.value_dim, c.out_groups * c.out_lora * c.hidden
    q, out = c.heads * c.head_dim, wide * (c.out_lora or c.hidden) + groups + 2 * c.hidden * c.laurel
    out += c.hidden * (wide * c.attention_gate + c.heads * c.head_gate)
    query = c.q_lora * (c.hidden + q) if c.q_lora else c.hidden * q
    query += (c.q_lora or c.hidden) * c.index_heads * c.index_dim + c.hidden * 2 * _shared_width(c)
    query += (
        c.hidden * (c.index_dim * (4 if c.compress else 1) + c.index_heads * c.index_weights) if c.index_heads else 0
    )
    if not c.kv_lora:
        values = 0 if c.keys_are_values or c.shared_kv else c.value_dim
        return query + out + (0 if c.reuses_cache else c.hidden * c.kv_heads * (c.head_dim + values))
    expanded = c.heads * (c.head_dim - c.rotary + c.value_dim)
    return query + c.hidden * (c.kv_lora + c.rotary) + c.kv_lora * expanded + out


def _shared_width(c: Config) -> int:
    return (c.head_dim * (2 if c.index_heads else 1)) if c.compress else 0


def costs_between_layers(c: Config) -> tuple[int, int]:
    """Return the parameters and the MACs of a token of what mixes streams or results of blocks, and of a second
    embedding that all layers read."""
    n, h, width = c.streams, c.hidden, c.layers * c.layer_input
    second = width * h + 2 * width * h
    parameters = c.layer_vocab * width + second + ((c.layer_input + c.layers * h) if width else 0)
    if c.residual == "altup":
        maps, ends = c.layers * (n * n + n**3), 2 * (n - 1) * h * h
        return parameters + maps + ends + c.layers * (n + 2) * h, second + maps + ends + c.layers * 2 * n * h
    if c.residual == "depth":
        return parameters + (2 * c.layers + 1) * 2 * h, second
    if c.residual == "sum":
        return parameters, second
    weights, scales = (2 * n + n * n, 3) if c.residual == "sinkhorn" else (2 * n, 2)
    maps = (2 * c.layers * weights + n) * n * h
    return parameters + maps + 2 * c.layers * (weights + scales) + n + 1, second + maps


def _mixer_projections(mixer: Mixer) -> int:
    """Elements of the matrices that multiply every token, the short convolution among them."""
    low = sum(mixer.width(a) * mixer.width(b) for a, b in mixer.kind.low_rank)
    convolved = mixer.width(mixer.kind.convolve) * mixer.conv
    return mixer.hidden * mixer.width(mixer.kind.project) + low + convolved + mixer.inner * mixer.hidden


def _mixer_vectors(mixer: Mixer) -> int:
    """Elements that are learned beside the matrices."""
    return mixer.width(mixer.kind.vectors) + mixer.width(mixer.kind.norm)


def _mlp_bias(c: Config, width: int) -> int:
    return width * (2 if c.gated else 1) + c.hidden if c.mlp_bias else 0


def _vectors(c: Config, layers: list[Config]) -> int:
    norm = c.hidden * (2 if c.norm == "layer" else 1)
    norms = sum(c.has("ffn", i) + (c.has("attention", i) or c.has("mixer", i)) for i in range(c.layers))
    total = c.layers * norm if c.shared_norm else norms * norm * (2 if c.sandwich_norm else 1)
    for i, own in enumerate(layers):
        if c.has("attention", i):
            q, kv = own.heads * own.head_dim, own.kv_heads * own.head_dim
            total += (q + 2 * kv if c.qkv_bias else 0) + (c.hidden if c.o_bias else 0)
            each = 1 if own.reuses_cache or c.qk_norm == "key" else 2
            total += {"none": 0, "head": each * own.head_dim, "key": own.head_dim, "full": q + kv}[c.qk_norm]
            total += own.kv_lora + own.q_lora + (own.heads if own.sinks else 0) + (c.hidden if c.laurel else 0)
            if own.index_heads:
                total += own.index_dim * (2 * own.compress + 1 if own.compress else 2)
            total += own.compress * _shared_width(own) + (own.head_dim if own.compress else 0)
        if c.has("mixer", i):
            total += _mixer_vectors(own.mixer_sizes())
        if c.is_sparse(i):
            total += own.active * _mlp_bias(c, own.expert_ffn) + (own.experts if own.router_bias else 0)
            total += {"none": 0, "after": c.hidden, "each": 4 * c.hidden, "latent": own.expert_hidden}[c.expert_norm]
        elif c.has("ffn", i):
            total += _mlp_bias(c, own.ffn)
    return total + norm * (2 if c.embed_norm else 1) + (c.vocab if c.head_bias else 0) + (c.hidden if c.pooler else 0)


def macs(config: Config, run: StepSettings, batch: int = 1) -> float:
    """Multiply-accumulates of one step, or of a request, of the whole model (not of one of several devices)."""
    if run.phase == "request":
        first = StepSettings(phase="prefill", sequence=run.sequence, kv=0)
        later = [StepSettings(phase="decode", sequence=1, kv=run.sequence + i) for i in range(int(steps(run.output)))]
        return sum(macs(config, each, batch) for each in (first, *later))
    c, sizes, tokens = config, size(config), batch * run.sequence
    linear: float = sizes.linear - (c.hidden**2 if c.pooler else 0)
    all_tokens, attention = run.kv + run.sequence, 0.0
    for layer in range(c.layers):
        own = c.of_layer(layer)
        if not c.has("attention", layer):
            continue
        # Prefill expands the vectors of latent attention to keys and values; decoding multiplies them as they are.
        latent = own.kv_lora and run.phase == "decode"
        width = 2 * own.kv_lora + own.rotary if latent else own.head_dim + own.value_dim
        if own.kv_lora and not latent:  # those of the cache are expanded again
            expanded = own.kv_lora * own.heads * (own.head_dim - own.rotary + own.value_dim)
            linear += expanded * run.kv / run.sequence
        spans = c.spans_of(layer)
        within = sum(through_window(most or all_tokens, run.sequence, run.kv) / shared for most, shared in spans)
        attention += own.heads * width * (run.sequence if c.encoder else within)
        chosen = own.index_heads * own.index_dim * through_window(all_tokens, run.sequence, run.kv)
        attention += chosen / max(own.compress, 1)
    if c.mixer != "none":
        linear += c.count("mixer") * float(c.mixer_sizes().state_macs(run.phase == "prefill"))
    scored = batch if run.phase == "prefill" else tokens
    pooled = batch * c.hidden**2 if c.pooler else 0
    return tokens * (linear + attention + costs_between_layers(c)[1]) + scored * sizes.head + pooled


def sizes_of_presets() -> str:
    """Return the text of sizes.toml."""
    requests = [transformer_request.parse(name) for name in transformer_request.names()]
    rows = [
        f'{r.text} = {{ family = "{"encoder" if r.config.encoder else "language"}", '
        f"parameters = {size(r.config).parameters}, macs = {float(macs(r.config, r.run))!r} }}\n"
        for r in requests
    ]
    return HEAD + "".join(rows)


def write_sizes() -> None:
    """Write sizes.toml."""
    SIZES.write_text(sizes_of_presets(), encoding="utf-8")


if __name__ == "__main__":
    write_sizes()
