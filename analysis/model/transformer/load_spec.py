"""The load of a language model from the options of its name: `rate=5`, `concurrency=32` or `requests=FILE.csv`, cached
tokens, variation of lengths, speculative decoding, and numbers of replicas, pipeline stages and workers."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from analysis.model.model_errors import ModelSpecError
from analysis.model.request_bounds import whole_option
from hardware.base.errors import RequestError, hint
from hardware.base.text import parse_amount, quantity

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

    def scaled(self, up: bool) -> LoadSpec:
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

    def neighbours(self) -> list[LoadSpec]:
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
            listing = f"allowed: {', '.join(OPTIONS)}"
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
    load = LoadSpec(**{name: _read_option(name, text, layers) for name, text in options.items()})
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
}


def _read_option(name: str, text: str, layers: int) -> Any:
    """Return the value of an option. Raises ModelSpecError."""
    if name == "requests":
        return text
    if name not in _NUMBERS:
        return whole_option(name, text, *(_WHOLE | {"pp": (1, layers)})[name])
    unit, least, most = _NUMBERS[name]
    try:
        value = parse_amount(text, unit)
    except RequestError:
        value = math.nan
    if not least <= value <= most:
        shown = f"{least:g} to {quantity(most, unit if unit == '1/s' else '')}"
        raise ModelSpecError(f"{name}={text[:40]} is not a number from {shown}")
    return value
