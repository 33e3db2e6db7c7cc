"""Workloads by name: from a shipped capture, the user's cache, or a capture in a subprocess."""

from __future__ import annotations

import gzip
import lzma
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.model.ir.workload import SCHEMA, Workload, encode
from analysis.model.ir.workload import decode as decode
from analysis.model.model_errors import ModelSpecError, UnknownModelError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef, refer
from analysis.model.names.targets import Target
from analysis.model.names.zoo import Spec
from analysis.model.reading_budget import Budget, Progress
from analysis.model.training.training_request import Step
from analysis.model.transformer.config import TRAIN
from hardware.base import file_access, plugins

if TYPE_CHECKING:
    from analysis.model.process.child_job import WorkloadJob
    from analysis.model.reading_budget import ProcessLimits

_SHIPPED = Path(__file__).with_name("captures")
_SUFFIX = targets.STORED
_MAX_BYTES = 1 << 30
# Part of the cache key: raise it when lowering or a cost rule changes.
RULES = 7


def load(
    model: str | ModelRef,
    image_size: int | None = None,
    *,
    progress: Progress | None = None,
    limits: ProcessLimits | None = None,
    again: bool = False,
) -> Workload:
    """Return the workload of a model. Raises a `ModelError` with a one-line message.

    The user's Python code runs in the subprocess, unless its capture is stored; `again` ignores stored captures.
    `progress` is called with a phase (`import`, `build`, `export`, `lower`) and a fraction.
    """
    ref = refer(model, image_size)
    if isinstance(ref, Step):
        return train(ref, load(ref.model, progress=progress, limits=limits, again=again))
    workload = None if again and ref.is_captured else ready(ref)
    if workload is not None:
        return workload
    return capture_job(ref, limits=limits).run(progress)


def ready(model: str | ModelRef, image_size: int | None = None) -> Workload | None:
    """Return the workload if no capture is needed, else None. Raises a `ModelError` for an invalid request."""
    ref = refer(model, image_size)
    if isinstance(ref, Step):
        forward = ready(ref.model)
        return None if forward is None else train(ref, forward)
    if isinstance(ref, Target):
        return _ready_target(ref)
    if isinstance(ref, Spec):
        return _ready_spec(ref)
    from analysis.model.transformer.transformer_workload import build  # not needed to open a shipped capture

    return build(ref.text, ref.config, ref.run)


def train(step: Step, forward: Workload) -> Workload:
    """Return the training step of a model whose forward pass is this one; a transformer's has the logits of all
    tokens."""
    from analysis.model.training.step import training_step

    model = step.model
    if not isinstance(model, Spec | Target):
        from analysis.model.transformer.transformer_workload import build

        forward = build(model.text, model.config, msgspec.structs.replace(model.run, phase=TRAIN, kv=0))
    elif isinstance(model, Spec) and model.is_captured:  # some have heads in training alone
        forward = _read(_shipped_path(model, f"-{TRAIN}")) or forward
    words = (*forward.words[:-1], str(step)) if forward.asked else ()
    renamed = msgspec.structs.replace(forward, name=step.label, asked=words)
    return training_step(renamed, step.training, True)


def _ready_spec(spec: Spec) -> Workload | None:
    if not spec.is_captured:
        from analysis.model.written_blocks import write_block  # not needed to open a shipped capture

        return write_block(spec)
    workload = _find_capture(spec)
    if workload is None or workload.name == str(spec):
        return workload
    # A quantised model and its float architecture share one file.
    return msgspec.structs.replace(workload, name=str(spec), family=spec.family)


def _find_capture(spec: Spec) -> Workload | None:
    for is_shipped in (True, False):
        workload = _read(_shipped_path(spec) if is_shipped else cache_path(spec))  # the latter takes 30 ms
        if workload is not None and zoo.architecture(workload.name) == zoo.architecture(str(spec)):
            return workload
    return None


def _shipped_path(spec: Spec, phase: str = "") -> Path:
    return _SHIPPED / spec.capture_name.replace(_SUFFIX, phase + targets.SHIPPED)


def is_ready(model: str | ModelRef, image_size: int | None = None) -> bool:
    """Return True if `load` returns without a capture. The user's code is not run."""
    ref = refer(model, image_size)
    if isinstance(ref, Step):
        return is_ready(ref.model)
    if isinstance(ref, Target):
        return _ready_target(ref) is not None
    if not isinstance(ref, Spec) or not ref.is_captured or _shipped_path(ref).is_file():
        return True
    return _find_capture(ref) is not None


def capture_job(
    model: str | ModelRef, image_size: int | None = None, limits: ProcessLimits | None = None
) -> WorkloadJob:
    """Return a job that captures a model. Its result is cached if the source files did not change meanwhile."""
    from analysis.model.process.child_job import FileReading, ModelCapture

    ref = refer(model, image_size)
    ref = ref.model if isinstance(ref, Step) else ref
    if isinstance(ref, Target) and not ref.is_captured:
        return FileReading(ref)
    path = cache_path(ref)  # hashes the source file before its code runs
    return ModelCapture(ref, limits=limits, on_done=lambda workload: is_current(workload) and _write(path, workload))


def keep(ref: ModelRef, workload: Workload) -> bool:
    """Store a captured workload in the user's cache. Return False if that is not possible."""
    return _write(cache_path(ref), workload)


def _ready_target(target: Target) -> Workload | None:
    """Return the stored capture: a file, a shipped one, or the cached one if its sources are unchanged; else None."""
    if target.path.endswith(targets.STORED):
        path = targets.source(target)
        if (workload := _read(path)) is None:
            raise ModelSpecError(f"{path.name} is no captured model of this version (hwexplorer capture -o writes one)")
        return workload
    if not target.runs_code:
        targets.source(target)
        return None
    if (shipped := targets.shipped_at(target)).is_file():
        return _read(shipped)
    workload = _read(cache_path(target))
    return workload if workload is not None and workload.name == target.label and is_current(workload) else None


def encoded_file(text: str, progress: Progress) -> bytes:
    """Return the encoded workload of a data file: the work of the subprocess that `FileReading` starts."""
    target = targets.parse(text)
    if target is None:
        raise ValueError(text)
    budget, path = Budget(progress=progress), targets.source(target)
    if target.path.endswith(targets.WEIGHTS):
        from analysis.model.transformer import weight_headers

        return encode(weight_headers.load(path, target.factory, budget))
    return encode(plugins.load("readers", path.suffix)(path, target.inputs, budget))


FILE, PACKAGE = "file ", "package "  # in Workload.versions: `file /home/me/net.py` -> its fingerprint


def is_current(workload: Workload) -> bool:
    """Return True if the files and packages that the workload was captured from are unchanged."""
    try:
        return all(
            targets.fingerprint(Path(key.removeprefix(FILE))) == mark
            if key.startswith(FILE)
            else version(key.removeprefix(PACKAGE)) == mark
            for key, mark in workload.versions.items()
            if key.startswith((FILE, PACKAGE))
        )
    except UnknownModelError:
        return False


def pack(workload: Workload) -> bytes:
    """Return a workload as the bytes of a capture file."""
    # No time stamp: the same workload gives the same file.
    return gzip.compress(encode(workload), compresslevel=9, mtime=0)


def unpack(data: bytes) -> Workload:
    """Return the workload of a capture file. Raises ValueError."""
    return decode(file_access.unzip(data, _MAX_BYTES))


def cache_path(ref: ModelRef) -> Path:
    """Return the path of a model's capture in the user's cache. The name hashes all that determines the capture."""
    if isinstance(ref, Target):
        file = targets.source(ref)
        name = re.sub(r"[^A-Za-z0-9_.]", "-", ref.label)[:60]
        made_of = [f"torch={version('torch')}", str(file), targets.fingerprint(file), str(ref)]
    elif isinstance(ref, Spec):
        stored = ref.capture_name
        name = stored.removesuffix(_SUFFIX)[:80]
        made_of = [*(f"{package}={version(package)}" for package in ("torch", "torchvision")), stored]
    else:
        raise ModelSpecError(f"{ref} is written from its configuration, not captured")
    key = targets.mark(["|".join([SCHEMA, str(RULES), *made_of]).encode(errors="surrogatepass")])
    return file_access.cache_folder() / f"{name}-{key}{_SUFFIX}"


def version(package: str) -> str:
    """Return the version of an installed package, 'none' if it is missing."""
    import importlib.metadata  # 20 ms that a shipped capture does not need

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _read(path: Path) -> Workload | None:
    try:
        data = file_access.read(path, _MAX_BYTES)
        return decode(lzma.decompress(data)) if path.name.endswith(targets.SHIPPED) else unpack(data)
    except (OSError, ValueError, lzma.LZMAError):
        return None


def _write(path: Path, workload: Workload) -> bool:
    """Store a workload, readable for the user alone. Return False if that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file_access.write(path, [pack(workload)], 0o600)
    except OSError:
        return False
    return True
