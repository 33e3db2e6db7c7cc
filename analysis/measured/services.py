"""Measured rows of services under load, as servers and loads, and their figures with predictions.

What a row does not state is a range: both ends are predicted, and the band holds both. tables/serving.toml has the ends
of what rows may leave open, and how sources call models and formats."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.estimate.scenario import Scenario, family_of
from analysis.estimate.trust import SERVED
from analysis.measured import tables
from analysis.measured.predictions import PredictionPoint
from analysis.measured.tables import Cells, Unpredictable
from analysis.model.names.model_ref import refer
from analysis.model.transformer.transformer_request import parse
from analysis.serving import served_load
from analysis.serving.deployment import ParallelDegrees, Server, open_stage
from analysis.serving.request_load import Lengths, Load, reuse_prefixes
from analysis.serving.simulation import Run
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.device import Device
from hardware.engines.runtime import Scheduler, find_scheduler, runtimes

TABLE = "serving_load.csv.gz"
_FACTS = tables.SHIPPED / "serving.toml"
ROUNDS = 10  # requests of each client if a row does not state them: benchmarks of services send 5 to 10
MOST_MEMORY = 0.97  # share that a server may use at most
APART = ", prefill apart"  # ends the figures of services that prefill on separate devices
PAGE, PAGES = 16, 32  # tokens of a page of the cache; most pages of a prompt that are told apart
# vLLM and SGLang refuse to divide an expert where a part has no whole blocks of 128 x 128 weights with one scale
# ("not divisible by weight quantization block_n"): its experts are on separate devices, whatever a row states.
BLOCK, ENGINES_OF_BLOCKS = 128, ("vllm", "sglang")
MANY = 32  # clients from which one process that sends their tokens may limit them


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A model on devices with software: the settings that rows of one curve share. `prompt_layout` are the degrees of a
    worker that prefills, if `layout` has such workers."""

    device: Device
    model: str
    layout: ParallelDegrees
    prompt_layout: ParallelDegrees
    precision: str
    runtime: str
    scheduler: str

    @property
    def key(self) -> tuple[object, ...]:
        """The settings that identify the deployment."""
        rest = (getattr(self, name) for name in self.__struct_fields__ if name != "device")
        return self.device.key, *rest

    @property
    def devices(self) -> int:
        """The number of all devices."""
        layout = self.layout
        return layout.devices - layout.prefill * (layout.shards - self.prompt_layout.shards)

    def open(self, layout: ParallelDegrees, longest: int) -> Server:
        """Return one worker of a layout for requests of `longest` tokens. Raises ModelError and RequestError."""
        request, scenario = parse(str(refer(self.model))), Scenario(1, self.precision, self.runtime)
        scheduler = find_scheduler(self.scheduler, self.device.memory_bytes)
        # It was measured, so its server may use more memory than by default.
        for share in (scheduler.memory_share, MOST_MEMORY):
            scheduler = msgspec.structs.replace(scheduler, memory_share=share)
            server = open_stage(request, layout.worker, self.device, scenario, longest, scheduler)
            if server.costs.cache_tokens >= longest:
                break
        if not server.costs.cache_tokens:
            raise Unpredictable("the model does not fit into the memory of the devices")
        return server


class ServedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as a load of a deployment, with its measured figures: seconds, joules per output token, output tokens/s.
    `statistic` is that of requests, their mean unless the row states it. `others` are the row with the other end of
    each fact that it does not state."""

    deployment: Deployment
    source: str
    lengths: Lengths
    load: Load
    statistic: str
    scheduler: Scheduler
    measured: dict[str, float]
    others: tuple["ServedRow", ...] = ()

    def predict(self, run: Run) -> dict[str, float]:
        """Return a run's predictions of the figures that were measured."""
        middle = np.median if self.statistic == "median" else np.mean
        figures = {
            "TTFT": float(middle(run.first_s - run.arrival_s)),
            "TPOT": float(middle((run.end_s - run.first_s) / np.maximum(run.output - 1, 1))),
            "energy": run.energy_j / run.output_tokens,
            "throughput": run.output_tokens / run.end_of_run_s,
        }
        return {name: figures[name] for name in self.measured}


def interpret_served_row(cells: dict[str, str], folders: tuple[Path, ...] = ()) -> ServedRow:
    """Return the load and deployment of a row. Raises Unpredictable with the reason."""
    row = Cells(cells)
    if rule := tables.first_rule(file_access.shipped(_FACTS)["skip"], row):
        raise Unpredictable(rule["reason"])
    device = tables.find_device(row["device"].lower(), "", folders)
    first, *others = (_interpret(row, device, assumed) for assumed in _assume(row, device))
    return msgspec.structs.replace(first, others=tuple(others))


def _assume(row: Cells, device: Device) -> Iterator[dict[str, Any]]:
    """Yield what is assumed of what a row does not state: the first end of each fact, each other end in turn, and all
    last ends."""
    ends: dict[str, list[Any]] = {"runtime": _find_runtimes(row, device), "prompt_tokens": row.prompts()}
    clients = row.number("running_batch") or row.number("concurrency") or 0
    has_rounds, is_joint = clients > 0 and row["load_kind"] != "one batch", not row["prefill_workers"]
    # Separate workers for prompts and answers take a hundred times as long to simulate, with fewer facts open.
    matters = {"stream_interval": clients >= MANY, "step_tokens": True}
    matters["waiting_clients"] = is_joint and row["load_kind"] == "concurrency"
    for name, unstated in file_access.shipped(_FACTS)["unstated"].items():
        stated = row.number(name)
        is_open = has_rounds and matters.get(name, is_joint)
        ends[name] = [stated] if stated else unstated if is_open else unstated[:1]
    base = {name: first for name, (first, *_) in ends.items()}
    turns = [base | {name: end} for name, (first, *others) in ends.items() for end in others if end != first]
    yield from (base, *turns)
    if len(turns) > 1:
        yield {name: last for name, (*_, last) in ends.items()}


def _find_runtimes(row: Cells, device: Device) -> list[str]:
    """Return the runtimes that the software of a row may be, by its version, else by the year. Raises Unpredictable."""
    known, year = file_access.shipped(_FACTS)["runtimes"], row["measured_on"][:4]
    if row["runtime"] not in known:
        raise Unpredictable(f"the scheduler of {row['runtime'] or 'an unknown server'} is not recorded")
    # Where workers prefill apart, the version is that of what joins them.
    has_version = row["runtime_version"] and year != "2024" and not row["prefill_workers"]
    dated = row["runtime_version"] if has_version else f"({year})"
    software = f"{known[row['runtime']]} {dated} {row['weights_format']}"
    names = tables.find_runtime_names(software, device.vendor, "language")
    return [tables.check_runtime(name, device, "language") for name in names]


def _interpret(row: Cells, device: Device, assumed: dict[str, Any]) -> ServedRow:
    """Return the load and deployment of a row, with what is assumed of what it does not state."""
    model = str(tables.row_rules()["models"].get(row["public_model"].rpartition("/")[2].lower(), row["model"]))
    decode_workers = row.whole("decode_workers", 1)
    prefill_workers = row.whole("prefill_workers")
    per_worker = _devices_per_worker(row, is_split=prefill_workers > 0)
    prefill_devices = row.whole("devices_per_prefill_worker", per_worker)
    experts, copies = (row.whole(f"{name}_parallel", 1) for name in ("expert", "attention_data"))
    if row["weights_format"].startswith("fp8") and row["runtime"] in ENGINES_OF_BLOCKS:
        config = parse(str(refer(model))).config
        experts = per_worker if config.experts and config.expert_ffn % (BLOCK * per_worker) else experts
    workers = {"prefill": prefill_workers, "decode": decode_workers} if prefill_workers else {}
    deployment = Deployment(
        device=device,
        model=model,
        layout=_degrees(per_worker, copies, experts, **workers),
        prompt_layout=_degrees(prefill_devices, copies, experts),
        precision=tables.find_precision(row["weights_format"] or "unstated", "int8", row["runtime"], model),
        runtime=assumed["runtime"],
        scheduler=runtimes()[assumed["runtime"]].scheduler,
    )
    if not (output := row.whole("output_tokens")):
        raise Unpredictable("the lengths of the requests are not stated")
    lengths = Lengths(prompt=assumed["prompt_tokens"], output=output, spread=assumed["length_spread"])
    load = _load(row, lengths, int(assumed["distinct_prompts"]))
    rate = row.number("output_tokens_per_s")
    if rate is None and (total := row.number("total_tokens_per_s")):
        rate = total * float(load.output.sum() / (load.output.sum() + load.prompt.sum()))
    running = row.number("running_batch")
    mean_s = running / rate if running and rate else None  # a median gap between tokens leaves out waits for prompts
    measured = {
        "TTFT": None if "queue" in row["flag"] else row.number("ttft_s"),
        "TPOT": row.number("tpot_s") or mean_s or row.number("itl_median_s"),
        "energy": row.number("energy_j_per_output_token"),
        "throughput": None if prefill_workers else rate,  # some of these contradict the times of their rows
    }
    return ServedRow(
        deployment=deployment,
        source=row["source"],
        lengths=lengths,
        load=load,
        statistic=row["ttft_statistic"],
        scheduler=_scheduler(row, deployment, assumed, load.concurrency),
        measured={name: value for name, value in measured.items() if value},
    )


def _devices_per_worker(row: Cells, is_split: bool) -> int:
    degrees = [row.whole(f"{name}_parallel", 1) for name in ("tensor", "attention_data", "expert")]
    devices = row.whole("devices_per_decode_worker" if is_split else "n_devices", 1)
    return max(degrees[0] * degrees[1], degrees[2], devices)


def _degrees(devices: int, copies: int, experts: int, **workers: int) -> ParallelDegrees:
    """Return the degrees of workers of so many devices. Experts are on all of them or divided like other weights; if
    attention has several `copies`, each device computes that of its sequences."""
    tp, is_shared = 1 if copies > 1 else devices, max(experts, copies) > 1
    return ParallelDegrees(tp=tp, ep=devices if is_shared else 1, **workers)


def _load(row: Cells, lengths: Lengths, distinct: int) -> Load:
    """Return the requests of a row. Clients send the same prompts again if only so many are `distinct`."""
    requests = row.whole("requests")
    if rate := row.number("request_rate_per_s"):
        if not requests:
            raise Unpredictable("requests at a rate, but not how many, are stated")
        random = np.random.default_rng(lengths.seed)
        return lengths.draw(np.cumsum(random.exponential(1.0 / rate, requests)))
    clients = round(row.number("running_batch") or row.number("concurrency") or 0)
    if not clients:
        raise Unpredictable("neither a rate of requests nor how many run at once is stated")
    count = clients if row["load_kind"] == "one batch" else requests or clients * ROUNDS
    load = lengths.draw(np.zeros(count), clients)
    if not distinct or load.requests <= distinct:
        return load
    page = max(PAGE, lengths.prompt // PAGES)
    counts = (load.prompt // page)[np.arange(load.requests) % distinct].tolist()
    blocks = (tuple((place % distinct) * PAGES * 2 + i for i in range(count)) for place, count in enumerate(counts))
    return msgspec.structs.replace(load, blocks=tuple(blocks), block=page)


def _scheduler(row: Cells, deployment: Deployment, assumed: dict[str, Any], clients: int) -> Scheduler:
    """Return the scheduler of a deployment with the limits that a row states. Each group of devices has a process that
    sends its tokens, several at once if the benchmark asked for it."""
    copies = (deployment.prompt_layout if deployment.layout.prefill else deployment.layout).copies
    scheduler = find_scheduler(deployment.scheduler, deployment.device.memory_bytes)
    at_once = assumed["stream_interval"] * deployment.layout.copies
    chunk_s = msgspec.structs.replace(scheduler.chunk_s, value=scheduler.chunk_s.value / at_once)
    changes = {"chunk_s": chunk_s, "max_tokens": scheduler.max_tokens * int(assumed["step_tokens"])}
    if match := re.search(r"\bmax_num_seqs (\d+)", row["note"]):
        changes["max_sequences"] = int(match[1])
    if match := re.search(r"\bchunk (\d+)", row["note"]):
        changes["max_tokens"] = int(match[1])
    scheduler = msgspec.structs.replace(scheduler, **changes).of_copies(copies)
    most = clients - 1 if assumed["waiting_clients"] and clients > 1 else scheduler.max_sequences
    return msgspec.structs.replace(scheduler, max_sequences=min(scheduler.max_sequences, most))


def make_server(rows: Sequence[ServedRow]) -> Callable[[ServedRow], Run]:
    """Return a function that serves the rows of a deployment. Raises Unpredictable."""
    setup, longest = rows[0].deployment, max(row.lengths.prompt + row.lengths.output for row in rows)
    try:
        server = setup.open(setup.layout, longest)
        prompts = setup.open(setup.prompt_layout, longest).costs if setup.layout.prefill else None
    except RequestError as error:
        raise Unpredictable(str(error).partition(";")[0]) from None
    server = msgspec.structs.replace(server, prompt_costs=prompts, layout=setup.layout)

    def serve(row: ServedRow) -> Run:
        """Serve the load of a row. Prompts that are sent again are in the cache if nothing has taken their room."""
        load = row.load
        if row.scheduler.finds_evicted:
            running = load.concurrency * (row.lengths.prompt + row.lengths.output)
            load = reuse_prefixes(load, max(server.costs.cache_tokens - running, 0.0))
        return msgspec.structs.replace(server, scheduler=row.scheduler).serve(load)

    return serve


class PredictedLoad(msgspec.Struct, frozen=True):
    """A measured row with its predicted figures: `usual` ones, and the `ends` of what the row leaves open."""

    row: ServedRow
    usual: dict[str, float]
    ends: dict[str, tuple[float, float]]

    @property
    def points(self) -> list[PredictionPoint]:
        """The measured figures with their predictions and bands, which hold both ends."""
        setup, points = self.row.deployment, list[PredictionPoint]()
        labels = setup.device.name, family_of(setup.model), setup.scheduler, "", SERVED
        for figure, measured in self.row.measured.items():
            quantity = figure + APART * (setup.layout.prefill > 0)
            low, high = served_load.load_evidence()[quantity].band
            band = self.ends[figure][0] * low, self.ends[figure][1] * high
            predicted = self.usual[figure], band, self.ends[figure]
            points.append(PredictionPoint(f"{SERVED}, {quantity}", quantity, *labels, measured, *predicted))
        return points


def predict_served(
    table: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: tables.Tick | None = None
) -> tuple[list[PredictedLoad], Counter[str]]:
    """Simulate every row of a table of services. Return the predictions, and counts of skipped rows by reason."""
    read = partial(interpret_served_row, folders=folders)
    return tables.map_groups(table, read, lambda row: row.deployment.key, _serve, tick)


def _serve(rows: Sequence[ServedRow]) -> list[PredictedLoad]:
    """Return the predictions of rows of one deployment, and of what they may be instead. Raises Unpredictable."""
    serve = make_server(rows)
    predicted = [[row.predict(serve(row))] for row in rows]
    others = [(place, other) for place, row in enumerate(rows) for other in row.others]
    for members in group_by(others, lambda member: member[1].deployment.key).values():
        serve = make_server([other for _, other in members])
        for place, other in members:
            predicted[place].append(other.predict(serve(other)))
    return [
        PredictedLoad(
            row, of[0], {name: (min(each[name] for each in of), max(each[name] for each in of)) for name in of[0]}
        )
        for row, of in zip(rows, predicted, strict=True)
    ]
