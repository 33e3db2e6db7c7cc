"""The building blocks as torch modules. Parameters as in `analysis.model.names.zoo.BLOCKS`."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Chain(nn.Sequential):  # type: ignore[misc]
    """Named modules, applied one after the other."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__(OrderedDict(parts))


class Mlp(Chain):
    """Two linear layers with a GELU between them."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__(fc1=nn.Linear(width, hidden), act=nn.GELU(), fc2=nn.Linear(hidden, out))


class ConvBnRelu(Chain):
    """A convolution that keeps the size of the image, then batch norm and ReLU."""

    def __init__(self, c_in: int, c_out: int, kernel: int) -> None:
        conv = nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2, bias=False)
        super().__init__(conv=conv, bn=nn.BatchNorm2d(c_out), relu=nn.ReLU())


class ResNetBlock(nn.Module):  # type: ignore[misc]
    """Two 3x3 convolutions whose result is added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x
        return self.relu(out)


class AttentionHead(nn.Module):  # type: ignore[misc]
    """One attention head whose two matrix products and softmax are separate operators."""

    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, head)
        self.key = nn.Linear(width, head)
        self.value = nn.Linear(width, head)
        self.softmax = nn.Softmax(dim=-1)
        self.out = nn.Linear(head, width)
        self.scale = head**-0.5

    def forward(self, x: Any) -> Any:
        query, key, value = self.query(x), self.key(x), self.value(x)
        scores = torch.matmul(query * self.scale, key.transpose(-2, -1))
        return self.out(torch.matmul(self.softmax(scores), value))


class DepthwiseSeparable(Chain):
    """A filter per channel, then a convolution of one pixel that mixes the channels."""

    def __init__(self, c_in: int, c_out: int, kernel: int) -> None:
        filters = nn.Conv2d(c_in, c_in, kernel, padding=kernel // 2, groups=c_in, bias=False)
        first = {"depthwise": filters, "bn1": nn.BatchNorm2d(c_in), "relu1": nn.ReLU6()}
        mixing = nn.Conv2d(c_in, c_out, 1, bias=False)
        super().__init__(**first, pointwise=mixing, bn2=nn.BatchNorm2d(c_out), relu2=nn.ReLU6())


class Pooling(Chain):
    """Max pooling, then the mean of each channel."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__(maxpool=nn.MaxPool2d(kernel, stride, padding=kernel // 2), avgpool=nn.AdaptiveAvgPool2d(1))


class TransformerBlock(nn.Module):  # type: ignore[misc]
    """Pre-norm encoder block. As in PyTorch, its attention is one fused operator between two projections."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, hidden, width)

    def forward(self, x: Any) -> Any:
        y = self.ln1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Gemm(nn.Module):  # type: ignore[misc]
    """A product with a matrix of `inner` x `columns` weights."""

    def __init__(self, inner: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inner, columns))

    def forward(self, a: Any) -> Any:
        return torch.matmul(a, self.weight)


# The module of a block, its parameters, and the shape of its input without the batch, by the names of zoo.toml.
_BLOCKS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "mlp": (Mlp, "in hidden out", "in"),
    "conv2d": (ConvBnRelu, "in out kernel", "in size size"),
    "resnet_block": (ResNetBlock, "channels", "channels size size"),
    "attention_head": (AttentionHead, "width head", "sequence width"),
    "depthwise_separable": (DepthwiseSeparable, "in out kernel", "in size size"),
    "pooling": (Pooling, "kernel stride", "channels size size"),
    "layer_norm": (lambda width: Chain(norm=nn.LayerNorm(width)), "width", "sequence width"),
    "batch_norm": (lambda channels: Chain(norm=nn.BatchNorm2d(channels)), "channels", "channels size size"),
    "transformer_block": (TransformerBlock, "width heads mlp", "sequence width"),
    "gemm": (Gemm, "K N", "M K"),
}


def build(name: str, sizes: dict[str, int]) -> tuple[Any, tuple[int, ...]]:
    """Return the module and the shape of its input without the batch."""
    make, given, shape = _BLOCKS[name]
    return make(*(sizes[word] for word in given.split())), tuple(sizes[word] for word in shape.split())
