"""Rows of services under load as servers and loads; measured/serving.toml says how each source ran them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.annexes.machine.measured_rows import (
    ROWS,
    SHIPPED,
    Unpredictable,
    check_runtime,
    find_runtime_name,
    parse_cell,
    row_device,
)
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.model_errors import ModelError
from analysis.serving.request_load import Lengths, Load
from analysis.serving.scheduler import Scheduler, find_scheduler
from analysis.serving.simulation import Run
from analysis.serving.step_costs import Evaluate, StepCosts, step_costs
from hardware import file_access, precision
from hardware.device import Device
from hardware.errors import RequestError

TABLE = "serving_load.csv.gz"
_FACTS = SHIPPED / "serving.toml"
MORE_TOKENS = 64  # of a step beyond a prompt and its sequences, where flags say one prompt a step


class Benchmark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source ran its loads so; the fields are explained in serving.toml."""

    source: str
    requests_per_client: int
    spread: float
    statistic: str
    evidence: str
    slots: int | None = None


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A model on devices with software: what rows of one curve have in common. `options` are those of a model's name,
    `attention_copies` the groups of devices that each hold the cache of other requests."""

    device: Device
    model: str
    options: str
    precision: str
    runtime: str
    scheduler: str
    attention_copies: int
    devices: int

    @property
    def key(self) -> tuple[object, ...]:
        """The settings that identify it."""
        rest = (self.precision, self.runtime, self.scheduler, self.attention_copies)
        return self.device.key, self.model, self.options, *rest

    def evaluate(self) -> Evaluate:
        """Return the function that estimates a step."""

        def evaluate_step(phase: str, batch: int, sequence: int, kv: int) -> Estimate:
            """Estimate a step."""
            words = ",".join(word for word in ("decode" * (phase == "decode"), self.options) if word)
            workload = _workload(f"{self.model}:{words}".rstrip(":"))
            lengths = {"kv": kv} if phase == "decode" else {"sequence": sequence, "kv": kv}
            return estimate(workload.bound(**lengths), self.device, Scenario(batch, self.precision, self.runtime))

        return evaluate_step


class ServedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as a load of a deployment, and what was measured: seconds, joules per output token, output tokens/s."""

    deployment: Deployment
    source: str
    lengths: tuple[int, int]
    load: Load
    statistic: str
    scheduler: Scheduler
    measured: dict[str, float]

    def predict(self, run: Run) -> dict[str, float]:
        """Return what a run says of the figures that were measured."""
        middle = np.mean if self.statistic == "mean" else np.median
        figures = {
            "TTFT": float(middle(run.first_s - run.arrival_s)),
            "TPOT": float(middle((run.end_s - run.first_s) / np.maximum(run.output - 1, 1))),
            "energy": run.energy_j / run.output_tokens,
            "throughput": run.output_tokens / run.end_of_run_s,
        }
        return {name: figures[name] for name in self.measured}


@lru_cache(maxsize=256)
def _workload(name: str) -> Any:
    try:
        workload = store.ready(name)
    except ModelError as error:
        raise Unpredictable(str(error).partition(";")[0]) from None
    if workload is None:
        raise Unpredictable("model is not shipped")
    return workload


def interpret_served_row(row: dict[str, str], folders: tuple[Path, ...] = ()) -> ServedRow:
    """Return the load and deployment of a row. Raises Unpredictable with the reason."""
    facts = file_access.shipped(_FACTS)
    for rule in facts["skip"]:
        if rule["contains"] in row[rule["column"]]:
            raise Unpredictable(rule["reason"])
    if row["phase_split"] != "aggregated":
        raise Unpredictable("prefill and decode on separate devices")
    device = row_device(row["device"].lower(), "", row["source"], folders)
    software, scheduler = facts["runtimes"][row["runtime"]]
    tuned = next((rule["is"] for rule in facts["software"] if rule["note"] in row["note"]), "")
    if row["measured_on"].startswith("2024") and tuned != software:
        software += " (2024)"
    model = str(facts["models"].get(row["public_model"].lower(), row["model"]))
    deployment = Deployment(
        device=device,
        model=model,
        options=_layout(row, model),
        precision=_precision(row, model),
        runtime=check_runtime(find_runtime_name(software, device.vendor, "language"), device, "language"),
        scheduler=scheduler,
        attention_copies=int(parse_cell(row, "attention_data_parallel") or 1),
        devices=_devices(row),
    )
    benchmark = next(each for each in _benchmarks() if row["source"].startswith(each.source))
    lengths = _lengths(row)
    load = _load(row, Lengths(prompt=lengths[0], output=lengths[1], spread=benchmark.spread), benchmark)
    rate = parse_cell(row, "output_tokens_per_s")
    if rate is None and (total := parse_cell(row, "total_tokens_per_s")):
        rate = total * float(load.output.sum() / (load.output.sum() + load.prompt.sum()))
    measured = {
        "TTFT": None if "queue" in row["flag"] else parse_cell(row, "ttft_s"),
        "TPOT": parse_cell(row, "tpot_s") or parse_cell(row, "itl_median_s"),
        "energy": parse_cell(row, "energy_j_per_output_token"),
        "throughput": rate,
    }
    return ServedRow(
        deployment=deployment,
        source=row["source"],
        lengths=lengths,
        load=load,
        statistic="median" if row["ttft_statistic"] == "median" else benchmark.statistic,
        scheduler=_scheduler(row, deployment, benchmark, load),
        measured={name: value for name, value in measured.items() if value},
    )


@lru_cache(maxsize=1)
def _benchmarks() -> list[Benchmark]:
    return msgspec.convert(file_access.shipped(_FACTS)["benchmark"], list[Benchmark])


def _devices(row: dict[str, str]) -> int:
    degrees = [int(parse_cell(row, f"{name}_parallel") or 1) for name in ("tensor", "attention_data", "expert")]
    return max(degrees[0] * degrees[1], degrees[2], int(parse_cell(row, "n_devices") or 1))


def _layout(row: dict[str, str], model: str) -> str:
    """Return the parallel options of a model's name. Attention of other requests on each group of devices reads as
    many weights and caches in all as attention that is split over them."""
    devices = _devices(row)
    experts = int(parse_cell(row, "expert_parallel") or 1)
    options = [
        ",".join(f"{key}={n}" for key, n in (("tp", devices), ("ep", ep)) if n > 1)
        for ep in dict.fromkeys((experts, devices if experts > 1 else 1))
    ]
    return next((each for each in options[:-1] if _is_possible(model, each)), options[-1])


@lru_cache(maxsize=256)
def _is_possible(model: str, options: str) -> bool:
    try:
        _workload(f"{model}:{options}")
    except Unpredictable:
        return False
    return True


def _precision(row: dict[str, str], model: str) -> str:
    for rule in file_access.shipped(_FACTS)["formats"]:
        if model.startswith(rule["model"]) and row["weights_format"] in rule["weights"]:
            return str(rule["is"])
    for rule in file_access.shipped(ROWS)["weights"]:
        if any(part in row["weights_format"] for part in rule["contains"]):
            return precision.canonical(next(name for name in rule["is"] if precision.find(name)))
    raise Unpredictable(f"weights of {row['weights_format']}")


def _lengths(row: dict[str, str]) -> tuple[int, int]:
    output = int(parse_cell(row, "output_tokens") or 0)
    if not output:
        raise Unpredictable("the lengths of the requests are not stated")
    return int(parse_cell(row, "prompt_tokens") or file_access.shipped(ROWS)["prompt_unstated"]), output


def _load(row: dict[str, str], lengths: Lengths, benchmark: Benchmark) -> Load:
    requests = int(parse_cell(row, "requests") or 0)
    if rate := parse_cell(row, "request_rate_per_s"):
        gaps = np.random.default_rng(lengths.seed).exponential(1.0 / rate, requests)
        return lengths.draw(np.cumsum(gaps))
    clients = round(parse_cell(row, "running_batch") or parse_cell(row, "concurrency") or 0)
    if row["load_kind"] == "one batch":
        requests = clients
    return lengths.draw(np.zeros(requests or clients * benchmark.requests_per_client), clients)


def _scheduler(row: dict[str, str], deployment: Deployment, benchmark: Benchmark, load: Load) -> Scheduler:
    scheduler = find_scheduler(deployment.scheduler, deployment.device.memory_bytes)
    changes: dict[str, Any] = {}
    if benchmark.slots is not None:
        changes["max_sequences"] = max(load.concurrency + benchmark.slots, 1)
    for words, name in (("max_num_seqs", "max_sequences"), ("chunk", "max_tokens")):
        if found := re.search(rf"\b{words} (\d+)", row["note"]):
            changes[name] = int(found[1])
    for rule in file_access.shipped(_FACTS)["flags"]:
        if row["source"].startswith(rule["source"]) and row["runtime"] == rule["runtime"]:
            if rule.get("model", deployment.model) != deployment.model:
                continue
            if "max_tokens" in rule:
                changes["max_tokens"] = rule["max_tokens"]
            if rule.get("prompts_per_step"):
                changes["max_tokens"] = int(load.prompt.max()) + load.concurrency + MORE_TOKENS
            each_s = scheduler.chunk_s
            changes["chunk_s"] = msgspec.structs.replace(each_s, value=each_s.value / rule["stream_interval"])
            break
    return msgspec.structs.replace(scheduler, **changes)


def make_costs(rows: Sequence[ServedRow]) -> StepCosts:
    """Return the costs of the steps of a deployment, for the lengths of its rows. Raises Unpredictable."""
    deployment = rows[0].deployment
    longest = max(int((row.load.prompt + row.load.output).max()) for row in rows)
    scheduler = find_scheduler(deployment.scheduler, deployment.device.memory_bytes)
    try:
        costs = step_costs(
            deployment.evaluate(),
            scheduler.max_sequences,
            scheduler.max_tokens,
            (longest // 2, longest),
            scheduler.memory_share,
        )
    except RequestError as error:
        raise Unpredictable(str(error)) from None
    return msgspec.structs.replace(costs, cache_tokens=costs.cache_tokens * deployment.attention_copies)
