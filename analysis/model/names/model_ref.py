"""The meaning of a model's name. `refer` parses a name once; all other code uses the returned value.

A name is a torchvision model (`resnet50`), a building block (`gemm:M=8192,N=8192,K=8192`), a transformer
(`llama3_8b:decode,kv=4096`, `hf:FOLDER`), the user's Python code (`net.py:make(1x3x224x224)`) or a file that holds a
program (`net.onnx`). This module neither runs nor imports the named code.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from analysis.model.model_errors import ModelError, ModelSpecError, UnknownModelError
from analysis.model.names import targets, zoo
from analysis.model.names.targets import Target
from analysis.model.training import training_request as training
from analysis.model.training.training_request import Step
from analysis.model.transformer.config import TRAIN
from hardware.base.errors import RequestError, hint
from hardware.device_catalog import load_device

if TYPE_CHECKING:
    from analysis.model.transformer.transformer_request import Request


# OWNER/NAME in the address of a model's page or file, with what precedes it.
_OWNED = r"[\w.-]+/[\w.-]+"
_HUB_ADDRESS = r"(?i)^(hf:)?https?://[^/\s]+/([\w.-]+/[\w.-]+)(?:/(?:tree|blob|resolve|raw)/[^:@?\s]*|/)?"
_LOAD = re.compile(r"[:,] *(serve|rate=|concurrency=|requests=)", re.I)  # in a name that states a load
# The meaning of a name: a frozen value. `str` gives a name that is parsed to the same value.
ModelRef: TypeAlias = "zoo.Spec | Target | Request | Step"


def refer(model: str | ModelRef, image_size: int | None = None) -> ModelRef:
    """Return the model that a name means. Raises a `ModelError` that explains the error and names the nearest model."""
    if not isinstance(model, str):
        return model
    text = _published(model.strip())
    # A configuration in a folder is read each time: it may have changed.
    return (_refer if text.lower().startswith("hf:") else _remembered)(text, image_size)


def _published(text: str) -> str:
    """Return the name of a model for its address on a hub, and for `hf:OWNER/NAME` of a known one that is not here.
    Raises a `ModelSpecError` for an unknown one."""
    text = _known_on_hub(text)
    if (owner := _elsewhere(text)) and not text.partition(owner)[2].startswith("/"):
        raise ModelSpecError(f"hf: {owner[:80]} is neither a folder nor in the local hub cache{_near(owner)}")
    return text


def _elsewhere(text: str) -> str:
    """Return the OWNER/NAME after `hf:` if neither such a folder nor such a model is on this machine; else ''."""
    if "/" not in text:
        return ""
    from analysis.model.transformer import hf_config

    owned = re.match(rf"hf:\s*({_OWNED})(?=[@?:]|$)", text, re.I)
    return "" if owned is None or hf_config.is_here(owned[1]) else owned[1]


def _known_on_hub(text: str) -> str:
    """Return the name here of a model after `hf:` that is not on this machine but known, else the text without the
    address of a hub."""
    if "/" not in text or not _elsewhere(text := re.sub(_HUB_ADDRESS, r"\g<1>\g<2>", text)):
        return text
    from analysis.model.transformer import transformer_request

    model = zoo.canonical_name(text[3:].strip(), names())
    name = re.split("[@?/:]", model, maxsplit=1)[0]
    return model if zoo.find_name(name) or transformer_request.handles(name) else text


def _refer(text: str, image_size: int | None) -> ModelRef:
    if (asked := training.split(text)) is not None:
        forward = refer(asked[0], image_size)
        if isinstance(forward, Step) or next(iter(forward.phases), "prefill") != "prefill":
            raise ModelSpecError(f"{text[:60]}: a model in training has no other phase")
        return Step(forward, training.read(*asked))
    name, colon, options = text.partition(":")
    model = zoo.find_name(name)
    if model is None and (full_name := plain(text)) != text:
        return _refer(full_name, image_size)
    if model is not None:
        return zoo.resize(zoo.spec(model, options if colon else None), image_size)
    target = user_target(text)
    if target is not None:
        if image_size is not None:
            if (resized := target.at_image_size(image_size)) is not None:
                return resized
            option = f"--input 1x3x{image_size}x{image_size}"
            raise ModelSpecError(f"{target.label} has no image size: it is part of the input, as {option}")
        return target
    from analysis.model.transformer import hf_config
    from analysis.model.transformer import transformer_request as transformers  # 10 ms that others do not need

    if not transformers.handles(text) and hf_config.is_here(transformers.split_hub(text)[0]) and "/" in text:
        return _refer(f"hf:{text}", image_size)
    if not transformers.handles(text):
        shown = text if len(text) <= 60 else text[:57] + "..."
        if "," in text and all(map(zoo.find_name, text.split(","))):
            rank = f"hwexplorer models {shown.replace(',', ' ')} --on DEV"
            raise UnknownModelError(f"{shown!r} is a list of models: `{rank}` compares them")
        raise UnknownModelError(f"unknown model {shown!r}", partial(_near, text))
    request = transformers.parse(text)
    if image_size is not None:
        raise ModelSpecError(f"{request.text[:60]} has no image size; it has sequence and kv")
    return request


def phases(model: str) -> dict[str, str]:
    """Return the names of a language model by phase (`Request.phases`); {} for any other model or text."""
    reference = _meaning(model)
    return {} if reference is None else reference.phases


def phases_to_turn(model: str) -> dict[str, str]:
    """Return the names of a model by phase, the current one first: those of a language model, and of any other model
    inference and training."""
    reference = _meaning(model)
    if reference is None or reference.phases:
        return {} if reference is None else reference.phases
    if isinstance(reference, Step):
        return {TRAIN: str(reference), "inference": str(reference.model)}
    return {"inference": str(reference), TRAIN: str(Step(reference, training.Training()))}


def split_load(model: str) -> tuple[str, str]:
    """Return the name of a model without its load, and the words of the load: a name may state both. Return the name
    and '' if it has no load, or is wrong."""
    reference = _meaning(model) if _LOAD.search(model) else None
    if reference is None or reference.load is None:
        return model, ""
    return reference.request, ",".join(reference.load.words)


def with_load(model: ModelRef, words: str) -> ModelRef:
    """Return a model under a load, `rate=5`: it serves requests of its lengths. Raises a `ModelSpecError`."""
    if isinstance(model, zoo.Spec | Target | Step) or not model.phases:
        raise ModelSpecError(f"{model.label[:60]} has no load: only language models serve requests")
    return refer(model.serve(words))


def _meaning(model: str) -> ModelRef | None:
    try:
        return refer(model)
    except ModelError:
        return None


def stored_precision(model: str) -> str:
    """Return the precision in which the weights of a configuration, a weight file or a preset are stored; '' if it is
    unknown or not supported."""
    if not model.lower().startswith("hf:") and targets.WEIGHTS not in model:
        return _published_precision(model) if phases(model) else ""
    from analysis.model.transformer import hf_config, transformer_request, weight_headers

    try:
        if model.lower().startswith("hf:"):
            return hf_config.stored_precision(transformer_request.split_hub(model[3:])[0])
        target = targets.parse(model)
        return "" if target is None else weight_headers.stored_precision(targets.source(target))
    except RequestError:
        return ""


def _published_precision(model: str) -> str:
    from analysis.model.transformer import transformer_request

    name = str(refer(model)).partition(":")[0]
    return transformer_request.preset(name).stored if name in transformer_request.preset_names() else ""


def user_target(text: str) -> Target | None:
    """Return the user's model that a text names, also in training, None for any other. Raises `ModelSpecError`."""
    if text.lower().startswith("hf:"):
        return None
    asked = None if "@" in text else training.split(training.split_batch(text)[0])
    full = plain(text if asked is None else asked[0])
    target = targets.parse(full)
    if target is None:
        _refuse_file(text)
    if target is not None and target.is_module:
        from analysis.model.transformer import transformer_request as transformers

        if zoo.find_name(target.path) or transformers.handles(full):
            return None
    return target


def _refuse_file(text: str) -> None:
    """Raise a `ModelSpecError` with advice for a file or folder of a known kind that cannot be opened."""
    suffix = re.search(r"\.[a-z0-9]+$", text.lower())
    folder = os.path.join(text, "config.json")
    if not suffix and (os.sep not in text or not os.path.isfile(folder)):
        if re.match(r"[.~]+/", text):
            raise ModelSpecError(f"unknown model {text[:80]!r}: a file ends in .onnx, .pt2, .gguf or .py:NAME")
        return
    from analysis.model.transformer import weight_headers

    if not suffix:
        raise ModelSpecError(f"{text[:80]} is a folder with a config.json: hf:{text[:80]} opens it")
    if (instead := weight_headers.table()["instead"].get(suffix[0])) is not None:
        raise ModelSpecError(f"{text[:80]} is {instead}")


def configuration_of_weights(text: str) -> str:
    """Return `hf:FOLDER` for a safetensors file with a config.json beside it, else the text."""
    if ".safetensors" not in text:  # the expression takes the square of the length
        return text
    match = re.fullmatch(r"(.*?)[^/:]+\.safetensors(?:\.index\.json)?(:[\w=,. ]+)?", text)
    if match is None or not os.path.isfile(os.path.join(match[1], "config.json")):
        return text
    return f"hf:{match[1].rstrip('/') or '.'}{match[2] or ''}"


def plain(text: str) -> str:
    """Return a model's name, or a state string that begins with one, with the canonical name in it."""
    text = _known_on_hub(text.strip())
    word = text.partition("@")[0].partition("?")[0].partition("/")[0].partition(":")[0]
    # A path is never another model.
    is_file = re.match(r"[./~]|[^@?]*\.(onnx|pt2|gguf)\b", text) or targets.has_reader(text.partition("@")[0])
    return text if is_file or zoo.find_name(word) or word.lower() == "hf" else zoo.canonical_name(text, names())


def hub_name(text: str) -> str:
    """Return the OWNER/NAME of a hub at the beginning of a state string, if it is not MODEL/DEVICE; else ''."""
    owned = re.match(_OWNED + r"(?=[@?:]|$)", text)
    if owned is None or re.search(r"\.\w+/|\.(py|json)$", owned[0]):
        return ""
    owner, _, device = owned[0].partition("/")
    if zoo.find_name(owner) or owner in names():
        return ""
    try:
        load_device(device)
    except RequestError:
        return owned[0]
    return ""


_remembered = lru_cache(maxsize=256)(_refer)


def names() -> list[str]:
    """Return the names of all known models, building blocks first."""
    from analysis.model.transformer import transformer_request as transformers

    return [*zoo.names(), *transformers.names()]


def _near(text: str) -> str:
    """Return what follows `unknown model X`: the device of this name, or the nearest models."""
    with suppress(RequestError):
        key = load_device(text).key
        return f": {key} is a device; name a model, and devices after --on, as resnet50 --on {key}"
    name = text.rpartition("/")[2]
    near = hint(name.partition(":")[0], [*names(), *zoo.other_names()])
    is_hub = re.fullmatch(_OWNED, text) and not name.endswith(".py")
    listing = "a folder with its config.json opens as hf:FOLDER" if is_hub else "`hwexplorer models` lists all names"
    return f"{': ' if near else ''}{near} ({listing})"
