"""The settings of a scenario in one table.

The state string, the options of the command line, the commands of the `:` line with their completion, the head line of
the screen and copied commands follow from it. A new setting is an entry here and a field of `State` and `Scenario`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from analysis.model import request_bounds
from hardware import precision as formats
from hardware.base.errors import RequestError, unknown
from hardware.base.text import parse_whole
from hardware.engines.runtime import AUTO, LAYOUTS, MODES, common_runtimes, runtime_names

if TYPE_CHECKING:
    from analysis.model.transformer.transformer_request import LoadSpec

EXECUTIONS = (AUTO, *MODES)
PRICES = ("own", "measured", "bottom-up")
BATCH_MAX, IMAGE_MAX, TOKENS_MAX = request_bounds.BATCH, request_bounds.IMAGE_SIZE, request_bounds.TOKENS


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: a field of `State`, an option, and a command of the `:` line. It is one of a list of words, unless a
    subclass says otherwise: `choices` returns all of them, `listed` those that help lists, `common` are those known
    without reading a file.

    `default` None means the model's own value, described by `default_text`. `label` writes a value for the head line,
    also a default if `is_always_shown`; `action` is what a click on it does. `group` is the heading of the option."""

    name: str
    metavar: str
    help: str
    choices: Callable[[], Collection[str]]
    listed: Callable[[], Collection[str]] | None = None
    common: tuple[str, ...] = ()
    called: str = ""
    default: Any = None
    default_text: str = ""
    flags: tuple[str, ...] = ()
    group: str = ""
    label: Callable[[Any], str] = str
    is_always_shown: bool = False
    action: str = ""

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    def parse(self, text: str) -> Any:
        """Return the value of a text that a person typed. Raises RequestError."""
        return self.check(text)

    def check(self, value: Any) -> Any:
        """Return the value in its canonical spelling. Raises RequestError if it is not a choice."""
        if self.find(value) is None:
            raise unknown(self.called or self.title, value, self.choices())
        return value

    def find(self, word: str) -> Any:
        """Return the value that a word of a state string stands for, None for a word of another setting."""
        return word if word in self.common or word in self.choices() else None

    def write(self, value: Any) -> str:
        """Return the word that stands for the value in a state string."""
        return str(value)

    def join(self, first: Any, second: Any) -> Any:
        """Return the value that two words of a state string state. Raises RequestError if only one can."""
        raise RequestError(f"{self.name} is given twice: {first} and {second}")


class NumberSetting(Setting, frozen=True, kw_only=True):
    """A whole number from `least` to `most`, written after its `mark`: b8."""

    mark: str
    most: int
    least: int = 1
    choices: Callable[[], tuple[str, ...]] = lambda: ("default",)

    def parse(self, text: str) -> int:
        """Return the number of a text. Raises RequestError."""
        if "," in text:
            raise RequestError(f"{text[:40]!r} is a list, expected one number (lists: sweep --batches, --image-sizes)")
        return parse_whole(text, self.least, self.most)

    def check(self, value: Any) -> Any:
        """Return the number, or None for the model's own. Raises RequestError if it is out of range."""
        if value is None and self.default is None:
            return None
        if wrong := request_bounds.range_error(self.title, value, self.most, self.least):
            raise RequestError(wrong)
        return value

    def find(self, word: str) -> int | None:
        """Return the number after the mark, None for a word without it."""
        match = re.fullmatch(rf"{self.mark}(-?[0-9]{{1,9}})", word)
        return int(match[1]) if match else None

    def write(self, value: Any) -> str:
        """Return the number after its mark."""
        return f"{self.mark}{value}"


class PrecisionSetting(Setting, frozen=True, kw_only=True):
    """A precision by any of its names, or by a file with the format of each layer."""

    def parse(self, text: str) -> Any:
        """Return the name of the precision of a text. Raises RequestError."""
        word, _, path = text.partition("=")
        return self.check(_mixed_precision(path) if word == "mixed" else text)

    def check(self, value: Any) -> str:
        """Return the name of the format. Raises RequestError."""
        return formats.canonical(value)

    def find(self, word: str) -> str | None:
        """Return the name of the format that a word means, None for another word."""
        precision = formats.find(word)
        return precision.name if precision else None


def _mixed_precision(path: str) -> str:
    """Return the precision of a table of layer, format, as `advise formats` writes it: that of most layers, then those
    of others. Raises RequestError."""
    from analysis.explore.plans import mixed_precision, read_table  # not needed to start the screen

    if not path:
        raise RequestError("mixed needs a table of layer, format: mixed=FILE; `hwexplorer advise formats` writes one")
    return mixed_precision([(row["layer"], row["format"]) for row in read_table(Path(path), ("layer", "format"))])


class LoadSetting(Setting, frozen=True, kw_only=True):
    """The load of a model that serves requests: options of a LoadSpec, `rate=5,dp=2`."""

    def check(self, value: Any) -> str:
        """Return the words of the load, '' without one. Raises RequestError."""
        return ",".join(_load(value).words) if value else ""

    def find(self, word: str) -> str | None:
        """Return an option of a load, None for another word."""
        name, is_given, _ = word.partition("=")
        return unquote(word) if is_given and "+" not in name else None  # layers of a precision: int8+conv1=bf16

    def join(self, first: Any, second: Any) -> Any:
        """Return both options."""
        return f"{first},{second}"

    def write(self, value: Any) -> str:
        """Return the words of the load; a path in them does not begin the devices."""
        return quote(value, safe=",=+:~")


def _load(words: str) -> LoadSpec:
    from analysis.model.transformer.transformer_request import read_load  # not needed to start the screen

    return read_load(words)


_LENGTHS = "language models"
# In the order of state strings and of the head line. `_read_word` tries precision last, since any name of a format is
# a precision.
SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        LoadSetting(
            name="load", default="", default_text="none", metavar="rate=R,..", group=_LENGTHS, action="batch_up",
            label=lambda words: _load(words).text, choices=lambda: ("default", "rate=1", "concurrency=16"),
            help="requests that it serves: rate=5 a second, concurrency=32 or requests=FILE.csv; with dp=, pp= ..",
        ),
        NumberSetting(
            name="batch", mark="b", most=BATCH_MAX, default=1, default_text="1", metavar="N", label="batch {}".format,
            help=f"inputs at once, 1 to {BATCH_MAX}", is_always_shown=True,
            action="batch_up", choices=lambda: ("1", "8", "32", "128"),
        ),
        PrecisionSetting(
            name="precision", default=formats.DEFAULT, metavar="P", help=formats.LISTED, is_always_shown=True,
            choices=lambda: formats.NAMES, label=formats.short,
            default_text=formats.DEFAULT, action="precision_up",
        ),
        Setting(
            name="execution", called="runtime", flags=("--runtime", "--execution"), common=EXECUTIONS,
            choices=runtime_names, listed=common_runtimes, default=AUTO, default_text=AUTO, metavar="R",
            is_always_shown=True, action="execution",
            label=lambda runtime: "usual software" if runtime == AUTO else runtime,
            help="software that runs it: auto (the usual runtime of each device), eager, compiled, fused, a runtime "
            "(`--runtime list` prints all) or unknown (any other engine)",
        ),
        Setting(
            name="layout", common=LAYOUTS, choices=lambda: LAYOUTS, default=LAYOUTS[0], default_text=LAYOUTS[0],
            metavar="L", help=" or ".join(LAYOUTS), action="layout", label=lambda layout: layout.replace("_", " "),
        ),
        Setting(
            name="prices", common=PRICES, choices=lambda: PRICES, default="own", default_text="own", metavar="E",
            help="evidence of energies of events on all devices: measured, bottom-up, or own, that of each "
            "architecture", label="{} prices".format,
        ),
        NumberSetting(
            name="image_size", mark="i", most=IMAGE_MAX, default_text="of the weights", metavar="S", help="pixels",
            label="{} px".format,
        ),
        NumberSetting(
            name="sequence", mark="s", most=TOKENS_MAX, default_text="of the phase", metavar="N", help="new tokens",
            group=_LENGTHS, label="sequence {}".format,
        ),
        NumberSetting(
            name="kv", mark="kv", most=TOKENS_MAX, least=0, default_text="as --sequence", metavar="N",
            help="tokens in the cache", group=_LENGTHS, label="kv {}".format,
        ),
    )
}  # fmt: skip
NAMES = tuple(SETTINGS)
SCENARIO_FIELDS = frozenset(NAMES)
DEFAULTS: dict[str, Any] = {setting.name: setting.default for setting in SETTINGS.values()}


def default_precision(model: str) -> str:
    """Return the default precision of a model: the format that it is stored in, if known, else formats.DEFAULT."""
    changed_s = 0.0
    with suppress(OSError, ValueError):
        if ".gguf" in model or model.startswith("hf:"):  # a file of weights or a configuration may change
            path = Path(model.removeprefix("hf:").rpartition(":")[0] or model.removeprefix("hf:"))
            changed_s = (path / "config.json" if path.is_dir() else path).stat().st_ctime
    return _default_precision(model, changed_s)


@lru_cache(maxsize=256)
def _default_precision(model: str, changed_s: float) -> str:
    from analysis.model.names.model_ref import stored_precision  # not needed to start the screen

    return stored_precision(model) or formats.DEFAULT


def defaults_of(model: str) -> dict[str, Any]:
    """Return the default settings of a model."""
    return {**DEFAULTS, "precision": default_precision(model)}


def changed_settings(values: Any, against: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings, fields of `values` (a State), that differ from `against`, in the order of the table."""
    return {name: value for name in NAMES if (value := getattr(values, name)) != against[name]}


def write_words(settings: Mapping[str, Any]) -> str:
    """Return the part of a state string after the model: `@b8,fp16`, '' without settings."""
    words = [SETTINGS[name].write(value) for name, value in settings.items() if value not in (None, "")]
    return "@" + ",".join(words) if words else ""


def read_words(text: str) -> dict[str, Any]:
    """Return the settings that words like `b8,fp16` name. Raises RequestError."""
    values: dict[str, Any] = {}
    for word in filter(None, text.split(",")):
        name, value = _read_word(word)
        values[name] = SETTINGS[name].join(values[name], value) if name in values else value
    return values


def _read_word(word: str) -> tuple[str, Any]:
    for setting in sorted(SETTINGS.values(), key=lambda setting: setting.name == "precision"):
        if (value := setting.find(word)) is not None:
            return setting.name, value
    modes = f"{', '.join(EXECUTIONS)} or a runtime by name, e.g. vllm"
    listing = f"allowed: b8, i320, s2048, kv4096; {formats.LISTED}; {modes}; {', '.join(LAYOUTS)}"
    raise unknown("setting", word, (*formats.NAMES, *runtime_names(), *LAYOUTS), listing=listing)


def labels(values: Any) -> list[tuple[str, str]]:
    """Return (text, action of a click) of each setting of a State that the head line shows. A load has no batch."""
    visible = [s for s in SETTINGS.values() if s.is_always_shown or getattr(values, s.name) != s.default]
    return [(s.label(getattr(values, s.name)), s.action) for s in visible if not (values.load and s.name == "batch")]
