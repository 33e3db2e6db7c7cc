"""A model divided between an accelerator and the rest of its module or host: seconds, joules and what crosses.

A model is cut, in its order of execution, into pieces that run on either side. One side runs at a time: the other one
waits at its idle power. A tensor that crosses is written by one side and read by the other, both at their bandwidth of
memory (of the link, for an accelerator without memory); each further piece on the unit is another call of it.

Fallback: operators that an accelerator's compiler does not place on it run one by one on the rest, without fusion. An
operator of which no source is known counts as one of the unit.

Offload: the first n layers of a language model, or their experts alone, run on the host's CPU, caches of such layers
included (llama.cpp, ktransformers); n is the least with which the rest fits into the device. Products of at least 32
rows run on the device, which reads their weights over its link to the host each time, as llama.cpp does (ggml-cuda,
GGML_OP_OFFLOAD_MIN_BATCH). Instead of a host, a second device may run the layers, unlike the first or not: it keeps
their weights, and what crosses passes the links.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import YES_NO, column
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.operator_facts import HEAD, operator_graph, roles, select_values
from analysis.model.ir.workload import INPUT, WEIGHT, Bools, Floats, Ints, base_name
from hardware.base.errors import RequestError
from hardware.base.file_access import read_records
from hardware.base.records import group_by, memoize
from hardware.device import Device
from hardware.precision import CACHE


class DividedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A model divided between a unit and another device, for the whole batch: the seconds in all, on each side and for
    crossings, and what the rest holds: its weights and caches, and activations as of the whole model."""

    latency_s: float
    energy_j: float
    unit_s: float
    rest_s: float
    crossing_s: float
    rest_bytes: float


def divide_run(unit: Estimate, rest: Estimate, away: Bools) -> DividedRun:
    """Return the run of a model of which the operators `away`, (n,), run on the device of `rest`."""
    (unit_s, unit_j), (rest_s, rest_j) = costs_of(unit, ~away), costs_of(rest, away)
    host = divide_host_work(unit)[1]
    if host is not None:  # it starts each piece
        unit_s += max(count_pieces(~away) - 1, 0) * float(host.run.latency_s.sum())
    crossing_bytes = find_crossings(unit, away)[1]
    crossing_s = crossing_bytes * (1.0 / unit.device.memory_bandwidth + 1.0 / rest.device.memory_bandwidth)
    waiting_j = unit.static_w * (rest_s + crossing_s) + rest.static_w * (unit_s + crossing_s)
    return DividedRun(
        latency_s=unit_s + rest_s + crossing_s,
        energy_j=unit_j + rest_j + (waiting_j if away.any() else 0.0),
        unit_s=unit_s,
        rest_s=rest_s,
        crossing_s=crossing_s,
        rest_bytes=held_bytes(rest, stored_bytes(rest), away) if away.any() else 0.0,
    )


def held_bytes(result: Estimate, stored: tuple[Floats, Floats], here: Bools) -> float:
    """Return the bytes of what a device holds that runs the operators `here`, with the activations of the whole model.
    `stored` is `stored_bytes(result)`."""
    (weights, caches), memory = stored, result.memory
    activations = memory.peak_bytes - memory.weight_bytes - float(caches.sum())
    return float((weights + caches)[here].sum()) + max(activations, 0.0)


def stored_bytes(result: Estimate) -> tuple[Floats, Floats]:
    """Return the bytes of weights and of key-value caches by the first operator that reads each, (n,)."""
    workload = result.workload
    caches = (roles(workload) == CACHE) & (workload.tensors.role == INPUT)
    return _bytes_by_reader(result, workload.tensors.role == WEIGHT), _bytes_by_reader(result, caches)


def _bytes_by_reader(result: Estimate, which: Bools) -> Floats:
    workload, operators = result.workload, result.workload.operators
    reader = np.repeat(np.arange(workload.n_operators), np.diff(operators.in_ptr))
    tensors, position = np.unique(operators.in_tensor, return_index=True)
    is_asked = which[tensors]
    total: Floats = np.zeros(workload.n_operators)
    np.add.at(total, reader[position[is_asked]], tensor_bytes(result, tensors[is_asked]))
    return total


def tensor_bytes(result: Estimate, which: Ints) -> Floats:
    """Return the bytes of some tensors of an estimate."""
    values = select_values(result.workload, which)
    return values.size_bytes(result.workload.value_at(batch=result.scenario.batch), result.plan.widths)


def count_pieces(which: Bools) -> int:
    """Return the number of unbroken runs of marked operators, in their order of execution."""
    return int((which & ~np.append(False, which[:-1])).sum())


def find_crossings(result: Estimate, away: Bools) -> tuple[int, float]:
    """Return how many tensors cross between the sides, and their bytes. A tensor crosses once."""
    graph = operator_graph(result.workload)
    edges = zip(graph.source.tolist(), graph.target.tolist(), graph.tensors, strict=True)
    tensors = sorted({tensor for a, b, carried in edges if away[a] != away[b] for tensor in carried})
    return len(tensors), float(tensor_bytes(result, np.array(tensors, dtype=np.int32)).sum())


def costs_of(result: Estimate, which: Bools) -> tuple[float, float]:
    """Return the seconds and joules of some operators, for the whole batch."""
    run = result.run
    seconds, joules = float(run.latency_s.sum()), float(run.energy_j.sum())
    return (
        result.latency_s * float(run.latency_s[which].sum()) / (seconds or 1.0),
        result.energy_j * float(run.energy_j[which].sum()) / (joules or 1.0),
    )


SUPPORT = Path(__file__).with_name("operator_support.toml")
RUNS, REFUSES, UNKNOWN = "runs", "refuses", "unknown"
_SHOWN = {RUNS: "can run", REFUSES: "falls back", UNKNOWN: "unknown"}


class Compiler(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The operators that a compiler places on its accelerator: those that it `runs`, those that it `refuses` and why,
    and what is true of all `others`. At most `pieces` of a model run on the unit (0: any number); `rest` says what runs
    the others, a unit of `rest_architecture` in its module. A row of operator_support.toml."""

    base: str = ""
    name: str
    unit: str
    source: str
    rest: str
    rest_architecture: str = ""
    others: str
    runs: str
    pieces: int = 0
    refuses: dict[str, str] = {}
    also_refuses: dict[str, str] = {}

    def place(self, kind: str, target: str) -> tuple[str, str]:
        """Return whether an operator runs, is refused or is unknown, and why. The name of its call comes first."""
        refuses = self.refuses | self.also_refuses
        for name in (base_name(target)[0], kind):
            if name in refuses:
                return REFUSES, refuses[name]
            if name in self.runs.split():
                return RUNS, ""
        return self.others, "it is not in the list of the source" if self.others == REFUSES else "no source is known"


class OperatorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one kind with one fate. `time_share` is of the time on the unit if it ran all of them, `example`
    is the path of the first one."""

    operator: Annotated[str, column("Operator")]
    status: Annotated[str, column("The unit", shown=_SHOWN)]
    count: Annotated[int, column("Count", "count")]
    mac_share: Annotated[float, column("of MACs", "%", keep=2)]
    time_share: Annotated[float, column("of time", "%", keep=1)]
    why: Annotated[str, column("Why", keep=1)]
    example: Annotated[str, column("First", keep=3)]


class FallbackReport(Head, frozen=True, kw_only=True):
    """The operators of a model that fall back to the `rest`: `pieces` stay on the unit, and `crossings` of tensors of
    `crossing_bytes` in all join the sides. `whole_s` is the time if the unit ran all operators, `alone_s` if
    `rest_device` does, `divided` the model as the compiler divides it; None without a device, or, of `alone_s`, if the
    model does not fit into its memory. `rest_fits` is True if what is left to it does. `follow` operators come after
    the last piece that the unit may run."""

    compiler: str
    source: str
    rest: str
    rest_device: str | None
    operators: int
    refused: int
    unknown: int
    follow: int
    pieces: int
    crossings: int
    crossing_bytes: float
    whole_s: float
    alone_s: float | None
    divided: DividedRun | None
    rest_fits: bool | None
    groups: tuple[OperatorGroup, ...]


def find_compiler(device: Device) -> Compiler:
    """Return the compiler of a device. Raises RequestError if none is known."""
    compilers = read_records(SUPPORT, "compiler", Compiler)
    if device.file.compiler not in compilers:
        units = ", ".join(sorted(compiler.unit for compiler in compilers.values()))
        raise RequestError(f"which operators run on {device.name} is not known; name a unit like {units}")
    return compilers[device.file.compiler]


@memoize()
def refusal(result: Estimate) -> str:
    """Return why no known software runs a model whole on the device of an estimate: none runs such work there, or its
    compiler refuses operators that multiply. '' if nothing is known to prevent it."""
    name = result.device.name
    if not result.supported:
        return f"no software is known to run {result.workload.name} on {name}"
    compiler = read_records(SUPPORT, "compiler", Compiler).get(result.device.file.compiler)
    if compiler is None:
        return ""
    ops = result.workload.operators
    for i in np.flatnonzero(ops.macs @ result.workload.value_at(batch=result.scenario.batch)):
        status, why = compiler.place(ops.kind[i], ops.target[i])
        if status == REFUSES:
            return f"{compiler.name} refuses {ops.kind[i]} of {result.workload.name}: {why}"
    return ""


def find_fallback(result: Estimate, rest: Estimate | None) -> FallbackReport:
    """Return what of a model does not run on the unit of `result`; it runs on the device of `rest`, if one is known.
    Raises RequestError for a unit whose compiler is not known."""
    compiler, ops = find_compiler(result.device), result.workload.operators
    places = [compiler.place(kind, target) for kind, target in zip(ops.kind, ops.target, strict=True)]
    refused = np.array([status == REFUSES for status, _ in places], dtype=np.bool_)
    away = _leave_in_pieces(refused, compiler.pieces)
    crossings, crossing_bytes = find_crossings(result, away)
    run = divide_run(result, rest.in_mode("eager"), away) if rest else None
    return FallbackReport(
        **head_fields(result, on_device=True),
        compiler=compiler.name,
        source=compiler.source,
        rest=compiler.rest,
        rest_device=rest.device.key if rest else None,
        operators=len(places),
        refused=int(refused.sum()),
        unknown=sum(status == UNKNOWN for status, _ in places),
        follow=int((away & ~refused).sum()),
        pieces=count_pieces(~away),
        crossings=crossings,
        crossing_bytes=crossing_bytes,
        whole_s=result.latency_s,
        alone_s=rest.latency_s if rest and rest.fits else None,
        divided=run,
        rest_fits=run.rest_bytes <= rest.device.memory_bytes if run and rest else None,
        groups=_groups(result, places),
    )


def _leave_in_pieces(refused: Bools, most: int) -> Bools:
    """Return which operators run elsewhere, (n,): the refused ones, and all that follow the last piece allowed."""
    ends = np.flatnonzero(refused & ~np.append(False, refused[:-1]))
    ends = ends[ends > 0]
    if not most or len(ends) < most:
        return refused
    away = refused.copy()
    away[ends[most - 1] :] = True
    return away


def _groups(result: Estimate, places: list[tuple[str, str]]) -> tuple[OperatorGroup, ...]:
    """Return the operators by name and fate: refused ones first, those of most time first."""
    workload = result.workload
    macs = workload.operators.macs @ workload.value_at(batch=result.scenario.batch)
    seconds = result.run.latency_s
    members = group_by(range(workload.n_operators), lambda i: (workload.operators.kind[i], *places[i]))
    rows = [
        OperatorGroup(
            operator=kind,
            status=status,
            count=len(which),
            mac_share=float(macs[which].sum() / (macs.sum() or 1.0)),
            time_share=float(seconds[which].sum() / (seconds.sum() or 1.0)),
            why=why,
            example=workload.operators.path[which[0]],
        )
        for (kind, status, why), which in members.items()
    ]
    order = (REFUSES, UNKNOWN, RUNS)
    return tuple(sorted(rows, key=lambda row: (order.index(row.status), -row.time_share)))


STREAMED_ROWS = 32.0  # rows of a product from which llama.cpp copies its weights to the device
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_EXPERTS = ".experts."
GIVEN = "as asked"  # begins the name of a split that is asked for
ALONE, LAYERS, EXPERTS, HOST = "all on the device", "layers on the host", "experts on the host", "all on the host"


class OffloadWay(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run the model: what stands on the host, in how many of the layers, with the option of llama.cpp for
    it. `longest` is the tokens of context for which both have room; None if they do not have it now."""

    way: Annotated[str, column("Way")]
    layers: Annotated[int, column("Layers", "count", help="layers of which something is on the host")]
    option: Annotated[str, column("llama.cpp", keep=2)]
    fits: Annotated[bool, column("Fits", keep=1, shown=YES_NO)]
    latency_s: Annotated[float, column("Latency", "s")]
    tokens_per_s: Annotated[float, column("Tokens/s", "SI", role="quantity")]
    energy_j_per_token: Annotated[float, column("Energy/token", "J")]
    host_fraction: Annotated[float, column("on host", "%", keep=1, help="share of the time")]
    device_bytes: Annotated[float, column("Device", "byte", keep=1)]
    host_bytes: Annotated[float, column("Host", "byte", keep=1)]
    longest: Annotated[int | None, column("Longest context", "count", keep=2)]


class OffloadReport(Head, frozen=True, kw_only=True):
    """The ways to run a model with the help of the host's memory, the fastest that fits first. A model under a load
    runs its requests one after another: `arrivals_per_s` of them arrive, 0 without a load or if clients wait."""

    host: str
    load: str = ""
    arrivals_per_s: float = 0.0
    layers: int
    device_bytes: float
    host_bytes: float
    ways: tuple[OffloadWay, ...]


class _Placement(msgspec.Struct, frozen=True, dict=True):
    """The place of weights and caches among the operators of an estimate, each (n,): the first one that reads them."""

    result: Estimate

    @cached_property
    def layer(self) -> Ints:
        """The layer of each operator, -1 for none."""
        matches = (_LAYER.search(path) for path in self.result.workload.operators.path)
        return np.array([int(match[1]) if match else -1 for match in matches], dtype=np.int32)

    @cached_property
    def is_expert(self) -> Bools:
        """True for operators of experts."""
        return np.array([_EXPERTS in path for path in self.result.workload.operators.path], dtype=np.bool_)

    @cached_property
    def is_head(self) -> Bools:
        """True for the layer that makes logits."""
        names = (path.rpartition(".")[2] for path in self.result.workload.operators.path)
        return np.array([name == HEAD for name in names], dtype=np.bool_)

    @cached_property
    def stored(self) -> tuple[Floats, Floats]:
        """The bytes of weights and of key-value caches by operator."""
        return stored_bytes(self.result)

    @property
    def layers(self) -> int:
        """The number of layers."""
        return int(self.layer.max(initial=-1)) + 1

    def away(self, way: str, layers: int) -> Bools:
        """Return the operators that are on the host, (n,)."""
        if way in (ALONE, HOST):
            return np.full(len(self.layer), way == HOST)
        in_layers = (self.layer >= 0) & (self.layer < layers)
        return in_layers & self.is_expert if way == EXPERTS else in_layers | self.is_head

    def device_bytes(self, away: Bools) -> float:
        """Return what the device holds, with the activations of the whole model."""
        return held_bytes(self.result, self.stored, ~away)


def find_offload(result: Estimate, host: Estimate, ngl: int | None = None, moe: int | None = None) -> OffloadReport:
    """Return the ways to run a language model with weights in the memory of a host, and a given split: `ngl` layers on
    the device, or the experts of `moe` layers on the host. Raises RequestError for other models, for a device that has
    no host or shares its memory, and for a split that the model does not have."""
    places = _Placement(result)
    if not result.can_offload or not places.layers:
        raise RequestError(
            f"{result.workload.name} on {result.device.name}: name a language model and a device beside a host"
        )
    splits = {LAYERS: None if ngl is None else max(places.layers - ngl, 0), EXPERTS: moe}
    given = [(way, min(count, places.layers)) for way, count in splits.items() if count]
    if len(given) > 1 or (moe and not (places.is_expert.any() and host.device.arch.is_host)):
        raise RequestError(
            f"{result.workload.name}: name layers on the device, or experts of layers on the host if it has any"
        )
    ways = sorted(_ways(places, host), key=lambda way: (not way.fits, way.latency_s))
    for way, count in given:
        split = describe_way(result, host, way, count)
        ways.append(msgspec.structs.replace(split, way=f"{GIVEN}: {split.way}"))
    return OffloadReport(
        **head_fields(result, on_device=True),
        host=host.device.key,
        layers=places.layers,
        device_bytes=result.device.memory_bytes,
        host_bytes=host.device.memory_bytes,
        ways=tuple(ways),
    )


def describe_way(result: Estimate, host: Estimate, way: str, layers: int) -> OffloadWay:
    """Return the figures of one way, with something of the first `layers` on the host."""
    places, workload = _Placement(result), result.workload
    away, lengths, (weight_bytes, cache_bytes) = places.away(way, layers), workload.defaults, places.stored
    on_device = places.device_bytes(away)
    rows = workload.operators.gemm[:, 1] @ workload.value_at(batch=result.scenario.batch)  # 0 without a product
    is_host = host.device.arch.is_host
    streamed = away & (rows >= STREAMED_ROWS) & (way != HOST) & is_host
    run = divide_run(result, host, away & ~streamed)
    linked_bytes = float(weight_bytes[streamed].sum()) if is_host else find_crossings(result, away)[1]
    link_s = linked_bytes / min(host_bandwidth(result.device), np.inf if is_host else host_bandwidth(host.device))
    latency_s = run.latency_s + link_s
    tokens = result.scenario.batch * (lengths.get("output") or lengths.get("sequence", 1))
    on_host = float((weight_bytes + cache_bytes)[away].sum())
    context = lengths.get("kv", 0) + lengths.get("sequence", 0)
    rooms = result.device.memory_bytes - on_device, host.device.memory_bytes - on_host
    caches = (float(cache_bytes[side].sum()) for side in (~away, away))
    growth = min((room / size for room, size in zip(rooms, caches, strict=True) if size), default=-1.0)
    options = {LAYERS: f"-ngl {places.layers - layers}", EXPERTS: f"--n-cpu-moe {layers}", HOST: "-ngl 0"}
    if not is_host:
        options = {LAYERS: f"-ts {places.layers - layers},{layers}", HOST: "-ts 0,1"}
    return OffloadWay(
        way=way if is_host else way.replace("the host", host.device.key),
        layers=layers,
        option=options.get(way, ""),
        fits=min(rooms) >= 0.0,
        latency_s=latency_s,
        tokens_per_s=tokens / latency_s,
        energy_j_per_token=(run.energy_j + link_s * (result.static_w + host.static_w)) / tokens,
        host_fraction=run.rest_s / latency_s,
        device_bytes=on_device,
        host_bytes=on_host,
        longest=int(context * (1.0 + growth)) if min(*rooms, growth) >= 0.0 else None,
    )


def host_bandwidth(device: Device) -> float:
    """Return the bandwidth between a device and the memory of its host, byte/s: of its links, at most of PCIe 5.0."""
    return min(device.link_bandwidth, device.arch.constants.pair_link_bandwidth or np.inf)


def _ways(places: _Placement, host: Estimate) -> Iterator[OffloadWay]:
    result = places.result
    yield describe_way(result, host, ALONE, 0)
    for way in (LAYERS, EXPERTS) if places.is_expert.any() and host.device.arch.is_host else (LAYERS,):
        sizes = ((n, places.device_bytes(places.away(way, n))) for n in range(1, places.layers + 1))
        fitting = (n for n, device_bytes in sizes if device_bytes <= result.device.memory_bytes)
        yield describe_way(result, host, way, next(fitting, places.layers))
    yield describe_way(result, host, HOST, places.layers)
