"""Rows of whole models in measured tables as requests to the estimate, and their measured figures with predictions.

A row's framework determines the runtime, memory layout and, with its precision column, the number format. Rows with a
phase are of language models: prefill, decoding, or both. A row that cannot be predicted is counted by the reason."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario, family_of
from analysis.measured import tables
from analysis.measured.tables import Cells, Unpredictable
from analysis.model import store
from analysis.model.ir.workload import INPUT, Workload
from analysis.model.model_errors import ModelError, ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.training.training_request import Step
from analysis.model.transformer import transformer_request
from hardware.architecture_facts import input_constant
from hardware.base.errors import RequestError, match_name
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes

# Columns by which rows are grouped, of tables of vision models and encoders, and of language models.
GROUP = ("source", "device", "device_mode", "framework", "precision", "scenario")
LANGUAGE_GROUP = ("source", "device", "device_mode", "runtime", "weights_format", "phase")
OFFLINE_BATCH = 64  # of a batch that is not stated; larger batches have the same throughput
_MOST_MEMORY = 1.3  # of the device: what was measured may free tensors earlier
LARGE = 10  # least rows of a group from which a figure follows
Ends = tuple[float, float, float]  # nominal, low, high


class MeasuredRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row as a request and its measured figures: `latency_s` of the batch, `energy_j` of an inference. `lengths`
    are lengths of a language model by symbolic dimension. `answer` is the tokens among which the energy of a prompt is
    divided, if that of decoding has it. `is_rate` is True if the latency follows from a stated throughput,
    `is_governed` if a governor lowered clocks. `others` are the row with other ends of what it does not state."""

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
    is_governed: bool = False
    others: tuple["MeasuredRow", ...] = ()

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
    if rule := tables.first_rule(tables.row_rules()["unfit"], cells):
        raise Unpredictable(rule["reason"])
    was = tables.first_rule(tables.row_rules()["corrected"], cells).get("was", {})
    known_row = Cells(row | {name: text.format(model=row.get("model")) for name, text in was.items()})
    reads = _read_language_row if "phase" in row else _read_vision_row
    try:
        first, *others = [read for each in tables.in_each_mode(known_row, folders) for read in reads(each, folders)]
        return msgspec.structs.replace(first, others=tuple(others))
    except RequestError as error:  # of the scenario
        raise Unpredictable(str(error)) from None


def _read_vision_row(row: Cells, folders: tuple[Path, ...]) -> list[MeasuredRow]:
    """Return the requests that a row of a vision model or an encoder may be, the usual one first."""
    device, count = _devices(row, folders)
    framework, kind = row["framework"].lower(), row["scenario"].lower()
    is_at_wall, is_module = "metered at the wall" in row["note"], device.software.shares_host_memory
    batch = row.count("batch")
    if kind == "throughput" and "openvino" in framework:
        batch = max(round(device.units), 1)  # one stream of one image per core
    elif not batch:
        batch = OFFLINE_BATCH if kind in ("offline", "throughput") else 1
    latency, energy = row.number("latency_ms", 1e-3), row.number("energy_mJ_per_inference", 1e-3)
    if is_at_wall and not is_module:
        energy = None  # the row states the energy of the whole system: hosts, fans, supply
    throughput = row.number("throughput_per_s")
    is_rate = latency is None and throughput is not None
    if latency is None and throughput:
        latency = batch * count / throughput
    if latency is None and energy is None:
        raise Unpredictable(_invalid_figures(row) or "row states neither latency nor energy")
    if energy and latency and is_at_wall:
        wall = tables.row_rules()["wall"]  # the estimate covers the module
        energy = energy * wall["supply"] - wall["board_w"] * latency / batch
    device = use_threads(device, row, folders, least=0.5)  # a core of few reaches more in vision than the fitted rates
    runtime = tables.find_runtime_names(f"{framework} {row['precision']}".lower(), device.vendor)[0]
    work = "training" if kind == "training step" else "encoder" if row["sequence"] else "vision"
    execution = tables.check_runtime(runtime, device, work, framework)
    if execution == "tensorrt" and "graphs" not in (engine := f"{framework} {row['note']}"):
        execution = "tensorrt_plugins" if "with plugins" in engine else "tensorrt_enqueue"
    is_nchw = ("nchw" in framework or "eager" in framework) and "channels_last" not in framework
    sequence = row.count("sequence") or tables.row_rules()["sequence_unstated"].get(row["model"])
    read = MeasuredRow(
        group=tuple(row[name] for name in GROUP),
        model=(f"{row['model']}:sequence={int(sequence)}" if sequence else row["model"])
        + f"*{count}" * (work == "training" and count > 1),
        image_size=row.whole("image_size", row.whole("pixels")) or None,
        device=device,
        scenario=Scenario(batch, _vision_precision(row), execution, "nchw" if is_nchw else "channels_last"),
        latency_s=latency,
        energy_j=energy,
        # Rows "incl. transfers" time the copy of images to the device; on cards only "dynamic" rows do.
        copies_input="incl. transfers" in row["note"] and (is_module or kind in ("dynamic", "training step")),
        decodes_input="incl. input pipeline" in row["note"],
        is_rate=is_rate,
    )
    if batch > 1 or not is_module or execution not in runtimes() or not runtimes()[execution].governed_below_s:
        return [read]
    return [msgspec.structs.replace(read, is_governed=True), read]


def _devices(row: Cells, folders: tuple[Path, ...]) -> tuple[Device, int]:
    """Return the device, and the number of devices that share the throughput. Each query runs on one device."""
    several = re.fullmatch(r"(.+) x([1-9][0-9]?)", row["device"])
    if several is not None and tables.catalogue_device(row["device"], folders) is None:
        return tables.find_device(several[1], row["device_mode"], folders), int(several[2])
    return tables.find_device(row["device"], row["device_mode"], folders), row.count("n_devices") or 1


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
    unstated = "fp16" if "tensorrt" in row["framework"].lower() else "fp32"
    text = (row["precision"] or ("int8" if "built in int8" in row["note"] else unstated)).lower()
    rule = tables.first_rule(tables.row_rules()["ran"], row | {"precision": text})
    return str(rule.get("is")) if rule else text.split()[0].strip("(),")


def _read_language_row(row: Cells, folders: tuple[Path, ...]) -> list[MeasuredRow]:
    """Return the requests that a row of a language model may be, the usual one first: several for a decoding whose
    cache is not stated."""
    is_open = _request(row, 1)[0] == "decode" and not row.whole("kv_tokens")
    prompts = row.prompts() if is_open else [row.whole("prompt_tokens")]
    return [_read_prompt(row, prompt, folders) for prompt in prompts]


def _read_prompt(row: Cells, prompt: int, folders: tuple[Path, ...]) -> MeasuredRow:
    """Return the request of a row of a language model with so many tokens of a prompt. Energy covers all devices and
    one inference: one token in decoding, else the whole request."""
    device = use_threads(tables.find_device(row["device"], row["device_mode"], folders), row, folders)
    count, batch = row.count("n_devices") or 1, row.count("batch")
    runtime = tables.find_runtime_names(f"{row['runtime']} {row['weights_format']}", device.vendor, "language")[0]
    if count > 1 and runtime.startswith("llama_cpp"):
        raise Unpredictable("layers are split over devices")
    if not batch:
        raise Unpredictable("the batch is not stated")
    model, weights, activations = _model(row["model"]), row["weights_format"].lower(), row["activation_format"].lower()
    precision = tables.find_precision(weights, activations, row["runtime"], model)
    phase, lengths = _request(row, prompt)
    tokens = lengths.get("output", 1)
    text = f"{model}:{phase}" + (f",tp={count}" if count > 1 else "")
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
        scenario=Scenario(batch, precision, tables.check_runtime(runtime, device, "language", row["runtime"])),
        latency_s=latency * (tokens if _is_per_token(row) else 1),
        energy_j=energy * tokens if energy else None,
        lengths=lengths,
        answer=row.count("output_tokens") if "steady state, prefill included" in row["note"] else 0,
    )


def _model(name: str) -> str:
    short = name.rpartition("/")[2].removesuffix("-hf")
    preset = match_name(str(tables.row_rules()["models"].get(short.lower(), short)), transformer_request.names())
    if preset is None:
        raise Unpredictable("model is not known")
    return preset


def _request(row: Cells, prompt: int) -> tuple[str, dict[str, int]]:
    stated, output = (row.whole(name) for name in ("prompt_tokens", "output_tokens"))
    if row["phase"] == "prefill":
        if not stated:
            raise Unpredictable("the length of the prompt is not stated")
        return "prefill", {"sequence": stated}
    if row["phase"] == "end_to_end" and stated and output > 1:
        return "request", {"sequence": stated, "output": output}
    if row["phase"] == "end_to_end" and not _is_per_token(row):
        raise Unpredictable("the lengths of the requests are not stated")
    return "decode", {"kv": row.whole("kv_tokens", prompt + output // 2)}


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


class PredictionPoint(msgspec.Struct, frozen=True):
    """One measured quantity with its prediction and band. `ends` are the least and the greatest prediction that what
    the row leaves open allows, the prediction is that of usual settings, and the band holds all."""

    name: str
    quantity: str
    device: str
    family: str
    runtime: str
    mode: str
    work_class: str
    measured: float
    predicted: float
    band: tuple[float, float]
    ends: tuple[float, float] | None = None

    @property
    def nearest(self) -> float:
        """The allowed prediction that is nearest to what was measured."""
        low, high = self.ends or (self.predicted, self.predicted)
        return min(max(self.measured, low), high)


class RowPoint(PredictionPoint, frozen=True, kw_only=True):
    """One measured quantity of a row of a whole model."""

    row: MeasuredRow


@lru_cache(maxsize=256)
def _workload(model: str, image_size: int | None) -> Workload | None:
    """Return the shipped workload of a model. The image size may be the size of its example input."""
    try:
        name, _, devices = model.partition("*")  # of training, which several devices share
        step = refer(name, image_size) if devices else None
        return store.ready(step.on_devices(int(devices)) if isinstance(step, Step) else model, image_size)
    except ModelSpecError:
        fixed = store.ready(model)
        if fixed is None or image_size not in fixed.inputs[0].shape:
            raise
        return fixed


def estimate_row(row: MeasuredRow) -> Estimate:
    """Return the estimate of a measured row. Raises Unpredictable if the model is unknown, is not captured yet or needs
    far more memory than the device has."""
    try:
        workload = _workload(row.model, row.image_size)
    except ModelError as error:
        reason = str(error.args[0]).partition(";")[0]  # without the nearest names
        if reason.startswith(("unknown model", "no module")):
            reason = "model is not known"  # names and suggestions would give hundreds of reasons
        raise Unpredictable(reason.replace(repr(row.model), "").strip()) from None
    if workload is None:
        raise Unpredictable("model at this image size is not shipped")
    workload = workload.bound(**row.lengths)
    result = estimate(workload, row.device, row.scenario)
    if result.memory.peak_bytes > _MOST_MEMORY * row.device.memory_bytes:
        raise Unpredictable("the model does not fit into the memory of the device")
    if not row.is_governed or result.latency_s > result.runtime.governed_below_s:
        return result
    bandwidth = row.device.values["memory_bus_bits"] / 8.0 * result.runtime.governed_transfer_rate
    low = f"clock_hz={result.runtime.governed_clock_hz},memory_bandwidth={min(bandwidth, row.device.memory_bandwidth)}"
    return estimate(workload, load_device(f"{row.device.key}{{{low}}}"), row.scenario)


def predict_row(row: MeasuredRow) -> list[RowPoint]:
    """Return the measured figures of a row with their predictions and bands. Raises Unpredictable as `estimate_row`
    does."""
    points = _predict_as_read(row)
    for other in row.others:
        points = [_join(*pair) for pair in zip(points, _predict_as_read(other), strict=True)]
    return points


def _join(a: RowPoint, b: RowPoint) -> RowPoint:
    lows, highs = zip(a.ends or (a.predicted, a.predicted), (b.predicted, b.predicted), strict=True)
    band = min(a.band[0], b.band[0]), max(a.band[1], b.band[1])
    return msgspec.structs.replace(a, ends=(min(lows), max(highs)), band=band)


def _predict_as_read(row: MeasuredRow) -> list[RowPoint]:
    """Return the measured figures of a row with their predictions and bands: latency of the batch in its class of work,
    and energy of an inference in its energy class. Raises Unpredictable as `estimate_row` does."""
    result, batch = estimate_row(row), row.scenario.batch
    adds, floor = input_s(row, result)
    follows = batch / result.throughput_per_s / result.latency_s if row.is_rate else 1.0  # batches may overlap
    model_s = (result.latency_s * follows, *(end * follows for end in result.latency_band_s))
    latency_s = [max(t + extra, least) for t, extra, least in zip(model_s, adds, floor, strict=True)]
    waits_s = [t - kernel for t, kernel in zip(latency_s, model_s, strict=True)]
    # An accelerator idles while it waits for its host. A CPU is the host: its cores are busy.
    cores_j = float(result.event_j[result.device.arch.timed_rows].sum()) * result.device.arch.is_host
    waiting_w, prompt_j = result.static_w + cores_j / (result.latency_s or 1.0), _prompt_j(row)
    ends_j = zip((result.energy_j, *result.energy_band_j), waits_s, strict=True)
    energy_j = [(j + wait * waiting_w) / batch + prompt_j for j, wait in ends_j]
    work = "training" if ":train" in row.model else "language models" if row.lengths else "vision"
    figures = (
        ("latency", result.work_class, row.latency_s, latency_s),
        ("energy", f"energy, {work}", row.energy_j, energy_j),
    )
    labels = row.device.id, row.family, result.runtime.id, result.execution, result.work_class
    return [
        RowPoint(name, quantity, *labels, measured, predicted, (low, high), row=row)
        for quantity, name, measured, (predicted, low, high) in figures
        if measured
    ]


def _prompt_j(row: MeasuredRow) -> float:
    """Return the energy of a prompt for each token of its answer, if the row's energy has it."""
    if not row.answer:
        return 0.0
    model, prompt = row.model.replace(":decode", ":prefill"), row.lengths["kv"] - row.answer // 2
    result = estimate_row(msgspec.structs.replace(row, model=model, lengths={"sequence": prompt}))
    return result.energy_j / row.scenario.batch / row.answer


def input_s(row: MeasuredRow, result: Estimate) -> tuple[Ends, Ends]:
    """Return the seconds that the input adds to a measurement, and its least seconds. The copy to the device adds time,
    as does an input pipeline on the CPU that computes. The host of an accelerator decodes the next batch in parallel,
    so its pipeline is a least time."""
    copy_s = _input_copy_s(result) if row.copies_input else 0.0
    adds: Ends = (copy_s, copy_s * 0.7, copy_s * 1.4)
    if not row.decodes_input:
        return adds, (0.0, 0.0, 0.0)
    is_host = result.device.arch.is_host
    cores = result.device.units if is_host else input_constant("image_decode_host_cores").value
    decode = input_constant("image_decode_core_s")
    nominal, low, high = (each * row.scenario.batch / cores for each in (decode.value, decode.low, decode.high))
    pipeline: Ends = (nominal, low, high)
    return (pipeline, (0.0, 0.0, 0.0)) if is_host else (adds, pipeline)


def _input_copy_s(result: Estimate) -> float:
    tensors = result.workload.tensors
    numel = (tensors.numel @ result.workload.value_at(batch=result.scenario.batch))[tensors.role == INPUT].sum()
    link = "" if result.device.software.shares_host_memory else "_pcie"
    return float(numel) * 4.0 / input_constant(f"pageable_copy_bandwidth{link}").value


def predict_rows(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: tables.Tick | None = None
) -> tuple[list[RowPoint], Counter[str]]:
    """Return the points of rows, and the number of rows without one by reason."""
    predicted, skipped = tables.interpret_each(rows, lambda row: predict_row(interpret_row(row, folders)), tick)
    return [point for points in predicted for point in points], skipped
