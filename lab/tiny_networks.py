"""Small networks after MLPerf Tiny, and a feed-forward block, as modules of PyTorch: what microcontrollers run."""

from itertools import pairwise
from typing import Any

import torch
from torch import nn


def _convolution(inputs: int, outputs: int, side: int = 3, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups), nn.ReLU())


def _head(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, outputs)]


def ds_cnn() -> nn.Module:
    """Return a keyword spotter on 49 x 10 coefficients."""
    layers: list[nn.Module] = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.ReLU()]
    for _ in range(4):
        layers += [_convolution(64, 64, groups=64), _convolution(64, 64, 1)]
    return nn.Sequential(*layers, *_head(64, 12)).eval()


def person_detection() -> nn.Module:
    """Return a MobileNet of a quarter of the channels on 96 x 96 pixels."""
    layers, inputs = [_convolution(3, 8, stride=2)], 8
    steps = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)]
    for outputs, stride in steps:
        layers += [_convolution(inputs, inputs, stride=stride, groups=inputs), _convolution(inputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, *_head(256, 2)).eval()


class _Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(inputs, outputs, stride=stride), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.beside = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, image: torch.Tensor) -> Any:
        """Return the image after the block."""
        return torch.relu(self.second(self.first(image)) + self.beside(image))


def resnet8() -> nn.Module:
    """Return a residual network on 32 x 32 pixels."""
    blocks = _Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2)
    return nn.Sequential(_convolution(3, 16), *blocks, *_head(64, 10)).eval()


def cifar_cnn() -> nn.Module:
    """Return five convolutions on 32 x 32 pixels."""
    first = _convolution(3, 32), _convolution(32, 32), nn.MaxPool2d(2)
    second = _convolution(32, 64), _convolution(64, 64), nn.MaxPool2d(2)
    return nn.Sequential(*first, *second, _convolution(64, 128), *_head(128, 10)).eval()


def autoencoder() -> nn.Module:
    """Return the layers that find anomalies in sound."""
    sizes = 640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


class _FeedForward(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Return the tokens after the layer."""
        return tokens + self.down(torch.relu(self.up(tokens)))


def feed_forward() -> nn.Module:
    """Return two feed-forward layers of 64 tokens."""
    return nn.Sequential(_FeedForward(), _FeedForward()).eval()
