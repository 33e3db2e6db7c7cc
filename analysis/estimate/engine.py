"""Models, devices and estimates by name, remembered: what a session, a script or a screen asks of the analysis.

Every error is a RequestError of one line. Nothing here runs the code of a user's model but `capture` and `job`, and
those only where `allow` was called for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.names import aliases, targets
from analysis.model.names.model_ref import ModelRef, refer, user_target
from analysis.model.names.targets import Target
from analysis.model.process.process_limits import USER_LIMITS, ProcessLimits
from hardware import device as catalogue
from hardware import places, policy
from hardware.device import Device
from hardware.errors import RequestError
from hardware.remember import forget_memos, memoize

if TYPE_CHECKING:
    from analysis.model.process.capture_job import WorkloadJob


class CodeError(RequestError):
    """A capture would run code that nobody asked to run: `target` is what has to be asked for by its name."""

    def __init__(self, target: Target) -> None:
        super().__init__(f"{target.label} is not captured yet and a state runs no code by itself")
        self.target = target


class Engine:
    """`folders` hold the user's own device files; `revision` is another number whenever a model is no longer what it
    was, for whoever remembers what follows from it."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(folders)
        self.revision = 0
        self._allowed: dict[str, ProcessLimits] = {}  # models of the user's whose code a person asked to run
        # What was captured here: it stays usable where the cache cannot be written.
        self._captured: dict[ModelRef, Workload] = {}
        self._again: set[ModelRef] = set()  # to be captured anew, though a capture of them is stored
        # Files that are read as they are: what each was before it was read.
        self._read: dict[ModelRef, tuple[int, int]] = {}
        self._reading: dict[ModelRef, tuple[int, int]] = {}

    def use_folders(self, folders: Sequence[Path]) -> None:
        """Add folders of device files to the catalogue. Raises RequestError for one that is none, or not allowed."""
        for folder in folders:
            policy.require_unserved(f"reading {folder}", str(folder))
        catalogue.device_files(list(folders))
        self._folders = tuple(folders)
        forget_memos(self, Engine.device, Engine._estimate)

    def devices_changed(self) -> None:
        """A file of one of the folders is new, or another."""
        forget_memos(self, Engine.device, Engine._estimate)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The named folders, and the one where `calibrate` keeps the devices of the user."""
        own = places.devices_folder()
        return (*self._folders, own) if own.is_dir() and own not in self._folders else self._folders

    @memoize(keep=256)
    def device(self, name: str) -> Device:
        """A device by id, `id:power_mode`, alias or class."""
        name = aliases.device(name)
        shipped = name.partition(":")[0] in catalogue.device_files(self._folders)
        return catalogue.load_device(name, self._folders if shipped else self.folders)

    def refer(self, model: str | ModelRef, image_size: int | None = None) -> ModelRef:
        """Return the reference that a model's name means."""
        with _request_errors():
            return refer(model, image_size)

    @memoize(keep=8)
    def model(self, ref: ModelRef) -> Workload:
        """A model that is ready. Raises RequestError for one that has to be captured first."""
        if ref in self._captured:
            return _with_words(self._captured[ref], ref)
        with _request_errors():
            workload = store.ready(ref)
        if workload is None:
            raise RequestError(f"{ref} has to be captured first")
        if isinstance(ref, Target) and ref.runs_code:
            self._captured[ref] = workload  # its file may change while it is on the screen
        return _with_words(workload, ref)

    def workload(self, ref: ModelRef, scenario: Scenario) -> Workload:
        """A model that is ready, at the lengths of a scenario. Raises RequestError for a batch it has not: figures at
        another than the one it is fixed at would be made up."""
        workload = self.model(ref).bound(sequence=scenario.sequence, kv=scenario.kv)
        targets.check_batch(workload, scenario.batch)
        return workload

    def estimate(self, ref: ModelRef, scenario: Scenario, device: str) -> Estimate:
        """A model that is ready on a device."""
        self.workload(ref, scenario)
        return self._estimate(ref, scenario, device)

    # As many as one screen needs (six devices, and as many pinned): of the largest model each is half a megabyte.
    @memoize(keep=16)
    def _estimate(self, ref: ModelRef, scenario: Scenario, device: str) -> Estimate:
        return estimate(self.model(ref), self.device(device), scenario)

    def is_ready(self, ref: ModelRef) -> bool:
        """False: the model must be captured first, which takes seconds and torch."""
        with _request_errors():
            return ref in self._captured or (ref not in self._again and store.is_ready(ref))

    def capture_again(self, ref: ModelRef) -> None:
        """Capture a model anew: until then it is not ready, whatever is stored of it."""
        if store.is_captured(ref):
            self._captured.pop(ref, None)
            self._again.add(ref)
            self._forget_models()

    def is_edited(self, ref: ModelRef) -> bool:
        """Return whether the code of a model has changed since it was captured, or a file since it was read: it has to
        be captured again."""
        with _request_errors():
            if ref in self._read and self._read[ref] != _stamp(ref):
                return True
            return ref in self._captured and not store.is_current(self._captured[ref])

    def named(
        self,
        model: str,
        inputs: Sequence[str] = (),
        batch_dim: str | None = None,
        limits: ProcessLimits = USER_LIMITS,
        *,
        trusted: bool = True,
    ) -> str:
        """The complete name of a model that a person typed: typing it is what lets the code of one of their own run.
        Not `trusted`, a name that is complete already (it may come out of a state string) runs nothing.
        Raises RequestError for inputs of another model, and where no file defines it."""
        with _request_errors():
            target = user_target(model)
            if target is None:
                if inputs or batch_dim is not None:
                    raise RequestError(f"{model[:60]} takes no inputs: those of a model of your own follow net.py:make")
                return model
            target = targets.complete(target, inputs, batch_dim)
        if target.runs_code and (trusted or not target.called or inputs or batch_dim is not None):
            self.allow(str(target), limits)
        return str(target)

    def allow(self, model: str, limits: ProcessLimits) -> None:
        """A person asked for this model of theirs by name: its code may run, in the capture subprocess."""
        self._allowed[model] = limits

    def _limits(self, ref: ModelRef) -> ProcessLimits | None:
        """Return the limits of a capture. Raises CodeError where it would run code that nobody asked to run."""
        allowed = self._allowed.get(str(ref))
        if allowed is None and isinstance(ref, Target) and ref.runs_code:
            raise CodeError(ref)
        return allowed

    def run_limits(self, ref: ModelRef) -> ProcessLimits:
        """Return the limits of a run of the model. Raises RequestError where nobody asked for its code to run."""
        with _request_errors():
            return self._limits(ref) or USER_LIMITS

    def capture(self, ref: ModelRef, progress: Callable[[str, float], None] | None = None) -> None:
        """Capture a model and keep it, waiting for it. Raises RequestError with what went wrong."""
        with _request_errors():
            self._reading[ref] = _stamp(ref)
            limits, again = self._limits(ref), ref in self._again
            self.keep(ref, store.load(ref, progress=progress, limits=limits, again=again))

    def job(self, ref: ModelRef) -> WorkloadJob:
        """A capture to start, watch and cancel; `keep` its result and the model is ready."""
        with _request_errors():
            self._reading[ref] = _stamp(ref)
            return store.capture_job(ref, limits=self._limits(ref))

    def keep(self, ref: ModelRef, captured: Workload) -> None:
        """Use this workload for a model from now on."""
        self._again.discard(ref)
        self._captured[ref] = captured
        self._read[ref] = self._reading.pop(ref, (0, 0))
        self._forget_models()

    def reset(self) -> None:
        """Forget every model that was read or captured here."""
        self._captured.clear()
        self._forget_models()

    def _forget_models(self) -> None:
        self.revision += 1
        forget_memos(self, Engine.model, Engine._estimate)


def _with_words(model: Workload, ref: ModelRef) -> Workload:
    """A model of the user's says how it is asked for: its name is that of a file somewhere."""
    return msgspec.structs.replace(model, asked=ref.words) if isinstance(ref, Target) else model


@contextmanager
def _request_errors() -> Iterator[None]:
    """Whatever is wrong with a model is a wrong request."""
    try:
        yield
    except RequestError:
        raise
    except (ModelError, OSError) as error:
        raise RequestError(str(error)) from None


def _stamp(ref: ModelRef) -> tuple[int, int]:
    """When a file that is read as it is was written, and its size; nothing for other models."""
    if not isinstance(ref, Target) or ref.runs_code:
        return (0, 0)
    status = targets.source(ref).stat()
    return status.st_mtime_ns, status.st_size
