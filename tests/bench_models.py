"""Models that no fit saw, for `python -m tests.bench_machine`: recurrent, and a small transformer."""

from typing import Any

import torch
from torch import nn


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two layers over a sequence of 32, the last state classified."""

    def __init__(self, cell: type[nn.Module], width: int = 256) -> None:
        super().__init__()
        self.cells = cell(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(x)[0][:, -1])


class Encoder(nn.Module):  # type: ignore[misc]
    """Four layers of 256, heads of 64, over 128 tokens."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def lstm() -> Any:
    return Recurrent(nn.LSTM), (torch.rand(1, 32, 256),)


def gru() -> Any:
    return Recurrent(nn.GRU), (torch.rand(1, 32, 256),)


def encoder() -> Any:
    return Encoder(), (torch.rand(1, 128, 256),)
