"""Where workloads come from: shipped captures, then the user's cache, then a capture in a subprocess."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hardware import files

from . import targets, zoo
from .errors import ModelSpecError, UnknownModelError
from .valid import decode
from .workload import SCHEMA, Workload, encode
from .zoo import Spec

if TYPE_CHECKING:
    from .job import CaptureJob, Limits

ProgressCallback = Callable[[str, float], None]

_SHIPPED = Path(__file__).with_name("captures")
_SUFFIX = targets.STORED
_MAX_BYTES = 1 << 30
# Part of the cache key: raise it when lowering or a cost rule changes.
RULES = 3


def load(
    spec: str,
    image_size: int | None = None,
    *,
    progress: ProgressCallback | None = None,
    limits: Limits | None = None,
    cancel: threading.Event | None = None,
    again: bool = False,
) -> Workload:
    """The workload of a model, a building block or a target. Raises a `ModelError` with a one-line message.

    A target that names Python code runs that code, in the subprocess, unless its capture is in the cache. `again`
    captures what is stored anew: data files and the environment are not tracked.
    `progress` is called with a phase (`import`, `build`, `export`, `lower`) and a fraction while a capture
    runs; setting `cancel` ends it at once.
    """
    found = None if again and is_captured(spec, image_size) else ready(spec, image_size)
    if found is not None:
        return found
    job = capture_job(spec, image_size, limits)
    job.start()
    reported = None
    try:
        while not job.wait(0.05):
            if cancel is not None and cancel.is_set():
                job.cancel()
            if progress is not None and job.progress != reported:
                reported = job.progress
                progress(*reported)
    except BaseException:  # an interrupt: nothing of ours keeps running
        job.cancel()
        raise
    return job.result()


def ready(spec: str, image_size: int | None = None) -> Workload | None:
    """The workload if no capture is needed, else None. Raises a `ModelError` for a request that is wrong."""
    target = _target(spec, image_size)
    if target is not None:
        return _ready_target(target)
    resolved, size = zoo.resolve(spec, image_size)
    if resolved.is_transformer:
        return _written(resolved.name)
    if resolved.name == "gemm":
        from .sources import blocks  # lowering: not needed to open a shipped capture

        return blocks.gemm(resolved)
    found = _kept(resolved, size)
    if found is None or found.name == str(resolved):
        return found
    # A quantised model and its float architecture share one file.
    return msgspec.structs.replace(found, name=str(resolved), family=resolved.family)


def _kept(spec: Spec, size: int | None) -> Workload | None:
    """The capture that ships, or the one in the user's cache."""
    for path in (_SHIPPED / shipped_name(spec, size), _cache_path(spec, size)):
        found = _read(path)
        if found is not None and zoo.architecture(found.name) == zoo.architecture(str(spec)):
            return found
    return None


def _written(text: str) -> Workload:
    """A transformer, written from its configuration."""
    from .sources.transformer import build as transformer  # lowering: not needed to open a shipped capture
    from .sources.transformer import spec as transformer_spec

    request = transformer_spec.parse(text)
    return transformer.build(request.text, request.config, request.run)


def is_captured(spec: str, image_size: int | None = None) -> bool:
    """Whether the workload comes from a capture, stored or not; else it is read or written each time."""
    target = _target(spec, image_size)
    if target is not None:
        return target.runs_code
    resolved, _ = zoo.resolve(spec, image_size)
    return not resolved.is_transformer and resolved.name != "gemm"


def is_ready(spec: str, image_size: int | None = None) -> bool:
    """Whether `load` returns without a capture. Runs no code of the user's."""
    target = _target(spec, image_size)
    if target is not None:
        if not target.runs_code:
            return targets.source(target).is_file()
        return _ready_target(target) is not None
    resolved, size = zoo.resolve(spec, image_size)
    if resolved.is_transformer or resolved.name == "gemm" or (_SHIPPED / shipped_name(resolved, size)).is_file():
        return True
    return _kept(resolved, size) is not None


def capture_job(spec: str, image_size: int | None = None, limits: Limits | None = None) -> CaptureJob:
    """A capture to start, watch and cancel; its result goes to the cache as well, unless what it was made from has
    changed meanwhile."""
    from .job import CaptureJob

    path = _path(spec, image_size)  # of what the file holds now, before any of it runs
    return CaptureJob(
        spec, image_size, limits=limits, on_done=lambda workload: is_current(workload) and _write(path, workload)
    )


def keep(spec: str, image_size: int | None, workload: Workload) -> bool:
    """Store a workload in the user's cache; False where that is not possible."""
    return _write(_path(spec, image_size), workload)


def _path(spec: str, image_size: int | None) -> Path:
    target = _target(spec, image_size)
    return _target_path(target) if target is not None else _cache_path(*zoo.resolve(spec, image_size))


def _target(spec: str, image_size: int | None) -> targets.Target | None:
    target = targets.parse(spec)
    if target is not None and image_size is not None:
        like = f"--input 1x3x{image_size}x{image_size}"
        raise ModelSpecError(f"{target.label} has no image size: it is part of the input, as {like}")
    return target


def _ready_target(target: targets.Target) -> Workload | None:
    """An exported program is read; the capture of a factory comes from the cache while the files it was made
    from, those it imported included, are what they were."""
    if not target.runs_code:
        if target.path.endswith(targets.STORED):
            return _stored(targets.source(target))
        if target.path.endswith(".onnx"):
            from .sources.onnx import model as onnx_model

            return onnx_model.load(targets.source(target), target.inputs)
        from .sources import pt2

        return pt2.load(targets.source(target))
    found = _read(_target_path(target))
    return found if found is not None and found.name == target.label and is_current(found) else None


def _stored(path: Path) -> Workload:
    """A workload somebody wrote with `hwexplorer capture -o`."""
    found = _read(path)
    if found is None:
        raise ModelSpecError(f"{path.name} is no captured model of this version (hwexplorer capture -o writes one)")
    return found


FILE, PACKAGE = "file ", "package "  # in Workload.versions: `file /home/me/net.py` -> its fingerprint


def is_current(workload: Workload) -> bool:
    """Whether the files and packages it was captured from are what they were."""
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


def _target_path(target: targets.Target) -> Path:
    """Path, factory, contents, inputs and versions make the key."""
    file = targets.source(target)
    words = [SCHEMA, str(RULES), f"torch={version('torch')}", str(file), targets.fingerprint(file), str(target)]
    key = hashlib.sha256("|".join(words).encode(errors="surrogatepass")).hexdigest()[:16]
    return cache_folder() / f"{re.sub(r'[^A-Za-z0-9_.]', '-', target.label)[:60]}-{key}{_SUFFIX}"


def pack(workload: Workload) -> bytes:
    # No time stamp: the same workload gives the same file.
    return gzip.compress(encode(workload), compresslevel=9, mtime=0)


def unpack(data: bytes) -> Workload:
    return decode(files.unzip(data, _MAX_BYTES))


def shipped_name(spec: Spec, image_size: int | None) -> str:
    """File name of a capture. Quantised models share the capture of their float architecture."""
    name = zoo.architecture(str(spec))
    safe = re.sub(r"[^A-Za-z0-9_.=,]", "_", name.replace(":", "-", 1))
    if spec.is_block or spec.is_transformer or image_size == zoo.table()[name].image_size:
        return safe + _SUFFIX
    return f"{safe}-{image_size}{_SUFFIX}"


def cache_folder() -> Path:
    override = os.environ.get("HWEXPLORER_CACHE_DIR")
    if not override:
        return user_folder("cache")
    try:
        return Path(override).expanduser()
    except RuntimeError:
        raise ModelSpecError(f"HWEXPLORER_CACHE_DIR: no home for {override[:60]!r}") from None


def user_folder(kind: str) -> Path:
    """Where the platform keeps the user's `cache`, `config` or `state`; without a home a place where nothing is and
    nothing can be kept: a folder called `~nobody` where the user happens to be is none."""
    import platformdirs

    folder = Path(getattr(platformdirs, f"user_{kind}_dir")("hwexplorer", appauthor=False))
    return folder if folder.is_absolute() else Path(os.devnull, "hwexplorer")


def _cache_path(spec: Spec, image_size: int | None) -> Path:
    name = shipped_name(spec, image_size)
    made_with = [f"{package}={version(package)}" for package in ("torch", "torchvision")]
    key = hashlib.sha256("|".join([SCHEMA, str(RULES), *made_with, name]).encode()).hexdigest()[:16]
    return cache_folder() / f"{name.removesuffix(_SUFFIX)[:80]}-{key}{_SUFFIX}"


def version(package: str) -> str:
    """Of an installed package, 'none' where it is not."""
    import importlib.metadata  # 20 ms that a shipped capture does not need

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _read(path: Path) -> Workload | None:
    """A stored workload, or None where there is none that can be read."""
    try:
        return unpack(files.read(path, _MAX_BYTES))
    except (OSError, ValueError):
        return None


def _write(path: Path, workload: Workload) -> bool:
    """Keep a workload, for nobody but the user; False where that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, [pack(workload)], 0o600)
    except OSError:
        return False
    return True
