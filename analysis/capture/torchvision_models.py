"""Capture torchvision models and building blocks, with inputs and forward passes that can be exported.

The blocks are torch modules with the parameters of `analysis.model.names.zoo.BLOCKS`.
"""

import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from analysis.capture.exporter import export
from analysis.capture.torch_settings import import_torchvision, without_weights
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.names import zoo
from analysis.model.reading_budget import Progress


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
}


def build(name: str, sizes: dict[str, int]) -> tuple[Any, tuple[int, ...]]:
    """Return the module and the shape of its input without the batch."""
    make, given, shape = _BLOCKS[name]
    return make(*(sizes[word] for word in given.split())), tuple(sizes[word] for word in shape.split())


_META = "meta"
_kept: list[Any] = []


def capture(spec: zoo.Spec, progress: Progress = lambda phase, fraction: None) -> Workload:
    """Return the workload of a torchvision model or building block."""
    progress("build", 0.35)
    with without_weights():
        if spec.is_block:
            module, shape = build(spec.name, dict(spec.parameters))
            examples, names = [torch.empty(2, *shape, device="meta")], ["x"]
        else:
            info = zoo.table()[zoo.architecture(spec.name)]
            module = adapt(_torchvision(info, spec.image_size), info)
            examples, names = inputs(info, spec.image_size)
    progress("export", 0.45)
    with patches():
        graph = export(module, examples, names)
    if spec.is_block:
        graph = replace(graph, versions={"torch": graph.versions["torch"]})
    else:
        graph = replace(graph, notes=zoo.notes(spec.name))
    progress("lower", 0.95)
    origin = "building block" if spec.is_block else "torchvision"
    return lower_graph(graph, str(spec), spec.family, origin, spec.image_size)


def _torchvision(info: zoo.ModelInfo, size: int | None) -> Any:
    """Return the model as its default weights configure it, or as the constructor does at another image size."""
    models = import_torchvision().models
    if size != info.image_size and info.name.startswith("vit_"):
        return models.get_model(info.name, weights=None, image_size=size)
    if size != info.image_size and info.name.startswith("maxvit"):
        return models.get_model(info.name, weights=None, input_size=(size, size))
    if size != info.image_size and info.name.startswith("mvit"):
        return _mvit(models, info.name, size)
    return models.get_model(info.name, weights="DEFAULT")


def _mvit(models: Any, name: str, size: int | None) -> Any:
    """Return an MViT at an image size. Its public constructors fix the size, so their builder is patched."""
    from torchvision.models.video import mvit

    make_mvit = mvit._mvit
    sized = {"spatial_size": (size, size)}
    with patch.object(mvit, "_mvit", lambda *args, **kwargs: make_mvit(*args, **{**kwargs, **sized})):
        return models.get_model(name, weights=None)


def inputs(info: zoo.ModelInfo, size: int | None) -> tuple[list[Any], list[str]]:
    """Return example inputs with batch 2, and their names."""
    image = torch.empty(2, *zoo.input_shape(info.name, size), device=_META)
    if info.family == "optical_flow":
        return [image, torch.empty_like(image)], ["image1", "image2"]
    proposals = zoo.PROPOSALS.get(info.name)
    if proposals is None:
        return [image], ["x"]
    named = {"rois": proposals.boxes, "mask_rois": proposals.masks, "keypoint_rois": proposals.keypoints}
    extra = {name: torch.empty(2, count, 5, device=_META) for name, count in named.items() if count}
    return [image, *extra.values()], ["images", *extra]


def adapt(model: Any, info: zoo.ModelInfo) -> Any:
    """Return the model with the part of its forward pass that has static shapes. Module names stay."""
    if info.family == "detection":
        if info.name in zoo.PROPOSALS:
            model.forward = types.MethodType(_two_stage, model)
        else:
            model.forward = lambda images: model.head(list(_levels(model, images).values()))
    return model


def _levels(model: Any, images: Any) -> dict[str, Any]:
    features = model.backbone(images)
    return {"0": features} if isinstance(features, torch.Tensor) else features


def _two_stage(model: Any, images: Any, rois: Any, more: Any = None) -> Any:
    """Run backbone and heads on given boxes: the steps between them (box decoding, top-k, NMS) depend on the data."""
    features = _levels(model, images)
    heads = model.roi_heads
    results = [model.rpn.head(list(features.values()))]
    results.append(heads.box_predictor(heads.box_head(_pool(heads.box_roi_pool, features, rois))))
    if heads.has_mask() and more is not None:
        pooled = _pool(heads.mask_roi_pool, features, more)
        results.append(heads.mask_predictor(heads.mask_head(pooled)))
    if heads.has_keypoint() and more is not None:
        pooled = _pool(heads.keypoint_roi_pool, features, more)
        results.append(heads.keypoint_predictor(heads.keypoint_head(pooled)))
    return results


def _pool(pool: Any, features: dict[str, Any], rois: Any) -> Any:
    """Apply RoI align with the boxes spread evenly over the pyramid's levels (the real spread depends on the data)."""
    levels = [features[name] for name in pool.featmap_names if name in features]
    counts = [rois.shape[1] // len(levels) + (i < rois.shape[1] % len(levels)) for i in range(len(levels))]
    parts, start = [], 0
    for level, count in zip(levels, counts, strict=True):
        if count:
            boxes = rois[:, start : start + count].reshape(-1, 5)
            parts.append(roi_align()(level, boxes, *pool.output_size, pool.sampling_ratio))
            start += count
    return torch.cat(parts)


def roi_align() -> Any:
    """Return an operator with the shape rule of torchvision's `roi_align`, which may fail to load."""
    if not _kept:
        library = torch.library.Library("hwexplorer", "FRAGMENT")
        library.define("roi_align(Tensor input, Tensor rois, int height, int width, int samples) -> Tensor")

        def _fake(input: Any, rois: Any, height: int, width: int, samples: int) -> Any:
            return input.new_empty(rois.shape[0], input.shape[1], height, width)

        library.impl("roi_align", _fake, "Meta")
        _kept.append(library)
    return torch.ops.hwexplorer.roi_align.default


@contextmanager
def patches() -> Iterator[None]:
    """Replace `chunk` of a symbolic size by `narrow`, which does not ask whether the parts are equal (RAFT)."""
    original = torch.chunk

    def _chunk(tensor: Any, chunks: int, dim: int = 0) -> Any:
        size = tensor.shape[dim]
        if not isinstance(size, torch.SymInt):
            return original(tensor, chunks, dim)
        part = size // chunks
        return tuple(tensor.narrow(dim, index * part, part) for index in range(chunks))

    with patch.object(torch, "chunk", _chunk):
        yield
