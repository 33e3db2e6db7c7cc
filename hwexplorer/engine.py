"""Models, devices and estimates of a State, cached for verbs and the screen.

Every error is a RequestError of one line. Only `capture` and `capture_job` run the code of a user's model, and only if
a person named it (`allow`). A process has one engine: this module.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, cast

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.outcome import Outcome
from analysis.model import reading_budget, store
from analysis.model.ir import workload as workloads
from analysis.model.names import model_ref, targets, zoo
from analysis.model.training import training_request
from analysis.model.training.training_request import Step
from hardware import device_catalog, known_architectures
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.records import forget_memos, give_memory_back, has_memo, memoize, share_memos
from hardware.device import Device
from hwexplorer.state import State

if TYPE_CHECKING:
    from analysis.model.process.child_job import WorkloadJob
    from analysis.model.transformer.transformer_request import LoadSpec, Request
    from analysis.serving.deployment import ParallelDegrees, Server
    from analysis.serving.served_load import Served

_COUNT = re.compile(r"(?P<name>.*[^*])\*(?P<count>[1-9][0-9]{0,3})")  # `h100_sxm*8`: eight of them share a load
OPERATORS_AT_ONCE = 600  # of a model that training is written for while the screen waits, 0.2 s
LAYERS_AT_ONCE = 48  # layers that are read while the screen waits, 0.15 s; those with experts count twice


class _Models:
    """The models that this process has read or captured. `revision` changes whenever one changes."""

    def __init__(self) -> None:
        self.folders: tuple[Path, ...] = ()
        self.revision = 0
        # Captures of this process: they stay usable if the cache on disk cannot be written.
        self.captured: dict[model_ref.ModelRef, workloads.Workload] = {}
        self.allowed: dict[str, reading_budget.ProcessLimits] = {}  # models whose code may run, by their names
        self.adopted: dict[str, workloads.Workload] = {}  # workloads from Python, by their names here
        self.again: set[model_ref.ModelRef] = set()  # models to capture again although a capture is stored
        # Model files that are read, not captured: the stamp (see _stamp) of each from before it was read.
        self.read: dict[model_ref.ModelRef, tuple[int, int, int]] = {}
        self.reading: dict[model_ref.ModelRef, tuple[int, int, int]] = {}
        self.held: dict[model_ref.ModelRef, workloads.Workload] = {}


_MODELS = _Models()


def use_folders(folders: Sequence[Path]) -> None:
    """Read devices from these folders too, and from no others. Raises RequestError if one is not a folder."""
    if not folders and not _MODELS.folders:
        return
    device_catalog.find_folders(list(folders))
    _MODELS.folders = tuple(folders)
    devices_changed()


def named_folders() -> tuple[Path, ...]:
    """Return the folders of device files that `use_folders` named."""
    return _MODELS.folders


def devices_changed() -> None:
    """Forget the devices and their estimates, since a device file was added or changed."""
    _MODELS.revision += 1
    device.cache_clear()
    forget_memos(_MODELS, _estimate, _open_stage, _serve)


def forget_edited_devices() -> None:
    """Forget the devices and their estimates if a file of devices or prices was edited since it was read."""
    if file_access.is_table_edited():
        devices_changed()


def folders() -> tuple[Path, ...]:
    """Return the named folders, and the user's own if there is one."""
    user = file_access.devices_folder()  # where `calibrate` writes; it need not exist
    return (*_MODELS.folders, user) if user.is_dir() and user not in _MODELS.folders else _MODELS.folders


@lru_cache(maxsize=32)
def device(name: str) -> Device:
    """Return a device by id, `id:power_mode`, alias or class, with a power cap, a clock lock and `{changes}`; one
    device for several that share a load (`l4*8`)."""
    device_name, count = split_count(name)
    if count:
        return device(device_name)
    shipped = re.split("[:@{]", name, maxsplit=1)[0] in device_catalog.find_folders(_MODELS.folders)
    return device_catalog.load_device(name, _MODELS.folders if shipped else folders())


def is_device(name: str) -> bool:
    """Return True if a text names a device."""
    with suppress(RequestError):
        return bool(device(name))
    return False


def device_ids() -> list[str]:
    """Return the ids of all devices: those of the catalogue, then the user's. Their files are not read."""
    return list(device_catalog.find_folders((*folders(), *known_architectures.device_folders())))


def marked_key(name: str) -> str:
    """Return the key of a device, with a mark if it is a design on paper; '' for no device."""
    return device(name).marked_key if name else ""


def device_key(name: str) -> str:
    """Return the one name of a device, with the number of devices that share a load: `h100_sxm*8`."""
    device_name, count = split_count(name)
    return f"{device(device_name).key}*{count}" if count else device(device_name).key


def ref(state: State) -> model_ref.ModelRef:
    """Return the reference of the model of a state, under its load."""
    reference = model_ref.refer(state.model, state.image_size)
    return model_ref.with_load(reference, state.load) if state.load else reference


def _forward(reference: model_ref.ModelRef) -> zoo.Spec | targets.Target | Request:
    """Return the reference of what is read or captured: of a model in training its forward pass."""
    return reference.model if isinstance(reference, Step) else reference


def _forward_of(state: State) -> zoo.Spec | targets.Target | Request:
    return _forward(ref(state))


def model(reference: model_ref.ModelRef) -> workloads.Workload:
    """Return a model that is ready. Raises RequestError if it must be captured first."""
    request = _request_of(reference)
    workload = _MODELS.held.get(request) or _read_model(_MODELS, request)
    return workload if reference.load is None else _renamed(workload, reference.text)


def hold_models(states: Iterable[State]) -> None:
    """Keep the models of these states, and no longer others: a walk over devices asks for all at every step."""
    _MODELS.held = {request: model(request) for request in {_request_of(ref(state)) for state in states}}


def _request_of(reference: model_ref.ModelRef) -> model_ref.ModelRef:
    """Return one of the requests of a load, or the reference of another model."""
    if reference.load is None:
        return reference
    return model_ref.refer(reference.spell("request", *reference.lengths))


@memoize(keep=2)
def _renamed(request: workloads.Workload, name: str) -> workloads.Workload:
    renamed = msgspec.structs.replace(request, name=name)
    share_memos(request, renamed)
    return renamed


@memoize(keep=3)  # under a load: a request, a part of it for the servers, and a step
def _read_model(models: _Models, reference: model_ref.ModelRef) -> workloads.Workload:
    if isinstance(reference, Step):
        return store.train(reference, model(reference.model))
    workload = models.captured.get(reference)
    if workload is None:
        models.read[reference] = _stamp(reference)
        workload = store.ready(reference)
        if not isinstance(reference, zoo.Spec):  # its graph took ten times what is left of it
            give_memory_back()
        if workload is None:
            raise RequestError(f"{reference} has to be captured first")
        if reference.runs_code:
            models.captured[reference] = workload  # its file may change while it is on the screen
    # A user's model also needs the words that name it (`asked`): its name is only the name of a file.
    if isinstance(reference, targets.Target):
        workload = msgspec.structs.replace(workload, asked=reference.words)
    return workload


class ModelReading(Thread):
    """The reading of a model that is ready, in a thread: that of a large one takes up to a second."""

    progress = ("reading", -1.0)

    def __init__(self, reference: model_ref.ModelRef) -> None:
        super().__init__(daemon=True)
        self._reference = reference
        self._error: Exception | None = None

    def run(self) -> None:
        """Read the model; the engine keeps it."""
        try:
            model(self._reference)
        except Exception as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        """True once the model is read, or cannot be."""
        return not self.is_alive()

    def result(self) -> None:
        """Raise what reading the model raised."""
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Let the thread end by itself."""


def is_long_to_read(state: State) -> bool:
    """Return True for a model of many layers, or training of many operators, that was not read lately."""
    asked = _request_of(ref(state))
    reference = _forward(asked)
    if has_memo(_MODELS, _read_model, asked):
        return False
    if isinstance(reference, zoo.Spec | targets.Target):
        return asked is not reference and is_ready(state) and model(reference).n_operators > OPERATORS_AT_ONCE
    phases, halves = 1 + (reference.run.phase == "request"), 1 + bool(reference.config.experts)
    return phases * halves * reference.config.layers > LAYERS_AT_ONCE


def captured_model(state: State) -> workloads.Workload:
    """Return the model of a state at any batch. Raises RequestError if it must be captured first."""
    return model(ref(state))


def fixed_batch(state: State) -> int | None:
    """Return the only batch of a state's model (1 under a load); None if it takes any. The model must be ready."""
    if state.load:
        return 1
    return workloads.fixed_batch(captured_model(state))


def workload(state: State) -> workloads.Workload:
    """Return the model of a state at its lengths. Raises RequestError if it is not ready, or fixed at another
    batch."""
    workload = captured_model(state).bound(sequence=state.sequence, kv=state.kv)
    workloads.check_batch(workload, state.batch)
    return workload


def outcome(state: State, device: str = "") -> Outcome:
    """Return the outcome of a state on a device, by default the one under the cursor: that of a batch, or that of a
    load if the state has one."""
    reference, scene, device = ref(state), scenario(state), device or state.on
    count_devices(state, device)
    if reference.load is None:
        return Outcome(device, _estimate(_MODELS, reference, scene, device))
    from analysis.serving.deployment import DoesNotFitError
    from analysis.serving.served_load import ServedOutcome

    try:
        run = serve_load(state, device)
    except DoesNotFitError as error:
        return ServedOutcome(device, _estimate(_MODELS, reference, scene, device), error)
    step = msgspec.structs.replace(scene, batch=max(round(run.row.mean_batch), 1))
    estimate = _estimate(_MODELS, model_ref.refer(run.server.layout.name_of(reference)), step, device)
    return ServedOutcome(device, estimate, run)


def result(state: State, device: str = "") -> Estimate:
    """Return the estimate of a state on a device; under a load that of an average step."""
    return outcome(state, device).estimate


def load_of(state: State) -> tuple[Request, LoadSpec]:
    """Return the model of a state and its load. Raises RequestError for one without a load."""
    reference = ref(state)
    if reference.load is None:
        raise RequestError(f"{state.model[:60]} has no load; e.g. llama3_8b:serve,in=1024,out=256,rate=5")
    return reference, reference.load


def count_devices(state: State, name: str) -> int:
    """Return how many devices a name means: 8 for `l4*8`, 0 for as many as the model's name says. Raises
    RequestError if there are several but no load."""
    count = split_count(name)[1]
    reference = ref(state)
    if isinstance(reference, Step):
        reference.check_devices(max(count, 1), state.batch)
    elif count and not state.load:
        raise RequestError(
            f"{name}: {count} devices share a load, e.g. llama3_8b:serve,rate=5, or a batch of training, "
            f"e.g. resnet50:train,batch=256; for one batch use tp={count}"
        )
    return count


def hired_devices(state: State) -> tuple[str, ...]:
    """Return the devices with a published price of hire that software trains on, and that hold the model of a state."""
    from analysis.explore.cost import hired_devices as hired

    results = [(name, result(state, name)) for name in device_ids() if name in hired()]
    return tuple(name for name, run in results if run.can_win) or state.devices


def serve_load(state: State, device: str = "") -> Served:
    """Return how a device serves the load of a state. Raises DoesNotFitError, and RequestError if the model has no
    load, or the state has a batch or lengths."""

    reference, load = load_of(state)
    if state.batch != 1:
        raise RequestError(f"{reference.text[:60]} has no batch: requests that arrive during a step join the next one")
    if any(length is not None for length in (state.sequence, state.kv)):
        raise RequestError("a load has the lengths in= and out= in its name; remove --sequence and --kv")
    stamp = file_access.stamp(load.requests)
    return _serve(_MODELS, reference, scenario(state), device or state.on, state.limits, stamp)


@memoize(keep=16, large=True)
def _serve(
    models: _Models, reference: Request, scenario: Scenario, device: str, limits: str, file: tuple[object, ...]
) -> Served:
    from analysis.serving.deployment import find_layout
    from analysis.serving.request_load import ask_load
    from analysis.serving.served_load import serve_load

    device_name, count = split_count(device)
    load = ask_load(reference, limits)
    return serve_load(
        server_in_layout(reference, find_layout(reference, count), scenario, device_name, load.longest), device, load
    )


def server_in_layout(
    reference: Request, layout: ParallelDegrees, scenario: Scenario, device: str, longest: int
) -> Server:
    """Return devices in a layout, ready to serve requests of at most `longest` tokens. Raises DoesNotFitError."""
    from analysis.serving.deployment import arrange

    base = cast("Request", model_ref.refer(reference.spell("prefill", without=("tp", "ep"))))
    room = 1 << (longest - 1).bit_length()  # a power of two: similar lengths share their estimates
    stage = _open_stage(_MODELS, base, layout.worker, scenario, device, room)
    return arrange(stage, layout, reference.config.hidden, longest, reference.load)


@memoize(keep=16, large=True)
def _open_stage(
    models: _Models, base: Request, shards: ParallelDegrees, scenario: Scenario, name: str, longest: int
) -> Server:
    from analysis.serving.deployment import open_stage

    return open_stage(base, shards, device(name), scenario, longest)


@memoize(keep=128, large=True)
def _estimate(models: _Models, reference: model_ref.ModelRef, scenario: Scenario, name: str) -> Estimate:
    if isinstance(reference, Step):
        reference = reference.on_devices(split_count(name)[1] or 1)
    return estimate(model(reference), device(name), scenario)


def is_ready(state: State) -> bool:
    """Return False for a model that must be captured first, which takes seconds and torch."""
    reference = _forward_of(state)
    if _is_file_replaced(reference):
        if not store.is_ready(reference):
            return False
        _MODELS.captured.pop(reference, None)
        _MODELS.read.pop(reference)
        _forget_models()
    return reference in _MODELS.captured or (reference not in _MODELS.again and store.is_ready(reference))


def _is_file_replaced(reference: model_ref.ModelRef) -> bool:
    """Return True if a model file was written again since it was read; False if it is gone."""
    with suppress(RequestError):
        return _MODELS.read.get(reference, (0, 0, 0)) not in ((0, 0, 0), _stamp(reference))
    return False


def capture_again(state: State) -> None:
    """Ignore the stored captures of a model: it is not ready until it is captured again."""
    reference = _forward_of(state)
    if reference.is_captured:
        _MODELS.captured.pop(reference, None)
        _MODELS.again.add(reference)
        _forget_models()


def is_edited(state: State) -> bool:
    """Return True if the code of a model has changed since its capture, or its file since it was read."""
    reference = _forward_of(state)
    if _is_file_replaced(reference):
        return True
    return reference in _MODELS.captured and not store.is_current(_MODELS.captured[reference])


def resolve_model_name(
    model: str,
    inputs: Sequence[str] = (),
    batch_dim: str | None = None,
    limits: reading_budget.ProcessLimits = reading_budget.USER_LIMITS,
    *,
    trusted: bool = True,
) -> str:
    """Return the complete name of a model that a person typed, or of its training, and allow a user's code to run.
    Unless `trusted`, a name that is already complete (it may be from a state string) allows nothing.
    Raises RequestError for inputs of a model that takes none, and if no file defines the model."""
    target = model_ref.user_target(model)
    if target is None:
        if inputs or batch_dim is not None:
            raise RequestError(f"{model[:60]} takes no inputs: only a model of your own (net.py:make) does")
        return model
    target = targets.complete(target, inputs, batch_dim)
    if target.runs_code and (trusted or not target.called or inputs or batch_dim is not None):
        allow(str(target), limits)
    name, batch = training_request.split_batch(model)
    if (asked := training_request.split(name)) is None:
        return str(target)
    step = str(Step(target, training_request.read(*asked)))
    return step if batch is None else f"{step},batch={batch}"


def allow(model: str, limits: reading_budget.ProcessLimits) -> None:
    """Allow the code of a model to run in the capture subprocess: a person named the model."""
    _MODELS.allowed[model] = limits


def _capture_limits(reference: model_ref.ModelRef) -> reading_budget.ProcessLimits | None:
    """Return the limits of a capture. Raises RequestError if it would run code that was not allowed."""
    allowed = _MODELS.allowed.get(str(reference))
    if allowed is None and isinstance(reference, targets.Target) and reference.runs_code:
        command = shlex.join(("hwexplorer", "capture", *reference.words))
        raise RequestError(f"{reference.label} is not captured yet, and a state string runs no code: {command}")
    return allowed


def capture(state: State, progress: reading_budget.Progress | None = None) -> None:
    """Capture the model of a state and keep it; wait until it is done. Raises RequestError if it fails."""
    reference = _forward_of(state)
    _MODELS.reading[reference] = _stamp(reference)
    is_again, limits = reference in _MODELS.again, _capture_limits(reference)
    _keep(reference, store.load(reference, progress=progress, limits=limits, again=is_again))


def capture_job(state: State) -> WorkloadJob:
    """Return a capture to start, watch and cancel; the model is ready after `keep` of its result."""
    reference = _forward_of(state)
    limits = _capture_limits(reference)
    _MODELS.reading[reference] = _stamp(reference)
    return store.capture_job(reference, limits=limits)


def keep(state: State, captured: workloads.Workload) -> None:
    """Use this workload for the model of a state from now on."""
    _keep(_forward_of(state), captured)


def adopt(workload: workloads.Workload) -> str:
    """Make a workload from Python a model of this process. Return the name of the model."""
    name = f"{re.sub(r'[^A-Za-z0-9_-]', '_', workload.name)}.{id(workload):x}{targets.STORED}"
    if name not in _MODELS.adopted:  # which also keeps it alive: no other gets its id
        _MODELS.adopted[name] = workload
        _keep(model_ref.refer(name), workload)
    return name


def is_adopted(name: str) -> bool:
    """Return True for the name of a workload that came from Python."""
    return name in _MODELS.adopted


def _keep(reference: model_ref.ModelRef, captured: workloads.Workload) -> None:
    _MODELS.again.discard(reference)
    _MODELS.captured[reference] = captured
    _MODELS.read[reference] = _MODELS.reading.pop(reference, (0, 0, 0))
    _forget_models()


def reset() -> None:
    """Forget every model that was read or captured here."""
    _MODELS.captured.clear()
    _forget_models()


def _forget_models() -> None:
    _MODELS.revision += 1
    _MODELS.held.clear()
    forget_memos(_MODELS, _read_model, _estimate, _open_stage, _serve)


def _stamp(reference: model_ref.ModelRef) -> tuple[int, int, int]:
    """Return the times (ns) of a model file that is read, not captured, and its size; zeros for other models. A file
    that is replaced by one of equal size and modification time has another change time."""
    if not isinstance(reference, targets.Target) or reference.runs_code:
        return (0, 0, 0)
    return file_access.stamp(str(targets.source(reference)))[1:]


def split_count(name: str) -> tuple[str, int]:
    """Return the device of a name and how many share a load: 8 for `l4*8`, 0 if the name has no count."""
    several = _COUNT.fullmatch(name)
    return (several["name"], int(several["count"])) if several else (name, 0)


def scenario(state: State) -> Scenario:
    """Return the settings of a state that estimates take; the image size belongs to the model."""
    return Scenario(**{name: getattr(state, name) for name in Scenario.__struct_fields__})


def revision() -> int:
    """Return a number that changes whenever a model or device changes: callers then drop what they cached."""
    forget_edited_devices()
    return _MODELS.revision
