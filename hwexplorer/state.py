"""The whole screen as one frozen value, and as one string.

    resnet50@b8,fp16,fused/h100_sxm,jetson_agx_orin:30w?at=layer3.2.conv2&sort=share&pin=tpu_v4@b8,fp16

    MODEL [@ SETTING,..] [/ DEVICE,..] [? KEY=VALUE &..]

The settings are those of hwexplorer/settings.py: `b8` batch, `fp16` precision, `fused` execution, `channels_last`
layout, `i320` image size, `s2048` tokens of a sequence, `kv4096` tokens in the key-value cache. Defaults are left out,
also the precision that the model is stored in. Parts that are not plain names are percent-encoded, so a path or a shape
can be a model.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import msgspec

from analysis.estimate.metrics import ADDITIVE
from hardware import precision as formats
from hardware.base.errors import RequestError, split_list, unknown
from hwexplorer import settings

PANES = ("compare", "tree", "events", "why", "knobs")
METRICS = ADDITIVE
BYS = ("module", "subgraph", "kind")  # as analysis/estimate/tree_figures.py has them
PREDICTED_SORTS = ("graph", "share", "latency", "energy", "name")
TRACE_SORTS = ("measured", "ratio")  # columns of the tree beside a trace; without one, the order is that of shares
SORTS = (*PREDICTED_SORTS, *TRACE_SORTS)
PLOTS = ("roofline", "batch")  # functions of hwexplorer/plots.py; shown in the pane of why, if one is asked for
RANKS = ("rank", "latency", "energy", "edp", "throughput", "power", "memory", "name")
EACH = "~each"  # suffix of an open branch whose repeated blocks are shown one by one
DEFAULT_DEVICES = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")
PREFERRED_DEVICE = "h100_sxm"
_CHOICES = {"pane": PANES, "metric": METRICS, "by": BYS, "sort": SORTS, "plot": ("", *PLOTS), "rank": RANKS}


class State(msgspec.Struct, frozen=True):
    """Everything the screen shows follows from this; keys map State -> State.

    `devices` are named as `device_catalog.load_device` takes them; `l4*8` is eight that share a load. `on` is the
    device under the cursor and `baseline` what others are compared with, both spelt as in `devices`. `at` is the
    node under the cursor ("" is the model), `open` the expanded nodes, `pin` the setup for deltas (see `pinned`).
    `find` searches the tree, `rank` orders devices, `heat` shows each of them in the tree, `limits` are constraints
    on devices (`L<5ms E<1J`), `trace` is a file of measured times for the tree, `fact` the selected knob. A wrong
    value raises RequestError."""

    model: str = "resnet50"
    image_size: int | None = None
    sequence: int | None = None
    kv: int | None = None
    load: str = ""
    batch: int = 1
    precision: str = settings.SETTINGS["precision"].default
    execution: str = settings.SETTINGS["execution"].default
    layout: str = settings.SETTINGS["layout"].default
    prices: str = settings.SETTINGS["prices"].default
    devices: tuple[str, ...] = DEFAULT_DEVICES
    on: str = PREFERRED_DEVICE
    baseline: str = PREFERRED_DEVICE
    at: str = ""
    pane: str = "tree"
    zoom: bool = False
    metric: str = "edp"
    by: str = "subgraph"
    sort: str = "graph"
    descending: bool = True
    find: str = ""
    plot: str = ""
    open: tuple[str, ...] = ()
    pin: str = ""
    rank: str = "rank"
    rank_reverse: bool = False
    heat: bool = False
    trace: str = ""
    limits: str = ""
    fact: str = ""

    @property
    def split_branches(self) -> tuple[str, ...]:
        """The branches of repeats whose blocks are shown one by one."""
        return tuple(sorted(key.removesuffix(EACH) for key in self.open if key.endswith(EACH)))

    @property
    def view(self) -> str:
        """The name of the view in the focused pane."""
        return "plot" if self.pane == "why" and self.plot else self.pane

    @property
    def order(self) -> str:
        """The order of the tree in words: `share`, `latency reversed`."""
        return self.sort if self.descending else f"{self.sort} reversed"

    def __post_init__(self) -> None:
        if not self.model:
            raise RequestError("no model named (hwexplorer models lists them)")
        if ":" in self.model:
            from analysis.model.names.model_ref import split_load  # not needed to start the screen
            from analysis.model.training.training_request import split_batch

            model, batch = split_batch(self.model)  # `resnet50:train,batch=256`
            if batch is not None:
                msgspec.structs.force_setattr(self, "model", model)
                msgspec.structs.force_setattr(self, "batch", batch)
            model, load = split_load(self.model)
            if load:  # `llama3_8b:serve,rate=5` states a load by its name
                msgspec.structs.force_setattr(self, "model", model)
                msgspec.structs.force_setattr(self, "load", load)
        for name, setting in settings.SETTINGS.items():
            msgspec.structs.force_setattr(self, name, setting.check(getattr(self, name)))
        for what, allowed in _CHOICES.items():
            if getattr(self, what) not in allowed:
                raise unknown(what, getattr(self, what), allowed)
        if self.limits:
            from analysis.explore.outcome import parse_limits  # not needed to start the screen

            msgspec.structs.force_setattr(self, "limits", " ".join(map(str, parse_limits(self.limits))))
        if not self.devices:
            raise RequestError("no device named (hwexplorer devices lists them)")
        if len(set(self.devices)) != len(self.devices):
            twice = next(d for d in self.devices if self.devices.count(d) > 1)
            raise RequestError(f"device {twice!r} is listed twice")
        # A new list of devices may lack the one under the cursor: the cursor moves.
        for what in ("on", "baseline"):
            if getattr(self, what) not in self.devices:
                msgspec.structs.force_setattr(self, what, preferred(self.devices))


_DEFAULT = State()
T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:
    """Return a copy of a struct with some fields changed, checked as a new one is."""
    changed_value: T = value.__replace__(**changes)  # type: ignore[attr-defined]
    return changed_value


def with_model(state: State, model: str, image_size: int | None = None) -> State:
    """Return the state with another model, under the load that its name states. A precision that is the default changes
    to the new model's default."""
    is_default = state.precision == settings.default_precision(state.model)
    precision = settings.default_precision(model) if is_default else state.precision
    return replace(state, model=model, image_size=image_size, precision=precision, load="")


def is_result(text: str) -> bool:
    """Return True if a word names a file of results, so that its slashes separate folders."""
    return text.endswith(".json") and not any(mark in text for mark in "@?%")


def preferred(devices: tuple[str, ...]) -> str:
    """Return the device that the cursor starts on."""
    return PREFERRED_DEVICE if PREFERRED_DEVICE in devices else devices[0]


_NAME = "~:=+!*()$'"  # kept readable in names; `@ / , ? & %` separate and are encoded


def _encode(text: str, extra: str = "") -> str:
    return quote(text, safe=_NAME + extra, errors="surrogatepass")


def _decode(text: str) -> str:
    try:
        return unquote(text, errors="surrogatepass")  # a path need not be UTF-8
    except UnicodeDecodeError:
        raise RequestError(f"{text[:60]!r} is not valid percent-encoded UTF-8") from None


def with_setting(state: State, text: str) -> State:
    """Return the state with other settings, as the part after `@` has them: `b8,fp16`."""
    return replace(state, **settings.read_words(text))


def _join(values: tuple[str, ...]) -> str:
    return ",".join(map(_part, values))


def _part(value: str) -> str:
    # Commas within the braces of a what-if device do not separate. An unclosed bracket would hide later commas.
    encoded = _encode(value, "/@{}," if re.fullmatch(r"[^{}]*\{[^{}]*\}", value) else "@")
    is_whole = split_list(f"{encoded},-") == [encoded, "-"]
    return encoded if is_whole else re.sub(r"[][(){}]", lambda mark: f"%{ord(mark[0]):02X}", encoded)


def _split(text: str) -> tuple[str, ...]:
    return tuple(_decode(part) for part in split_list(text))


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise RequestError(f"{text[:40]!r}: expected 0 or 1")
    return text == "1"


# By the type of a field: how it is written, and how it is read.
_BY_TYPE: dict[type, tuple[Callable[..., str], Callable[[str], object]]] = {
    str: (lambda value: _encode(value, "/,@{}"), _decode),
    bool: (lambda value: str(int(value)), _flag),
    tuple: (_join, _split),
}
# Key after `?` -> field, how it is written, how it is read.
_KEYS = {
    field.replace("fact", "knob"): (field, *_BY_TYPE[type(default)])
    for field, default in msgspec.structs.asdict(_DEFAULT).items()
    if field not in ("model", "devices", *settings.SETTINGS)
} | {"limits": ("limits", lambda value: _encode(value.replace(" ", ","), ",<>="), _decode)}


def format(state: State) -> str:
    """Return the state as one string, defaults left out."""
    changed_settings = settings.changed_settings(state, settings.defaults_of(state.model))
    text = _encode(state.model, ",") + settings.write_words(changed_settings)
    if state.devices != _DEFAULT.devices:
        text += "/" + _join(state.devices)
    plain = State(devices=state.devices)
    pairs = [
        f"{key}={write(getattr(state, field))}"
        for key, (field, write, _) in _KEYS.items()
        if getattr(state, field) != getattr(plain, field)
    ]
    return text + ("?" + "&".join(pairs) if pairs else "")


def parse(text: str) -> State:
    """Return the state that a string names. Raises RequestError, which says in one line what is wrong."""
    if len(text) > 100_000:
        raise RequestError("a state string of more than 100,000 characters is refused")
    from analysis.model.names.model_ref import hub_name, plain
    from analysis.model.names.zoo import precision_of_name  # not needed to start the screen

    # Slashes in the path of a file of requests do not begin the devices.
    text = re.sub(r"(?<=[:,@]requests=)[^,@?%]*\.csv", lambda path: path[0].replace("/", "%2F"), text)
    full_text = plain(text)
    if hub := hub_name(full_text):
        full_text = f"hf:{_encode(hub)}{full_text[len(hub) :]}"
    head, _, query = full_text.partition("?")
    names, _, devices = head.partition("/")
    if head == "/" or ("/" in re.sub(r"\{[^{}]*\}", "", devices) and not head.lower().startswith("hf:")):
        raise RequestError(f"unknown model {head[:60]!r}: a file ends in .onnx, .pt2, .gguf or .py:NAME")
    model, _, words = names.partition("@")
    values: dict[str, object] = {"model": _decode(model)} if model else {}
    precision = settings.default_precision(_decode(model))
    if precision == formats.DEFAULT:
        precision = precision_of_name(text) or precision
    values |= {"precision": precision, **settings.read_words(words)}
    if devices:
        values["devices"] = _split(devices)
    for pair in filter(None, query.split("&")):
        key, _, value = pair.partition("=")
        if key not in _KEYS:
            raise unknown("key", key, _KEYS)
        field, _, read = _KEYS[key]
        values[field] = read(value)
    state = State(**values)  # type: ignore[arg-type]
    for what in ("on", "baseline"):
        if what in values and values[what] != getattr(state, what):
            raise unknown(f"device after {what}=", values[what], state.devices)
    if state.pin:
        pinned(state)
    return state


def reading_note(text: str) -> str:
    """Say which model a shorter name in a state string stands for; '' for a whole name."""
    from analysis.model.names.model_ref import plain  # not needed to start the screen

    full_text = plain(text) if text else ""
    end = next(end for end in range(len(full_text) + 1) if text.endswith(full_text[end:]))
    name, model = text.removesuffix(full_text[end:]), full_text[:end]
    letters = iter(name.lower())
    is_whole = all(letter in letters for letter in model if letter.isalnum())
    return "" if is_whole else f"{name} is taken as {model} (`hwexplorer models {name}` lists others)"


# The `@` before settings, not that of a power cap or a clock lock: no setting is a number with such a unit.
_SETTINGS_MARK = re.compile(r"@(?![0-9.]+[kmg]?(?:w|hz)(?![^@{%*]))", re.IGNORECASE)


def split_settings(text: str) -> tuple[str, str]:
    """Return the device and the settings of a configuration: of `h100_sxm@400W@b8,fp16` `h100_sxm@400W`, `b8,fp16`."""
    device, *words = _SETTINGS_MARK.split(text, maxsplit=1)
    return device, "".join(words)


def pin_string(state: State) -> str:
    """Return the string that the key `p` pins: the device under the cursor and every setting; the model is implied."""
    device = _encode(state.on, "@" if split_settings(state.on)[0] == state.on else "")
    return device + settings.write_words(settings.changed_settings(state, settings.DEFAULTS))


def shown_plot(state: State) -> str:
    """Return the plot of a state, '' for none. A load decides its batch itself, so it has the roofline alone."""
    return PLOTS[0] if state.load and state.plot else state.plot


def pinned(state: State) -> State | None:
    """Return the state that deltas are taken against: this one on the pinned device with the pinned settings, and
    with the model that a pin may name: `resnet18/tpu_v4@b8`."""
    if not state.pin:
        return None
    head, words = split_settings(state.pin)
    model, slash, device = head.rpartition("/")
    device = _decode(device)
    if not device:
        raise RequestError(f"pin {state.pin[:60]!r}: expected a device, e.g. tpu_v4@b8,fp16")
    values = {**settings.DEFAULTS, "load": state.load, **settings.read_words(words)}
    if slash:
        values["model"] = _decode(model)
    devices = state.devices if device in state.devices else (*state.devices, device)
    return replace(state, **values, devices=devices, on=device, pin="")


def configuration_name(model: str, device: str, *words: str) -> str:
    """Return the name of a configuration in a row of results: `resnet18/tpu_v4@b8,fp16`."""
    return f"{_encode(model)}/{_encode(device)}@{','.join(words)}"


def open_configuration(state: State, leads: str) -> State:
    """Return the state at a configuration. Fields that it does not name stay; another model begins at its root."""
    head, _, words = leads.partition("@")
    model, device = map(_decode, head.split("/"))
    values = settings.read_words(words)
    # The state may name the model by more than its title: a path, a request with its lengths.
    if model and not state.model.rpartition("/")[2].startswith(model):
        values |= {"model": model, "at": "", "open": (), "find": ""}
    devices = state.devices if device in state.devices else (*state.devices, device)
    return replace(state, **values, devices=devices, on=device)
