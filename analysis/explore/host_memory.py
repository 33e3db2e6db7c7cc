"""A language model of which layers or experts are kept and run in the memory of the host (llama.cpp, ktransformers).

The first n layers, or their experts alone, run on the host's CPU, caches of such layers included; n is the least with
which the rest fits into the device. Products of at least 32 rows run on the device, which reads their weights over its
link to the host each time, as llama.cpp does (ggml-cuda, GGML_OP_OFFLOAD_MIN_BATCH)."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.operator_facts import HEAD
from analysis.explore.divided_run import divide_run, held_bytes, stored_bytes
from analysis.model.ir.workload import Bools, Floats, Ints
from hardware.base.errors import RequestError
from hardware.device import Device

STREAMED_ROWS = 32.0  # rows of a product from which llama.cpp copies its weights to the device
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_EXPERTS = ".experts."
ALONE, LAYERS, EXPERTS, HOST = "all on the device", "layers on the host", "experts on the host", "all on the host"


class OffloadWay(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run the model: what stands on the host, in how many of the layers, with the option of llama.cpp for
    it. `longest` is the tokens of context for which the device has room; None on the host."""

    way: Annotated[str, column("Way")]
    layers: Annotated[int, column("Layers", "count", help="layers of which something is on the host")]
    option: Annotated[str, column("llama.cpp", keep=2)]
    fits: Annotated[bool, column("Fits", keep=1, shown={True: "yes", False: "no"})]
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
    def stored_bytes(self) -> tuple[Floats, Floats]:
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
        return held_bytes(self.result, self.stored_bytes, ~away)


def find_offload(result: Estimate, host: Estimate) -> OffloadReport:
    """Return the ways to run a language model with weights in the memory of a host. Raises RequestError for other
    models, and for a device that has no host or shares its memory."""
    places = _Placement(result)
    if not result.can_offload or not places.layers:
        raise RequestError(
            f"{result.workload.name} on {result.device.name}: name a language model and a device beside a host"
        )
    ways = sorted(_ways(places, host), key=lambda way: (not way.fits, way.latency_s))
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
    away, lengths, (weight_bytes, cache_bytes) = places.away(way, layers), workload.defaults, places.stored_bytes
    on_device, caches = places.device_bytes(away), float(cache_bytes[~away].sum())
    rows = workload.operators.gemm[:, 1] @ workload.value_at(batch=result.scenario.batch)  # 0 without a product
    streamed = away & (rows >= STREAMED_ROWS) & (way != HOST)
    run = divide_run(result, host, away & ~streamed)
    link_s = float(weight_bytes[streamed].sum()) / host_bandwidth(result.device)
    latency_s = run.latency_s + link_s
    tokens = result.scenario.batch * (lengths.get("output") or lengths.get("sequence", 1))
    on_host = float((weight_bytes + cache_bytes)[away].sum())
    context = lengths.get("kv", 0) + lengths.get("sequence", 0)
    room = result.device.memory_bytes - on_device
    options = {LAYERS: f"-ngl {places.layers - layers}", EXPERTS: f"--n-cpu-moe {layers}", HOST: "-ngl 0"}
    return OffloadWay(
        way=way,
        layers=layers,
        option=options.get(way, ""),
        fits=room >= 0.0 and on_host <= host.device.memory_bytes,
        latency_s=latency_s,
        tokens_per_s=tokens / latency_s,
        energy_j_per_token=(run.energy_j + link_s * (result.static_w + host.static_w)) / tokens,
        host_fraction=run.rest_s / latency_s,
        device_bytes=on_device,
        host_bytes=on_host,
        longest=int(context * (1.0 + room / caches)) if caches and room >= 0.0 else None,
    )


def host_bandwidth(device: Device) -> float:
    """Return the bandwidth between a device and the memory of its host, byte/s: of its links, at most of PCIe 5.0."""
    return min(device.link_bandwidth, device.arch.constants.pair_link_bandwidth or np.inf)


def _ways(places: _Placement, host: Estimate) -> Iterator[OffloadWay]:
    result = places.result
    yield describe_way(result, host, ALONE, 0)
    for way in (LAYERS, EXPERTS) if places.is_expert.any() else (LAYERS,):
        sizes = ((n, places.device_bytes(places.away(way, n))) for n in range(1, places.layers + 1))
        fitting = (n for n, device_bytes in sizes if device_bytes <= result.device.memory_bytes)
        yield describe_way(result, host, way, next(fitting, places.layers))
    yield describe_way(result, host, HOST, places.layers)
