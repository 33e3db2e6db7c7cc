"""Rows of whole models in measured tables as requests to the estimate.

A row's framework determines the runtime, memory layout and, with its precision column, the number format. Rows with a
phase are of language models: prefill, decoding, or both."""

import re
from pathlib import Path

import msgspec

from analysis.estimate.scenario import Scenario
from analysis.model.transformer import transformer_request
from analysis.validation.measured_rows import (
    SHIPPED,
    Cells,
    Unpredictable,
    check_runtime,
    family_of,
    find_device,
    find_precision,
    find_runtime_name,
    first_rule,
    row_rules,
)
from hardware.base import file_access
from hardware.base.errors import RequestError, match_name
from hardware.device import Device
from hardware.device_catalog import load_device

# Columns by which rows are grouped, of tables of vision models and encoders, and of language models.
GROUP = ("source", "device", "device_mode", "framework", "precision", "scenario")
LANGUAGE_GROUP = ("source", "device", "device_mode", "runtime", "weights_format", "phase")
OFFLINE_BATCH = 64  # MLPerf Offline does not state its batch; larger batches have the same throughput
MANY_STREAMS = ("offline", "throughput")  # scenarios that reach this throughput with any number of streams


class MeasuredRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row as a request and its measured figures: `latency_s` of the batch, `energy_j` of an inference. `lengths`
    are lengths of a language model by symbolic dimension. `answer` is the tokens among which the energy of a prompt is
    divided, if that of decoding has it. `is_rate` is True if the latency follows from a stated throughput. `light` has
    the facts of the device while it ran calls shorter than `below_s`."""

    group: tuple[str, ...]
    model: str
    image_size: int | None = None
    device: Device
    scenario: Scenario
    latency_s: float | None
    energy_j: float | None
    copies_input: bool = False
    decodes_input: bool = False
    lengths: dict[str, int] = {}
    answer: int = 0
    is_rate: bool = False
    light: dict[str, float] = {}

    @property
    def energy_class(self) -> str:
        """The class of work that its energy belongs to."""
        return "energy, language models" if self.lengths else "energy, vision"

    @property
    def family(self) -> str:
        """The family of its model: `resnet` of resnet50, `llama` of llama3_8b."""
        return family_of(self.model)

    @property
    def identity(self) -> tuple[object, ...]:
        """Fields that are equal in all rows of the same measurement."""
        return self.device.key, self.model, self.scenario, self.latency_s


def interpret_row(row: dict[str, str], folders: tuple[Path, ...] = ()) -> MeasuredRow:
    """Return the request of a row of any table of whole models. Raises Unpredictable with the reason."""
    cells = {name: (text or "").lower() for name, text in row.items() if name}
    if rule := first_rule(row_rules()["unfit"], cells):
        raise Unpredictable(rule["reason"])
    was = first_rule(row_rules()["corrected"], cells).get("was", {})
    known_row = Cells(row | {name: text.format(model=row.get("model")) for name, text in was.items()})
    try:
        return (_interpret_language_row if "phase" in row else _interpret_vision_row)(known_row, folders)
    except RequestError as error:  # of the scenario
        raise Unpredictable(str(error)) from None


def _interpret_vision_row(row: Cells, folders: tuple[Path, ...]) -> MeasuredRow:
    """Return the request of a row of a vision model or an encoder."""
    device, count = _devices(row, folders)
    framework, kind = row["framework"].lower(), row["scenario"].lower()
    is_mlperf, is_module = row["source"].startswith("MLPerf"), device.software.shares_host_memory
    is_submission = is_mlperf and "n_devices" in row
    batch = row.count("batch")
    if kind in MANY_STREAMS and "openvino" in framework and not is_submission:
        batch = max(round(device.units), 1)  # one stream of one image per core
    elif not batch:
        batch = OFFLINE_BATCH if kind in MANY_STREAMS else 1
    latency, energy = row.number("latency_ms", 1e-3), row.number("energy_mJ_per_inference", 1e-3)
    if is_mlperf and not is_module:
        energy = None  # the row states the energy of the whole system: hosts, fans, supply
    throughput = row.number("throughput_per_s")
    is_rate = latency is None and throughput is not None
    if latency is None and throughput:
        latency = batch * count / throughput
    if latency is None and energy is None:
        raise Unpredictable(_invalid_figures(row) or "row states neither latency nor energy")
    if energy and latency and is_mlperf:
        wall = row_rules()["wall"]  # MLPerf meters the whole system, but the estimate covers the module
        energy = energy * wall["supply"] - wall["board_w"] * latency / batch
    device = use_threads(device, row, folders, least=0.5)  # a core of few reaches more in vision than the fitted rates
    runtime = find_runtime_name(framework, device.vendor) or "fused"
    execution = check_runtime(runtime, device, "encoder" if row["sequence"] else "vision")
    # MLPerf records engines as graphs, with plugins for BERT; others enqueue.
    if execution == "tensorrt" and "graphs" not in framework:
        execution = "tensorrt_enqueue" if not is_mlperf else "tensorrt_plugins" if row["sequence"] else execution
    if row["precision"] == "fp32" and is_submission and execution.startswith(("tensorrt", "openvino")):
        raise Unpredictable("the precision stated is that of MLPerf's reference, not of what ran")
    is_nchw = ("nchw" in framework or "eager" in framework) and "channels_last" not in framework
    sequence = row.count("sequence") or row_rules()["sequence_unstated"].get(row["model"])
    return MeasuredRow(
        group=tuple(row[name] for name in GROUP),
        model=f"{row['model']}:sequence={int(sequence)}" if sequence else row["model"],
        image_size=row.whole("image_size", row.whole("pixels")) or None,
        device=device,
        scenario=Scenario(batch, _vision_precision(row), execution, "nchw" if is_nchw else "channels_last"),
        latency_s=latency,
        energy_j=energy,
        # Rows "incl. transfers" time the copy of images to the device; on cards only "dynamic" rows do.
        copies_input="incl. transfers" in row["note"] and (is_module or kind == "dynamic"),
        decodes_input="incl. input pipeline" in row["note"],
        is_rate=is_rate,
        light=_light_clock(device, row["source"]) if (batch, execution) == (1, "tensorrt_enqueue") else {},
    )


def _devices(row: Cells, folders: tuple[Path, ...]) -> tuple[Device, int]:
    """Return the device, and the number of devices that share the throughput. Each query runs on one device."""
    name, facts = row["device"], (row["device_mode"], row["source"], folders)
    several = re.fullmatch(r"(.+) x([1-9][0-9]?)", name)
    try:
        return find_device(name, *facts), row.count("n_devices") or 1
    except Unpredictable:
        if several is None:
            raise
        return find_device(several[1], *facts), int(several[2])


def use_threads(device: Device, row: Cells, folders: tuple[Path, ...], least: float = 0.0) -> Device:
    """Return a CPU with as many cores as threads ran. Raises Unpredictable below a share `least` of its cores."""
    threads = re.search(r"\b(\d+) threads?", f"{row['device_mode']} {row['runtime']}")
    if threads is None or not device.arch.is_host or int(threads[1]) >= device.units:
        return device
    if not 0 < int(threads[1]) >= least * device.units:
        raise Unpredictable("fewer threads than cores")
    alike = ",equal_share=1" if device.equal_share < 1.0 else ""  # fewer threads run on the fastest cores
    return load_device(f"{device.key}{{units={int(threads[1])}{alike}}}", folders)


def _invalid_figures(row: Cells) -> str:
    """Return the figures of a row that are not positive numbers, in words."""
    names = ("latency_ms", "throughput_per_s", "energy_mJ_per_inference")
    figures = [f"{name} {cell.strip()[:20]}" for name in names if (cell := row[name]).strip()]
    return f"{', '.join(figures)}: not a positive number; the row is left out" if figures else ""


def _vision_precision(row: Cells) -> str:
    # MLPerf's TensorRT submissions state no precision; they run ResNet-50 in int8.
    unstated = "int8" if "tensorrt" in row["framework"].lower() else "fp32"
    text = (row["precision"] or unstated).lower()
    rule = first_rule(row_rules()["ran"], row | {"precision": text})
    return str(rule.get("is")) if rule else text.split()[0].strip("(),")


def _light_clock(device: Device, source: str) -> dict[str, float]:
    """Return the device's facts in short calls of a source, and `below_s`, their longest time, else {}."""
    clocks = file_access.shipped(SHIPPED / "modes.toml").get(device.id, {}).get("light", {})
    return next((light for begin, light in clocks.items() if source.startswith(begin)), {})


def _interpret_language_row(row: Cells, folders: tuple[Path, ...]) -> MeasuredRow:
    """Return the request of a row of a language model. Energy covers all devices and one inference: one token in
    decoding, else the whole request."""
    device = use_threads(find_device(row["device"], row["device_mode"], row["source"], folders), row, folders)
    count, batch = row.count("n_devices") or 1, row.count("batch")
    runtime = find_runtime_name(f"{row['runtime']} {row['weights_format']}", device.vendor, "language")
    if count > 1 and runtime.startswith("llama_cpp"):
        raise Unpredictable("layers are split over devices")
    if not batch:
        raise Unpredictable("the batch is not stated")
    precision = find_precision(row["weights_format"].lower(), row["activation_format"].lower(), row["runtime"])
    phase, lengths = _request(row)
    tokens = lengths.get("output", 1)
    text = f"{_model(row['model'])}:{phase}" + (f",tp={count}" if count > 1 else "")
    text += f",ep={count}" if row["device_mode"] == f"EP{count}" else ""
    latency, energy = _latency_s(row, batch), row.number("energy_j_per_token")
    if energy is None and (whole := row.number("energy_j")):
        energy = whole / batch
    if latency is None:
        raise Unpredictable("row states neither latency nor energy")
    return MeasuredRow(
        group=tuple(row[name] for name in LANGUAGE_GROUP),
        model=text,
        device=device,
        scenario=Scenario(batch, precision, check_runtime(runtime, device, "language") or "fused"),
        latency_s=latency * (tokens if _is_per_token(row) else 1),
        energy_j=energy * tokens if energy and not (phase == "decode" and row.unstated_prompt()[1]) else None,
        lengths=lengths,
        answer=row.count("output_tokens") if "steady state, prefill included" in row["note"] else 0,
    )


def _model(name: str) -> str:
    short = name.rpartition("/")[2].removesuffix("-hf")
    preset = match_name(str(row_rules()["models"].get(short.lower(), short)), transformer_request.names())
    if preset is None:
        raise Unpredictable("model is not known")
    return preset


def _request(row: Cells) -> tuple[str, dict[str, int]]:
    prompt, output = (row.whole(name) for name in ("prompt_tokens", "output_tokens"))
    if row["phase"] == "prefill":
        if not prompt:
            raise Unpredictable("the length of the prompt is not stated")
        return "prefill", {"sequence": prompt}
    if row["phase"] == "end_to_end" and prompt and output > 1:
        return "request", {"sequence": prompt, "output": output}
    if row["phase"] == "end_to_end" and not _is_per_token(row):
        raise Unpredictable("the lengths of the requests are not stated")
    return "decode", {"kv": row.whole("kv_tokens", (prompt or row.unstated_prompt()[0]) + output // 2)}


def _is_per_token(row: Cells) -> bool:
    """Return True if the row states the latency of a whole request divided by its output tokens."""
    stated = ("output tokens, prefill included", "latency=")
    return row["phase"] == "end_to_end" and all(words in row["note"] for words in stated)


def _latency_s(row: Cells, batch: int) -> float | None:
    latency, rate = row.number("latency_s"), row.number("throughput_tokens_per_s")
    if latency is not None or rate is None:
        return latency
    counted = {"prefill": "prompt_tokens", "end_to_end": "output_tokens"}
    tokens = row.number(counted[row["phase"]]) if row["phase"] != "decode" else 1.0
    return batch * tokens / rate if tokens else None
