"""The models known by name: torchvision's, with their published figures, and the building blocks."""

import csv
import re
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from analysis.model import request_bounds
from analysis.model.model_errors import ModelSpecError
from hardware.base import file_access
from hardware.base.errors import match_name as known_name
from hardware.base.records import group_by

_TABLE = Path(__file__).with_name("torchvision.csv")
CAPTURE_SUFFIX = ".msgpack.gz"  # the suffix of a stored workload

FAMILIES = ("classification", "segmentation", "detection", "video", "optical_flow", "quantized")

_DATA = file_access.table(Path(__file__).with_suffix(".toml"))
BLOCKS: dict[str, dict[str, int]] = _DATA["blocks"]
WRITTEN = ("gemm", "lu", "cholesky", "fir", "stencil", "kalman")  # blocks whose graph is written from their parameters


class Proposals(msgspec.Struct, frozen=True):
    """Boxes per image in the second stage of a detector: `boxes` is torchvision's maximum before the box head; `masks`
    and `keypoints` are implied by its published operation counts."""

    boxes: int
    masks: int = 0
    keypoints: int = 0


PROPOSALS = msgspec.convert(_DATA["proposals"], dict[str, Proposals])


class PublishedWeights(msgspec.Struct, frozen=True, kw_only=True):
    """One published set of weights, a row of torchvision.csv: the reference figures at its crop size."""

    name: str = msgspec.field(name="weights")
    is_default: bool = msgspec.field(name="default")
    parameters: int
    gmacs: float
    crop_size: int | None = None
    min_size: int
    metric: str = ""
    value: float | None = None


class ModelInfo(msgspec.Struct, frozen=True):
    """A torchvision model as published. `image_size` is the default weights' crop size."""

    name: str
    family: str
    parameters: int
    macs: float
    image_size: int | None
    min_size: int
    metric: str
    value: float | None
    weights: tuple[PublishedWeights, ...]

    @property
    def input(self) -> tuple[int, ...]:
        """The shape of one image or clip."""
        return input_shape(self.name, self.image_size)


class Spec(msgspec.Struct, frozen=True):
    """A torchvision model with the requested image size, or a building block with its parameters."""

    name: str
    family: str
    parameters: tuple[tuple[str, int], ...] = ()
    image_size: int | None = None
    runs_code: ClassVar[bool] = False
    phases: ClassVar[dict[str, str]] = {}
    load: ClassVar[None] = None
    load_and_lengths: ClassVar[str] = ""

    @property
    def is_block(self) -> bool:
        """True for a building block."""
        return self.family == "block"

    @property
    def label(self) -> str:
        """The name for titles."""
        return str(self)

    @property
    def is_captured(self) -> bool:
        """True if its workload comes from a capture rather than from its parameters."""
        return self.name not in WRITTEN

    @property
    def capture_name(self) -> str:
        """The file name of its capture. Quantised models share the capture of their float architecture."""
        name = architecture(str(self))
        stem = re.sub(r"[^A-Za-z0-9_.=,]", "_", name.replace(":", "-", 1))
        if self.is_block or self.image_size == table()[name].image_size:
            return stem + CAPTURE_SUFFIX
        return f"{stem}-{self.image_size}{CAPTURE_SUFFIX}"

    def __str__(self) -> str:
        if not self.is_block or dict(self.parameters) == BLOCKS[self.name]:
            return self.name
        return f"{self.name}:" + ",".join(f"{key}={value}" for key, value in self.parameters)


@cache
def table() -> dict[str, ModelInfo]:
    """Return every torchvision model of the table, by name."""
    with _TABLE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        by_model = group_by(rows, lambda row: row["model"])
    return {name: _info(name, rows) for name, rows in by_model.items()}


def _info(name: str, rows: list[dict[str, str]]) -> ModelInfo:
    filled = [{key: text for key, text in row.items() if text} for row in rows]
    weights = msgspec.convert(filled, tuple[PublishedWeights, ...], strict=False)
    default = next((item for item in weights if item.is_default), weights[0])
    sizes, family = _DATA["sizes"], rows[0]["family"]
    size = default.crop_size or sizes.get(name, sizes.get(family))
    least = min(item.min_size for item in weights)
    macs, metric, value = default.gmacs * 1e9, default.metric, default.value
    return ModelInfo(name, family, default.parameters, macs, size, least, metric, value, weights)


def libraries() -> dict[str, dict[str, Any]]:
    """Return the table of models by library and name: sizes of shipped captures, configurations of other models."""
    return file_access.shipped(Path(__file__).with_name("libraries.toml"))


def models(family: str | None = None) -> list[ModelInfo]:
    """Return the models that can be loaded, restricted to `family` if given."""
    return [info for info in table().values() if info.family in FAMILIES and (family is None or info.family == family)]


def names() -> list[str]:
    """Return the building blocks, then the models of the table that can be loaded."""
    return [*BLOCKS, *(info.name for info in models())]


def find_name(name: str) -> str | None:
    """Return the model or block that a name means, None for any other name."""
    return known_name(name, names())


def input_shape(name: str, image_size: int | None) -> tuple[int, ...]:
    """Return the shape of one input without the batch: channels, frames of a clip, height, width."""
    family = table()[name].family
    frames = (_DATA["frames"][family],) if family in _DATA["frames"] else ()
    size = image_size or 0
    return (3, *frames, size, size)


def notes(name: str) -> tuple[str, ...]:
    """Return notes on omissions and assumptions in the capture of this model."""
    info = table()[architecture(name)]
    if info.family != "detection":
        return ()
    dense = "box decoding and non-maximum suppression depend on the image and are not counted"
    proposals = PROPOSALS.get(info.name)
    if proposals is None:
        return (dense,)
    parts = [f"{proposals.boxes} proposals per image, spread evenly over the pyramid"]
    parts += [f"{proposals.masks} masks"] if proposals.masks else []
    parts += [f"{proposals.keypoints} detection with keypoints"] if proposals.keypoints else []
    return (", ".join(parts), dense)


def architecture(name: str) -> str:
    """Return the float architecture of a quantised model, and any other name unchanged."""
    return name.removeprefix("quantized_")


def spec(name: str, options: str | None = None) -> Spec:
    """Return the model of a known name and the options after its colon: `M=8192,N=8192,K=8192`, `8192x8192x8192`."""
    if name in BLOCKS:
        return Spec(name, "block", tuple(_parameters(name, options or "").items()))
    if options is not None:
        raise ModelSpecError(f"{name} takes no parameters after ':' (only building blocks do)")
    info = table()[name]
    return Spec(name, info.family, image_size=info.image_size)


def _parameters(name: str, text: str) -> dict[str, int]:
    values = dict(BLOCKS[name])
    if not text:
        return values
    allowed = ", ".join(values)
    parts = text.split(",")
    if len(parts) == 1 and "=" not in text:  # 8192x8192x8192, in the order of the table
        sizes = text.lower().split("x")
        if len(sizes) != len(values):
            raise ModelSpecError(f"{name}: {text!r} needs {len(values)} numbers separated by x ({allowed})")
        parts = [f"{key}={size}" for key, size in zip(values, sizes, strict=True)]
    keys = {key.lower(): key for key in values}
    for part in parts:
        key, _, value = part.partition("=")
        if key.strip().lower() not in keys:
            raise ModelSpecError(f"{name} has no parameter {key.strip()!r}; allowed: {allowed}")
        known = keys[key.strip().lower()]
        most = request_bounds.REPEATED if known in ("sweeps", "steps") else request_bounds.PARAMETER
        values[known] = request_bounds.whole_option(f"{name}: {known}", value.strip(), 1, most)
    return values


def resize(spec: Spec, image_size: int | None) -> Spec:
    """Return the same model at another image size; for a block, its parameter `size`. Raises ModelSpecError."""
    if image_size is None:
        return spec
    if wrong := request_bounds.range_error("image size", image_size, request_bounds.IMAGE_SIZE):
        raise ModelSpecError(wrong)
    if not spec.is_block:
        _check_size(table()[spec.name], image_size)
        return msgspec.structs.replace(spec, image_size=image_size)
    parameters = dict(spec.parameters)
    if "size" not in parameters:
        raise ModelSpecError(f"{spec.name} has no image size; its parameters: {', '.join(parameters)}")
    return msgspec.structs.replace(spec, parameters=tuple((parameters | {"size": image_size}).items()))


def _check_size(info: ModelInfo, size: int) -> None:
    multiple = size_multiple(info.name)
    if size % multiple:
        near = max(multiple, round(size / multiple) * multiple)
        raise ModelSpecError(
            f"{info.name} needs an image size that is a multiple of {multiple}, not {size}; nearest: {near}"
        )
    smallest = smallest_size(info)
    if size < smallest:
        raise ModelSpecError(f"image size {size} is too small for {info.name}; smallest: {smallest}")


def size_multiple(name: str) -> int:
    """Return the number that divides valid image sizes: ViT's patch, MaxViT's windows at every stage, RAFT's eighth."""
    return next((size for beginning, size in _DATA["multiples"].items() if name.startswith(beginning)), 1)


def smallest_size(info: ModelInfo) -> int:
    """Return the smallest image size. For transformers torchvision only states the size of the weights, not a limit."""
    sizes: dict[str, int] = _DATA["smallest"]
    by_name = (size for beginning, size in sizes.items() if info.name.startswith(beginning))
    multiple = size_multiple(info.name)
    return next(by_name, multiple if multiple > 1 else sizes.get(info.family, info.min_size))
