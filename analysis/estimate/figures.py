"""Figures of an estimate: the record of all figures, and the deviations from the request, in words. Comparisons,
sweeps, searches, advice and explanations use them, so a key means the same in every document."""

from typing import Annotated, Any

import msgspec

from analysis.document import YES_NO, column, record
from analysis.estimate.estimate import Estimate
from analysis.estimate.measured_runs import MeasuredRun, measured_runs
from analysis.estimate.metrics import METRICS
from analysis.estimate.trust import Trust
from analysis.model.ir.workload import steps
from hardware import precision
from hardware.demand import OpClass
from hardware.engines.runtime import AUTO, MODES, format_rule, runtimes
from hardware.execute import BOUNDS
from hardware.precision import runs_wider


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of requests, all of the same lengths. `tokens_per_s` counts output tokens of the whole batch, over a time
    that includes prefill; `energy_j_per_token` is likewise per output token. `largest_batch` is the most requests whose
    weights and caches fit into the memory, 0 if not even one fits. Times leave out the wait for earlier waves."""

    prompt_tokens: int
    output_tokens: int
    time_to_first_token_s: float
    time_per_output_token_s: float
    tokens_per_s: float
    energy_j_per_token: float
    largest_batch: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one device in one scenario. Energy and latency are for the whole batch unless a name says otherwise;
    SI units. `devices` run it together: energy and power are of all, memory of each. `runtime` is the software,
    `serving` the figures of a request of a language model, `bound_time` the share of the time by bound. `supported` is
    False if no software is known to run such work on the device. `formats` are a language model's formats by role.
    `silicon` is False for a device on paper; `trust` is the evidence for such work on it, `measured_runs` what others
    measured of the same; `incomplete` names work without a cost rule, if too much. `derived` are the metrics with a
    formula, by their keys."""

    model: Annotated[str, column("Model", keep=2)]
    device: Annotated[str, column("Device")]
    devices: int
    name: str
    architecture: str
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    batch: Annotated[int, column("Batch", "count")]
    precision: Annotated[str, column("Precision")]
    precision_run: Annotated[str, column("Format used", keep=5)]
    execution_run: str
    runtime: Annotated[str, column("Software", keep=5, help="software that runs it (--runtime)")]
    latency_s: Annotated[float, column("Latency", "s", help="of the whole batch")]
    latency_band_s: tuple[float, float]
    latency_s_per_inference: float
    energy_j: Annotated[float, column("Energy/batch", "J", keep=4)]
    energy_band_j: tuple[float, float]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    edp_js: Annotated[float, column("EDP", "Js", keep=2)]
    throughput_per_s: Annotated[float, column("Inf/s", "1/s", keep=2)]
    compute_j: float
    memory_j: float
    static_j: float
    average_power_w: Annotated[float, column("Power", "W", key="power", keep=3)]
    power_limit_w: Annotated[float, column("Power limit", "W", key="limit", keep=4)]
    tdp_w: Annotated[float, column("TDP", "W", keep=5, help="thermal design power, as the maker states it")]
    utilization: Annotated[float, column("Util", "%", keep=4)]
    bound: Annotated[str, column("Limit", keep=4, help="the limit for most of the time")]
    bound_time: dict[str, float]
    peak_memory_bytes: Annotated[float, column("Memory", "byte", key="memory", keep=3)]
    weight_bytes: Annotated[float, column("Weights", "byte", key="weights", keep=3)]
    activation_bytes: Annotated[float, column("Activations", "byte", key="activations", keep=3)]
    workspace_bytes: float
    fits: Annotated[bool, column("Fits", keep=3, shown=YES_NO)]
    supported: bool
    silicon: bool
    trust: Trust
    marks: tuple[str, ...]
    formats: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    incomplete: str | msgspec.UnsetType = msgspec.UNSET
    serving: Serving | msgspec.UnsetType = msgspec.UNSET
    derived: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    measured_runs: tuple[MeasuredRun, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def can_win(self) -> bool:
        """True if it may be recommended, by the rule of Estimate.can_win."""
        runs_wider = precision.runs_wider(self.precision, self.precision_run)
        return self.fits and self.supported and not runs_wider and not self.incomplete


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of a document. `execution` and `layout` are set if they depend on a device, `prices` if they were
    asked for; `device`, `execution_run`, `runtime`, `precision_run` and `measured_runs` if it is about one; `sequence`,
    `kv` and `output` if the model has these lengths."""

    model: str
    batch: int
    precision: str
    execution: str | msgspec.UnsetType = msgspec.UNSET
    layout: str | msgspec.UnsetType = msgspec.UNSET
    prices: str | msgspec.UnsetType = msgspec.UNSET
    image_size: int | None
    device: str | msgspec.UnsetType = msgspec.UNSET
    execution_run: str | msgspec.UnsetType = msgspec.UNSET
    runtime: str | msgspec.UnsetType = msgspec.UNSET
    precision_run: str | msgspec.UnsetType = msgspec.UNSET
    sequence: int | msgspec.UnsetType = msgspec.UNSET
    kv: int | msgspec.UnsetType = msgspec.UNSET
    output: int | msgspec.UnsetType = msgspec.UNSET
    measured_runs: tuple[MeasuredRun, ...] | msgspec.UnsetType = msgspec.UNSET


def figures(result: Estimate) -> Figures:
    """Return the record of an estimate."""
    device, workload, memory, plan = result.device, result.workload, result.memory, result.plan
    formats = {"weights": plan.weights, "activations": plan.stored, "cache": plan.cache}
    compute, moved, static = result.component_j.values()
    return record(
        Figures,
        result,
        result.scenario,
        workload,
        device,
        model=workload.name,
        device=device.key,
        name=device.name,
        execution_run=result.execution,
        runtime=result.runtime.name,
        compute_j=compute,
        memory_j=moved,
        static_j=static,
        tdp_w=device.tdp_w * workload.devices,
        bound_time={name: s / (result.latency_s or 1.0) for name, s in zip(BOUNDS, result.bound_s, strict=True)},
        peak_memory_bytes=memory.peak_bytes,
        weight_bytes=memory.weight_bytes,
        activation_bytes=memory.activation_peak_bytes,
        workspace_bytes=memory.workspace_peak_bytes,
        marks=describe_deviations(result),
        formats=formats if workload.kind in ("decode", "prefill", "request") else msgspec.UNSET,
        incomplete=result.rule_coverage.gap or msgspec.UNSET,
        serving=serving(result) or msgspec.UNSET,
        derived={m.key: m.formula(result) for m in METRICS.values() if m.formula and not m.is_of_load} or msgspec.UNSET,
        measured_runs=measured_runs(result) or msgspec.UNSET,
    )


def serving(result: Estimate) -> Serving | None:
    """Return the figures of a request of a language model; None for other workloads."""
    workload, batch = result.workload, result.scenario.batch
    if workload.repeats is None or "output" not in workload.defaults:
        return None
    output = workload.defaults["output"]
    decoding = [path.startswith("decode.") for path in workload.operators.path]
    later_s = float(result.run.latency_s[decoding].sum())
    tokens = batch * output
    first_s = (result.latency_s - later_s) / result.waves
    return Serving(
        prompt_tokens=workload.defaults["sequence"],
        output_tokens=output,
        time_to_first_token_s=first_s,
        time_per_output_token_s=later_s / result.waves / steps(output) if output > 1 else 0.0,
        tokens_per_s=tokens / result.latency_s,
        energy_j_per_token=result.energy_j / tokens,
        largest_batch=result.memory.largest_batch(result.wave_batch, result.device.memory_bytes),
    )


def head_fields(result: Estimate, on_device: bool = False) -> dict[str, Any]:
    """Return the fields of a Head. `on_device` adds the device, and the mode, runtime and format that run on it."""
    scenario, workload = result.scenario, result.workload
    head = {"model": workload.name, "batch": scenario.batch, "precision": scenario.precision}
    head |= {"image_size": workload.image_size, **workload.defaults}
    head |= {"execution": scenario.execution, "layout": scenario.layout}
    head |= {} if scenario.prices == "own" else {"prices": scenario.prices}
    if on_device:
        head |= {"device": result.device.key, "execution_run": result.execution, "runtime": result.runtime.name}
        runs = measured_runs(result)
        head |= {"precision_run": result.precision_run, **({"measured_runs": runs} if runs else {})}
    return head


_WORK = {"vision": "vision models", "encoder": "encoders", "language": "language models",
         "solver": "factorisations", "training": "training"}  # fmt: skip


def describe_deviations(result: Estimate) -> tuple[str, ...]:
    """Return a phrase for each deviation from the request, or from what a reader would expect."""
    workload, device, runtime, asked = result.workload, result.device, result.runtime, result.scenario.execution
    phrases = list(_formats(result))
    if many := int(result.run.mapping.is_reduced.sum()):
        phrases.append(f"{many} convolution{'s' if many > 1 else ''} {device.arch.reduction}")
    if asked == "fused" != runtime.mode or asked not in (AUTO, *MODES, runtime.id):
        missing = "no engine is usual for" if asked in MODES else f"{runtimes()[asked].name} does not run"
        phrases.append(f"{missing} {_WORK[workload.work]} on it: {runtime.name} takes its place")
    has_gaps = result.scenario.batch == 1 and result.latency_s < runtime.governed_below_s
    slower = device.clock_hz / runtime.governed_clock_hz
    if has_gaps and device.software.shares_host_memory and slower > 1.0:
        phrases.append(f"clocks are pinned (jetson_clocks): a governor lowers them up to {slower:.2g}x between calls")
    if result.part:
        phrases.append(f"the compiler runs the batch in parts of {result.part}: activations stay on chip")
    elif result.waves > 1:
        phrases.append(
            f"{result.scenario.batch} requests do not fit together: {result.waves} waves of {result.wave_batch}, "
            "one after another"
        )
    if not result.fits:
        peak_gb, memory_gb = result.peak_memory_bytes / 1e9, device.memory_bytes / 1e9
        phrases.append(f"does not fit: needs {peak_gb:.1f} GB of {memory_gb:.0f} GB")
    if workload.parallel is not None:
        speed = workload.parallel.link_bytes_per_s or device.link_bandwidth
        phrases.append(
            f"energy and power of {workload.devices} devices, memory of each; links of {speed / 1e9:.3g} GB/s, "
            "their energy not counted" + "; the band holds one PCIe switch and two sockets" * result.has_open_links
        )
    if not result.supported:
        work = _WORK[workload.work] + f" in {result.precision_run}" * (workload.work == "training")
        phrases.append(f"no software is known to run {work} on it: the figures are what its units would take")
    if runs_wider(result.scenario.precision, result.precision_run):
        phrases.append(f"no software runs {result.scenario.precision} on it: it is not recommended")
    if result.run.mapping.mark:
        phrases.append(result.run.mapping.mark)
    if device.changes:
        phrases.append("what if: facts were changed")
    elif not device.silicon:
        phrases.append("a design target: it exists on paper only, and nothing on it was measured")
    return tuple(phrases)


def _formats(result: Estimate) -> tuple[str, ...]:
    """Return the deviations of the plan that affect this model. Formats of products affect no model without
    contractions."""
    plan, demand = result.plan, result.demand
    phrases = plan.marks if demand.macs.any() or plan.stored != plan.requested else ()
    if plan.vector_mac != plan.stored and demand.is_depthwise.any():
        phrases = (*phrases, f"depthwise convolutions run as {plan.vector_mac}: no reduction for the matrix unit")
    rule = format_rule(result.device, result.runtime.formats, plan.stored, "residual")
    if rule is not None and plan.operand == plan.stored and (demand.op_class == OpClass.ROW_NORM).any():
        phrases = (*phrases, f"{plan.stored} is for products: {rule.why}")
    return phrases
