"""Rarer calls and control flow: each has a rule, and where the figure is easy it is checked."""

from collections.abc import Callable
from typing import Any

import torch
from capture_toys import lowered
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._pytree import SUPPORTED_NODES

import hwexplorer as hx
from tests.sampling import for_each


class Call(nn.Module):
    """A function of the input and, where it wants one, of a weight."""

    def __init__(self, function: Callable[..., Any], *weight: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.zeros(weight)) if weight else None

    def forward(self, x: Any) -> Any:
        return self.function(x, self.weight) if self.weight is not None else self.function(x)


def region(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(x, w)


def loop(x: Any) -> Any:
    return torch._higher_order_ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


def branch(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y.sin() * 2 + 1, lambda y: y.cos(), (x,))


def aliases(x: Any) -> Any:
    return torch.multiply(torch.subtract(x, 1), torch.divide(x, x)).absolute().greater(0)


def losses(x: Any) -> Any:
    return F.binary_cross_entropy_with_logits(x, x) + F.kl_div(x, x) + F.huber_loss(x, x)


def spectrum(x: Any) -> Any:
    return torch.stft(x, 16, 4, return_complex=True, window=torch.hann_window(16)).abs()


def shifted(x: Any) -> Any:
    return torch.fft.ifft2(torch.fft.ifftshift(torch.fft.fftshift(torch.fft.fft2(x)))).real


def resampled(x: Any) -> Any:
    modes: list[dict[str, Any]] = [{"mode": "bicubic"}, {"mode": "bilinear", "antialias": True}, {"mode": "area"}]
    return [F.interpolate(x, size=(5, 5), **mode) for mode in modes], F.interpolate(x, scale_factor=2)


def ordered(x: Any) -> Any:
    return x.sort(1)[0], x.topk(2)[1], x.kthvalue(2)[0], x.msort(), torch.searchsorted(x, x), x.cummax(1)[0]


def scattered(x: Any) -> Any:
    zeros = torch.zeros(x.shape[0], 8)
    index = torch.arange(8)
    return zeros.index_add(1, index, x).index_copy(1, index, x).scatter_reduce(1, x.argsort(1), x, "amax")


def functions(x: Any) -> Any:
    y = F.leaky_relu(x, 0.1) + F.elu(x) + F.mish(x) + F.gelu(x, approximate="tanh") + F.softplus(x)
    sums = F.log_softmax(y, 1), y.logsumexp(1), y.cumsum(-1), y.norm(dim=-1), torch.rsqrt(y.var(1) + 1)
    return *sums, F.cosine_similarity(x, y), y.flip(-1), torch.roll(y, 1, 1)


def picked(x: Any) -> Any:
    y = torch.where(x > 0, x, -x).clamp(0, 1).masked_fill(x < 0, 0.0) + torch.ones(8, 8).tril().log()[0]
    return y.index_select(1, torch.tensor([1, 2])), y[:, :1].repeat_interleave(2, 1), F.one_hot(x.argmax(1), 8)


def windows(x: Any, w: Any) -> Any:
    sampled = F.grid_sample(x, F.affine_grid(w.expand(x.shape[0], 2, 3), (x.shape[0], 4, 8, 8)))
    return sampled, F.unfold(x, 3, padding=1), F.adaptive_max_pool2d(x, 2), F.avg_pool3d(x, 2)


# MACs per image.
CALLS: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
    "cond": (Call(branch), (8,), 0),
    "while_loop": (Call(loop), (8,), 0),
    "autocast": (Call(region, 4, 8), (8,), 32),
    "flex_attention": (Call(lambda x: flex_attention(x, x, x)), (2, 16, 8), 2 * 2 * 16 * 16 * 8),
    "flex_attention with a score": (
        Call(lambda x: flex_attention(x, x, x, score_mod=lambda s, b, h, q, k: s + (q - k))),
        (2, 16, 8),
        2 * 2 * 16 * 16 * 8,
    ),
    "grouped query attention": (
        Call(lambda x: F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], enable_gqa=True)),
        (4, 16, 8),
        2 * 4 * 16 * 16 * 8,
    ),
    "cdist": (Call(lambda x: torch.cdist(x, x)), (5, 8), 5 * 5 * 8),
    "tensordot": (Call(lambda x, w: torch.tensordot(x, w, dims=([2], [0])), 8, 3), (5, 8), 5 * 8 * 3),
    "addbmm": (Call(lambda x, w: torch.addbmm(w, x, x.transpose(1, 2)), 5, 5), (5, 8), 5 * 5 * 8),
    "aliases": (Call(aliases), (8,), 0),
    "losses": (Call(losses), (8,), 0),
    "stft": (Call(spectrum), (64,), 0),
    "fft with shifts": (Call(shifted), (8, 8), 0),
    "inverse": (Call(torch.linalg.inv), (5, 5), 0),
    "solve": (Call(lambda x: torch.linalg.solve(x, x)), (5, 5), 30 + 100),
    "cholesky": (Call(torch.linalg.cholesky), (5, 5), 20),
    "svd": (Call(lambda x: torch.linalg.svd(x)[1]), (5, 5), 0),
    "qr": (Call(lambda x: torch.linalg.qr(x)[0]), (5, 5), 0),
    "determinant": (Call(torch.linalg.det), (5, 5), 30),
    "unpooling": (Call(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)), (3, 8, 8), 0),
    "same padding": (nn.Conv2d(3, 4, 3, padding="same"), (3, 8, 8), 64 * 4 * 27),
    "reflected padding": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (3, 8, 8), 64 * 4 * 27),
    "cross product": (Call(lambda x: torch.linalg.cross(x, x)), (3,), 0),
    "weight norm": (nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), (8,), 32),
    "transposed 1d": (nn.ConvTranspose1d(4, 6, 5, 2, groups=2), (4, 9), 9 * 4 * 3 * 5),
    "transposed 3d": (nn.ConvTranspose3d(2, 3, 2, 2), (2, 4, 4, 4), 64 * 2 * 3 * 8),
    "resampling": (Call(resampled), (3, 8, 8), 0),
    "sorting": (Call(ordered), (8,), 0),
    "scatter": (Call(scattered), (8,), 0),
    "unfold and fold": (Call(lambda x: F.fold(F.unfold(x, 2, stride=2), (8, 8), 2, stride=2)), (3, 8, 8), 0),
    "gru": (nn.GRU(4, 6, 2, bidirectional=True, batch_first=True), (3, 4), 3 * 2 * (18 * (4 + 6) + 18 * (12 + 6))),
    "functions and sums": (Call(functions), (8,), 0),
    "picking": (Call(picked), (8,), 0),
    "windows": (Call(windows, 1, 2, 3), (4, 8, 8), 0),
    "encoder layer": (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (5, 8),
        5 * 8 * (24 + 8 + 2 * 16) + 2 * 5 * 5 * 8,
    ),
    "rnn": (nn.RNN(4, 6, batch_first=True), (3, 4), 3 * 6 * 10),
}


@for_each("name", CALLS)
def test_a_rule_and_the_right_macs(name: str) -> None:
    module, shape, macs = CALLS[name]
    w = lowered(module.eval(), torch.empty(2, *shape))
    assert w.operators.has_rule.all(), [w.operators.target[i] for i in (~w.operators.has_rule).nonzero()[0]]
    for batch in (1, 4):
        assert float((w.operators.macs @ w.value_at(batch=batch)).sum()) == macs * batch


def test_control_flow_says_what_it_counts() -> None:
    assert lowered(Call(branch), torch.empty(2, 8)).notes == ("the longer branch of each torch.cond is counted",)
    assert "counted once" in lowered(Call(loop), torch.empty(2, 8)).notes[0]


class _Pair:
    def __init__(self) -> None:
        self.x = torch.zeros(2, 8)


class _Answer:
    def __init__(self, y: torch.Tensor) -> None:
        self.y = y


class _OfPairs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, first: _Pair, second: _Pair) -> _Answer:
        return _Answer(self.linear(first.x + second.x))


def test_classes_of_the_user_are_those_of_torch_only_during_a_capture() -> None:
    for _ in range(2):
        assert hx.capture(_OfPairs(), (_Pair(), _Pair())).macs == 32
        assert not {_Pair, _Answer} & set(SUPPORTED_NODES)
