"""A load: requests that arrive at a server. It is open (at a rate, or from a trace) or closed (a number of clients)."""

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.explore import outcome
from analysis.model.ir.workload import Floats
from analysis.model.request_bounds import TOKENS
from analysis.model.transformer.transformer_request import LoadSpec, Request
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.text import quantity
from hardware.demand import NDArray

Counts = NDArray[np.int64]
REQUESTS = 400  # least requests of an open load, so that the slowest four are above the 99th percentile
MOST_OPEN = 4000  # most requests of an open load, whose run must be long relative to a request
ROUNDS, LEAST = 6, 32  # of a closed load: requests of each client, and least requests in total
MAX_REQUESTS = 50_000
MOST_TRACE_BYTES = 32 << 20
NO_LIMITS = "no limits"
BLOCK = 512  # tokens of a block of a prompt in Mooncake's traces


class _Format(msgspec.Struct, frozen=True):
    """A format of files of requests: the `columns` of time, prompt tokens and answer tokens, the seconds of a unit of
    time (0 for a date and time), the tokens of a block in `hash_ids`, and a column that only this format has."""

    columns: tuple[str, str, str]
    unit_s: float = 1.0
    block: int = BLOCK
    mark: str = ""


_MOONCAKE = ("timestamp", "input_length", "output_length")
_FORMATS = (
    _Format(("arrival_s", "prompt_tokens", "output_tokens")),
    _Format(("TIMESTAMP", "ContextTokens", "GeneratedTokens"), 0.0),  # Azure/AzurePublicDataset, LLM inference traces
    _Format(("Timestamp", "Request tokens", "Response tokens")),  # HPMLL/BurstGPT
    _Format(_MOONCAKE, block=16, mark="chat_id"),  # alibaba-edu/qwen-bailian-usagetraces-anon
    _Format(_MOONCAKE, 1e-3),  # kvcache-ai/Mooncake, FAST25-release/traces
)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in the order of their arrival, shape (n,): seconds, prompt tokens to compute, prompt tokens in the cache
    already, and tokens of the answer. In a closed load of `concurrency` clients the arrivals are 0, and a client sends
    its next request when its last has ended. `blocks` identify the parts of `block` tokens of each prompt, if known."""

    arrival_s: Floats
    prompt: Counts
    cached: Counts
    output: Counts
    concurrency: int = 0
    blocks: tuple[tuple[int, ...], ...] = ()
    block: int = BLOCK

    @property
    def requests(self) -> int:
        """The number of requests."""
        return len(self.prompt)

    @property
    def longest(self) -> int:
        """The most tokens that the cache of a request holds."""
        return int((self.prompt + self.cached + self.output).max())

    @property
    def mean_lengths(self) -> tuple[float, float, float]:
        """The mean tokens of a request: of its prompt to compute, in the cache already, and of its answer."""
        return float(self.prompt.mean()), float(self.cached.mean()), float(self.output.mean())

    @property
    def arrivals_per_s(self) -> float:
        """The requests that arrive per second, 0 for clients that wait for their answers."""
        last_s = float(self.arrival_s[-1])
        return self.requests / last_s if last_s and not self.concurrency else 0.0


def reuse_prefixes(load: Load, room_tokens: float) -> Load:
    """Return the load with the prefixes of prompts in the cache that earlier requests have left there. The cache holds
    `room_tokens` and drops the blocks that were used least recently. An unfinished request counts as an earlier one."""
    recent: dict[int, None] = {}  # blocks in the order of their last use
    whole, cached = load.prompt + load.cached, load.cached.copy()
    for place, blocks in enumerate(load.blocks):
        hits = next((count for count, block in enumerate(blocks) if block not in recent), len(blocks))
        cached[place] = min(max(hits * load.block, cached[place]), whole[place] - 1)
        for block in blocks:
            recent.pop(block, None)
            recent[block] = None
        while len(recent) * load.block > room_tokens:
            del recent[next(iter(recent))]
    return msgspec.structs.replace(load, prompt=whole - cached, cached=cached, blocks=())


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a request: its prompt, the part of the prompt in the cache already, and its answer. The rest of the
    prompt and the answer are drawn between 1 - `spread` and 1 times their stated lengths, with `seed`."""

    prompt: int
    output: int
    cached: int = 0
    spread: float = 0.0
    seed: int = 0

    def draw(self, arrival_s: Floats, concurrency: int = 0) -> Load:
        """Return requests of these lengths, the same ones for each call."""
        random = np.random.default_rng(self.seed)
        n = len(arrival_s)

        def lengths(stated: int) -> Counts:
            """Draw a length for each request."""
            return np.maximum((stated * random.uniform(1 - self.spread, 1, n)).round().astype(np.int64), 1)

        prompt, cached, output = lengths(self.prompt - self.cached), np.full(n, self.cached), lengths(self.output)
        return Load(arrival_s=arrival_s, prompt=prompt, cached=cached, output=output, concurrency=concurrency)


def open_load(rate_per_s: float, lengths: Lengths, requests: int = REQUESTS) -> Load:
    """Return requests that arrive at random (Poisson): the same at every rate, nearer or further apart."""
    gaps = np.random.default_rng(lengths.seed).exponential(1.0, requests)
    return lengths.draw(np.cumsum(gaps) / gaps.mean() / rate_per_s)


def closed_load(concurrency: int, lengths: Lengths) -> Load:
    """Return the requests of so many clients, each of which waits for its answer, in their steady state: at the start
    they are at different places in their answers (else they would stay together), and at the end all stop."""
    load = lengths.draw(np.zeros(max(concurrency * ROUNDS, LEAST)), concurrency)
    prompt, cached, output = load.prompt.copy(), load.cached.copy(), load.output.copy()
    first, last = slice(concurrency), slice(len(prompt) - concurrency, None)
    place = np.arange(1, concurrency + 1) / concurrency
    left = np.ceil(output[first] * place).astype(np.int64)
    cached[first] += prompt[first] - 1 + output[first] - left
    prompt[first], output[first] = 1, left
    output[last] = np.ceil(output[last] * place[::-1]).astype(np.int64)
    return msgspec.structs.replace(load, prompt=prompt, cached=cached, output=output)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most seconds that a request may take to its first token, and for each token after it."""

    ttft_s: float = np.inf
    tpot_s: float = np.inf

    @property
    def is_set(self) -> bool:
        """True if there is a limit."""
        return min(self.ttft_s, self.tpot_s) < np.inf

    def excess(self, ttft_s: float, tpot_s: float) -> float:
        """Return the factor by which times exceed the limits; at most 1 if they do not."""
        return max(ttft_s / self.ttft_s, tpot_s / self.tpot_s, 1e-9)

    @property
    def words(self) -> str:
        """The limits in words: `TTFT p99 at most 1.00 s`."""
        stated = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s))
        said = [f"{name} p99 at most {quantity(limit, 's')}" for name, limit in stated if limit < np.inf]
        return ", ".join(said) or NO_LIMITS


class AskedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load that a user asks a server to serve: the load of a model's name, the lengths of its requests, the requests
    of its file if it names one, and limits."""

    spec: LoadSpec
    lengths: Lengths
    trace: Load | None = None
    limits: Limits = Limits()

    @property
    def load(self) -> Load:
        """The requests."""
        if self.trace is not None:
            return self.trace
        concurrency = self.spec.concurrency
        return closed_load(concurrency, self.lengths) if concurrency else open_load(self.spec.rate, self.lengths)

    @property
    def longest(self) -> int:
        """The most tokens that the cache of a request holds. Raises RequestError if a model may not have so many."""
        longest = self.trace.longest if self.trace is not None else self.lengths.prompt + self.lengths.output
        if longest > TOKENS:
            raise RequestError(f"a request of {longest:,} tokens, prompt and answer: at most {TOKENS:,}")
        return longest


def ask_load(request: Request, limits: str = "") -> AskedLoad:
    """Return what a model's name and the limits of a state (`ttft<1s tpot<30ms L<5ms`) ask. Raises RequestError."""
    spec, run = request.load or LoadSpec(), request.run
    most_s = {f"{one.figure}_s": one.amount for one in outcome.parse_limits(limits)}
    return AskedLoad(
        spec=spec,
        lengths=Lengths(prompt=run.sequence, output=run.output, cached=spec.cached, spread=spec.spread, seed=spec.seed),
        trace=read_load_file(spec.requests, spec.cached) if spec.requests else None,
        limits=Limits(**{name: value for name, value in most_s.items() if name in Limits.__struct_fields__}),
    )


def read_load_file(path: str, cached: int) -> Load:
    """Return the requests of a file, with `cached` tokens of each prompt in the cache. Raises RequestError."""
    file = Path(file_access.stamp(path)[0])
    try:
        data = file_access.read(file, MOST_TRACE_BYTES)
    except OSError as error:
        raise RequestError(f"{str(file)[-80:]}: {error.strerror}") from None
    return read_load(file_access.text(data, "replace"), file.name, cached)


def read_load(text: str, name: str, cached: int = 0) -> Load:
    """Return the requests of a CSV or of JSON lines in one of `_FORMATS`, with `cached` tokens of each prompt in the
    cache. Raises RequestError with the line that is wrong."""
    try:
        load = _read_requests(*_rows(text), name)
    except csv.Error as error:
        raise RequestError(f"{name}: not a table of requests: {error}") from None
    held = np.minimum(cached, load.prompt - 1)
    return msgspec.structs.replace(load, prompt=load.prompt - held, cached=held)


_Row = tuple[int, dict[str, Any]]  # the number of a line and its columns, none if it is damaged


def _rows(text: str) -> tuple[Iterable[str], Iterator[_Row]]:
    """Return the columns of a file and its rows."""
    if not text.lstrip().startswith("{"):
        rows = csv.DictReader(io.StringIO(text, newline=""))
        return rows.fieldnames or (), ((rows.line_num, row) for row in rows)
    lines = ((number, _json_row(line)) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    header = next(lines)
    return header[1], chain([header], lines)


def _json_row(line: str) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return row if isinstance(row, dict) else {}


def _read_requests(present: Iterable[str], rows: Iterable[_Row], name: str) -> Load:
    columns = {*present}
    kind = next((one for one in _FORMATS if {*one.columns, one.mark} - {""} <= columns), None)
    if kind is None:
        near = min(_FORMATS, key=lambda one: len({*one.columns} - columns))
        missing = next((column for column in near.columns if column not in columns), near.mark)
        kinds = "; ".join(dict.fromkeys(", ".join(one.columns) for one in _FORMATS))
        raise RequestError(f"{name}: no column {missing}; a trace of requests has {kinds}")
    values: list[tuple[float, int, int]] = []
    blocks: list[tuple[int, ...]] = []
    for number, row in rows:
        if len(values) == MAX_REQUESTS:
            raise RequestError(f"{name}: more than {MAX_REQUESTS:,} requests")
        try:
            time, prompt, output = (row[column] for column in kind.columns)
            stamp = None if kind.unit_s else datetime.fromisoformat(time).replace(tzinfo=UTC)  # days of 24 hours
            at_s = stamp.timestamp() if stamp else float(time) * kind.unit_s
            value, hashes = (at_s, int(prompt), int(output)), tuple(map(int, row.get("hash_ids") or ()))
        except (LookupError, TypeError, ValueError, OverflowError):
            raise RequestError(f"{name}, line {number}: expected a time and two counts of tokens") from None
        if not (0 <= value[0] < 1e10 and 1 <= value[1] <= 1e7 and 1 <= value[2] <= 1e7):
            raise RequestError(f"{name}, line {number}: expected a time of 0 s or more, and 1 to 10 million tokens")
        if values and value[0] < values[-1][0]:
            raise RequestError(f"{name}, line {number}: arrives before the request of the line above")
        values.append(value)
        blocks.append(hashes)
    if not values:
        raise RequestError(f"{name}: no request")
    arrival, prompts, outputs = (np.array(column) for column in zip(*values, strict=True))
    return Load(
        arrival_s=arrival if kind.unit_s else arrival - arrival[0],
        prompt=prompts,
        cached=np.zeros_like(prompts),
        output=outputs,
        blocks=tuple(blocks) if any(blocks) else (),
        block=kind.block,
    )
