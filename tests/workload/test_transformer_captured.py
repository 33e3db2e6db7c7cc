"""A transformer written from its configuration against the same one captured from torch."""

from collections import Counter
from typing import Any

import pytest
from transformer_cases import total, workload

from analysis.capture.module_at_hand import capture
from analysis.estimate.peak_memory import weight_bytes
from analysis.model.ir.workload import Workload
from hardware.precision import uniform

torch = pytest.importorskip("torch")
nn = torch.nn

HIDDEN, LAYERS, HEADS, KV_HEADS, FFN, VOCAB, TOKENS = 64, 2, 4, 2, 160, 1000, 12
NAME = f"decoder:hidden={HIDDEN},layers={LAYERS},heads={HEADS},kv_heads={KV_HEADS},ffn={FFN},vocab={VOCAB}"


class Layer(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        kv = HIDDEN // HEADS * KV_HEADS
        self.attention_norm, self.mlp_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.q, self.o = nn.Linear(HIDDEN, HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k, self.v = nn.Linear(HIDDEN, kv, bias=False), nn.Linear(HIDDEN, kv, bias=False)
        self.gate, self.up = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: Any) -> Any:
        y = self.attention_norm(x)
        q, k, v = (p(y).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        y = self.mlp_norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, -1:])


def per_kind(model: Workload, values: Any, batch: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for kind, value in zip(model.operators.kind, (values @ model.value_at(batch=batch)).tolist(), strict=True):
        found[kind] += value
    return found


@pytest.mark.parametrize("batch", [1, 5])
def test_written_is_captured(batch: int) -> None:
    ids = torch.zeros(2, TOKENS, dtype=torch.int64)
    captured = capture(Decoder(), ids)
    written = workload(f"{NAME},position=none").bound(sequence=TOKENS, kv=0)
    assert written.parameters == captured.parameters
    assert weight_bytes(written, batch, uniform(2.0)) == weight_bytes(captured, batch, uniform(2.0))
    assert total(written.operators.macs, written, batch) == total(captured.operators.macs, captured, batch)
    for values in ("macs", "flops", "special"):
        ours, theirs = (per_kind(m, getattr(m.operators, values), batch) for m in (written, captured))
        for kind in ("linear", "attention", "norm", "silu", "mul", "add", "embedding"):
            assert ours[kind] == theirs[kind], (values, kind)
    kinds = Counter(written.operators.kind)
    assert kinds.pop("copy") == LAYERS  # the cache, which the torch model has not
    assert kinds == Counter(kind for kind in captured.operators.kind if kind != "copy")
