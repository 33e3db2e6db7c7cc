"""Time probes and models on this machine: `python -m hwexplorer_annexes.measure.benchmark PLAN LOG`.

Cases are timed in rounds, and each sample is added to LOG at once, so a stopped run can be resumed."""

from __future__ import annotations

import base64
import itertools
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hwexplorer.extend import (
    answer,
    file_access,
    known_architectures,
    lower_graph,
    model_errors,
    reading_budget,
    store,
    workload,
)
from hwexplorer_annexes.measure import host_facts
from hwexplorer_annexes.measure.measurement_log import BenchmarkCase, LogLine, MeasuredMachine, Sample, encode_line

CaptureError = model_errors.CaptureError
TORCH_HOST = known_architectures.TORCH_HOST
encode = workload.encode

TABLE = Path(__file__).with_name("probes.toml")
EFFORTS = ("quick", "default", "thorough")
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_BLOCK_S = 5e-4  # least time of one block of calls, so that reading the clock is negligible
LEAST_ROUNDS = 3  # least rounds, however long they take: fewer give no spread
_MOST_CALLS = 2000  # in a block
_SETTLE_S = 1.0  # rest during which the idle power is read


class BenchmarkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A request to measure. `seconds` in total; 0 and empty `models` or `batches` stand for the effort's."""

    device: str = TORCH_HOST
    effort: str = "default"
    seconds: float = 0.0
    models: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ("fp32",)
    probes: bool = True
    threads: int = 0  # threads of a CPU; 0 means one per core


class ReadyCase(msgspec.Struct):
    """A case and the function that executes it once."""

    case: BenchmarkCase
    call: Callable[[], Any]


def main() -> int:
    """Measure the plan in the arguments, answer as analysis/model/process/answering.py does, return the exit code."""
    plan = msgspec.json.decode(sys.argv[1], type=BenchmarkPlan)
    return answer(lambda progress: _measure(plan, Path(sys.argv[2]), progress))


def _measure(plan: BenchmarkPlan, log: Path, progress: reading_budget.Progress) -> bytes:
    progress("importing torch", 0.0)
    import torch

    table = file_access.table(TABLE)
    effort = table["effort"][plan.effort]
    total_s = plan.seconds or float(effort["seconds"])
    began_s = time.monotonic()
    host = host_facts.read_cpu()
    threads = plan.threads or int(host.facts["units"])
    host.facts["units"] = float(threads)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    board = Board(plan.device)
    meter = host_facts.EnergyMeter(nvml=board.joules)
    with log.open("ab", buffering=0) as file:

        def add(line: LogLine) -> None:
            """Write a line at once. Raises CaptureError."""
            try:
                file.write(encode_line(line))
            except OSError as error:
                raise CaptureError(f"cannot write {log}: {error.strerror}") from None

        if log.stat().st_size:
            file.write(b"\n")  # the last line may be truncated
        add(_describe_machine(plan, host, board, meter, threads))
        cases: list[ReadyCase] = []
        for ready in _prepare_cases(plan, table, threads):
            cases.append(ready)
            add(ready.case)
            progress(f"preparing {ready.case.key}", 0.0)
            _sample(ready, board, meter, 0.0)  # warm-up: libraries choose kernels and pack weights in the first call
        for round_ in itertools.count(1):
            for place, ready in enumerate(cases):
                passed_s = time.monotonic() - began_s
                if round_ > LEAST_ROUNDS and passed_s >= total_s:
                    meter.close()
                    return msgspec.json.encode({"rounds": round_ - 1, "cases": len(cases)})
                left_s = max(total_s - passed_s, 0.0)
                phase = f"round {round_}, {place + 1} of {len(cases)}, {left_s:.0f} s left"
                progress(phase, min(passed_s / total_s, 0.99))
                slice_s = left_s / (len(cases) * max(LEAST_ROUNDS + 1 - round_, 1))  # all rounds must fit
                add(_sample(ready, board, meter, min(float(effort["slice"]), slice_s)))
    return b""


def _describe_machine(
    plan: BenchmarkPlan, host: host_facts.CpuFacts, board: Board, meter: host_facts.EnergyMeter, threads: int
) -> MeasuredMachine:
    import torch

    at_rest_j = meter.joules()
    time.sleep(_SETTLE_S if at_rest_j is not None else 0.0)
    idle_w = ((meter.joules() or 0.0) - at_rest_j) / _SETTLE_S if at_rest_j is not None else 0.0
    return MeasuredMachine(
        device=plan.device,
        name=board.name or host.name,
        vendor=board.vendor or host.vendor,
        architecture=known_architectures.CUDA if board.is_cuda else known_architectures.HOST,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        threads=threads,
        facts=(board.facts if board.is_cuda else host.facts) | ({"idle_w": idle_w} if idle_w > 0 else {}),
        flags=host.flags,
        versions={"torch": str(torch.__version__), "torchvision": store.version("torchvision")},
        energy=meter.source,
    )


def _sample(ready: ReadyCase, board: Board, meter: host_facts.EnergyMeter, slice_s: float) -> Sample:
    """Return one sample: the median over as many blocks of calls as fill the slice, at least one. Blocks in which
    another process took a core are left out; if all are disturbed, the fastest third counts. With one thread, a
    disturbed block counts by its processor time instead."""
    import torch

    if ready.case.threads != torch.get_num_threads():
        torch.set_num_threads(ready.case.threads)
    blocks: list[tuple[float, bool]] = []
    is_single = ready.case.threads == 1 and not board.is_cuda  # processor time of one thread excludes other processes
    calls, until_s, before_j, count = 0, time.perf_counter() + slice_s, meter.joules(), 1
    while not blocks or time.perf_counter() < until_s:
        switches, begin_s, worked_s = _forced_switches(), time.perf_counter(), time.thread_time()
        for _ in range(count):
            ready.call()
        board.wait()
        seconds = (time.perf_counter() - begin_s) / count
        taken = _forced_switches() > switches
        if taken and is_single:
            seconds, taken = min((time.thread_time() - worked_s) / count, seconds), False
        blocks.append((seconds, taken))
        calls += count
        count = int(min(max(_BLOCK_S / seconds, 1.0), _MOST_CALLS))
    after_j = meter.joules()
    undisturbed = [seconds for seconds, taken in blocks if not taken]
    chosen = undisturbed or sorted(seconds for seconds, _ in blocks)[: (len(blocks) + 2) // 3]
    joules = (after_j - before_j) / calls if after_j is not None and before_j is not None else None
    return Sample(of=ready.case.key, seconds=statistics.median(chosen), joules=joules, taken=not undisturbed)


def _forced_switches() -> int:
    """Return how often the system has taken a core from this process (involuntary context switches)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Board:
    """An accelerator as torch and NVML describe it; without facts on a CPU. `joules` reads its energy counter."""

    def __init__(self, device: str) -> None:
        import torch

        self.device, self.is_cuda = device, device.startswith("cuda")
        self.name = self.vendor = ""
        self.facts: dict[str, float] = {}
        self.joules: Callable[[], float] | None = None
        if device == TORCH_HOST:
            return
        if not self.is_cuda or not torch.cuda.is_available():
            raise CaptureError(f"torch sees no {device} here (it measures cpu, and cuda:0 where there is a GPU)")
        index = int(device.partition(":")[2] or 0)
        properties = torch.cuda.get_device_properties(index)
        self.name, self.vendor = properties.name, "AMD" if torch.version.hip else "NVIDIA"
        self.facts = {
            "units": float(properties.multi_processor_count),
            "memory_bytes": float(properties.total_memory),
            "l2_bytes": float(getattr(properties, "L2_cache_size", 0)),
        }
        with suppress(Exception):  # NVML is optional, and its values depend on the driver
            self._nvml(index)
        self.facts = {name: value for name, value in self.facts.items() if value > 0}

    def _nvml(self, index: int) -> None:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self.facts["clock_hz"] = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6
        self.facts["tdp_w"] = nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) * 1e-3
        self.facts["power_limit_w"] = nvml.nvmlDeviceGetPowerManagementLimit(handle) * 1e-3
        self.facts["memory_bus_bits"] = float(nvml.nvmlDeviceGetMemoryBusWidth(handle))
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        self.joules = lambda: float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1e-3

    def wait(self) -> None:
        """Wait for the accelerator to finish."""
        if self.is_cuda:
            import torch

            torch.cuda.synchronize(self.device)


def _prepare_cases(plan: BenchmarkPlan, table: dict[str, Any], threads: int) -> Iterator[ReadyCase]:
    if plan.probes:
        efforts = EFFORTS[: EFFORTS.index(plan.effort) + 1]
        for row in (row for row in table["probe"] if row.get("effort", "quick") in efforts):
            yield from _prepare_probes(row, plan.device, threads)
    default = table["models"][plan.effort]
    models, batches = plan.models or tuple(default["names"]), plan.batches or tuple(default["batches"])
    for name, batch, precision in itertools.product(models, batches, plan.precisions):
        yield _prepare_model(name, batch, precision, plan.device, threads)


def _prepare_probes(row: dict[str, Any], device: str, threads: int) -> Iterator[ReadyCase]:
    scales = row.get("threads") == "each" and device == TORCH_HOST
    counts = [2**i for i in range(10) if 2**i < threads] if scales else []
    for shape in row.get("shapes") or [{"bytes": size} for size in row["bytes"]]:
        for count, precision in itertools.product((*counts, threads), row.get("precisions", ("fp32",))):
            with suppress(RuntimeError) if precision != "fp32" else nullcontext():  # the format may not be supported
                yield _prepare_probe(row["op"], shape, count, precision, device)


def _prepare_probe(op: str, shape: dict[str, int], threads: int, precision: str, device: str) -> ReadyCase:
    import torch

    sizes = " ".join(f"{name}={size}" for name, size in shape.items())
    key, dtype = f"{op} {sizes} {precision} {threads} threads", getattr(torch, DTYPES[precision])
    case = BenchmarkCase(key=key, op=op, threads=threads, precision=precision, batch=shape.get("batch", 1))
    if "bytes" in shape:
        return _prepare_transfer(float(shape["bytes"]), device, case)
    from hwexplorer.extend import runnable_model
    from hwexplorer_annexes.measure.probe_modules import PROBES

    export = runnable_model.export

    module, inputs = PROBES[op](shape)
    module = module.eval()
    if precision == "fp32":  # other formats serve peak rates only
        example = [torch.cat([value[:1]] * 2) for value in inputs]
        workload = base64.b64encode(encode(lower_graph(export(module, example), key))).decode()
        case = msgspec.structs.replace(case, workload=workload)
    module = module.to(device=device, dtype=dtype)
    placed = [value.to(device, dtype if value.is_floating_point() else value.dtype) for value in inputs]
    return ReadyCase(case, lambda: module(*placed))


def _prepare_transfer(size_bytes: float, device: str, case: BenchmarkCase) -> ReadyCase:
    import torch

    count = int(size_bytes) // 4
    source = torch.rand(count, device=device)
    case = msgspec.structs.replace(case, moved=size_bytes, footprint=size_bytes)
    if case.op == "read":
        return ReadyCase(case, source.sum)
    half = count // 2
    target = torch.empty(half, device=device)
    return ReadyCase(case, lambda: target.copy_(source[:half]))


def _prepare_model(name: str, batch: int, precision: str, device: str, threads: int) -> ReadyCase:
    import torch

    from hwexplorer.extend import runnable_model

    ref = runnable_model.refer(name)
    module, inputs = runnable_model.prepare_model(ref, batch, device, getattr(torch, DTYPES[precision]))
    case = BenchmarkCase(
        key=f"{name} batch {batch} {precision} {threads} threads",
        op="model",
        batch=batch,
        threads=threads,
        precision=precision,
        model=str(ref),
    )
    return ReadyCase(case, lambda: module(*inputs))


if __name__ == "__main__":
    sys.exit(main())
