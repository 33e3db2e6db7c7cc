"""Every form of work a model is made of, with MACs and FLOPs counted by hand; loops laid out turn by turn."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from capture_toys import checked, lowered
from test_capture_calls import Call
from torch import nn
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.sampling import for_each


class Form(NamedTuple):
    """`flops` is all arithmetic of one input, 2 per MAC included."""

    module: nn.Module
    shape: tuple[int, ...]
    macs: int
    flops: int


def form(function: Callable[..., Any] | nn.Module, shape: tuple[int, ...], macs: int, beside: int) -> Form:
    module = function if isinstance(function, nn.Module) else Call(function)
    return Form(module.eval(), shape, macs, 2 * macs + beside)


def explicit(x: Any) -> Any:
    return torch.softmax(x @ x.transpose(-1, -2) / 2.0, -1) @ x


def masked(x: Any) -> Any:
    return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(6, 6).tril())


def crossed(x: Any) -> Any:
    return F.scaled_dot_product_attention(x[:, :, :2], x, x)


def embedded(x: Any, w: Any) -> Any:
    return F.embedding(x.long().clamp(0, 9), w)


def squared(x: Any) -> Any:
    number = torch.view_as_complex(x)
    return torch.view_as_real(number * number)


def rotated(x: Any, w: Any) -> Any:
    return torch.view_as_real(torch.view_as_complex(x) @ torch.view_as_complex(w))


FORMS = {
    # Attention: scores 2 x 6 x 6, width 4; softmax 5 a score.
    "explicit attention": form(explicit, (2, 6, 4), 2 * 72 * 4, 72 * (1 + 5)),
    "fused attention": form(lambda x: F.scaled_dot_product_attention(x, x, x), (2, 6, 4), 2 * 72 * 4, 72 * 6),
    "masked attention": form(masked, (2, 6, 4), 2 * 72 * 4, 72 * 7),
    "causal attention": form(
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 6, 4), 2 * 42 * 4, 42 * 6
    ),
    "cross attention": form(crossed, (2, 6, 4), 2 * 24 * 4, 24 * 6),
    # Convolutions: outputs x channels x window.
    "conv1d": form(nn.Conv1d(4, 6, 3, bias=False), (4, 10), 8 * 6 * 12, 0),
    "conv2d with bias": form(nn.Conv2d(3, 5, 3, stride=2), (3, 9, 9), 16 * 5 * 27, 16 * 5),
    "conv3d": form(nn.Conv3d(2, 4, 3, bias=False), (2, 5, 5, 5), 27 * 4 * 54, 0),
    "dilated": form(nn.Conv2d(2, 3, 3, dilation=2, bias=False), (2, 9, 9), 25 * 3 * 18, 0),
    "grouped": form(nn.Conv2d(16, 32, 1, groups=2, bias=False), (16, 4, 4), 16 * 32 * 8, 0),
    "depthwise": form(nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), (6, 4, 4), 16 * 6 * 9, 0),
    "depthwise 3d": form(nn.Conv3d(6, 6, 3, padding=1, groups=6, bias=False), (6, 4, 4, 4), 64 * 6 * 27, 0),
    "transposed 2d": form(nn.ConvTranspose2d(4, 3, 2, 2, bias=False), (4, 5, 5), 25 * 4 * 3 * 4, 0),
    "transposed grouped": form(nn.ConvTranspose2d(4, 6, 3, groups=2), (4, 5, 5), 25 * 4 * 3 * 9, 49 * 6),
    # Recurrent: gates x hidden x (input + hidden) a step; gate arithmetic beside.
    "lstm": form(nn.LSTM(4, 6, batch_first=True), (7, 4), 7 * 24 * 10, 7 * 6 * 14),
    "stacked lstm": form(nn.LSTM(4, 6, 2, batch_first=True), (7, 4), 7 * 24 * (10 + 12), 2 * 7 * 6 * 14),
    "gru cell": form(nn.GRUCell(4, 6), (4,), 18 * 10, 6 * 13),
    "lstm cell": form(Call(lambda x, w: torch.lstm_cell(x, (x, x), w, w), 16, 4), (4,), 16 * 8, 4 * 14),
    # Normalisations: 8 an element, batch norm folded to 2.
    "batch norm": form(nn.BatchNorm2d(3), (3, 4, 4), 0, 48 * 2),
    "layer norm": form(nn.LayerNorm(8), (5, 8), 0, 40 * 8),
    "group norm": form(nn.GroupNorm(2, 4), (4, 3, 3), 0, 36 * 8),
    "instance norm": form(nn.InstanceNorm2d(4), (4, 3, 3), 0, 36 * 8),
    "rms norm": form(nn.RMSNorm(8), (5, 8), 0, 40 * 4),
    # Resampling: taps an output.
    "nearest": form(lambda x: F.interpolate(x, scale_factor=2), (2, 3, 3), 0, 0),
    "bilinear": form(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 3), 0, 72 * 7),
    "trilinear": form(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (1, 2, 2, 2), 0, 64 * 15),
    "pixel shuffle": form(nn.PixelShuffle(2), (8, 3, 3), 0, 0),
    "max pool": form(nn.MaxPool2d(3, 2), (2, 7, 7), 0, 18 * 9),
    "adaptive pool": form(nn.AdaptiveAvgPool2d(1), (2, 7, 7), 0, 98),
    # Sorting n elements: n log2 n comparisons; the k largest: n log2 (k + 1).
    "sort": form(lambda x: x.sort(-1)[0], (16,), 0, 16 * 4),
    "top k": form(lambda x: x.topk(3)[0], (16,), 0, 16 * 2),
    # 5 n log2 n a complex transform, half for real data.
    "fft": form(lambda x: torch.fft.fft(torch.view_as_complex(x)).abs(), (16, 2), 0, 16 * 20 + 16 * 4),
    "complex product": form(squared, (16, 2), 0, 16 * 6),
    "complex matrix product": form(Call(rotated, 4, 4, 2), (4, 2), 4 * 16, 0),
    "rfft": form(lambda x: torch.fft.rfft(x).real.clone(), (16,), 0, 16 * 10),
    # Moving and picking: no arithmetic but what adds up.
    "einsum without a sum": form(Call(lambda x, w: torch.einsum("bi,j->bij", x, w), 5), (3,), 0, 3 * 5),
    "einsum that sums one operand first": form(
        Call(lambda x, w: torch.einsum("bij,jk->bk", x, w), 4, 5), (3, 4), 4 * 5, 3 * 4
    ),
    "embedding": form(Call(embedded, 10, 4), (3,), 0, 3 + 3 * 2),
    "gather": form(lambda x: x.gather(1, x.argsort(1)), (8,), 0, 8 * 3),
    "scatter add": form(lambda x: torch.zeros_like(x).scatter_add(1, x.argsort(1), x), (8,), 0, 8 * 3 + 8),
    "scatter": form(lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x), (8,), 0, 8 * 3),
}  # fmt: skip


@for_each("name", FORMS)
def test_counted_by_hand(name: str) -> None:
    module, shape, macs, flops = FORMS[name]
    w = lowered(module, torch.empty(2, *shape))
    assert w.operators.has_rule.all(), [w.operators.target[i] for i in (~w.operators.has_rule).nonzero()[0]]
    for batch in (1, 3):
        at = w.value_at(batch=batch)
        found = float((w.operators.macs @ at).sum()), float((w.operators.flops @ at).sum())
        assert found == (macs * batch, flops * batch)


# --- loops and regions ------------------------------------------------------------------------------------


def total(w: Any, what: str, batch: int = 1) -> float:
    return float((getattr(w.operators, what) @ w.value_at(batch=batch)).sum())


class Loops(nn.Module):
    """A matrix of 8 x 8 that each of 7 rows meets in a scan, and in a map inside another of 3."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            state = torch.tanh(state @ self.weight + now)
            return state, state.clone()

        rows = scan(step, torch.zeros_like(x[:, 0]), x, dim=1)[1]
        many = rows.transpose(0, 1).expand(3, 7, -1, 8)
        return rows, map_(lambda part, w: map_(lambda row, w: row @ w, part, w), many, self.weight)


def test_bodies_of_loops_count_as_often_as_they_run() -> None:
    w = lowered(Loops(), torch.empty(2, 7, 8))
    assert w.operators.has_rule.all(), w.operators.target
    assert w.total(w.operators.macs, batch=5) == 5 * 64 * (7 + 3 * 7)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 16), None, None, 512, 512, device="cpu")

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=self.mask)


def test_a_block_mask_leaves_out_blocks() -> None:
    """A window of 16 in 512 tokens leaves 7 of 16 blocks of 128 x 128."""
    w = lowered(Blocks(), *(torch.empty(2, 2, 512, 16) for _ in range(3)))
    assert total(w, "macs") == 7 * 128**2 * 2 * 16 * 2


class Codec(nn.Module):
    """Its sizes are buffers, as in EnCodec and Mimi; one that forward writes is no constant."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 5, stride=2, bias=False)
        self.register_buffer("padding", torch.tensor(3), persistent=False)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        left = self.padding - self.padding // 2
        return self.conv(F.pad(x, (left, 1) if x.shape[-1] > max(left, 1) else (9, 9)))


def test_integers_in_buffers_are_constants() -> None:
    model = Codec()
    w = lowered(model, torch.empty(2, 4, 40))
    assert total(w, "macs") == 20 * 8 * 4 * 5
    assert {"padding", "calls"} == {*model._buffers}


def test_vmap_counts_what_it_maps_over() -> None:
    w = lowered(Call(lambda x, w: torch.vmap(lambda row: F.linear(row, w))(x), 3, 4), torch.empty(2, 4))
    assert w.operators.has_rule.all()
    assert (total(w, "macs"), total(w, "macs", 7)) == (12, 84)


def test_a_branch_may_look_at_its_argument_in_another_shape() -> None:
    def viewed(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y.view(-1, 2, 4).relu() * 2, lambda y: y.view(-1, 2, 4).clone(), (x,))

    w = lowered(Call(viewed), torch.empty(2, 8))
    assert w.operators.has_rule.all(), w.operators.target


def test_a_number_read_out_of_a_tensor_is_a_number() -> None:
    w = lowered(Call(lambda x: x * x.sum().item()), torch.empty(2, 8))
    assert list(w.operators.kind) == ["reduce", "mul"]


def test_what_a_model_asserts_of_values_is_taken_to_hold() -> None:
    assert lowered(Call(checked), torch.ones(2, 4)).operators.macs.sum() > 0
