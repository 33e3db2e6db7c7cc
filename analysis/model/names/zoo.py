"""The models known by name: torchvision's, with their published figures, and the building blocks. `aliases.toml` has
other names of models and options.
"""

import csv
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from analysis.model import request_bounds
from analysis.model.model_errors import ModelSpecError
from hardware.base import file_access
from hardware.base.errors import ONE_MARK, fold_name, match_name
from hardware.base.records import group_by

_TABLE = Path(__file__).with_name("torchvision.csv")
CAPTURE_SUFFIX = ".msgpack.gz"  # the suffix of a stored workload

FAMILIES = ("classification", "segmentation", "detection", "video", "optical_flow", "quantized")

_DATA = file_access.table(Path(__file__).with_suffix(".toml"))
BLOCKS: dict[str, dict[str, int]] = _DATA["blocks"]


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
        return not self.is_block

    @property
    def capture_name(self) -> str:
        """The file name of its capture. Quantised models share the capture of their float architecture."""
        name = architecture(str(self))
        stem = re.sub(r"[^A-Za-z0-9_.=,]", "_", name.replace(":", "-", 1))
        if self.image_size == table()[name].image_size:
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
    return match_name(name, names())


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
        lengths = "building blocks take sizes there, language models a phase: llama3_8b:decode"
        raise ModelSpecError(f"{name} takes nothing but train after ':', not {options[:40]!r} ({lengths})")
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


_ALIASES = Path(__file__).with_name("aliases.toml")
_SIZE = re.compile(r"\d+(_\d+)?[bm]|a\d+b|e\d+b")  # 8b, 1_5b, a3b, e4b


@cache
def _by_sound(kind: str) -> dict[str, str]:
    return {fold_name(name): meant for name, meant in file_access.shipped(_ALIASES)[kind].items()}


@cache
def _models() -> dict[str, str]:
    """Map the other names of models, and the names of models of libraries that ship, to names here."""
    shipped = {name: f"{library}:{name}" for library, models in libraries().items() for name in models}
    other: dict[str, str] = file_access.shipped(_ALIASES)["models"]
    return shipped | other


def library_names(*kinds: str) -> tuple[str, ...]:
    """Return the libraries whose models are named LIBRARY:NAME, of the kinds in aliases.toml that are given or all."""
    return tuple(name for kind in kinds or ("libraries", "captured") for name in file_access.shipped(_ALIASES)[kind])


def other_names() -> tuple[str, ...]:
    """Return the other names of models."""
    return tuple(_models())


def option_name(flag: str, flags: list[str]) -> str:
    """Return the flag of `flags`, without hyphens, that is meant: `batch` for `--Batch_Size`. '' if unknown."""
    name = fold_name(flag)
    return match_name(_by_sound("options").get(name, name), [f.lstrip("-") for f in flags if f.startswith("--")]) or ""


def canonical_name(text: str, names: list[str]) -> str:
    """Return a model's name, or a state string that begins with one, with the canonical name in it.

    `meta-llama/Llama-3.1-8B@b8` is `llama3_8b@b8`, `llama3.1:8b` (a tag of Ollama) is `llama3_8b`, and
    `timm/resnet50.a1_in1k` is `timm:resnet50.a1_in1k` if timm is installed, else `resnet50`."""
    table = file_access.shipped(_ALIASES)
    text = re.sub(table["before"], "", text)
    head = re.split(r"[@?]", text, maxsplit=1)[0]
    path = head.partition(":")[0]
    if "/" in path and (meant := _find_model(path.replace("/", "_"), names)):  # ViT-B/16
        return meant + text[len(path) :]
    tagged = re.match(r"([^:]+):([^:,=]+)", head)
    if (
        tagged
        and (match_name(tagged[1], names) is None or re.fullmatch(r"[0-9.]+[bm]", tagged[2]))
        and (meant := _find_model(f"{tagged[1].rpartition('/')[2]}-{tagged[2]}", names))
    ):
        return meant + text[tagged.end() :]
    first, _, rest = head.partition("/")
    second = re.split("[/:]", rest, maxsplit=1)[0]
    if second and not second.endswith(".py"):
        library, meant = match_name(first, library_names()), _find_model(re.sub(table["before"], "", second), names)
        ships = library is not None and match_name(second, libraries().get(library, ())) is not None
        if library is not None and (meant is None or ships or find_spec(library) is not None):
            return f"{library}:{second}{text[len(first) + len(second) + 1 :]}"
        if meant is not None and match_name(first, names) is None:
            return meant + text[len(first) + len(second) + 1 :]
    base = first.partition(":")[0]
    return (_find_model(base, names) or base) + text[len(base) :]


def of_library(library: str, name: str) -> tuple[str, str]:
    """Return a library and one of its models in their official spelling."""
    library = match_name(library, library_names()) or library
    return library, match_name(name, libraries().get(library, ())) or name


def _find_model(name: str, names: list[str]) -> str | None:
    """Return the model of a name. Words for training, framework or storage at its end are ignored. None for an unknown
    name."""
    table, other = file_access.shipped(_ALIASES), _models()
    while True:
        in_series = _of_series(name)
        library = in_series if in_series.partition(":")[0] in library_names() else None
        matches = (match_name(word, names) or other.get(match_name(word, other) or "") for word in (name, in_series))
        model = next(filter(None, matches), library)
        if (model := model or _with_only_ending(in_series, names)) is not None:
            return model
        endings = (*table["trained"], *table["stored"], *table["framework"])
        shorter = next((name[: -len(word) - 1] for word in endings if _ends(name, word)), "")
        shorter = shorter or re.sub(table["weights"], "", name)
        if shorter == name:
            return None
        name = shorter


def _of_series(name: str) -> str:
    """Return a name with the beginning of another series of the same sizes, or as it is."""
    spelling = name.casefold().translate(ONE_MARK)
    for beginning, replacement in file_access.shipped(_ALIASES)["series"].items():
        spelling = re.sub(f"^{beginning}", replacement, spelling)
    return spelling


def _with_only_ending(name: str, names: list[str]) -> str | None:
    """Return the only name that continues one with a number by its size, as `qwen3_235b`; None if several do."""
    if not re.search("[0-9]", name):
        return None
    start = name.casefold().translate(ONE_MARK) + "_"
    sizes = [model for model in names if model.startswith(start) and _SIZE.match(model, len(start))]
    return sizes[0] if len(sizes) == 1 else None


def precision_of_name(text: str) -> str:
    """Return the stored precision that the last word of a model's name or tag states (`fp8`, `awq`), else ''. The text
    may be a state string that begins with the name."""
    table = file_access.shipped(_ALIASES)["stored"]
    parts = re.split("[/:]", re.split("[@?]", text, maxsplit=1)[0])
    return next((table[word] for part in parts for word in table if _ends(f"-{part}", word)), "")


def _ends(name: str, word: str) -> bool:
    return name.lower().endswith(word) and name[-len(word) - 1 : -len(word)] in tuple("-_ .")
