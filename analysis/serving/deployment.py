"""Divide a model among devices that serve a load: shards of each operator (tp), experts (ep), stages of a pipeline (pp)
and replicas behind one queue (dp). Write the command lines that start these servers, by hardware/engines/runtimes.toml.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, record
from analysis.estimate.estimate import Estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.cost import prices, settings
from analysis.model.ir.workload import Workload
from analysis.model.transformer.config import Config, degrees
from analysis.model.transformer.transformer_request import SHARES, LoadSpec, Request, parse
from analysis.model.transformer.transformer_workload import build
from analysis.serving.request_load import Load
from analysis.serving.simulation import Run, simulate, simulate_split
from analysis.serving.step_costs import NO_CACHE, StepCosts, StepLine, StepModel, speculate, step_costs
from analysis.wording import short_name
from hardware.base.errors import RequestError
from hardware.base.file_access import read_records
from hardware.base.records import memoize
from hardware.base.text import quantity
from hardware.device import Device
from hardware.engines.runtime import PATH, Scheduler, find_scheduler, schedulers

BYTES = 2.0  # of an element that a stage sends to the next


class DoesNotFitError(RequestError):
    """The weights, or one request with its cache, do not fit into the memory of the devices."""


_DEGREES = ("tp", "pp", "dp", "ep")  # 1 by default; the others are 0


class ParallelDegrees(msgspec.Struct, frozen=True, kw_only=True):
    """Degrees that divide a model among devices: `dp` replicas of `pp` stages of `tp` shards; `ep` devices share the
    experts. If `prefill` workers send prompts to `decode` workers, each of them has the shards of a replica."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    prefill: int = 0
    decode: int = 0

    @property
    def shards(self) -> int:
        """The devices of one stage."""
        return max(self.tp, self.ep)

    @property
    def copies(self) -> int:
        """The devices of one stage that each compute the attention of different sequences."""
        return self.ep if self.tp == 1 else 1

    @property
    def devices(self) -> int:
        """The number of all devices."""
        return self.shards * self.pp * self.workers

    @property
    def workers(self) -> int:
        """The number of engines, each with a separate queue."""
        return self.prefill + self.decode or self.dp

    @property
    def words(self) -> str:
        """The layout as written in names: `tp=4,dp=2`; '' for one device."""
        return ",".join(
            f"{name}={value}" for name in self.__struct_fields__ if (value := getattr(self, name)) > (name in _DEGREES)
        )

    @property
    def worker(self) -> "ParallelDegrees":
        """The degrees that say how the devices of a stage share each operator."""
        return ParallelDegrees(tp=self.tp, ep=self.ep)

    def name_of(self, request: Request) -> str:
        """Return the name of a model under its load in this layout."""
        assert request.load is not None
        load = msgspec.structs.replace(request.load, dp=self.dp, pp=self.pp)
        return request.serve(*load.words, self.worker.words, without=SHARES)


def find_layout(request: Request, count: int) -> ParallelDegrees:
    """Return the layout that a name states over `count` devices (0: as many as it takes). Without stated degrees, as
    many devices as divide the model become shards; the rest are replicas. Raises RequestError if any is left."""
    run, load = request.run, request.load
    own = {name: getattr(load, name) for name in ("pp", "dp", "prefill", "decode")} if load else {}
    layout = ParallelDegrees(tp=run.tp, ep=run.ep, **own)
    if layout.prefill and layout.shards == 1 and count % layout.workers == 0:
        layout = msgspec.structs.replace(layout, tp=max(count // layout.workers, 1))
    if count in (0, layout.devices):
        return layout
    if layout == ParallelDegrees():
        layout = ParallelDegrees(tp=max(degree for degree in degrees(request.config) if count % degree == 0))
    if count % layout.devices or layout.prefill:
        raise RequestError(f"{layout.words} takes {layout.devices} devices at a time, which does not divide {count}")
    return msgspec.structs.replace(layout, dp=layout.dp * (count // layout.devices))


class PipelinedCosts(StepCosts, frozen=True, kw_only=True):
    """The costs of a step of a pipeline, which gives each sequence a token: as many micro-batches as stages follow one
    another through all stages. Fewer sequences than stages leave stages idle (bubbles). `micro_batch` are the costs of
    a micro-batch, which holds `max_tokens`. A stage takes `hop_s`, plus `token_hop_s` per token, to send it on."""

    micro_batch: StepCosts
    stages: int
    hop_s: float
    token_hop_s: float
    max_tokens: int

    @memoize()
    def line(self, sequences: int) -> StepLine:
        """Return the costs of steps in which micro-batches of so many sequences in total pass the stages."""
        batches = min(self.stages, sequences)
        share = math.ceil(sequences / batches)
        one = self.micro_batch.line(share)
        time_s, energy_j = self._pass_stages(one.first_s, one.first_j, batches, share)
        idle_w = (self.stages - batches) * self.micro_batch.static_w
        return StepLine(time_s, one.slope_s, energy_j, batches * one.slope_j + idle_w * one.slope_s)

    def mixed(self, sequences: int, cached: float, tokens: int, pairs: float) -> tuple[float, float]:
        """Return (time_s, energy_j) of a step that also holds prompts, divided among as few micro-batches as can hold
        them."""
        filled = min(self.stages, max(math.ceil(tokens / self.max_tokens), 1))
        if sequences >= self.stages:  # over many steps each micro-batch has its share of prompts
            filled = self.stages
        batches = min(self.stages, max(sequences, filled))
        share, prompt = math.ceil(sequences / batches), math.ceil(tokens / filled)
        time_s, energy_j = self._pass_stages(
            *self.micro_batch.mixed(share, cached, prompt, pairs / filled), filled, share + prompt
        )
        if batches > filled:  # micro-batches without prompts wait for the others, and take less energy
            alone_s, alone_j = self.micro_batch.line(share).step(cached)
            energy_j += (batches - filled) * (alone_j - self.micro_batch.static_w * alone_s)
        return time_s, energy_j

    def _pass_stages(self, time_s: float, energy_j: float, batches: int, tokens: int) -> tuple[float, float]:
        """Return time and energy of `batches` micro-batches of this cost and these tokens through all stages."""
        hops_s = (self.stages - 1) * (self.hop_s + tokens * self.token_hop_s)
        idle_j = self.static_w * hops_s + (self.stages - batches) * self.micro_batch.static_w * time_s
        return time_s + hops_s, batches * energy_j + idle_j


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Devices with their software, ready to serve loads. `first` is the estimate of a step of one sequence without a
    cache. Workers that prefill have `prompt_costs` if they share the model in another way."""

    first: Estimate
    scheduler: Scheduler
    costs: StepCosts
    prompt_costs: StepCosts | None = None
    layout: ParallelDegrees = ParallelDegrees()

    @property
    def hire_usd(self) -> float | None:
        """The published price to hire all its devices for an hour, USD; None if unknown."""
        known = prices(self.first, settings())
        hire = next((price.value for price in known if price.kind == "hire"), None)
        return hire and hire * self.layout.devices

    @property
    def name(self) -> str:
        """The device in short, and the number of devices: `L4 x 2`."""
        count = self.layout.devices
        return short_name(self.first.device) + f" x {count}" * (count > 1)

    def sequences(self, load: Load) -> int:
        """Return the most sequences that an engine holds, for the mean lengths of a load."""
        prompt, cached, output = load.mean_lengths
        # Prompts begin as often as answers end, so mixed steps hold prompt / output prompt tokens per output token.
        in_cache = self.costs.cache_tokens / (cached + prompt + output / 2 + self.costs.sequence_tokens)
        mixes = self.scheduler.mixes and not self.layout.prefill
        in_step = self.scheduler.max_tokens / (1 + prompt / output * mixes)
        return max(int(min(in_cache, self.scheduler.max_sequences, in_step)), 1)

    def capacity_per_s(self, load: Load) -> float:
        """Return the requests per second that full batches would serve, for the mean lengths of a load. The cache and
        the scheduler limit a batch; the API server limits requests and tokens."""
        prompt, cached, output = load.mean_lengths
        layout, sequences, scheduler = self.layout, self.sequences(load), self.scheduler
        prefill_s, decode_s = self.worker_seconds(load)
        if layout.prefill:
            rate = min(layout.prefill / prefill_s, layout.decode / decode_s)
        elif scheduler.mixes:
            tokens, held = round(sequences * prompt / output), cached + prompt + output / 2
            step_s = self.costs.mixed(sequences, held, tokens, tokens * (cached + prompt / 2))[0]
            rate = layout.dp * sequences / output / step_s
        else:
            rate = layout.dp / (prefill_s + decode_s)
        return min(rate, layout.dp / max(scheduler.intake_s.value, output * scheduler.chunk_s.value))

    def worker_seconds(self, load: Load) -> tuple[float, float]:
        """Return the seconds that an engine spends on the prompt and on the answer of a request, in full batches."""
        prompt, cached, output = load.mean_lengths
        sequences, chunk = self.sequences(load), self.scheduler.max_tokens
        prefill_s = self.costs.mixed(0, 0.0, chunk, chunk * (cached + prompt / 2))[0] * prompt / chunk
        return prefill_s, self.costs.line(sequences).step(cached + prompt + output / 2)[0] * output / sequences

    def serve(self, load: Load) -> Run:
        """Simulate a load. Replicas receive requests in rotation; workers send caches over the links of the device."""
        layout, device = self.layout, self.first.device
        if not layout.prefill:
            return simulate(self.costs, self.scheduler, load, layout.dp)
        token_s = self.costs.token_bytes / device.link_bandwidth
        return simulate_split(
            [self.prompt_costs or self.costs] * layout.prefill,
            [self.costs] * layout.decode,
            lambda tokens: device.link_latency_s + token_s * tokens,
            self.scheduler,
            load,
        )


def open_stage(
    request: Request,
    shards: ParallelDegrees,
    device: Device,
    scenario: Scenario,
    longest: int,
    scheduler: Scheduler | None = None,
) -> Server:
    """Return the server of the `shards` of a layout, without its stages and replicas, by default with the scheduler of
    its runtime. Its caches grow to `longest` tokens."""
    prefill, decode = open_steps(request, shards)
    steps = StepModel(prefill=prefill, decode=decode, device=device, scenario=scenario)
    first = steps.estimate(NO_CACHE)
    scheduler = scheduler or find_scheduler(first.runtime.scheduler, device.memory_bytes)
    scheduler = scheduler.of_copies(decode.attention_copies)
    costs = step_costs(steps, first, longest, scheduler)
    most = min(scheduler.max_sequences, costs.most_sequences)
    scheduler = msgspec.structs.replace(scheduler, max_sequences=most)
    return Server(first=first, scheduler=scheduler, costs=costs, layout=shards)


def open_steps(request: Request, shards: ParallelDegrees) -> tuple[Workload, Workload]:
    """Return the workloads of steps that prefill and that decode. They have the same operators, except for latent
    attention and recurrent layers."""
    names = [request.spell(phase, shards.words, without=SHARES) for phase in ("prefill", "decode")]
    prefill, config = open_step(names[0]), request.config
    if config.kv_lora or config.count("mixer"):
        return prefill, open_step(names[1])
    decode = parse(names[1])
    lengths = {"sequence": decode.run.sequence, "kv": decode.run.kv}
    return prefill, msgspec.structs.replace(prefill, name=decode.text, defaults=lengths)


@lru_cache(8)
def open_step(name: str) -> Workload:
    """Return the workload of a step by its name. Equal layers are merged into one that runs repeatedly."""
    step = parse(name)
    return build(step.text, step.config, step.run, is_merged=True)


def arrange(stage: Server, layout: ParallelDegrees, hidden: int, longest: int, load: LoadSpec | None = None) -> Server:
    """Return a server with the stages and replicas of a layout. Each token sends `hidden` elements from stage to stage.
    Raises DoesNotFitError if no request of `longest` tokens fits."""
    _check_fit(stage, layout, longest)
    scheduler = stage.scheduler
    costs = speculate(stage.costs, load.spec, load.accept) if load is not None else stage.costs
    if layout.pp > 1:
        costs = _pipelined(costs, layout.pp, hidden, stage.first, scheduler)
        scheduler = msgspec.structs.replace(scheduler, max_tokens=scheduler.max_tokens * layout.pp)
    return msgspec.structs.replace(stage, costs=costs, scheduler=scheduler, layout=layout)


def _pipelined(costs: StepCosts, stages: int, hidden: int, first: Estimate, scheduler: Scheduler) -> PipelinedCosts:
    """Return the costs of a pipeline. Each stage holds its layers and their part of every cache."""
    device = first.device
    room = max(stages * device.memory_bytes * scheduler.memory_share - first.memory.weight_bytes, 0.0)
    cache_tokens = costs.copies * room / costs.token_bytes if costs.token_bytes > 0 else np.inf
    return record(
        PipelinedCosts,
        costs,
        static_w=costs.static_w * stages,
        cache_tokens=cache_tokens,
        micro_batch=costs,
        stages=stages,
        hop_s=device.link_latency_s,
        token_hop_s=hidden * BYTES / device.link_bandwidth,
        max_tokens=scheduler.max_tokens,
    )


def _check_fit(stage: Server, layout: ParallelDegrees, longest: int) -> None:
    """Raise DoesNotFitError if the weights and one request at full length need more memory than there is."""
    device, shards, memory_share = stage.first.device, layout.shards, stage.scheduler.memory_share
    needed = stage.first.peak_memory_bytes + stage.costs.token_bytes * (longest - NO_CACHE)
    room = device.memory_bytes * memory_share * layout.pp
    if needed <= room:
        return
    least = 2 ** math.ceil(math.log2(max(needed * shards / (device.memory_bytes * memory_share), 1.0)))
    of_each = " each" * (layout.devices > 1)
    raise DoesNotFitError(
        f"{device.name}{f' x {layout.devices}' * (layout.devices > 1)} does not fit: weights and one request take "
        f"{quantity(needed / layout.pp, 'byte')} of {quantity(device.memory_bytes * memory_share, 'byte')}{of_each}; "
        f"{least} devices or more would do, as {device.key}*{least}"
    )


# --- layouts to try ---------------------------------------------------------------------------------------

_STAGES = (1, 2, 4, 8)


def layouts(config: Config, most: int) -> Iterator[ParallelDegrees]:
    """Yield the layouts of one replica of at most `most` devices."""
    shards = [(tp, ep) for tp in degrees(config) for ep in (sorted({1, tp}) if config.experts else (1,))]
    if config.experts:
        shards += [(1, ep) for ep in (2, 4, 8, 16, 32, 64) if config.experts % ep == 0]
    for tp, ep in dict.fromkeys(shards):
        for pp in _STAGES:
            layout = ParallelDegrees(tp=tp, ep=ep, pp=pp)
            if layout.devices <= most and pp <= config.layers and tp.bit_count() == 1:
                yield layout


def replicated_layouts(server: Server, load: Load, most: int) -> Iterator[ParallelDegrees]:
    """Yield layouts of at most `most` devices with ever more replicas, from the fewest that keep up."""
    highest = most // server.layout.devices
    replicas = min(max(math.ceil(load.arrivals_per_s / server.capacity_per_s(load)), 1), highest)
    while replicas < highest:
        yield msgspec.structs.replace(server.layout, dp=replicas)
        replicas = min(replicas * 2, highest)
    yield msgspec.structs.replace(server.layout, dp=highest)


def split_layouts(server: Server, load: Load, most: int) -> Iterator[ParallelDegrees]:
    """Yield layouts in which some engines prefill and others decode, divided in proportion to the work of both. The
    number of engines grows from the fewest that keep up."""
    prefill_s, decode_s = server.worker_seconds(load)
    workers = max(math.ceil(load.arrivals_per_s * (prefill_s + decode_s)), 2)
    while workers <= most // server.layout.shards and server.layout.pp == 1:
        prefill = min(max(round(workers * prefill_s / (prefill_s + decode_s)), 1), workers - 1)
        yield msgspec.structs.replace(server.layout, dp=1, prefill=prefill, decode=workers - prefill)
        workers *= 2


REPLICAS = "# start {dp} of them behind a load balancer"


class ServerFlags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of one server; runtimes.toml explains them."""

    title: str
    vendors: tuple[str, ...]
    command: str
    tp: str
    pp: str
    dp: str
    ep: str
    attention_dp: str
    apart: str
    drafts: str
    formats: dict[str, str]
    source: str


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of a server that starts a deployment."""

    server: Annotated[str, column("Server")]
    command: Annotated[str, column("Command")]


def command_lines(server: Server, longest: int, drafts: int = 0) -> tuple[CommandLine, ...]:
    """Return the command line of each server that runs on these devices, in their layout, with the limits of the
    simulation, for requests of at most `longest` tokens, of which a draft model proposes `drafts` a step."""
    vendor = server.first.device.vendor
    return tuple(
        CommandLine(server=flags.title, command=_command(name, flags, server, longest, drafts))
        for name, flags in read_records(PATH, "servers", ServerFlags).items()
        if vendor in flags.vendors
    )


def _command(name: str, flags: ServerFlags, server: Server, longest: int, drafts: int) -> str:
    layout, scheduler, precision = server.layout, server.scheduler, server.first.scenario.precision
    spreads, each = layout.copies > 1, 1 if schedulers()[name].divides_tokens else layout.copies
    degrees = {name: value for name in ("tp", "pp", "ep") if (value := getattr(layout, name)) > 1}
    words = [flags.command, flags.formats.get(precision, f"# a checkpoint in {precision}")]
    words += [getattr(flags, name) for name in degrees if not (name == "ep" and spreads)]
    shares_experts = server.first.workload.routing is not None
    replicas = REPLICAS if shares_experts else flags.dp or REPLICAS
    words += [flags.attention_dp] * spreads + [replicas] * (layout.dp > 1) + [flags.apart] * (layout.prefill > 0)
    words += [flags.drafts] * (drafts > 0)
    # A shell ignores what follows a comment, so comments come last.
    flags_and_comments = [word.partition("# ")[::2] for word in words]
    line = " ".join(flag.strip() for flag, _ in flags_and_comments if flag)
    if comments := "; ".join(comment for _, comment in flags_and_comments if comment):
        line += f" # {comments}"
    return line.format(
        longest=longest,
        drafts=drafts,
        checked=drafts + 1,
        sequences=max(scheduler.max_sequences // each, 1),
        tokens=max(scheduler.max_tokens // layout.pp // each, 1),
        memory=scheduler.memory_share,
        **msgspec.structs.asdict(layout),
    )
