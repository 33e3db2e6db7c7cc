"""How long services take to simulate: `python -m tests.bench_serving [--requests serving_requests.csv.gz]`; with
requests also the percentiles of a timed trace beside those of a real server. Asserts nothing.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
from pathlib import Path

import msgspec
import numpy as np

from analysis.estimate.scenario import Scenario
from analysis.model.transformer.transformer_request import parse
from analysis.serving.deployment import ParallelDegrees, open_stage
from analysis.serving.request_load import Lengths, Load, closed_load, open_load
from analysis.serving.simulation import simulate
from hardware.device_catalog import load_device
from hardware.engines.scheduler import find_scheduler
from hwexplorer import engine
from hwexplorer.state import State


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def print_trace(path: Path) -> None:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in ("arrival_s", "ttft_s", "e2e_s")}
    prompt, output = (np.array([int(row[f"{name}_tokens"]) for row in rows]) for name in ("prompt", "output"))
    load = Load(arrival_s=columns["arrival_s"], prompt=prompt, cached=np.zeros_like(prompt), output=output)
    device = load_device("rtx_4090")
    scheduler = msgspec.structs.replace(find_scheduler("vllm", device.memory_bytes), max_sequences=256, max_tokens=2048)
    scenario = Scenario(1, "bf16", "vllm")
    costs = open_stage(parse("llama3_8b"), ParallelDegrees(), device, scenario, load.longest, scheduler).costs
    print(f"cache of {costs.cache_tokens:,.0f} tokens")
    for cache, words in ((costs.cache_tokens, "as estimated"), (41_408.0, "as the server said")):
        served = msgspec.structs.replace(costs, cache_tokens=cache)
        run = simulate(served, scheduler, load)
        figures = {
            "TTFT": (run.first_s - run.arrival_s, columns["ttft_s"]),
            "end to end": (run.end_s - run.arrival_s, columns["e2e_s"]),
            "TPOT": ((run.end_s - run.first_s) / (output - 1), (columns["e2e_s"] - columns["ttft_s"]) / (output - 1)),
        }
        for name, (ours, theirs) in figures.items():
            ratios = [np.percentile(ours, p) / np.percentile(theirs, p) for p in (50, 99)]
            print(f"trace, cache {words}, {name}: p50 {ratios[0]:.2f}, p99 {ratios[1]:.2f} times measured")
    start_s = time.process_time()
    simulate(costs, scheduler, load)
    print(f"the trace takes {(time.process_time() - start_s) * 1e3:.0f} ms")
    lengths = Lengths(prompt=1024, output=256)
    for name, loads in (
        ("clients", [closed_load(clients, lengths) for clients in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)]),
        ("rates", [open_load(rate, lengths) for rate in (0.1, 0.2, 0.5, 1, 2, 3, 4, 6, 8, 12)]),
    ):
        start_s = time.process_time()
        for each in loads:
            simulate(costs, scheduler, each)
        print(f"ten loads by {name} take {(time.process_time() - start_s) * 1e3:.0f} ms")


def print_new_settings() -> None:
    """Print processor time of the first load at a new parallel degree, request length and model; goal: 50 ms."""
    engine.serve_load(State("opt_1_3b:serve,rate=1", devices=("h100_sxm",), on="h100_sxm"))
    for what, model in (
        ("model", "llama3_70b:serve,in=2048,out=256,rate=1,tp=8"),
        ("degree", "llama3_70b:serve,in=2048,out=256,rate=1,tp=4"),
        ("length", "llama3_70b:serve,in=6000,out=256,rate=1,tp=4"),
        ("model with experts", "gpt_oss_120b:serve,in=2048,out=256,rate=1,tp=8"),
        ("degree with experts", "gpt_oss_120b:serve,in=2048,out=256,rate=1,ep=8"),
    ):
        state = State(model, precision="bf16", devices=("b200",), on="b200")
        start_s = time.process_time()
        engine.serve_load(state)
        print(f"a new {what} takes {(time.process_time() - start_s) * 1e3:.0f} ms")


if __name__ == "__main__":
    print_new_settings()
    if option("--requests"):
        print_trace(Path(option("--requests")))
