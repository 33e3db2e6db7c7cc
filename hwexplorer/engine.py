"""Models, devices and estimates of a State, cached for verbs and the screen.

Every error is a RequestError of one line. Only `capture` and `capture_job` run the code of a user's model, and only
after `allow` was called for it. The functions at the end belong to the one engine of this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir import batch_limits
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.names import targets
from analysis.model.names.model_ref import ModelRef, refer, user_target
from analysis.model.names.targets import Target
from analysis.model.process.process_limits import USER_LIMITS, ProcessLimits
from analysis.model.reading_budget import Progress
from hardware import device_catalog, places
from hardware.device import Device
from hardware.errors import RequestError
from hardware.memo import forget_memos, memoize, share_memos
from hwexplorer.state import State
from hwexplorer.text import next_command

if TYPE_CHECKING:
    from analysis.model.process.workload_jobs import WorkloadJob
    from analysis.model.transformer.load_spec import LoadSpec
    from analysis.model.transformer.transformer_request import Request
    from analysis.serving.deployment import ParallelDegrees, Server
    from analysis.serving.served_load import Served

_COUNT = re.compile(r"(?P<name>.*[^*])\*(?P<count>[1-9][0-9]{0,3})")  # `h100_sxm*8`: eight of them share a load


class Engine:
    """Caches models and estimates. `revision` changes whenever a model changes: callers then drop what they cached."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(folders)
        self.revision = 0
        self._allowed: dict[str, ProcessLimits] = {}  # models of the user whose code may run
        # Captures of this process: they stay usable if the cache on disk cannot be written.
        self._captured: dict[ModelRef, Workload] = {}
        self._adopted: dict[str, Workload] = {}  # workloads from Python, by their names here
        self._again: set[ModelRef] = set()  # models to capture again although a capture is stored
        # Model files that are read, not captured: the stamp (see _stamp) of each from before it was read.
        self._read: dict[ModelRef, tuple[int, int, int]] = {}
        self._reading: dict[ModelRef, tuple[int, int, int]] = {}

    def use_folders(self, folders: Sequence[Path]) -> None:
        """Read devices from these folders too, and from no others. Raises RequestError if one is not a folder."""
        if not folders and not self._folders:
            return
        device_catalog.device_files(list(folders))
        self._folders = tuple(folders)
        self.devices_changed()

    def devices_changed(self) -> None:
        """Forget the devices and their estimates, since a device file was added or changed."""
        forget_memos(self, Engine.device, Engine._estimate, Engine._open_stage, Engine._serve)

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of device files that were named, and the user's folder, where `calibrate` writes."""
        own = places.devices_folder()
        return (*self._folders, own) if own.is_dir() and own not in self._folders else self._folders

    @memoize(keep=4096)
    def device(self, name: str) -> Device:
        """Return a device by id, `id:power_mode`, alias or class, with a power cap, a clock lock and `{changes}`; one
        device for several that share a load (`l4*8`)."""
        one, count = split_count(name)
        if count:
            return self.device(one)
        shipped = re.split("[:@{]", name, maxsplit=1)[0] in device_catalog.device_files(self._folders)
        return device_catalog.load_device(name, self._folders if shipped else self.folders())

    def refer(self, model: str | ModelRef, image_size: int | None = None) -> ModelRef:
        """Return the reference that a model's name means."""
        with _request_errors():
            return refer(model, image_size)

    def ref(self, state: State) -> ModelRef:
        """Return the reference of the model of a state."""
        return self.refer(state.model, state.image_size)

    @memoize(keep=8)
    def model(self, ref: ModelRef) -> Workload:
        """Return a model that is ready. Raises RequestError if it must be captured first."""
        if getattr(ref, "load", None) is not None:
            return self._model_of_load(ref)  # type: ignore[arg-type]
        workload = self._captured.get(ref)
        if workload is None:
            with _request_errors():
                self._read[ref] = _stamp(ref)
                workload = store.ready(ref)
            if workload is None:
                raise RequestError(f"{ref} has to be captured first")
            if ref.runs_code:
                self._captured[ref] = workload  # its file may change while it is on the screen
        # A user's model also needs the words that name it (`asked`): its name is only the name of a file.
        return msgspec.structs.replace(workload, asked=ref.words) if isinstance(ref, Target) else workload

    def captured_model(self, state: State) -> Workload:
        """Return the model of a state at any batch. Raises RequestError if it must be captured first."""
        return self.model(self.ref(state))

    def fixed_batch(self, state: State) -> int | None:
        """Return the only batch of a state's model (1 under a load); None if it takes any. The model must be ready."""
        if self.request_under_load(state) is not None:
            return 1
        return batch_limits.fixed_batch(self.captured_model(state))

    def workload(self, state: State) -> Workload:
        """Return the model of a state at its lengths. Raises RequestError if it is not ready, or fixed at another
        batch."""
        workload = self.captured_model(state).bound(sequence=state.sequence, kv=state.kv)
        batch_limits.check_batch(workload, state.batch)
        return workload

    def result(self, state: State, device: str = "") -> Estimate:
        """Return the estimate of a state on a device, by default the one under the cursor."""
        self.workload(state)
        ref, at = self.ref(state), scenario(state)
        self.count_devices(state, device or state.on)
        if (served := self.find_served(state, device)) is not None:  # estimate an average step of the load
            at = msgspec.structs.replace(at, batch=max(round(served.row.mean_batch), 1))
            ref = self.refer(served.server.layout.name_of(ref))  # type: ignore[arg-type]
        return self._estimate(ref, at, device or state.on)

    def _model_of_load(self, ref: Request) -> Workload:
        """Return the model of a load: one of its requests, under the name of the load."""
        request = self.model(self.refer(ref.spell("request", *ref.lengths)))
        named = msgspec.structs.replace(request, name=ref.text)
        share_memos(request, named)
        return named

    def request_under_load(self, state: State) -> Request | None:
        """Return the model of a state with its load; None without a load."""
        if ":" not in state.model:
            return None
        ref = self.ref(state)
        return ref if getattr(ref, "load", None) is not None else None  # type: ignore[return-value]

    def load_of(self, state: State) -> tuple[Request, LoadSpec]:
        """Return the model of a state and its load. Raises RequestError for one without a load."""
        ref = self.request_under_load(state)
        if ref is None or ref.load is None:
            raise RequestError(f"{state.model[:60]} has no load; e.g. llama3_8b:serve,in=1024,out=256,rate=5")
        return ref, ref.load

    def count_devices(self, state: State, name: str) -> int:
        """Return how many devices a name means: 8 for `l4*8`, 0 for as many as the model's name says. Raises
        RequestError if there are several but no load."""
        count = split_count(name)[1]
        if count and self.request_under_load(state) is None:
            raise RequestError(
                f"{name}: {count} devices share a load, e.g. llama3_8b:serve,rate=5; for one batch use tp={count}"
            )
        return count

    def find_served(self, state: State, device: str = "") -> Served | None:
        """Return how a device serves the load of a state; None without a load, or if the model does not fit."""
        if self.request_under_load(state) is None:
            return None
        from analysis.serving.deployment import DoesNotFitError

        with suppress(DoesNotFitError):
            return self.serve_load(state, device)
        return None

    def serve_load(self, state: State, device: str = "") -> Served:
        """Return how a device serves the load of a state. Raises DoesNotFitError, and RequestError if the model has no
        load, or the state has a batch or lengths."""
        from analysis.serving.request_load import file_stamp

        ref, load = self.load_of(state)
        if state.batch != 1:
            raise RequestError(f"{ref.text[:60]} has no batch: requests that arrive during a step join the next one")
        if any(length is not None for length in (state.sequence, state.kv)):
            raise RequestError("a load has the lengths in= and out= in its name; remove --sequence and --kv")
        return self._serve(ref, scenario(state), device or state.on, state.limits, file_stamp(load.requests))

    @memoize(keep=64)
    def _serve(self, ref: Request, scenario: Scenario, device: str, limits: str, file: tuple[object, ...]) -> Served:
        from analysis.serving.deployment import find_layout
        from analysis.serving.request_load import ask_load
        from analysis.serving.served_load import serve_load

        one, count = split_count(device)
        asked = ask_load(ref, limits)
        return serve_load(
            self.server_in_layout(ref, find_layout(ref, count), scenario, one, asked.longest), device, asked
        )

    def server_in_layout(
        self, ref: Request, layout: ParallelDegrees, scenario: Scenario, device: str, longest: int
    ) -> Server:
        """Return devices in a layout, ready to serve requests of at most `longest` tokens. Raises DoesNotFitError."""
        from analysis.serving.deployment import arrange

        base = self.refer(ref.spell("prefill", without=("tp", "ep")))
        room = 1 << (longest - 1).bit_length()  # a power of two: similar lengths share their estimates
        stage = self._open_stage(base, layout.worker, scenario, device, room)  # type: ignore[arg-type]
        return arrange(stage, layout, ref.config.hidden, longest, ref.load)

    @memoize(keep=64)
    def _open_stage(
        self, base: Request, shards: ParallelDegrees, scenario: Scenario, device: str, longest: int
    ) -> Server:
        from analysis.serving.deployment import open_stage

        with _request_errors():
            return open_stage(base, shards, self.device(device), scenario, longest)

    # A screen needs up to 18: six devices, each with its pin and without its changes (for the costs of knobs). For the
    # largest model each has half a megabyte.
    @memoize(keep=20)
    def _estimate(self, ref: ModelRef, scenario: Scenario, device: str) -> Estimate:
        return estimate(self.model(ref), self.device(device), scenario)

    def is_ready(self, state: State) -> bool:
        """Return False for a model that must be captured first, which takes seconds and torch."""
        ref = self.ref(state)
        with _request_errors():
            if self._is_file_replaced(ref):
                if not store.is_ready(ref):
                    return False
                self._captured.pop(ref, None)
                self._read.pop(ref)
                self._forget_models()
            return ref in self._captured or (ref not in self._again and store.is_ready(ref))

    def _is_file_replaced(self, ref: ModelRef) -> bool:
        """Return True if a model file was written again since it was read; False if it is gone."""
        with suppress(ModelError, OSError):
            return self._read.get(ref, (0, 0, 0)) not in ((0, 0, 0), _stamp(ref))
        return False

    def capture_again(self, state: State) -> None:
        """Ignore the stored captures of a model: it is not ready until it is captured again."""
        ref = self.ref(state)
        if ref.is_captured:
            self._captured.pop(ref, None)
            self._again.add(ref)
            self._forget_models()

    def is_edited(self, state: State) -> bool:
        """Return True if the code of a model has changed since its capture, or its file since it was read."""
        ref = self.ref(state)
        with _request_errors():
            if self._is_file_replaced(ref):
                return True
            return ref in self._captured and not store.is_current(self._captured[ref])

    def resolve_model_name(
        self,
        model: str,
        inputs: Sequence[str] = (),
        batch_dim: str | None = None,
        limits: ProcessLimits = USER_LIMITS,
        *,
        trusted: bool = True,
    ) -> str:
        """Return the complete name of a model that a person typed, and allow the code of a user's model to run.
        Unless `trusted`, a name that is already complete (it may be from a state string) allows nothing.
        Raises RequestError for inputs of a model that takes none, and if no file defines the model."""
        with _request_errors():
            target = user_target(model)
            if target is None:
                if inputs or batch_dim is not None:
                    raise RequestError(f"{model[:60]} takes no inputs: only a model of your own (net.py:make) does")
                return model
            target = targets.complete(target, inputs, batch_dim)
        if target.runs_code and (trusted or not target.called or inputs or batch_dim is not None):
            self.allow(str(target), limits)
        return str(target)

    def allow(self, model: str, limits: ProcessLimits) -> None:
        """Allow the code of a model to run in the capture subprocess: a person named the model."""
        self._allowed[model] = limits

    def _limits(self, ref: ModelRef) -> ProcessLimits | None:
        """Return the limits of a capture. Raises RequestError if it would run code that was not allowed."""
        allowed = self._allowed.get(str(ref))
        if allowed is None and isinstance(ref, Target) and ref.runs_code:
            command = next_command.capture_command(ref)
            raise RequestError(f"{ref.label} is not captured yet, and a state string runs no code: {command}")
        return allowed

    def capture(self, state: State, progress: Progress | None = None) -> None:
        """Capture the model of a state and keep it; wait until it is done. Raises RequestError if it fails."""
        ref = self.ref(state)
        with _request_errors():
            self._reading[ref] = _stamp(ref)
            self._keep(ref, store.load(ref, progress=progress, limits=self._limits(ref), again=ref in self._again))

    def capture_job(self, state: State) -> WorkloadJob:
        """Return a capture to start, watch and cancel; the model is ready after `keep` of its result."""
        ref = self.ref(state)
        with _request_errors():
            self._reading[ref] = _stamp(ref)
            return store.capture_job(ref, limits=self._limits(ref))

    def keep(self, state: State, captured: Workload) -> None:
        """Use this workload for the model of a state from now on."""
        self._keep(self.ref(state), captured)

    def adopt(self, workload: Workload) -> str:
        """Make a workload from Python a model of this process. Return the name of the model."""
        name = f"{re.sub(r'[^A-Za-z0-9_-]', '_', workload.name)}.{id(workload):x}{targets.STORED}"
        if name not in self._adopted:  # which also keeps it alive: no other gets its id
            self._adopted[name] = workload
            self._keep(self.refer(name), workload)
        return name

    def is_adopted(self, name: str) -> bool:
        """Return True for the name of a workload that came from Python."""
        return name in self._adopted

    def _keep(self, ref: ModelRef, captured: Workload) -> None:
        self._again.discard(ref)
        self._captured[ref] = captured
        self._read[ref] = self._reading.pop(ref, (0, 0, 0))
        self._forget_models()

    def reset(self) -> None:
        """Forget every model that was read or captured here."""
        self._captured.clear()
        self._forget_models()

    def _forget_models(self) -> None:
        self.revision += 1
        forget_memos(self, Engine.model, Engine._estimate, Engine._open_stage, Engine._serve)


@contextmanager
def _request_errors() -> Iterator[None]:
    """Turn every error of a model into a RequestError."""
    try:
        yield
    except (ModelError, OSError) as error:
        raise RequestError(str(error)) from None


def _stamp(ref: ModelRef) -> tuple[int, int, int]:
    """Return the times (ns) of a model file that is read, not captured, and its size; zeros for other models. A file
    that is replaced by one of equal size and modification time has another change time."""
    if not isinstance(ref, Target) or ref.runs_code:
        return (0, 0, 0)
    status = targets.source(ref).stat()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def split_count(name: str) -> tuple[str, int]:
    """Return the device of a name and how many share a load: 8 for `l4*8`, 0 if the name has no count."""
    several = _COUNT.fullmatch(name)
    return (several["name"], int(several["count"])) if several else (name, 0)


def scenario(state: State) -> Scenario:
    """Return the settings of a state that estimates take; the image size belongs to the model."""
    return Scenario(**{name: getattr(state, name) for name in Scenario.__struct_fields__})


ENGINE = Engine()
use_folders, folders, device = ENGINE.use_folders, ENGINE.folders, ENGINE.device
ref, captured_model, fixed_batch = ENGINE.ref, ENGINE.captured_model, ENGINE.fixed_batch
workload, result = ENGINE.workload, ENGINE.result
request_under_load, load_of = ENGINE.request_under_load, ENGINE.load_of
server_in_layout = ENGINE.server_in_layout
serve_load, find_served, count_devices = ENGINE.serve_load, ENGINE.find_served, ENGINE.count_devices
is_ready, is_edited, is_adopted = ENGINE.is_ready, ENGINE.is_edited, ENGINE.is_adopted
capture, capture_again, capture_job = ENGINE.capture, ENGINE.capture_again, ENGINE.capture_job
keep, adopt, resolve_model_name = ENGINE.keep, ENGINE.adopt, ENGINE.resolve_model_name
allow = ENGINE.allow


def revision() -> int:
    """Return a number that changes whenever a model changes."""
    return ENGINE.revision
