"""Measured rows of services under load, as servers and loads, and their figures with predictions.

tables/serving.toml says how each source ran its services."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.estimate.scenario import Scenario
from analysis.measured import tables
from analysis.measured.predictions import PredictionPoint
from analysis.measured.tables import Cells, Unpredictable
from analysis.model.names.model_ref import refer
from analysis.model.transformer.transformer_request import ACCEPT, parse
from analysis.serving import served_load
from analysis.serving.deployment import ParallelDegrees, Server, open_stage
from analysis.serving.request_load import Lengths, Load
from analysis.serving.simulation import Run
from analysis.serving.step_costs import speculate, tokens_per_step
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.device import Device
from hardware.engines.runtime import Scheduler, find_scheduler, runtimes, schedulers

TABLE = "serving_load.csv.gz"
_FACTS = tables.SHIPPED / "serving.toml"
MOST_REQUESTS, LEAST_ROUNDS = 20_000, 3  # most simulated requests of a row; least requests of each client
MOST_MEMORY = 0.97  # share that a server may use at most
# Lengths of chats vary about exponentially around their means (arXiv 2309.06180, figure 11).
CONVERSATIONS = "ShareGPT lengths, means"
NAME = "served at load"  # the class of work of these rows
APART = ", prefill apart"  # ends the figures of services that prefill on separate devices
WHOLE = "_whole"  # ends the name of a scheduler that does not divide prompts
PAGE = 16  # tokens of a page of the cache; the last page of a cached prompt is computed again
# vLLM and SGLang refuse to divide an expert where a part has no whole blocks of 128 x 128 weights with one scale
# ("not divisible by weight quantization block_n"): its experts are on separate devices, whatever a row states.
BLOCK, ENGINES_OF_BLOCKS = 128, ("vllm", "sglang")
MORE_TOKENS = 64  # of a step beyond a prompt and its sequences, if flags allow one prompt per step


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
    drafts: int = 0
    kernel: str = ""  # of experts, instead of the engine's usual ones

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
        device = self.device
        if self.kernel:
            usual = device.file.runtimes.get(self.runtime, runtimes()[self.runtime])
            kernels = tuple(use for use in usual.uses if "moe" in use.operator and self.kernel in use.kernel)
            tables = device.file.runtimes | {self.runtime: msgspec.structs.replace(usual, uses=(*kernels, *usual.uses))}
            device = msgspec.structs.replace(device, file=msgspec.structs.replace(device.file, runtimes=tables))
        scheduler = find_scheduler(self.scheduler, self.device.memory_bytes)
        # It was measured, so its server may use more memory than by default.
        for share in (scheduler.memory_share, MOST_MEMORY):
            scheduler = msgspec.structs.replace(scheduler, memory_share=share)
            server = open_stage(request, layout.worker, device, scenario, longest, scheduler)
            if server.costs.cache_tokens >= longest:
                break
        if not server.costs.cache_tokens:
            raise Unpredictable("the model does not fit into the memory of the devices")
        return server


class ServedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as a load of a deployment, with its measured figures: seconds, joules per output token, output tokens/s."""

    deployment: Deployment
    source: str
    lengths: Lengths
    load: Load
    statistic: str
    scheduler: Scheduler
    measured: dict[str, float]

    def predict(self, run: Run) -> dict[str, float]:
        """Return a run's predictions of the figures that were measured."""
        middle = np.mean if self.statistic == "mean" else np.median
        figures = {
            "TTFT": float(middle(run.first_s - run.arrival_s)),
            "TPOT": float(middle((run.end_s - run.first_s) / np.maximum(run.output - 1, 1))),
            "energy": run.energy_j / run.output_tokens,
            "throughput": run.output_tokens / run.end_of_run_s,
        }
        return {name: figures[name] for name in self.measured}


def interpret_served_row(cells: dict[str, str], folders: tuple[Path, ...] = ()) -> ServedRow:
    """Return the load and deployment of a row. Raises Unpredictable with the reason."""
    facts, row = file_access.shipped(_FACTS), Cells(cells)
    if rule := tables.first_rule(facts["skip"], row):
        raise Unpredictable(rule["reason"])
    device = tables.find_device(row["device"].lower(), "", row["source"], folders)
    model = str(facts["models"].get(row["public_model"].lower(), row["model"]))
    setup = _setup(row, model, device)
    is_older = row["measured_on"].startswith("2024")
    software = setup.get("software", facts["runtimes"][row["runtime"]]) + " (2024)" * is_older
    runtime = tables.check_runtime(tables.find_runtime_name(software, device.vendor, "language"), device, "language")
    scheduler = runtimes()[runtime].scheduler
    if is_older and f"{scheduler}{WHOLE}" in schedulers() and device.vendor == "AMD":
        scheduler += WHOLE
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
        precision=_precision(row, model),
        runtime=runtime,
        scheduler=scheduler,
        kernel=setup.get("kernel", ""),
        drafts=0 if prefill_workers else setup.get("drafts_of_copies" if copies > 1 else "drafts", 0),
    )
    if not (output := row.whole("output_tokens")):
        raise Unpredictable("the lengths of the requests are not stated")
    prompt = row.whole("prompt_tokens", row.unstated_prompt()[0])
    lengths = Lengths(prompt=prompt, output=output, spread=setup["spread"])
    load = _load(row, lengths, setup)
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
        statistic="median" if row["ttft_statistic"] == "median" else setup["statistic"],
        scheduler=_scheduler(row, deployment, setup, load),
        measured={name: value for name, value in measured.items() if value},
    )


def _setup(row: Cells, model: str, device: Device) -> dict[str, Any]:
    """Return how a source ran its loads and servers: the first benchmark, flags and software that fit a row."""
    cells = row | {"version": row["runtime_version"], "model": model, "device": device.id, "tp": row["tensor_parallel"]}
    kinds = (file_access.shipped(_FACTS)[kind] for kind in ("benchmark", "flags", "software"))
    return {name: value for rules in kinds for name, value in tables.first_rule(rules, cells).items()}


def _devices_per_worker(row: Cells, is_split: bool) -> int:
    degrees = [row.whole(f"{name}_parallel", 1) for name in ("tensor", "attention_data", "expert")]
    devices = row.whole("devices_per_decode_worker" if is_split else "n_devices", 1)
    return max(degrees[0] * degrees[1], degrees[2], devices)


def _degrees(devices: int, copies: int, experts: int, **workers: int) -> ParallelDegrees:
    """Return the degrees of workers of so many devices. Experts are on all of them or divided like other weights; if
    attention has several `copies`, each device computes that of its sequences."""
    tp, is_shared = 1 if copies > 1 else devices, max(experts, copies) > 1
    return ParallelDegrees(tp=tp, ep=devices if is_shared else 1, **workers)


def _precision(row: Cells, model: str) -> str:
    cells = {"model": model, "weights": row["weights_format"] or "unstated"}
    if rule := tables.first_rule(file_access.shipped(_FACTS)["formats"], cells):
        return str(rule["is"])
    return tables.find_precision(
        row["weights_format"], "int8", row["runtime"]
    )  # servers multiply 8-bit integers as such


def _load(row: Cells, lengths: Lengths, setup: dict[str, Any]) -> Load:
    requests = row.whole("requests")
    if rate := row.number("request_rate_per_s"):
        if not requests:
            raise Unpredictable("requests at a rate, but not how many, are stated")
        random = np.random.default_rng(lengths.seed)
        load = lengths.draw(np.cumsum(random.exponential(1.0 / rate, requests)))
        if CONVERSATIONS not in row["note"]:
            return load
        means = lengths.prompt, lengths.output
        prompt, output = (np.ceil(random.exponential(mean, requests)).astype(np.int64) for mean in means)
        return msgspec.structs.replace(load, prompt=prompt, output=output)
    clients = round(row.number("running_batch") or row.number("concurrency") or 0)
    if not clients:
        raise Unpredictable("neither a rate of requests nor how many run at once is stated")
    if row["load_kind"] == "one batch":
        requests = clients
    limit = max(MOST_REQUESTS, clients * LEAST_ROUNDS)
    load = lengths.draw(np.zeros(requests or min(clients * setup["requests_per_client"], limit)), clients)
    if distinct := setup.get("distinct_prompts"):  # the cache holds repeated prompts
        computed = np.where(np.arange(load.requests) < distinct, load.prompt, np.minimum(load.prompt, PAGE))
        load = msgspec.structs.replace(load, prompt=computed, cached=load.prompt - computed)
    return load


def _scheduler(row: Cells, deployment: Deployment, setup: dict[str, Any], load: Load) -> Scheduler:
    copies = (deployment.prompt_layout if deployment.layout.prefill else deployment.layout).copies
    scheduler = find_scheduler(deployment.scheduler, deployment.device.memory_bytes).of_copies(copies)
    changes: dict[str, Any] = {}
    if "slots" in setup:
        changes["max_sequences"] = max(load.concurrency + setup["slots"], 1)
    for words, name in (("max_num_seqs", "max_sequences"), ("chunk", "max_tokens")):
        if match := re.search(rf"\b{words} (\d+)", row["note"]):
            changes[name] = int(match[1])
    changes |= {name: setup[name] for name in ("max_tokens", "recorded_tokens") if name in setup}
    holds = setup.get("holds_steps_of_copies" if copies > 1 else "holds_steps", 0)
    if isinstance(holds, list):
        holds = next(steps for least, steps in holds if least <= load.concurrency)
    holds = round(holds * tokens_per_step(deployment.drafts, ACCEPT))  # simulated steps are of one token
    changes |= {"holds_steps": holds, "holds_until": setup.get("holds_until", 0.0)}
    if "prompts_per_step" in setup:
        changes["max_tokens"] = int(load.prompt.max()) + load.concurrency + MORE_TOKENS
    if "apart_tokens" in setup and deployment.layout.prefill:
        changes["max_tokens"] = max(setup["apart_tokens"], int(load.prompt.max()) + MORE_TOKENS)
    if "max_tokens" in changes and scheduler.limits_each_copy:
        changes["max_tokens"] *= copies
    each_s = scheduler.chunk_s  # each group of devices has a process that sends its tokens
    at_once = setup.get("stream_interval", 1) * deployment.layout.copies
    changes["chunk_s"] = msgspec.structs.replace(each_s, value=each_s.value / at_once)
    return msgspec.structs.replace(scheduler, **changes)


def make_server(rows: Sequence[ServedRow]) -> Callable[[ServedRow], Run]:
    """Return a function that serves the rows of a deployment. Raises Unpredictable."""
    setup, longest = rows[0].deployment, max(row.lengths.prompt + row.lengths.output for row in rows)
    try:
        server = setup.open(setup.layout, longest)
        prompts = setup.open(setup.prompt_layout, longest).costs if setup.layout.prefill else None
    except RequestError as error:
        raise Unpredictable(str(error).partition(";")[0]) from None
    costs = speculate(server.costs, setup.drafts, ACCEPT)
    costs = msgspec.structs.replace(costs, recorded_tokens=rows[0].scheduler.recorded_tokens)
    server = msgspec.structs.replace(server, costs=costs, prompt_costs=prompts, layout=setup.layout)
    return lambda row: msgspec.structs.replace(server, scheduler=row.scheduler).serve(row.load)


class PredictedLoad(msgspec.Struct, frozen=True):
    """A measured row with its predicted figures."""

    row: ServedRow
    figures: dict[str, float]

    @property
    def points(self) -> list[PredictionPoint]:
        """The measured figures with their predictions and bands."""
        setup, points = self.row.deployment, list[PredictionPoint]()
        labels = setup.device.name, tables.family_of(setup.model), setup.scheduler, "", NAME
        for figure, measured in self.row.measured.items():
            quantity, predicted = figure + APART * (setup.layout.prefill > 0), self.figures[figure]
            low, high = served_load.load_evidence()[quantity].band
            band = predicted * low, predicted * high
            points.append(PredictionPoint(f"{NAME}, {quantity}", quantity, *labels, measured, predicted, band))
        return points


def predict_served(
    table: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: tables.Tick | None = None
) -> tuple[list[PredictedLoad], Counter[str]]:
    """Simulate every row of a table of services. Return the predictions, and counts of skipped rows by reason."""
    read = partial(interpret_served_row, folders=folders)
    return tables.map_groups(table, read, lambda row: row.deployment.key, _serve, tick)


def _serve(rows: Sequence[ServedRow]) -> list[PredictedLoad]:
    """Return the predictions of rows of one deployment. Raises Unpredictable."""
    serve = make_server(rows)
    return [PredictedLoad(row, row.predict(serve(row))) for row in rows]
