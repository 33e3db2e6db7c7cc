"""Lowering, against toy modules whose figures are worked out by hand."""

from typing import Any

import pytest
import torch
from capture_toys import flops, gemm, lowered, macs, reads, row, tensor, writes
from torch import nn
from torch.nn import functional as F

from analysis.model.ir.workload import BUFFER, KINDS, WEIGHT
from analysis.model.names import zoo
from analysis.model.written_blocks import write_block


def module(function: Any, **parts: nn.Module) -> nn.Module:
    """A module around a function of (self, x, ...)."""

    toy = type("Toy", (nn.Module,), {"forward": function})()
    for name, part in parts.items():
        setattr(toy, name, part)
    return toy


def test_linear_and_its_bias_are_two_rows() -> None:
    w = lowered(module(lambda s, x: s.fc(x), fc=nn.Linear(8, 5)))
    assert w.operators.path == ("fc", "fc.bias")
    assert w.operators.kind == ("linear", "bias")
    assert macs(w, "fc", 3) == 3 * 8 * 5
    assert flops(w, "fc", 3) == 2 * 3 * 8 * 5
    assert (macs(w, "fc.bias", 3), flops(w, "fc.bias", 3)) == (0, 15)
    assert gemm(w, "fc", 3) == (1, 3, 5, 8)
    assert reads(w, "fc", 3) == {"x": 24, "fc.weight": 40}
    assert reads(w, "fc.bias", 3) == {"fc": 15, "fc.bias": 5}
    assert w.parameters == 45


def test_bias_shares_the_memory_of_its_contraction() -> None:
    w = lowered(module(lambda s, x: s.fc(x), fc=nn.Linear(8, 5)))
    out = w.operators.out_tensor
    assert w.tensors.storage[out[1]] == out[0]
    assert w.tensors.is_output[out[1]]
    assert not w.tensors.is_output[out[0]]


@pytest.mark.parametrize(
    ("layer", "shape", "kind", "per_image", "dims"),
    [
        (nn.Conv2d(6, 4, 3, bias=False), (6, 10, 9), "conv", 4 * 8 * 7 * 6 * 9, (1, 56, 4, 54)),
        (nn.Conv2d(6, 4, 3, groups=2, bias=False), (6, 10, 9), "depthwise_conv", 4 * 56 * 27, (2, 56, 2, 27)),
        (nn.Conv2d(32, 32, 1, groups=4, bias=False), (32, 5, 5), "conv", 32 * 25 * 8, (4, 25, 8, 8)),
        (nn.Conv2d(6, 6, 3, groups=6, bias=False), (6, 10, 9), "depthwise_conv", 6 * 56 * 9, (6, 56, 1, 9)),
        (nn.Conv1d(4, 8, 5, stride=2, bias=False), (4, 21), "conv", 8 * 9 * 20, (1, 9, 8, 20)),
        (nn.Conv3d(2, 3, 2, bias=False), (2, 4, 5, 6), "conv", 3 * 60 * 16, (1, 60, 3, 16)),
        (nn.ConvTranspose2d(4, 6, 2, 2, bias=False), (4, 5, 5), "conv_transpose", 25 * 4 * 24, (1, 25, 24, 4)),
        (
            nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False),
            (4, 5, 5),
            "conv_transpose",
            25 * 2 * 54 // 2 * 2,
            (2, 25, 27, 2),
        ),
    ],
)
def test_convolutions(
    layer: nn.Module, shape: tuple[int, ...], kind: str, per_image: int, dims: tuple[int, ...]
) -> None:
    w = lowered(module(lambda s, x: s.conv(x), conv=layer), torch.empty(2, *shape))
    assert w.operators.kind == (kind,)
    assert macs(w, "conv") == per_image
    assert gemm(w, "conv") == dims
    assert gemm(w, "conv", 4) == (dims[0], 4 * dims[1], *dims[2:])
    assert macs(w, "conv", 4) == 4 * per_image
    assert flops(w, "conv") == 2 * per_image


def test_in_place_and_functional_are_one_kind_and_share_storage() -> None:
    def forward(s: Any, x: Any) -> Any:
        y = s.fc(x)
        y = F.relu(y)
        y = F.relu_(y)
        y += 1
        return y + 1

    w = lowered(module(forward, fc=nn.Linear(8, 8, bias=False)))
    assert w.operators.kind == ("linear", "relu", "relu", "add", "add")
    assert w.operators.path == ("fc", "relu", "relu~2", "add", "add~2")
    first, second, third, fourth = (tensor(w, p) for p in ("relu", "relu~2", "add", "add~2"))
    assert w.tensors.storage[second] == w.tensors.storage[third] == w.tensors.storage[first] == first
    assert w.tensors.storage[fourth] == fourth
    assert reads(w, "add") == {"relu~2": 8}


def test_in_place_on_a_view_updates_the_whole_tensor() -> None:
    def forward(s: Any, x: Any) -> Any:
        y = x * 2
        y[:, 0].add_(1)
        return y * 3

    w = lowered(module(forward))
    assert w.operators.kind == ("mul", "add", "mul")
    assert reads(w, "add", 4) == {"mul": 4}
    assert writes(w, "add", 4) == {"add": 4}
    assert reads(w, "mul~2", 4) == {"add": 32}  # the version the in-place operator left behind
    assert w.tensors.storage[tensor(w, "add")] == tensor(w, "mul")


def test_views_cost_nothing_and_count_distinct_elements() -> None:
    def forward(s: Any, x: Any) -> Any:
        wide = x.view(x.shape[0], 2, 4).permute(0, 2, 1).unsqueeze(1).expand(-1, 3, -1, -1)
        first, second = x.chunk(2, dim=1)
        return wide + 1, first * second, x[:, :2].neg()

    w = lowered(module(forward))
    assert w.operators.kind == ("add", "mul", "elementwise")
    assert reads(w, "add", 2) == {"x": 16}  # 48 elements shown, 16 distinct
    assert flops(w, "add", 2) == 48
    assert reads(w, "mul", 2) == {"x": 16}  # two halves of one tensor
    assert reads(w, "elementwise", 2) == {"x": 4}


def test_only_a_reshape_that_moves_data_is_a_copy() -> None:
    def forward(s: Any, x: Any) -> Any:
        y = x.view(-1, 2, 4)
        free = y.reshape(-1, 8).contiguous()
        moved = y.transpose(1, 2).reshape(-1, 8)
        again = y.transpose(1, 2).contiguous()
        return free + moved, again.flatten(1), y.clone()

    w = lowered(module(forward))
    assert w.operators.kind.count("copy") == 3
    assert reads(w, "copy", 3) == {"x": 24}
    assert writes(w, "copy", 3) == {"copy": 24}
    assert flops(w, "copy") == 0


def test_identities_vanish() -> None:
    layers = nn.Sequential(nn.Dropout(0.5), nn.Identity(), nn.Dropout(0.5, inplace=True), nn.ReLU())
    w = lowered(module(lambda s, x: s.seq(x), seq=layers))
    assert w.operators.path == ("seq.3",)
    assert reads(w, "seq.3") == {"x": 8}


def test_tied_weights_are_one_tensor() -> None:
    toy = module(lambda s, x: s.a(x) + s.b(x), a=nn.Linear(8, 8, bias=False), b=nn.Linear(8, 8, bias=False))
    toy.b.weight = toy.a.weight
    w = lowered(toy)
    assert w.parameters == 64
    assert sum(role == WEIGHT for role in w.tensors.role) == 1
    assert reads(w, "a") == reads(w, "b") == {"x": 8, "a.weight": 64}


def test_a_repeated_module_call_is_numbered() -> None:
    w = lowered(module(lambda s, x: s.act(s.act(x)), act=nn.ReLU()))
    assert w.operators.path == ("act", "act~2")


def test_element_wise_figures() -> None:
    layers = {
        "batch_norm": (nn.BatchNorm2d(4).eval(), 2, 0),
        "gelu": (nn.GELU(), 5, 1),
        "silu": (nn.SiLU(), 4, 2),
        "softmax": (nn.Softmax(-1), 5, 1),
    }
    for kind, (layer, per_element, special) in layers.items():
        w = lowered(module(lambda s, x: s.layer(x), layer=layer), torch.empty(2, 4, 3, 3))
        assert w.operators.kind == (kind,)
        assert flops(w, "layer", 2) == 72 * per_element
        assert float(w.operators.special[0] @ w.value_at(batch=2)) == 72 * special


def test_layer_norm_has_one_root_per_row() -> None:
    w = lowered(module(lambda s, x: s.norm(x), norm=nn.LayerNorm(6)), torch.empty(2, 5, 6))
    assert flops(w, "norm", 3) == 8 * 90
    assert float(w.operators.special[0] @ w.value_at(batch=3)) == 15
    assert reads(w, "norm", 3) == {"x": 90, "norm.weight": 6, "norm.bias": 6}


def test_attention_forms_agree() -> None:
    q = torch.empty(2, 3, 10, 4)
    fused = lowered(module(lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v)), q, q, q)
    assert macs(fused, "attention", 2) == 2 * (2 * 3 * 10 * 10 * 4)
    assert gemm(fused, "attention", 2) == (6, 10, 10, 4)

    def explicit(s: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v

    w = lowered(module(explicit), q, q, q)
    assert w.operators.kind == ("matmul", "mul", "softmax", "matmul")
    assert macs(w, "matmul", 2) + macs(w, "matmul~2", 2) == macs(fused, "attention", 2)

    def einsum(s: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.einsum("bhls,bhse->bhle", torch.einsum("bhle,bhse->bhls", q, k).softmax(-1), v)

    w = lowered(module(einsum), q, q, q)
    assert macs(w, "matmul", 2) + macs(w, "matmul~2", 2) == macs(fused, "attention", 2)
    assert gemm(w, "matmul", 2) == (6, 10, 10, 4)


def test_an_einsum_contracts_in_the_order_that_its_library_takes() -> None:
    def ordered(s: Any, x: Any, path: Any) -> Any:
        return torch.ops.aten.einsum("bti,ij,jk->btk", [x, s.a.weight, s.b.weight], path=path)

    parts = {"a": nn.Linear(64, 64, bias=False), "b": nn.Linear(2, 64, bias=False)}
    for path, each, once in (([1, 2, 0, 1], 16 * 64 * 2, 64 * 64 * 2), (None, 16 * 64 * 64 + 16 * 64 * 2, 0)):
        w = lowered(module(lambda s, x, path=path: ordered(s, x, path), **parts), torch.empty(2, 16, 64))
        assert macs(w, "matmul", 3) == 3 * each + once


def test_multihead_attention_shows_its_projections() -> None:
    def forward(s: Any, x: Any) -> Any:
        return s.attn(x, x, x, need_weights=False)[0]

    w = lowered(module(forward, attn=nn.MultiheadAttention(8, 2, batch_first=True)), torch.empty(2, 5, 8))
    assert [p for p in w.operators.path if "copy" not in p] == [
        "attn.in_proj",
        "attn.in_proj.bias",
        "attn.attention",
        "attn.out_proj",
        "attn.out_proj.bias",
    ]
    assert macs(w, "attn.in_proj") == 5 * 8 * 24


def test_broadcast_matmul() -> None:
    w = lowered(module(lambda s, x, y: x @ y), torch.empty(2, 1, 3, 4), torch.empty(2, 6, 4, 5))
    assert gemm(w, "matmul", 2) == (12, 3, 5, 4)
    toy = nn.Linear(4, 5, bias=False)
    w = lowered(module(lambda s, x: x @ s.fc.weight.t(), fc=toy), torch.empty(2, 3, 4))
    assert gemm(w, next(iter(w.operators.path)), 2) == (1, 6, 5, 4)


def test_constants_are_folded() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("offsets", torch.arange(8.0))

        def forward(self, x: Any) -> Any:
            mask = torch.zeros(8)
            mask[2:4] = 1
            return x + mask * 3 + self.offsets.cos()

    w = lowered(Masked())
    assert w.operators.kind == ("add", "add")
    assert sum(role == BUFFER for role in w.tensors.role) == 2
    assert any("folded" in note for note in w.notes)


def test_integer_and_bool_tensors_keep_their_width() -> None:
    w = lowered(module(lambda s, x: (x > 0, x.argmax(1))))
    widths = [int(w.tensors.fixed_bytes[t]) for t in w.operators.out_tensor]
    assert widths == [1, 8]
    assert w.tensors.fixed_bytes[tensor(w, "x")] == 0


def test_embedding_reads_what_it_returns() -> None:
    tokens = torch.zeros(2, 6, dtype=torch.int64)
    w = lowered(module(lambda s, x: s.table(x), table=nn.Embedding(1000, 16)), tokens)
    assert reads(w, "table", 2) == {"table.weight": 192, "x": 12}
    assert reads(w, "table", 1) == {"table.weight": 96, "x": 6}


def test_an_unknown_operator_is_listed_and_counts_its_bytes() -> None:
    w = lowered(module(lambda s, x: torch.linalg.eig(x.view(-1, 2, 2, 2))[0]))
    assert not w.operators.has_rule.all()
    assert "unknown" in w.operators.kind
    index = w.operators.kind.index("unknown")
    assert w.operators.flops[index].sum() == 0
    assert list(reads(w, w.operators.path[index]).values()) == [8]


def test_a_value_lives_until_the_module_it_was_passed_into_returns() -> None:
    block = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
    w = lowered(module(lambda s, x: s.block(s.first(x)) * 2, first=nn.ReLU(), block=block))
    assert w.operators.path == ("first", "block.0", "block.1", "block.2", "mul")
    live = {name: int(w.tensors.live_until[tensor(w, name)]) for name in w.operators.path}
    # `first` is read by block.0 alone, but the caller of `block` holds it until block.2 is done.
    assert live == {"first": 3, "block.0": 2, "block.1": 3, "block.2": 4, "mul": 4}
    assert w.tensors.live_until[tensor(w, "x")] == 4


def test_every_kind_is_in_the_table() -> None:
    from analysis.model.operators import contractions

    named = {row.kind for row in (*contractions.ELEMENTWISE.values(), *contractions.REDUCTIONS.values())}
    named |= {
        *contractions.POOLS.values(),
        *contractions.MOVEMENT.values(),
        *contractions.GATHERS.values(),
        "sort",
        "fft",
    }
    named |= {"resample", "bias", "recurrent", "attention", "deform_conv", "unknown", "norm", "cast"}
    assert contractions.DEPTHWISE_CHANNELS == 4
    assert named <= set(KINDS)


def test_gemm_without_torch_equals_the_captured_one() -> None:
    written = write_block(zoo.spec("gemm", "M=32,N=48,K=64"))
    product = module(lambda s, a: torch.matmul(a, s.weight))
    product.weight = nn.Parameter(torch.empty(64, 48))
    captured = lowered(product, torch.zeros(2, 32, 64))
    assert written.operators.path == captured.operators.path == ("matmul",)
    assert gemm(written, "matmul", 2) == gemm(captured, "matmul", 2) == (1, 64, 48, 64)
    assert reads(written, "matmul", 2) == reads(captured, "matmul", 2) == {"a": 4096, "weight": 3072}
    assert written.parameters == captured.parameters
    assert (written.tensors.role == captured.tensors.role).all()
    assert row(written, "matmul") == 0


def test_attention_head_shows_its_two_products_and_softmax() -> None:
    from analysis.model import store

    kinds = [k for k in store.load("attention_head").operators.kind if k != "bias"]
    assert kinds == ["linear", "linear", "linear", "mul", "matmul", "softmax", "matmul", "linear"]
