"""`python -m analysis.capture.bench PLAN LOG` times probes and models on this machine, round after round, and adds each
sample to LOG. What one round adds is whole: it can be stopped at any time, and goes on from there."""

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

from analysis.annexes.machine import machine
from analysis.annexes.machine.here import Case, Line, Machine, Sample, read, written
from analysis.model import store
from analysis.model.ir.workload import encode
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.model_errors import CaptureError
from analysis.model.names.model_ref import refer
from analysis.model.names.targets import Target
from analysis.model.process.answering import Progress, answer
from hardware import files
from hardware.architectures import registry
from hardware.architectures.registry import TORCH_HOST

TABLE = Path(__file__).with_name("probes.toml")
EFFORTS = ("quick", "default", "thorough")
_BLOCK_S = 5e-4  # of one timing at least: the clock and the call around it are small against it
_MOST_CALLS = 2000
_SETTLE_S = 1.0  # at rest, for what the machine draws idle


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: effort and seconds in all, models (none: those of the effort) at these batches."""

    device: str = TORCH_HOST
    effort: str = "default"
    seconds: float = 0.0
    models: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ("fp32",)
    probes: bool = True
    threads: int = 0  # of a CPU; 0: one for each core


class Running(msgspec.Struct):
    """A case made ready: what one call does."""

    case: Case
    call: Callable[[], Any]


def main() -> int:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    return answer(lambda progress: _measure(plan, Path(sys.argv[2]), progress))


def _measure(plan: Plan, log: Path, progress: Progress) -> bytes:
    progress("importing torch", 0.0)
    import torch

    known = files.table(TABLE)
    seconds = plan.seconds or float(known["effort"][plan.effort]["seconds"])
    began = time.monotonic()
    host = machine.cpu()
    threads = plan.threads or int(host.facts["units"])
    host.facts["units"] = float(threads)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    board = Board(plan.device)
    meter = machine.Meter(nvml=board.joules)
    with log.open("ab", buffering=0) as file:

        def put(line: Line) -> None:
            try:
                file.write(written(line))
            except OSError as error:
                raise CaptureError(f"cannot write {log}: {error.strerror}") from None

        if log.stat().st_size:
            file.write(b"\n")  # the last line may have been cut off
        before = {each.case.key for each in read(log).timed} if log.stat().st_size else set()
        at_rest = meter.joules()
        time.sleep(_SETTLE_S if at_rest is not None else 0.0)
        idle_w = ((meter.joules() or 0.0) - at_rest) / _SETTLE_S if at_rest is not None else 0.0
        facts = {**(board.facts if board.is_cuda else host.facts), **({"idle_w": idle_w} if idle_w > 0 else {})}
        put(
            Machine(
                device=plan.device,
                name=board.name or host.name,
                vendor=board.vendor or host.vendor,
                architecture=(registry.CUDA if board.is_cuda else registry.HOST).id,
                date=datetime.now(UTC).strftime("%Y-%m-%d"),
                threads=threads,
                facts=facts,
                flags=host.flags,
                versions={"torch": str(torch.__version__), "torchvision": store.version("torchvision")},
                energy=meter.how,
                load=machine.load(),
            )
        )
        cases: list[Running] = []
        for running in _cases(plan, known, board, threads):
            cases.append(running)
            put(running.case)
            progress(f"preparing {running.case.key}", 0.0)
            _timed(running, board, meter, threads, 0.0)  # warm: libraries choose and pack at a first call
        cut = float(known["effort"][plan.effort]["slice"])
        for round_ in itertools.count(1):
            for place, running in enumerate(cases):
                left = seconds - (time.monotonic() - began)
                if round_ > 1 and left <= 0:
                    meter.close()
                    return msgspec.json.encode({"rounds": round_ - 1, "cases": len(cases), "before": len(before)})
                done = min((time.monotonic() - began) / seconds, 0.99)
                progress(f"round {round_}, {place + 1} of {len(cases)}, {max(left, 0.0):.0f} s left", done)
                put(_timed(running, board, meter, threads, cut))
    return b""


def _timed(running: Running, board: Board, meter: machine.Meter, threads: int, slice_s: float) -> Sample:
    """One sample: the median of as many short blocks of calls as fill the slice, one where a call takes longer. Blocks
    in which somebody else took a core count only where there are no others, the fastest third of them; of one thread
    the processor time counts then."""
    import torch

    if running.case.threads != torch.get_num_threads():
        torch.set_num_threads(running.case.threads)
    blocks: list[tuple[float, bool]] = []
    is_alone = running.case.threads == 1 and not board.is_cuda  # one thread: its own time says what others took
    calls, until, joules, count = 0, time.perf_counter() + slice_s, meter.joules(), 1
    while not blocks or time.perf_counter() < until:
        before, begin, worked = _taken(), time.perf_counter(), time.thread_time()
        for _ in range(count):
            running.call()
        board.wait()
        seconds = (time.perf_counter() - begin) / count
        taken = _taken() > before
        if taken and is_alone:
            seconds, taken = min((time.thread_time() - worked) / count, seconds), False
        blocks.append((seconds, taken))
        calls += count
        count = int(min(max(_BLOCK_S / seconds, 1.0), _MOST_CALLS))
    after = meter.joules()
    alone = [seconds for seconds, taken in blocks if not taken]
    kept = alone or sorted(seconds for seconds, _ in blocks)[: (len(blocks) + 2) // 3]
    spent = (after - joules) / calls if after is not None and joules is not None else None
    return Sample(of=running.case.key, seconds=statistics.median(kept), joules=spent, taken=not alone)


def _taken() -> int:
    """How often the system took a core from one of our threads to give it to somebody else."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Board:
    """An accelerator as torch and NVML see it; nothing of it on a CPU."""

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
        found = torch.cuda.get_device_properties(index)
        self.name, self.vendor = found.name, "AMD" if torch.version.hip else "NVIDIA"
        self.facts = {
            "units": float(found.multi_processor_count),
            "memory_bytes": float(found.total_memory),
            "l2_bytes": float(getattr(found, "L2_cache_size", 0)),
        }
        with suppress(Exception):  # an extra, and what it reads depends on the driver
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
        if self.is_cuda:
            import torch

            torch.cuda.synchronize(self.device)


def _cases(plan: Plan, known: dict[str, Any], board: Board, threads: int) -> Iterator[Running]:
    if plan.probes:
        wanted = EFFORTS[: EFFORTS.index(plan.effort) + 1]
        for row in known["probe"]:
            if row["effort"] in wanted:
                yield from _probes(row, plan.device, threads)
    listed = known["models"][plan.effort]
    batches = plan.batches or tuple(listed["batches"])
    for name in plan.models or tuple(listed["names"]):
        for batch, precision in itertools.product(batches, plan.precisions):
            yield _model(name, batch, precision, plan.device, threads)


def _probes(row: dict[str, Any], device: str, threads: int) -> Iterator[Running]:
    each = row.get("threads") == "each" and device == TORCH_HOST
    counts = [2**i for i in range(10) if 2**i < threads] if each else []
    for shape in row.get("shapes") or [{"bytes": size} for size in row["bytes"]]:
        for count, precision in itertools.product((*counts, threads), row.get("precisions", ("fp32",))):
            with suppress(RuntimeError) if precision != "fp32" else nullcontext():  # a format that is not there
                yield _probe(row["op"], shape, count, precision, device)


def _key(op: str, shape: dict[str, int], threads: int, precision: str) -> str:
    return f"{op} {' '.join(f'{name}={size}' for name, size in shape.items())} {precision} {threads} threads"


DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def _probe(op: str, shape: dict[str, int], threads: int, precision: str, device: str) -> Running:
    import torch

    key, dtype = _key(op, shape, threads, precision), getattr(torch, DTYPES[precision])
    batch = shape.get("batch", 1)
    common = Case(key=key, op=op, threads=threads, precision=precision, batch=batch)
    if "bytes" in shape:
        return _moving(float(shape["bytes"]), device, common)
    from .exporter import export
    from .probes import PROBES

    module, inputs = PROBES[op](shape)
    module = module.eval()
    workload = ""
    if precision == "fp32":  # other formats tell of peaks only
        sample = [torch.cat([value[:1]] * 2) for value in inputs]
        workload = base64.b64encode(encode(lower_graph(export(module, sample), key))).decode()
    module = module.to(device=device, dtype=dtype)
    given = [value.to(device, dtype if value.is_floating_point() else value.dtype) for value in inputs]
    return Running(msgspec.structs.replace(common, workload=workload), lambda: module(*given))


def _moving(size: float, device: str, common: Case) -> Running:
    """Bytes read, or read and written, over and over at one size."""
    import torch

    count = int(size) // 4
    source = torch.rand(count, device=device)
    case = msgspec.structs.replace(common, moved=size, footprint=size)
    if case.op == "read":
        return Running(case, source.sum)
    half = count // 2
    target = torch.empty(half, device=device)
    return Running(case, lambda: target.copy_(source[:half]))


def _model(name: str, batch: int, precision: str, device: str, threads: int) -> Running:
    import torch

    from .live import ready

    ref, workload = refer(name), ""
    if isinstance(ref, Target):  # what it computes goes with its times: no other process need run its code
        from analysis.capture.user_model import capture_target

        workload = base64.b64encode(encode(capture_target(ref, lambda phase, fraction: None))).decode()
    module, arguments, keywords = ready(ref, batch, device, getattr(torch, DTYPES[precision]))
    case = Case(
        key=f"{name} batch {batch} {precision} {threads} threads",
        op="model",
        batch=batch,
        threads=threads,
        precision=precision,
        model=ref.label if workload else str(ref),
        workload=workload,
    )
    return Running(case, lambda: module(*arguments, **keywords))


if __name__ == "__main__":
    sys.exit(main())
