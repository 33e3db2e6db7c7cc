"""Models of MLPerf that no library ships, as their published descriptions have them; their sizes are data
(analysis/model/libraries.toml)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn


def _layers(sizes: list[int]) -> list[nn.Module]:
    return [layer for ins, outs in pairwise(sizes) for layer in (nn.Linear(ins, outs), nn.ReLU())]


class Cross(nn.Module):  # type: ignore[misc]
    """The cross layers of DCN v2, each a product of low rank: x0 * (V (W x) + b) + x."""

    def __init__(self, width: int, layers: int, rank: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(layers))

    def forward(self, first: Any) -> Any:
        x = first
        for down, up in zip(self.down, self.up, strict=True):
            x = first * up(down(x)) + x
        return x


class Dlrm(nn.Module):  # type: ignore[misc]
    """Numbers through one stack of layers, each kind of id through a table whose rows are added up, all of it crossed
    (`cross`: layers and rank) or multiplied pair by pair, through another stack to one score."""

    def __init__(self, rows: list[int], hot: list[int], bottom: list[int], top: list[int], cross: list[int]) -> None:
        super().__init__()
        width = bottom[-1]
        vectors = len(rows) + 1
        self.hot = hot
        self.bottom = nn.Sequential(*_layers(bottom))
        self.tables = nn.ModuleList(nn.EmbeddingBag(count, width, mode="sum") for count in rows)
        self.cross = Cross(vectors * width, *cross) if cross else None
        pairs = vectors * (vectors - 1) // 2
        self.top = nn.Sequential(*_layers([vectors * width if cross else width + pairs, *top])[:-1], nn.Sigmoid())
        below = [row * vectors + column for row in range(vectors) for column in range(row)]
        self.register_buffer("below", torch.tensor(below))

    def forward(self, dense: Any, sparse_ids: Any) -> Any:
        numbers = self.bottom(dense)
        bags = zip(self.tables, sparse_ids.split(self.hot, dim=1), strict=True)
        vectors = [numbers, *(table(ids) for table, ids in bags)]
        if self.cross is not None:
            return self.top(self.cross(torch.cat(vectors, dim=1)))
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        return self.top(torch.cat([numbers, products.flatten(1).index_select(1, self.below)], dim=1))


class Twice(nn.Sequential):  # type: ignore[misc]
    """Two convolutions over 3 x 3 x 3, each normalised; the first one may halve the volume."""

    def __init__(self, ins: int, outs: int, stride: int = 1) -> None:
        layers: list[nn.Module] = []
        for channels, step in ((ins, stride), (outs, 1)):
            convolution = nn.Conv3d(channels, outs, 3, step, padding=1, bias=False)
            layers += [convolution, nn.InstanceNorm3d(outs, affine=True), nn.ReLU()]
        super().__init__(*layers)


class Unet3d(nn.Module):  # type: ignore[misc]
    """Down by strided convolutions, up again beside what was seen on the way; `widths` are the channels by level."""

    def __init__(self, ins: int, classes: int, widths: list[int]) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.first = Twice(ins, widths[0])
        self.down = nn.ModuleList(Twice(a, b, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in reversed(pairs))
        self.joined = nn.ModuleList(Twice(2 * a, a) for a, _ in reversed(pairs))
        self.last = nn.Conv3d(widths[0], classes, 1)

    def forward(self, volume: Any) -> Any:
        seen = [self.first(volume)]
        for down in self.down:
            seen.append(down(seen[-1]))
        x = seen.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat([up(x), seen.pop()], dim=1))
        return self.last(x)
