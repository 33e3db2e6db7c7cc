"""Simulated services against published runs: `python -m tests.bench_serving serving_load.csv.gz [--every N]`.

The table has a row for each run of a server at one concurrency: device, model, weights_format, runtime,
tensor_parallel, expert_parallel, prompt_tokens, output_tokens, concurrency, ttft_s, tpot_s. Prints the median error of
the time per token and of the time to first token, by runtime, model and device; asserts nothing.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict

import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.serving.deployment import Server, make_server
from analysis.serving.request_load import Lengths, closed_load
from analysis.serving.serving_report import time_per_token_s
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import State

RUNTIMES = {"vllm": "vllm", "trtllm": "tensorrt_llm", "sglang": "vllm"}
FORMATS = {"fp8": "fp8", "": "bf16", "nvfp4": "nvfp4", "fp8_block": "fp8", "int4_wo": "w4a16"}
MODELS = ("llama3_8b", "llama3_70b", "gpt_oss_120b", "deepseek_v3")
GROUP = ("device", "model", "weights_format", "runtime", "tensor_parallel", "expert_parallel")
SPREAD = 0.2  # InferenceX draws lengths between 0.8 and 1 times those stated
Row = dict[str, str]


def usable(row: Row) -> bool:
    """Return True for an unflagged run of one engine on devices and models of the catalogue."""
    is_plain = row["phase_split"] == "aggregated" and row["load_kind"] == "concurrency" and not row["flag"]
    is_known = row["device"] in ("h100_sxm", "h200_sxm", "a100_sxm4_80gb", "b200") and row["model"] in MODELS
    return is_plain and is_known and bool(row["prompt_tokens"] and row["tpot_s"])


def server(group: tuple[str, ...], longest: int) -> Server:
    """Return the server of a group of rows. Raises RequestError where it cannot be."""
    device, model, weights, runtime, tensor, expert = group
    options = "".join(f",{key}={n}" for key, n in (("tp", tensor), ("ep", expert)) if n not in ("", "1"))
    precision = "mxfp4" if model == "gpt_oss_120b" and not weights else FORMATS[weights]

    def evaluate(phase: str, batch: int, sequence: int, kv: int) -> Estimate:
        lengths = f"decode,kv={kv}" if phase == "decode" else f"sequence={sequence},kv={kv}"
        name = f"{model}:{lengths}{options}"
        return engine.result(
            State(name, batch=batch, precision=precision, devices=(device,), on=device, execution=RUNTIMES[runtime])
        )

    return make_server(evaluate, longest)


def main() -> None:
    every = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if usable(row)][::every]
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in GROUP)].append(row)
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for group, members in groups.items():
        lengths = [Lengths(prompt=int(float(row["prompt_tokens"])), output=max(int(float(row["output_tokens"])), 2),
                           spread=SPREAD) for row in members]  # fmt: skip
        try:
            one = server(group, max(each.prompt + each.output for each in lengths))
        except RequestError as error:
            print(f"left out {len(members)} rows of {group}: {error}")
            continue
        for row, each in zip(members, lengths, strict=True):
            clients = int(float(row["concurrency"]))
            run = one.serve(closed_load(clients, each))
            tpot_s = float(np.median(time_per_token_s(run)[clients:]))
            ttft_s = float(np.median((run.first_s - run.arrival_s)[clients:]))
            stated_s = float(row["ttft_s"] or "nan")
            pair = (tpot_s / float(row["tpot_s"]), ttft_s / stated_s)
            for name in ("all", *(f"{key} {row[key]}" for key in ("runtime", "model", "device"))):
                ratios[name].append(pair)
    for name, pairs in ratios.items():
        (tpot, ttft), errors = np.nanmedian(pairs, axis=0), np.nanmedian(np.abs(np.array(pairs) - 1), axis=0)
        print(f"{name}: {len(pairs)} rows; time per token {errors[0]:.0%} off (predicted over measured {tpot:.2f}), "
              f"first token {errors[1]:.0%} ({ttft:.2f})")  # fmt: skip


if __name__ == "__main__":
    main()
