"""Requests for transformers, `llama3_8b`, `llama3_8b:decode,kv=4096`, `decoder:hidden=4096,...`, `hf:FOLDER:tp=8`.

`transformers.toml` has those known by name. The options of a name may state a load: `rate=5`, `concurrency=32` or
`requests=FILE.csv`, cached tokens, variation of lengths, speculative decoding, and numbers of replicas, pipeline stages
and workers.
"""

import math
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from analysis.model import request_bounds
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer.config import CHOICES, DEFAULTS, FAMILIES, PHASES, TRAIN, Config, StepSettings, family
from hardware.base import file_access
from hardware.base.errors import RequestError, hint, match_name
from hardware.base.text import parse_amount, quantity
from hardware.precision import EXCLUDED

LEAST_RATE, MOST_RATE = 1e-6, 1e5  # requests a second
MOST_CLIENTS = 16_384
MOST_DEVICES = 4096  # replicas, or stages
MOST_SEED = 10**9
ARRIVALS = ("rate", "concurrency", "requests")
MOST_DRAFTS, ACCEPT = 16, 0.7
# The steps of one decade of rates; a key moves by one.
_DECADE = (1.0, 2.0, 5.0)


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A load: `rate` random arrivals per second, `concurrency` clients that each wait for an answer, or the file
    `requests`. `cached` tokens of each prompt are in the cache. Lengths are drawn between (1 - `spread`) and 1 times
    the stated ones, with `seed`. A draft model proposes `spec` tokens, each accepted with probability `accept`.
    `dp` replicas share one queue; each has `pp` stages. `prefill` workers pass prompts on to `decode` workers."""

    rate: float = 0.0
    concurrency: int = 0
    requests: str = ""
    cached: int = 0
    spread: float = 0.0
    seed: int = 0
    spec: int = 0
    accept: float = ACCEPT
    dp: int = 1
    pp: int = 1
    prefill: int = 0
    decode: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The options that state this load, without defaults."""
        fields, plain = msgspec.structs.asdict(self), LoadSpec()
        given = {name: value for name, value in fields.items() if value != getattr(plain, name)}
        written = {name: f"{value:g}" if isinstance(value, float) else value for name, value in given.items()}
        return tuple(f"{name}={value}" for name, value in written.items())

    @property
    def text(self) -> str:
        """The load in words: `5 requests/s`, `32 clients`, `the requests of monday.csv`."""
        if self.requests:
            return f"the requests of {self.requests.rpartition('/')[2]}"
        if self.concurrency:
            return f"{self.concurrency:,} client{'s' * (self.concurrency != 1)}"
        return f"{self.rate:g} request{'s' * (self.rate != 1)}/s"

    def scaled(self, up: bool) -> "LoadSpec":
        """Return the next higher or lower load: twice or half the clients, or the next rate of 1, 2, 5, 10 .. A file
        of requests is unchanged."""
        if self.concurrency:
            clients = min(self.concurrency * 2, MOST_CLIENTS) if up else max(self.concurrency // 2, 1)
            return msgspec.structs.replace(self, concurrency=clients)
        if self.requests:
            return self
        decade = 10.0 ** math.floor(math.log10(self.rate))
        rates = [float(f"{step * decade * ten:.3g}") for ten in (0.1, 1.0, 10.0) for step in _DECADE]
        above, below = (rate for rate in rates if rate > self.rate * 1.001), (r for r in rates if r < self.rate * 0.999)
        rate = next(above) if up else max(below)
        return msgspec.structs.replace(self, rate=min(max(rate, 1e-3), MOST_RATE))

    def neighbours(self) -> list["LoadSpec"]:
        """Return the load between up to two lighter loads and two heavier ones, from light to heavy."""
        lighter, heavier = self.scaled(False), self.scaled(True)
        return list(dict.fromkeys([lighter.scaled(False), lighter, self, heavier, heavier.scaled(True)]))


OPTIONS = LoadSpec.__struct_fields__


def read_load(text: str) -> LoadSpec:
    """Return the load that words such as `rate=5,dp=2` state. Raises ModelSpecError."""
    options: dict[str, str] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or name not in OPTIONS:
            listing = f"allowed: {', '.join(OPTIONS)}; lengths are the model's: llama3_8b:request,in=512,out=64"
            raise ModelSpecError(f"a load has no {word[:40]!r}; {hint(name, OPTIONS, listing)}")
        if options.setdefault(name, value) != value:
            raise ModelSpecError(f"{name} is given twice: {options[name][:40]} and {value[:40]}")
    return parse_load("a load", options, 10**9, MOST_DEVICES)


def parse_load(head: str, options: dict[str, str], prompt: int, layers: int) -> LoadSpec:
    """Return the load that options state, of requests with prompts of so many tokens. Raises ModelSpecError."""
    given = [name for name in ARRIVALS if options.get(name)]
    if len(given) != 1:
        wrong = f"{' and '.join(given)} exclude each other" if given else "a served model needs a load"
        raise ModelSpecError(f"{head[:60]}: {wrong}; name one of rate=5, concurrency=32 and requests=FILE.csv")
    load = LoadSpec(**{name: _read_option(name, text, _WHOLE | {"pp": (1, layers)}) for name, text in options.items()})
    if bool(load.prefill) != bool(load.decode) or (load.prefill and max(load.dp, load.pp) > 1):
        raise ModelSpecError(f"{head[:60]}: prefill=2,decode=6 go together, without dp= and pp=")
    if load.cached >= prompt:
        raise ModelSpecError(f"cached={load.cached} must be less than the prompt of {prompt} tokens")
    return load


# Option -> its least and most, for whole numbers; its unit and most, for others.
_WHOLE = {"concurrency": (1, MOST_CLIENTS), "cached": (0, 10**9), "seed": (0, MOST_SEED), "spec": (0, MOST_DRAFTS)}
_WHOLE |= {"dp": (1, MOST_DEVICES), "prefill": (0, MOST_DEVICES), "decode": (0, MOST_DEVICES)}
_NUMBERS: dict[str, tuple[str, float, float]] = {
    "rate": ("1/s", LEAST_RATE, MOST_RATE),
    "spread": ("fraction", 0.0, 1.0),
    "accept": ("fraction", 0.0, 1.0),
    "link": ("", 0.1, 1e5),
}


def _read_option(name: str, text: str, whole: dict[str, Any]) -> Any:
    """Return the value of an option; `whole` are the bounds of whole numbers. Raises ModelSpecError."""
    if name == "requests":
        return text
    if name not in _NUMBERS:
        return request_bounds.whole_option(name, text, *whole[name])
    unit, least, most = _NUMBERS[name]
    try:
        value = parse_amount(text, unit)
    except RequestError:
        value = math.nan
    if not least <= value <= most:
        shown = f"{least:g} to {quantity(most, unit if unit == '1/s' else '')}"
        raise ModelSpecError(f"{name}={text[:40]} is not a number from {shown}")
    return value


GENERIC = ("decoder", "encoder")
HUB = "hf:"
SHARES = ("tp", "ep")
SERVE = "serve"  # the option of a model under a load
MAX_TP = 4096

_SIZES_FILE = Path(__file__).with_name("sizes.toml")
_LENGTHS = ("sequence", "kv", "in", "out")
_LENGTHS_OF = {"prefill": ("sequence", "kv"), "decode": ("sequence", "kv"), "request": ("in", "out")}
_RUN: dict[str, Any] = {name: (int(name != "kv"), request_bounds.TOKENS) for name in _LENGTHS}
_RUN |= {"tp": (1, MAX_TP), "ep": (1, MAX_TP), "link": ()}  # not whole: _NUMBERS
_SIZES = [f.name for f in msgspec.structs.fields(Config) if f.type is int]
_FLAGS = [f.name for f in msgspec.structs.fields(Config) if f.type is bool and f.name != "encoder"]


class Request(msgspec.Struct, frozen=True):
    """A valid request, or a model that serves a `load` of such requests. `text` is its shortest spelling."""

    text: str
    config: Config
    run: StepSettings
    load: LoadSpec | None = None
    image_size: ClassVar[None] = None
    runs_code: ClassVar[bool] = False
    is_captured: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The name for titles."""
        return self.text

    def __str__(self) -> str:
        return self.text

    @property
    def phases(self) -> dict[str, str]:
        """The name of the request by phase, starting with its current phase: prefill, decode, request, serve."""
        if self.config.encoder:
            return {}
        names = {phase: self.spell(phase) for phase in PHASES} | {SERVE: self.spell(SERVE, "rate=1")}
        names[TRAIN] = self.spell(TRAIN)
        order = [*names]
        at = order.index(SERVE if self.load is not None else self.run.phase)
        return {phase: names[phase] for phase in (*order[at:], *order[:at])}

    def spell(self, phase: str, *words: str, without: tuple[str, ...] = ()) -> str:
        """Return the name of the model in a phase with default lengths, no load and additional options `words`. Options
        named in `without` are omitted."""
        is_hub = self.text.startswith(HUB)
        head, options = split_hub(self.text) if is_hub else self.text.partition(":")[::2]
        left_out = ("", SERVE, *PHASES, *_LENGTHS, *OPTIONS, *without)
        kept = [word for word in options.split(",") if word.partition("=")[0] not in left_out]
        return ":".join([head, ",".join([*[phase] * (phase != "prefill"), *kept, *words])]).rstrip(":")

    @property
    def load_and_lengths(self) -> str:
        """The load in words, '' without one: `5 requests/s of 1024 prompt and 256 output tokens`."""
        if self.load is None:
            return ""
        if self.load.requests:
            return self.load.text
        cached = f", {self.load.cached} of them cached," if self.load.cached else ""
        return f"{self.load.text} of {self.run.sequence} prompt{cached} and {self.run.output} output tokens"

    @property
    def lengths(self) -> tuple[str, ...]:
        """The options that state the lengths of a request."""
        return (f"in={self.run.sequence}", f"out={self.run.output}")

    @property
    def shares(self) -> tuple[str, ...]:
        """The options that state how devices share each operator."""
        return tuple(f"{name}={n}" for name, n in (("tp", self.run.tp), ("ep", self.run.ep)) if n > 1)

    @property
    def request(self) -> str:
        """The name of one such request, without a load."""
        return parse(self.spell("request", *self.lengths)).text

    def serve(self, *words: str, without: tuple[str, ...] = ()) -> str:
        """Return the name of the model under a load of such requests, of the usual ones in another phase."""
        return self.spell(SERVE, *self.lengths * (self.run.phase == "request"), *words, without=without)


def names() -> list[str]:
    """Return the names of transformers, presets and generic ones."""
    return [*preset_names(), *GENERIC]


def handles(text: str) -> bool:
    """Return True if a text names a transformer."""
    return text.strip().lower().startswith(HUB) or _name(text.partition(":")[0]) in names()


def _name(text: str) -> str:
    """Return the canonical name for a spelling such as `Llama3-8B` or `opt-1.3b`; an unknown name as it is."""
    return match_name(text.strip(), names()) or text.strip()


def parse(text: str) -> Request:
    """Parse a name. Raises ModelSpecError with the allowed options. A configuration file is read at each call."""
    text = text.strip()
    if not text.lower().startswith(HUB):
        return _named_config(text)
    from analysis.model.transformer import hf_config as transformer_hf

    where, options = split_hub(text[len(HUB) :])
    return request_of(HUB + where, transformer_hf.config(where), options)


@lru_cache(maxsize=256)
def _named_config(text: str) -> Request:
    name, _, options = text.partition(":")
    head = _name(name)
    if head not in GENERIC:
        return request_of(head, preset(head).config, options)
    common = family("bert_family") if head == "encoder" else {}
    return request_of(head, Config(**common, **family(head)), options)


def split_hub(text: str) -> tuple[str, str]:
    """Split the text after `hf:` into a folder or name and the options after its last colon (folders may have some)."""
    where, colon, options = text.rpartition(":")
    looks = options.strip().lower() in PHASES or "=" in options or options.split(",")[0].strip().lower() in PHASES
    if colon and looks and os.sep not in options:
        return where, options
    return text, ""


def request_of(head: str, config: Config, options: str) -> Request:
    """Return the request that `options` make for a model of this configuration. Raises a `ModelSpecError`."""
    changes: dict[str, Any] = {}
    lengths: dict[str, Any] = {}
    load: dict[str, str] = {}
    given: dict[str, str] = {}
    phase = ""
    for part in filter(None, (part.strip() for part in options.split(","))):
        key, equals, value = (word.strip().lower() for word in part.partition("="))
        if not equals and key in (*PHASES, SERVE) and not config.encoder:
            key, equals, value = "phase", "=", key
        if equals and given.setdefault(key, value) != value:
            raise ModelSpecError(f"{head[:60]}: {key[:40]} is given twice: {given[key][:40]} and {value[:40]}")
        if key == "phase" and not config.encoder:
            phase = _choice("phase", value, (*PHASES, SERVE))
        elif equals and key in OPTIONS and not config.encoder:
            load[key] = part.partition("=")[2].strip()
        elif key in _RUN and not (config.encoder and key in ("kv", "in", "out")):
            lengths[key] = _read_option(key, value, _RUN)
        elif key in CHOICES:
            changes[key] = _choice(key, value, CHOICES[key])
        elif key in _FLAGS:
            changes[key] = bool(request_bounds.whole_option(key, value, 0, 1))
        elif key in _SIZES:
            changes[key] = request_bounds.whole_option(key, value, 0, request_bounds.PARAMETER)
        else:
            raise ModelSpecError(_unknown(head, key, bool(equals), config))
    phase = phase or ("prefill" if lengths.keys().isdisjoint(("in", "out")) else "request")
    if not load and phase != SERVE:
        return _build_request(head, config, changes, phase, lengths)
    if phase != SERVE and (given.get("phase", "request") != "request" or not load.keys() & {*ARRIVALS}):
        raise ModelSpecError(f"{head[:60]}: {next(iter(load))}= belongs to a load, e.g. {head[:60]}:serve,rate=5")
    request = _build_request(head, config, changes, "request", lengths)
    served = parse_load(head, load, request.run.sequence, config.layers)
    return msgspec.structs.replace(
        request, text=request.serve(*served.words, *request.shares, without=SHARES), load=served
    )


def _build_request(head: str, config: Config, changes: dict[str, Any], phase: str, lengths: dict[str, Any]) -> Request:
    changes = {key: value for key, value in changes.items() if getattr(config, key) != value}
    first = "in" if phase == "request" else "sequence"
    if phase == "prefill" and "sequence" not in lengths and "in" in lengths:  # as llama-bench names a prompt
        lengths["sequence"] = lengths.pop("in")
    if unread := lengths.keys() - {*_LENGTHS_OF[phase], *SHARES, "link"}:
        right = "= and ".join(_LENGTHS_OF[phase])
        raise ModelSpecError(f"{head[:60]}: {phase} has lengths {right}=, not {'= and '.join(sorted(unread))}=")
    sequence, kv, output = DEFAULTS[phase]
    run = StepSettings(
        phase=phase,
        sequence=lengths.get(first, sequence),
        kv=0 if config.encoder else lengths.get("kv", kv),
        output=lengths.get("out", output),
        tp=lengths.get("tp", 1),
        ep=lengths.get("ep", 1),
        link=lengths.get("link", 0) * 1e9,
    )
    words = [phase] if phase != "prefill" else []
    words += [f"{key}={int(value) if isinstance(value, bool) else value}" for key, value in changes.items()]
    asked = {first: run.sequence, "kv": run.kv, "out": run.output, "tp": run.tp, "ep": run.ep}
    usual = {first: sequence, "kv": kv, "out": output, "tp": 1, "ep": 1}
    words += [f"{key}={value}" for key, value in asked.items() if value != usual[key]]
    words += [f"link={lengths['link']:.9g}"] if run.link else []
    return Request(head + (":" + ",".join(words) if words else ""), _change_config(config, changes), run)


def _change_config(config: Config, changes: dict[str, Any]) -> Config:
    """Return the configuration with changed fields. Sizes that are derived from a changed one are derived again."""
    if not changes:
        return config
    fields = msgspec.structs.asdict(config)
    follows = {"value_dim": "head_dim", "kv_heads": "heads", "rotary": "head_dim", "expert_ffn": "ffn"}
    derived = dict.fromkeys((name for name, other in follows.items() if fields[name] == fields[other]), 0)
    if config.head_dim * config.heads == config.hidden:
        derived["head_dim"] = 0
    return Config(**(fields | derived | changes))


def _choice(key: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ModelSpecError(f"{key}={value[:40]} is unknown; allowed: {', '.join(allowed)}")
    return value


def _unknown(head: str, key: str, has_value: bool, config: Config) -> str:
    if not has_value:
        words = () if config.encoder else (*PHASES, SERVE)
        phases = f"its phases: {', '.join(words)}" if words else "it has no phases"
        return f"{head[:60]} has no phase {key[:40]!r}; {hint(key, words, phases)}"
    not_encoders = ("kv", "in", "out") if config.encoder else ()
    lengths = [word for word in (*_RUN, *(() if config.encoder else OPTIONS)) if word not in not_encoders]
    right = hint(key, [*lengths, *_SIZES, *_FLAGS, *CHOICES], f"allowed: {', '.join(lengths)}, or a size as layers=16")
    return f"{head[:60]} has no parameter {key[:40]!r}; {right}"


class TransformerInfo(msgspec.Struct, frozen=True):
    """A transformer in a list of models: its parameters, and the MACs of a step at default lengths and batch 1."""

    name: str
    family: str
    parameters: int
    macs: float
    input: dict[str, int]
    source: str


def transformer_info(name: str) -> TransformerInfo:
    """Return the entry of a transformer in the list of models."""
    size, (sequence, kv, _) = file_access.shipped(_SIZES_FILE)[name], DEFAULTS["prefill"]
    lengths = {"sequence": sequence} | ({} if size["family"] == "encoder" else {"kv": kv})
    source = "a configuration of your own" if name in GENERIC else file_access.shipped(FAMILIES)[name]["source"]
    return TransformerInfo(name, size["family"], size["parameters"], size["macs"], lengths, source)


_NOT_MODELS = ("families",)


class Preset(msgspec.Struct, frozen=True):
    """A published model. `stored` is the precision of its published weights, '' for 16 bit."""

    name: str
    config: Config
    source: str
    stored: str


def preset_names() -> list[str]:
    """Return the names of all presets."""
    return [name for name in file_access.shipped(FAMILIES) if name not in _NOT_MODELS]


@cache
def preset(name: str) -> Preset:
    """Return the preset of a name. Its row states the fields of a Config, or as `hub` those of a config.json."""
    row = file_access.shipped(FAMILIES)[name]
    if "hub" in row:
        from analysis.model.transformer.hf_config import parse_config  # not needed for most presets

        full = parse_config(row["hub"])
    else:
        config = family(row["like"]) if "like" in row else {}
        full = file_access.convert_record(FAMILIES, name, config | row["config"], Config)
    if "wide" in row:
        full = msgspec.structs.replace(full, wide=tuple((part, EXCLUDED) for part in row["wide"]))
    return Preset(name, full, row["source"], row.get("stored", ""))
