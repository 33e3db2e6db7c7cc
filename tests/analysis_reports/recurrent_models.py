"""Recurrent networks for the measured peak of memory: layers that a library runs whole, and cells step by step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn


class Layers(nn.Module):
    """Two layers over a sequence of 32, each step classified."""

    def __init__(self, cell: type[nn.Module], both: bool = False, width: int = 256) -> None:
        super().__init__()
        self.cells = cell(width, width, num_layers=2, batch_first=True, bidirectional=both)
        self.head = nn.Linear(width * (1 + both), 1000)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(x)[0])


class Steps(nn.Module):
    """A cell called step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(256, 256), nn.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        state, results = None, []
        for step in x.unbind(1):
            state = self.cell(step, state)
            results.append(state)
        return self.head(torch.stack(results, 1))


def _made(build: Callable[[], nn.Module]) -> Any:
    return build(), (torch.rand(1, 32, 256),)


lstm = partial(_made, partial(Layers, nn.LSTM))
lstm_both = partial(_made, partial(Layers, nn.LSTM, both=True))
gru = partial(_made, partial(Layers, nn.GRU))
gru_both = partial(_made, partial(Layers, nn.GRU, both=True))
rnn = partial(_made, partial(Layers, nn.RNN))
steps = partial(_made, Steps)
RECURRENT = {"lstm": lstm, "lstm_both": lstm_both, "gru": gru, "gru_both": gru_both, "rnn": rnn, "steps": steps}
