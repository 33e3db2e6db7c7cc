"""MACs of written models of unusual kinds against counts by hand: routing, loops, weights that a network writes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from analysis.capture.module_at_hand import capture


class Dispatch(nn.Module):
    """The best expert alone sees a token, in a table of places (Switch Transformer)."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 32, 64)), nn.Parameter(torch.randn(4, 64, 32))

    def forward(self, x: Any) -> Any:
        gate, chosen = self.router(x).softmax(-1).max(-1)
        hot = F.one_hot(chosen, 4).to(x.dtype)
        place = ((hot.cumsum(1) - 1) * hot).sum(-1).long().clamp(max=7)
        table = hot[..., None] * F.one_hot(place, 8).to(x.dtype)[:, :, None]
        rows = torch.einsum("bnec,bnd->becd", table, x)
        made = torch.einsum("bech,ehd->becd", torch.einsum("becd,edh->bech", rows, self.up).relu(), self.down)
        return torch.einsum("bnec,becd->bnd", table * gate[..., None, None], made)


class Written(nn.Module):
    """A network writes the convolution of each image."""

    def __init__(self) -> None:
        super().__init__()
        self.write = nn.Linear(8, 4 * 3 * 9)

    def forward(self, z: Any, x: Any) -> Any:
        batch = x.shape[0]
        weight = self.write(z).view(batch * 4, 3, 3, 3)
        y = F.conv2d(x.reshape(1, batch * 3, 8, 8), weight, groups=batch, padding=1)
        return y.view(batch, 4, 8, 8)


class Slots(nn.Module):
    """Slots compete for tokens and remember them in a GRU cell."""

    def __init__(self) -> None:
        super().__init__()
        self.slots, self.cell = nn.Parameter(torch.randn(4, 32)), nn.GRUCell(32, 32)
        self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        slots, key, value = self.slots.expand(x.shape[0], 4, 32), self.key(x), self.value(x)
        for _ in range(3):
            share = torch.einsum("bnd,bsd->bns", key, slots).softmax(-1)
            seen = torch.einsum("bns,bnd->bsd", share, value)
            slots = self.cell(seen.reshape(-1, 32), slots.reshape(-1, 32)).view(-1, 4, 32)
        return slots


class Spectrum(nn.Module):
    """A complex product per frequency counts four real ones."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.out = nn.Parameter(torch.randn(33, 32, 32, dtype=torch.cfloat)), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        spectrum = torch.einsum("bnd,nde->bne", torch.fft.rfft(x, dim=1), self.weight)
        return self.out(torch.fft.irfft(spectrum, n=64, dim=1))


class Ensemble(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 16, 8))

    def forward(self, x: Any) -> Any:
        return torch.vmap(lambda weight: (x @ weight).tanh())(self.weight).mean(0)


class Chunks(nn.Module):
    """Each chunk of 16 tokens sees itself and the chunk before."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(1, (-1, 16)) for part in self.qkv(x).chunk(3, -1))
        k, v = (torch.cat([part.roll(1, 1), part], 2) for part in (k, v))
        return ((q @ k.transpose(-1, -2)).softmax(-1) @ v).flatten(1, 2)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x)
        return x.round() @ weight

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, None


class StraightThrough(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 32))

    def forward(self, x: Any) -> Any:
        return Rounded.apply(x, self.weight)


class Replaced(nn.Module):
    """A layer called with other weights, and one under spectral normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Linear(16, 16)
        self.normed = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8, bias=False))

    def forward(self, x: Any) -> Any:
        weights = {"weight": self.plain.weight * 2, "bias": self.plain.bias}
        return self.normed(torch.func.functional_call(self.plain, weights, (x,)))


CASES: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]], int]] = {
    "dispatch to the best expert": (Dispatch, [(2, 16, 32)], 16 * 32 * 4 + 2 * 16 * 32 * 32 + 2 * 32 * 32 * 64),
    "written convolution": (Written, [(2, 8), (2, 3, 8, 8)], 8 * 108 + 64 * 108),
    "slots": (Slots, [(2, 12, 32)], 2 * 12 * 32 * 32 + 3 * (2 * 12 * 4 * 32 + 4 * 2 * 96 * 32)),
    "products of spectra": (Spectrum, [(2, 64, 32)], 4 * 33 * 32 * 32 + 64 * 32 * 32),
    "ensemble by vmap": (Ensemble, [(2, 16)], 5 * 16 * 8),
    "chunked attention": (Chunks, [(2, 64, 64)], 64 * 64 * 192 + 2 * 64 * 32 * 64),
    "own autograd function": (StraightThrough, [(2, 16)], 16 * 32),
    # The norm of a weight takes W v and u (W v), once whatever the batch.
    "replaced weights": (Replaced, [(2, 16)], 16 * 16 + 16 * 8 + 16 * 8 + 8),
}


@pytest.mark.parametrize("kind", CASES)
def test_macs_of_one_input_are_those_counted_by_hand(kind: str) -> None:
    build, shapes, macs = CASES[kind]
    workload = capture(build(), [torch.randn(shape) for shape in shapes])
    assert (workload.macs, workload.coverage, workload.inputs[0].shape[0]) == (macs, 1, "batch")
