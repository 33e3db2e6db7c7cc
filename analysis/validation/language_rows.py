"""Rows of language models as requests (prefill, decoding, or both), and `interpret_row` for rows of any table."""

from __future__ import annotations

import re
from pathlib import Path

from analysis.estimate.scenario import Scenario
from analysis.model.transformer import transformer_request
from analysis.validation.measured_rows import (
    ROWS,
    MeasuredRow,
    Unpredictable,
    check_runtime,
    find_device,
    find_precision,
    find_runtime_name,
    first_rule,
    interpret_vision_row,
    parse_cell,
    parse_count,
    unstated_prompt,
    use_threads,
)
from hardware import file_access, precision
from hardware.errors import RequestError
from hardware.names import match_name

GROUP = ("source", "device", "device_mode", "runtime", "weights_format", "phase")


def interpret_row(row: dict[str, str], folders: tuple[Path, ...] = ()) -> MeasuredRow:
    """Return the request of a row of any measured table. Raises Unpredictable with the reason."""
    cells = {name: (text or "").lower() for name, text in row.items() if name}
    rules = file_access.shipped(ROWS)
    if rule := first_rule(rules["unfit"], cells):
        raise Unpredictable(rule["reason"])
    row = row | first_rule(rules["corrected"], cells).get("was", {})
    return _interpret_language_row(row, folders) if "phase" in row else interpret_vision_row(row, folders)


def _interpret_language_row(row: dict[str, str], folders: tuple[Path, ...]) -> MeasuredRow:
    """Return the request of a row of a language model. Energy covers all devices and one inference: one token in
    decoding, else the whole request. Raises Unpredictable with the reason."""
    device = use_threads(find_device(row["device"], row["device_mode"], row["source"], folders), row, folders)
    count = parse_count(row, "n_devices") or 1
    runtime = find_runtime_name(f"{row['runtime']} {row['weights_format']}", device.vendor, "language")
    split = (
        "split" in row["device_mode"]
        or (count > 1 and runtime.startswith("llama_cpp"))
        or "exllama" in row["runtime"].lower()
    )
    if count > 1 and split:
        raise Unpredictable("layers are split over devices")
    if re.search(r"PP[2-9]", row["device_mode"]):
        raise Unpredictable("stages of the model on several devices")
    batch = parse_count(row, "batch")
    if not batch:
        raise Unpredictable("the batch is not stated")
    asked_precision, runs = _precision(row)
    phase, lengths = _request(row)
    tokens = lengths.get("output", 1)
    text = f"{_model(row['model'])}:{phase}" + (f",tp={count}" if count > 1 else "")
    text += f",ep={count}" if row["device_mode"] == f"EP{count}" else ""
    latency, energy = _latency_s(row, batch), parse_cell(row, "energy_j_per_token")
    if energy is None and (whole := parse_cell(row, "energy_j")):
        energy = whole / batch
    if latency is None:
        raise Unpredictable("row states neither latency nor energy")
    try:
        scenario = Scenario(batch, runs, check_runtime(runtime, device, "language") or "fused")
    except RequestError as error:
        raise Unpredictable(str(error)) from None
    return MeasuredRow(
        group=tuple(row.get(name) or "" for name in GROUP),
        model=text,
        image_size=None,
        device=device,
        scenario=scenario,
        latency_s=latency * (tokens if _is_per_token(row) else 1),
        energy_j=energy * tokens if energy and not (phase == "decode" and unstated_prompt(row)[1]) else None,
        asked_precision=asked_precision,
        lengths=lengths,
    )


def _model(name: str) -> str:
    short = name.rpartition("/")[2].removesuffix("-hf")
    preset = match_name(str(file_access.shipped(ROWS)["models"].get(short.lower(), short)), transformer_request.names())
    if preset is None:
        raise Unpredictable("model is not known")
    return preset


def _precision(row: dict[str, str]) -> tuple[str, str]:
    """Return the measured precision if hwexplorer does not have it, else '', and the nearest precision that it has."""
    weights, activations = row["weights_format"].lower(), row["activation_format"].lower()
    if (stated := precision.find(_gguf_name(weights))) is not None and not stated.is_uniform:
        return "", stated.name
    return find_precision(weights, activations, row["runtime"])


def _gguf_name(text: str) -> str:
    """Return llama.cpp's name of a format, from `Q4_K - Small`, `IQ2_XXS - 2.0625 bpw`, `Q4_K_M (4.9 bit)`, or the
    repacked `IQ4_KS_R4`."""
    name = text.partition("(")[0].replace(" - small", "_s").replace(" - medium", "_m")
    return re.sub(r" - .*|_[rx][48]$", "", name).strip()


def _request(row: dict[str, str]) -> tuple[str, dict[str, int]]:
    prompt, output = (int(parse_cell(row, name) or 0) for name in ("prompt_tokens", "output_tokens"))
    start = prompt or unstated_prompt(row)[0]
    if row["phase"] == "prefill":
        if not prompt:
            raise Unpredictable("the length of the prompt is not stated")
        return "prefill", {"sequence": prompt}
    if row["phase"] == "end_to_end" and prompt and output > 1:
        return "request", {"sequence": prompt, "output": output}
    if row["phase"] == "end_to_end" and not _is_per_token(row):
        raise Unpredictable("the lengths of the requests are not stated")
    kv = parse_cell(row, "kv_tokens")
    return "decode", {"kv": int(kv if kv is not None else start + output // 2)}


def _is_per_token(row: dict[str, str]) -> bool:
    """Return True if the row states the latency of a whole request divided by its output tokens."""
    return (
        row["phase"] == "end_to_end" and "output tokens, prefill included" in row["note"] and "latency=" in row["note"]
    )


def _latency_s(row: dict[str, str], batch: int) -> float | None:
    stated, rate = parse_cell(row, "latency_s"), parse_cell(row, "throughput_tokens_per_s")
    if stated is not None or rate is None:
        return stated
    prompt, output = (parse_cell(row, name) or 0.0 for name in ("prompt_tokens", "output_tokens"))
    tokens = {"decode": 1.0, "prefill": prompt, "end_to_end": output}[row["phase"]]
    return batch * tokens / rate if tokens else None
