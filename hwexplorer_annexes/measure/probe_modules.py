"""The probes of `hwexplorer measure` as modules: chains of one kind of operator, each fed by the previous one."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CHAIN = 4  # operators of a kind in a probe
Shape = dict[str, int]
ProbeParts = tuple[nn.Module, tuple[Any, ...]]  # a module and inputs whose first dimension is the batch


class RepeatedFunction(nn.Module):  # type: ignore[misc]
    """A function of the previous value, applied `times` times."""

    def __init__(self, function: Callable[..., Any], times: int = CHAIN) -> None:
        super().__init__()
        self.function, self.times = function, times

    def forward(self, x: Any) -> Any:
        """Apply the function `times` times to `x`."""
        for _ in range(self.times):
            x = self.function(x)
        return x


class RepeatedJoint(RepeatedFunction):
    """A function of the previous value and of the other inputs, applied `times` times."""

    def forward(self, x: Any, *others: Any) -> Any:
        """Apply the function `times` times to `x` and the unchanged `others`."""
        for _ in range(self.times):
            x = self.function(x, *others)
        return x


class LstmProbe(nn.Module):  # type: ignore[misc]
    """One LSTM layer that returns its output without its state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, x: Any) -> Any:
        """Return the output of the layer at every step."""
        return self.lstm(x)[0]


def _stack(make: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(*(make() for _ in range(CHAIN)))


def _image(shape: Shape) -> tuple[Any, ...]:
    return (torch.rand(shape["batch"], shape["channels"], shape["size"], shape["size"]),)


def _rows(shape: Shape) -> tuple[Any, ...]:
    return (torch.rand(shape["batch"], shape["rows"], shape["width"]),)


def _conv(shape: Shape, groups: int = 1) -> ProbeParts:
    wide, kernel = shape["channels"], shape["kernel"]
    make = lambda: nn.Conv2d(wide, wide, kernel, padding=kernel // 2, groups=groups, bias=False)  # noqa: E731
    return _stack(make), _image(shape)


def _pointwise(shape: Shape) -> ProbeParts:
    """Build 1 x 1 convolutions to several times the channels and back, as in mobile networks."""
    few, many = shape["channels"], shape["channels"] * shape["times"]
    pairs = ((few, many), (many, few)) * (CHAIN // 2)
    return nn.Sequential(*(nn.Conv2d(a, b, 1, bias=False) for a, b in pairs)), _image(shape)


def _attention(shape: Shape) -> ProbeParts:
    sizes = (shape["batch"], shape["heads"], shape["sequence"], shape["width"])
    return RepeatedJoint(F.scaled_dot_product_attention), tuple(torch.rand(sizes) for _ in range(3))


def _element(function: Callable[..., Any]) -> Callable[[Shape], ProbeParts]:
    return lambda shape: (RepeatedFunction(function), _rows(shape))


PROBES: dict[str, Callable[[Shape], ProbeParts]] = {
    "dispatch": lambda s: (RepeatedFunction(F.relu, 32), (torch.rand(1, s["width"]),)),
    "linear": lambda s: (_stack(lambda: nn.Linear(s["width"], s["width"])), (torch.rand(s["batch"], s["width"]),)),
    "bmm": lambda s: (
        RepeatedJoint(lambda x, y: torch.bmm(x, y) * 0.01),
        (*_rows(s), torch.rand(s["batch"], s["width"], s["width"])),
    ),
    "conv": _conv,
    "grouped": lambda s: _conv(s, s["groups"]),
    "pointwise": _pointwise,
    "depthwise": lambda s: _conv(s, s["channels"]),
    "attention": _attention,
    "layer_norm": lambda s: (_stack(lambda: nn.LayerNorm(s["width"])), _rows(s)),
    "batch_norm": lambda s: (_stack(lambda: nn.BatchNorm2d(s["channels"])), _image(s)),
    "softmax": _element(lambda x: torch.softmax(x, -1)),
    "relu": _element(F.relu),
    "gelu": _element(F.gelu),
    "hardswish": _element(F.hardswish),
    "silu": _element(F.silu),
    "add": lambda s: (RepeatedJoint(torch.add), _rows(s) * 2),
    "max_pool": lambda s: (nn.MaxPool2d(s["kernel"], 2, s["kernel"] // 2), _image(s)),
    "mean": lambda s: (RepeatedFunction(lambda x: x.mean((2, 3)), 1), _image(s)),
    "cat": lambda s: (RepeatedJoint(lambda x, y: torch.cat([x, y], 1)[:, : s["channels"]].relu()), _image(s) * 2),
    "permute": lambda s: (RepeatedFunction(lambda x: x.transpose(2, 3).contiguous()), _image(s)),
    "embedding": lambda s: (
        nn.Embedding(s["rows"], s["width"]),
        (torch.randint(s["rows"], (s["batch"], s["sequence"])),),
    ),
    "lstm": lambda s: (LstmProbe(s["width"]), (torch.rand(s["batch"], s["sequence"], s["width"]),)),
}  # fmt: skip
