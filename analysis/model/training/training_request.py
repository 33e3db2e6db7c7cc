"""What a training step is asked to be: `resnet50:train,optimizer=adamw,recompute=blocks`.

A name of a model with the word `train` means one step of its training: forward, backward, update. The options are those
of Training; others, such as `sequence=2048`, belong to the model.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from analysis.model import request_bounds
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer.config import TRAIN
from hardware.base import file_access
from hardware.base.errors import hint

if TYPE_CHECKING:
    from analysis.model.names.targets import Target
    from analysis.model.names.zoo import Spec
    from analysis.model.transformer.transformer_request import Request

PATH = Path(__file__).with_name("training.toml")
_ASKS = re.compile(r"^(?P<model>.+?):\s*(?P<before>[^:()]*,)?\s*train\s*(?P<after>,[^:()]*)?$", re.I | re.S)


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a step.

    `optimizer` and `update` are tables of training.toml. `recompute`: the forward pass of each block runs again in its
    backward pass, which then keeps only the inputs of blocks. `masters`: `autocast` casts operands of products to 16
    bits as PyTorch does, `sharded` keeps all values in 16 bits beside weights in fp32 of the optimizer, `none` has all
    in the precision that is asked for. `attention`: one kernel, or plain with all scores stored, as encoders do by
    default. The batch is that of a step; it runs in `accumulate` parts. `lora`: only
    adapters of this rank are trained. `zero` is the stage of ZeRO, 1 to 3. `epochs` of `samples` are what cost and
    comparisons count. `devices` share the batch."""

    optimizer: str = ""
    update: str = "foreach"
    recompute: str = "none"
    masters: str = "autocast"
    attention: str = ""
    accumulate: int = 1
    lora: int = 0
    zero: int = 0
    epochs: int = 0
    samples: int = 1_281_167  # images of the training set of ImageNet-1k
    devices: int = 1

    @property
    def words(self) -> tuple[str, ...]:
        """The options that state these settings, without defaults."""
        return tuple(f"{name}={value}" for name in OPTIONS if (value := getattr(self, name)) != getattr(_PLAIN, name))

    @property
    def parts(self) -> int:
        """The number of equal parts of a batch, each computed at once on one device."""
        return self.accumulate * self.devices

    def count(self, what: str) -> str:
        """Return what costs are of: `training of 90 epochs of 1,281,167 samples`, or what else is counted."""
        return f"training of {self.epochs} epochs of {self.samples:,} {what}" if self.epochs else what


_PLAIN = Training()
OPTIONS = tuple(name for name in Training.__struct_fields__ if name != "devices")
_STARTS = tuple({option[:size] for option in OPTIONS for size in range(3, len(option) + 1)})
_ALIKE = 0.82  # similarity of a misspelt option; the options of models are less similar
_WHOLE = {"accumulate": (1, 4096), "lora": (1, 4096), "zero": (0, 3), "epochs": (1, 10**6), "samples": (1, 10**12)}


class Step(msgspec.Struct, frozen=True):
    """A model in training: one step of it."""

    model: Spec | Target | Request
    training: Training
    load: ClassVar[None] = None
    load_and_lengths: ClassVar[str] = ""

    def __str__(self) -> str:
        return self._named(str(self.model))

    @property
    def label(self) -> str:
        """The name for titles."""
        return self._named(self.model.label)

    def _named(self, model: str) -> str:
        head, _, options = model.rpartition(":") if re.search(r":[^:()/]*=[^:()/]*$", model) else (model, "", "")
        return f"{head}:{','.join(filter(None, (TRAIN, options, *self.training.words)))}"

    @property
    def image_size(self) -> int | None:
        """The image size of the model."""
        return self.model.image_size

    @property
    def runs_code(self) -> bool:
        """True if opening the model runs the user's code."""
        return self.model.runs_code

    @property
    def is_captured(self) -> bool:
        """True if the model comes from a capture."""
        return self.model.is_captured

    @property
    def phases(self) -> dict[str, str]:
        """The names of a language model by phase, starting with this one."""
        others = {name: text for name, text in self.model.phases.items() if name != TRAIN}
        return {TRAIN: str(self), **others} if others else {}

    def check_devices(self, count: int, batch: int) -> None:
        """Raise ModelSpecError if so many devices cannot share a batch."""
        if batch % (parts := count * self.training.accumulate):
            near = max(round(batch / parts), 1) * parts
            wrong = f"{parts} equal parts share a batch: {batch} is no multiple, batch={near} is"
            raise ModelSpecError(f"{self.label[:60]}: {wrong}")

    def on_devices(self, count: int) -> Step:
        """Return the step with its batch divided among so many devices."""
        return msgspec.structs.replace(self, training=msgspec.structs.replace(self.training, devices=count))


def split(text: str) -> tuple[str, str] | None:
    """Return a model and the options of its training, for a name such as `resnet50:train,accumulate=4`; None for a name
    without the word `train`. Options of the model stay with it."""
    found = _ASKS.match(text)
    if found is None:
        return None
    words = [word.strip() for word in f"{found['before'] or ''}{found['after'] or ''}".split(",") if word.strip()]
    own = [word for word in words if get_close_matches(word.partition("=")[0].strip().lower(), _STARTS, 1, _ALIKE)]
    rest = [word for word in words if word not in own]
    return ":".join([found["model"], *[",".join(rest)] * bool(rest)]), ",".join(own)


def split_batch(text: str) -> tuple[str, int | None]:
    """Return the name of a model in training without the batch that it may state, `batch=256`, and that batch."""
    found = re.search(r",\s*batch\s*=\s*(\d+)", text, re.I) if split(text) else None
    return (text[: found.start()] + text[found.end() :], int(found[1])) if found else (text, None)


def read(model: str, words: str) -> Training:
    """Return the settings that words such as `optimizer=adamw,zero=3` state. Raises ModelSpecError."""
    given, table = dict[str, Any](), file_access.shipped(PATH)
    choices = {
        "optimizer": tuple(table["optimizers"]),
        "update": tuple(table["updates"]),
        "recompute": ("none", "blocks"),
        "masters": ("autocast", "sharded", "none"),
        "attention": ("fused", "plain"),
    }
    for word in filter(None, words.split(",")):
        name, _, value = (part.strip().lower() for part in word.partition("="))
        if name in _WHOLE:
            given[name] = request_bounds.whole_option(f"{model[:60]}: {name}", value, *_WHOLE[name])
        elif name not in choices:
            raise ModelSpecError(f"{model[:60]} in training has no option {name[:40]!r}; {hint(name, OPTIONS)}")
        elif value not in choices[name]:
            allowed = f"allowed: {', '.join(choices[name])}"
            raise ModelSpecError(f"{name}={value[:40]} is unknown; {hint(value, choices[name], allowed)}")
        else:
            given[name] = value
    return Training(**given)
