"""Ten architectures written for the tests, small enough to count by hand. Each states the MACs of its
contractions for one input, by module path, and for some operators all arithmetic (2 per MAC beside)."""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Counted(NamedTuple):
    """`macs` by path for one input, complete: what is not listed has none; `flops` by path, a sample."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    macs: dict[str, int]
    flops: dict[str, int]


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc1, self.enc2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.dec, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        skip = F.relu(self.enc1(x))
        deep = F.relu(self.norm(self.enc2(F.max_pool2d(skip, 2))))
        return self.out(F.relu(self.dec(torch.cat([self.up(deep), skip], 1))))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(100, 12), nn.LSTM(12, 20, num_layers=2, batch_first=True)
        self.head = nn.Linear(20, 100)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.lstm(self.embed(tokens))[0][:, -1])


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch, self.n1, self.n2 = nn.Conv2d(3, 32, 4, 4), nn.LayerNorm(32), nn.LayerNorm(32)
        self.t1, self.t2, self.c1, self.c2 = nn.Linear(16, 8), nn.Linear(8, 16), nn.Linear(32, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = y + self.t2(F.gelu(self.t1(self.n1(y).transpose(1, 2)))).transpose(1, 2)
        return self.head((y + self.c2(F.gelu(self.c1(self.n2(y))))).mean(1))


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up1, self.n1 = nn.ConvTranspose2d(10, 32, 4), nn.BatchNorm2d(32)
        self.up2, self.n2 = nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16)
        self.up3 = nn.ConvTranspose2d(16, 3, 4, 2, 1)

    def forward(self, z: Any) -> Any:
        y = F.leaky_relu(self.n1(self.up1(z)), 0.2)
        return torch.tanh(self.up3(F.leaky_relu(self.n2(self.up2(y)), 0.2)))


class Audio(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(1, 16, 10, stride=5), nn.Conv1d(16, 32, 3, dilation=2)
        self.depth, self.point = nn.Conv1d(32, 32, 3, padding=1, groups=32), nn.Conv1d(32, 32, 1)
        self.norm, self.head = nn.GroupNorm(4, 32), nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        y = F.glu(torch.cat([self.c2(F.gelu(self.c1(x)))] * 2, 1), 1)
        y = F.avg_pool1d(F.silu(self.norm(self.point(self.depth(y)))), 2)
        return self.head(F.adaptive_max_pool1d(y, 1).flatten(1)), torch.fft.rfft(x, dim=-1).abs()


class Vit(nn.Module):
    """Attention as two explicit products and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 24, 8, 8), nn.Parameter(torch.zeros(1, 1, 24))
        self.norm, self.qkv, self.proj = nn.LayerNorm(24), nn.Linear(24, 72), nn.Linear(24, 24)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Any) -> Any:
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1)
        q, k, v = self.qkv(self.norm(y)).reshape(-1, 17, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q @ k.transpose(-2, -1)) * 8**-0.5).softmax(-1)
        return self.head((y + self.proj((weights @ v).transpose(1, 2).reshape(-1, 17, 24)))[:, 0])


class Experts(nn.Module):
    """Dense mixture: every token through every expert, weighted by the two best gates."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.w1, self.w2 = nn.Parameter(torch.zeros(4, 16, 32)), nn.Parameter(torch.zeros(4, 32, 16))

    def forward(self, x: Any) -> Any:
        value, chosen = self.gate(x).softmax(-1).topk(2, -1)
        gates = torch.zeros(x.shape[0], 4).scatter(1, chosen, value / value.sum(-1, keepdim=True))
        hidden = F.silu(torch.einsum("bi,eih->beh", x, self.w1))
        return torch.einsum("beh,eho,be->bo", hidden, self.w2, gates)


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depth = nn.Conv3d(3, 8, 3, stride=2, padding=1), nn.Conv3d(8, 8, 3, padding=1, groups=8)
        self.point, self.norm, self.head = nn.Conv3d(8, 16, 1), nn.BatchNorm3d(16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        y = F.hardswish(self.norm(self.point(self.depth(self.stem(x)))))
        return self.head(F.adaptive_avg_pool3d(F.max_pool3d(y, 2), 1).flatten(1))


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.bottom = nn.EmbeddingBag(1000, 16, mode="sum"), nn.Linear(13, 16)
        self.tables = nn.ModuleList(nn.Embedding(500, 16) for _ in range(2))
        self.top = nn.Linear(22, 1)
        self.pairs = nn.Buffer(torch.triu_indices(4, 4, 1))

    def forward(self, dense: Any, bag: Any, ids: Any) -> Any:
        x = F.relu(self.bottom(dense))
        parts = torch.stack([x, self.bag(bag), self.tables[0](ids[:, 0]), self.tables[1](ids[:, 1])], 1)
        crossed = torch.bmm(parts, parts.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([x, crossed], 1)))


class Diffusion(nn.Module):
    """A denoiser's block: time embedding, residual convolutions, cross attention, resampling."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.n1, self.c1 = nn.Linear(16, 8), nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.q, self.kv, self.o = nn.Linear(8, 8), nn.Linear(12, 16), nn.Linear(8, 8)
        self.down = nn.Conv2d(8, 8, 3, 2, 1)

    def forward(self, x: Any, t: Any, text: Any) -> Any:
        angle = t[:, None] * torch.exp(torch.arange(8) * -1.15)
        time = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        h = self.c1(F.silu(self.n1(x))) + time[:, :, None, None]
        q = self.q(h.flatten(2).transpose(1, 2)).view(-1, 64, 2, 4).transpose(1, 2)
        k, v = self.kv(text).view(-1, 7, 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 64, 8))
        h = h + a.transpose(1, 2).reshape(-1, 8, 8, 8)
        return x + F.interpolate(self.down(h), scale_factor=2, mode="bilinear")


def ten() -> dict[str, Counted]:
    empty = torch.empty
    ids = torch.zeros(2, 5, dtype=torch.int64)
    return {
        "unet": Counted(
            UNet(),
            (empty(2, 3, 16, 16),),
            {
                "enc1": 256 * 8 * 27,
                "enc2": 64 * 16 * 72,
                "up": 64 * 16 * 8 * 4,
                "dec": 256 * 8 * 144,
                "out": 256 * 2 * 8,
            },
            {"norm": 64 * 16 * 2, "max_pool": 64 * 8 * 4, "relu": 256 * 8, "out.bias": 512, "cat": 0},
        ),
        "lstm": Counted(
            Lstm(),
            (ids,),
            {"lstm.recurrent": 5 * 4 * 20 * (12 + 20 + 20 + 20), "head": 20 * 100},
            {
                "lstm.recurrent": 2 * 5 * 80 * 72 + 5 * 40 * 14,
                "embed": 0,
            },  # two layers of 20 units, 14 flops a unit and step
        ),
        "mixer": Counted(
            Mixer(),
            (empty(2, 3, 16, 16),),
            {
                "patch": 16 * 32 * 48,
                "t1": 32 * 16 * 8,
                "t2": 32 * 8 * 16,
                "c1": 16 * 32 * 64,
                "c2": 16 * 64 * 32,
                "head": 320,
            },
            {"n1": 16 * 32 * 8, "gelu": 32 * 8 * 5, "mean": 16 * 32},
        ),
        "gan": Counted(
            Generator(),
            (empty(2, 10, 1, 1),),
            {"up1": 1 * 10 * 32 * 16, "up2": 16 * 32 * 16 * 16, "up3": 64 * 16 * 3 * 16},
            {"n2": 64 * 16 * 2, "elementwise": 16 * 32 * 2, "tanh": 256 * 3},
        ),
        "audio": Counted(
            Audio(),
            (empty(2, 1, 160),),
            {"c1": 31 * 16 * 10, "c2": 27 * 32 * 48, "depth": 27 * 32 * 3, "point": 27 * 32 * 32, "head": 160},
            {"norm": 27 * 32 * 8, "avg_pool": 13 * 32 * 2, "fft": 160 * round(2.5 * 7.321928094887363)},
        ),
        "vit": Counted(
            Vit(),
            (empty(2, 3, 32, 32),),
            {
                "patch": 16 * 24 * 192,
                "qkv": 17 * 24 * 72,
                "matmul": 3 * 17 * 17 * 8,
                "matmul~2": 3 * 17 * 8 * 17,
                "proj": 17 * 24 * 24,
                "head": 240,
            },
            {"softmax": 3 * 17 * 17 * 5, "mul": 3 * 17 * 17, "norm": 17 * 24 * 8},
        ),
        "experts": Counted(
            Experts(),
            (empty(2, 16),),
            {"gate": 64, "matmul": 4 * 16 * 32, "matmul~2": 4 * 32 * 16 + 4 * 16},
            {"softmax": 20, "sort": 4 * 2, "div": 2, "silu": 4 * 32 * 4},
        ),
        "video": Counted(
            Video(),
            (empty(2, 3, 8, 16, 16),),
            {"stem": 256 * 8 * 81, "depth": 256 * 8 * 27, "point": 256 * 8 * 16, "head": 64},
            {"norm": 256 * 16 * 2, "hardswish": 256 * 16 * 5, "max_pool": 32 * 16 * 8, "avg_pool": 32 * 16},
        ),
        "recommender": Counted(
            Recommender(),
            (empty(2, 13), ids, torch.zeros(2, 2, dtype=torch.int64)),
            {"bottom": 13 * 16, "matmul": 4 * 4 * 16, "top": 22},
            {"bag.embedding": 5 * 16, "tables.0": 0, "sigmoid": 4},
        ),
        "diffusion": Counted(
            Diffusion(),
            (empty(2, 8, 8, 8), empty(2), empty(2, 7, 12)),
            {
                "time": 128,
                "c1": 64 * 8 * 72,
                "q": 64 * 64,
                "kv": 7 * 12 * 16,
                "attention": 2 * 64 * 7 * 8,
                "o": 64 * 64,
                "down": 16 * 8 * 72,
            },
            {"attention": 2 * 2 * 64 * 7 * 8 + 2 * 64 * 7 * 6, "n1": 512 * 8, "resample": 512 * 7, "silu": 512 * 4},
        ),
    }
