"""What a State asks of the analysis: models, devices and estimates, remembered while one scrubs through them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from analysis.run.estimate import Estimate, estimate
from analysis.run.scenario import Scenario
from analysis.workload import store, targets
from analysis.workload.errors import ModelError
from analysis.workload.job import USER_LIMITS, CaptureJob, Limits
from analysis.workload.workload import Workload
from hardware import device as catalogue
from hardware.device import Device
from hardware.errors import RequestError
from hwexplorer.state import State

# Folders of the user's own device files, set once at start (`--devices-dir`).
_folders: list[Path] = []
# Models of the user's whose code a person asked to run, by name, and what they may take.
_allowed: dict[str, Limits] = {}
# Models to be captured anew, though a capture of them is stored.
_again: set[tuple[str, int | None]] = set()
# What this process captured, by model and image size: it stays usable where the cache cannot be written.
_captured: dict[tuple[str, int | None], Workload] = {}
# Files read as they are (`.pt2`, `.onnx`): what each was when it was read. Whoever remembers views asks `revision`.
_read: dict[str, tuple[int, int]] = {}
_revision = 0


def use_folders(folders: list[Path]) -> None:
    """Add folders of device files to the catalogue. Raises RequestError for one that is none."""
    catalogue.files(folders)
    _folders[:] = folders
    device.cache_clear()
    _estimate.cache_clear()


def folders() -> tuple[Path, ...]:
    return tuple(_folders)


@lru_cache(maxsize=256)
def device(name: str) -> Device:
    """A device by id, `id:power_mode`, alias or class."""
    return catalogue.load(name, folders())


@lru_cache(maxsize=8)
def _workload(model: str, image_size: int | None) -> Workload:
    if (model, image_size) in _captured:
        return _captured[model, image_size]
    try:
        found = store.ready(model, image_size)
        _read[model] = _stamp(model)
    except ModelError as error:
        raise RequestError(str(error)) from None
    if found is None:
        raise RequestError(f"{model} has to be captured first")
    if _runs_code(model):
        _captured[model, image_size] = found  # its file may change while it is on the screen
    return found


def _runs_code(model: str) -> bool:
    target = targets.parse(model)
    return target is not None and target.runs_code


def workload(state: State) -> Workload:
    """The model of a state, which must be ready. Raises RequestError otherwise, and for a batch it has not."""
    found = _workload(state.model, state.image_size).bound(sequence=state.sequence, kv=state.kv)
    _check_batch(found, state.batch)
    return found


def captured(state: State) -> Workload:
    """The model of a state whatever the state's batch. Raises RequestError where it is not captured."""
    return _workload(state.model, state.image_size)


def _check_batch(model: Workload, batch: int) -> None:
    """A model that fixes its batch runs at that one only: figures at another would be made up."""
    fixed = targets.fixed_batch(model)
    if fixed is not None and batch != fixed:
        raise RequestError(f"{model.name} is captured at one fixed batch: --batch {fixed} is the only one it has")


def is_ready(state: State) -> bool:
    """False: the model must be captured first, which takes seconds and torch."""
    if (state.model, state.image_size) in _captured:
        return True
    if (state.model, state.image_size) in _again:
        return False
    try:
        return store.is_ready(state.model, state.image_size)
    except ModelError as error:
        raise RequestError(str(error)) from None


def capture_again(state: State) -> None:
    """What is stored or known of the model of a state is not used: `is_ready` is false until it is captured anew."""
    try:
        if store.is_captured(state.model, state.image_size):
            _captured.pop((state.model, state.image_size), None)
            _again.add((state.model, state.image_size))
            _forget()
    except ModelError as error:
        raise RequestError(str(error)) from None


def _stamp(model: str) -> tuple[int, int]:
    """When a file that is read as it is was written, and its size; nothing for other models."""
    target = targets.parse(model)
    if target is None or target.runs_code:
        return (0, 0)
    found = targets.source(target).stat()
    return found.st_mtime_ns, found.st_size


def is_edited(state: State) -> bool:
    """Whether the code of a model has changed since it was captured: it has to be captured again. A changed file
    that is read as it is, is read again at once."""
    key = (state.model, state.image_size)
    try:
        if key in _captured:
            return not store.is_current(_captured[key])
        if state.model in _read and _read[state.model] != _stamp(state.model):
            _forget()
        return False
    except (ModelError, OSError) as error:
        raise RequestError(str(error)) from None


def revision() -> int:
    """Another number whenever a model is no longer what it was."""
    return _revision


def _forget() -> None:
    global _revision
    _revision += 1
    _workload.cache_clear()
    _estimate.cache_clear()


def scenario(state: State) -> Scenario:
    return Scenario(state.batch, state.precision, state.execution, state.layout, state.sequence, state.kv)


# As many as one screen needs (six devices, and as many pinned): of the largest model each is half a megabyte.
@lru_cache(maxsize=16)
def _estimate(model: str, image_size: int | None, asked: Scenario, device_name: str) -> Estimate:
    return estimate(_workload(model, image_size), device(device_name), asked)


def result(state: State, device_name: str = "") -> Estimate:
    """The estimate of a state on one device (the one under the cursor)."""
    workload(state)
    return _estimate(state.model, state.image_size, scenario(state), device_name or state.on)


def allow(model: str, limits: Limits) -> None:
    """A person asked for this model of theirs by name: its code may run, in the capture subprocess."""
    _allowed[model] = limits


def named(
    model: str,
    inputs: Sequence[str] = (),
    batch_dim: str | None = None,
    limits: Limits = USER_LIMITS,
    *,
    trusted: bool = True,
) -> str:
    """The complete name of a model that a person typed: typing it is what lets the code of one of their own run.
    Not `trusted`, a name that is complete already (it may come out of a state string) runs nothing.
    Raises RequestError for inputs of another model, and where no file defines it."""
    try:
        target = targets.parse(model)
        if target is None:
            if inputs or batch_dim is not None:
                raise RequestError(f"{model[:60]} takes no inputs: those of a model of your own follow net.py:make")
            return model
        target = targets.complete(target, inputs, batch_dim)
    except ModelError as error:
        raise RequestError(str(error)) from None
    if target.runs_code and (trusted or not target.called or inputs or batch_dim is not None):
        allow(str(target), limits)
    return str(target)


def _limits(state: State) -> Limits | None:
    """What a capture may take. Raises RequestError where it would run code that nobody asked to run."""
    target = targets.parse(state.model)
    if target is None or not target.runs_code or state.model in _allowed:
        return _allowed.get(state.model)
    inputs = "".join(f" --input {item}" for item in target.inputs)
    batch = "" if target.batch_dim == 0 else f" --batch-dim {'none' if target.batch_dim is None else target.batch_dim}"
    raise RequestError(
        f"{target.label} is not captured yet and a state runs no code by itself: "
        f"hwexplorer capture {target.path}:{target.factory}{inputs}{batch}"
    )


def capture(state: State, progress: store.ProgressCallback | None = None) -> None:
    """Capture the model of a state and keep it, waiting for it. Raises RequestError with what went wrong."""
    try:
        again = (state.model, state.image_size) in _again
        keep(state, store.load(state.model, state.image_size, progress=progress, limits=_limits(state), again=again))
    except ModelError as error:
        raise RequestError(str(error)) from None


def keep(state: State, captured: Workload) -> None:
    """Use this workload for the model of a state from now on."""
    _again.discard((state.model, state.image_size))
    _captured[state.model, state.image_size] = captured
    _forget()


def capture_job(state: State) -> CaptureJob:
    """A capture to start, watch and cancel; `keep` its result and `is_ready` is true."""
    try:
        return store.capture_job(state.model, state.image_size, _limits(state))
    except ModelError as error:
        raise RequestError(str(error)) from None
