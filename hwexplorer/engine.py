"""What a State asks of the one engine of this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.estimate.engine import CodeError, Engine
from analysis.estimate.estimate import Estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Workload
from analysis.model.names import targets
from analysis.model.names.model_ref import ModelRef
from analysis.model.store import ProgressCallback
from hardware.errors import RequestError
from hwexplorer.state import State

if TYPE_CHECKING:
    from analysis.model.process.capture_job import WorkloadJob
from analysis.model.process.process_limits import ProcessLimits

ENGINE = Engine()
device, named, allow, use_folders = ENGINE.device, ENGINE.named, ENGINE.allow, ENGINE.use_folders


def ref(state: State) -> ModelRef:
    """The model of a state."""
    return ENGINE.refer(state.model, state.image_size)


def scenario(state: State) -> Scenario:
    """Return the settings of a state that estimates take; the image size belongs to the model."""
    return Scenario(**{name: getattr(state, name) for name in Scenario.__struct_fields__})


def workload(state: State) -> Workload:
    """The model of a state, which must be ready. Raises RequestError otherwise, and for a batch it has not."""
    return ENGINE.workload(ref(state), scenario(state))


def captured(state: State) -> Workload:
    """The model of a state whatever the state's batch. Raises RequestError where it is not captured."""
    return ENGINE.model(ref(state))


def fixed_batch(state: State) -> int | None:
    """The only batch of the model of a state, which is ready; None where any will do."""
    return targets.fixed_batch(captured(state))


def result(state: State, device_name: str = "") -> Estimate:
    """The estimate of a state on one device (the one under the cursor)."""
    return ENGINE.estimate(ref(state), scenario(state), device_name or state.on)


def is_ready(state: State) -> bool:
    """False: the model must be captured first, which takes seconds and torch."""
    return ENGINE.is_ready(ref(state))


def capture_again(state: State) -> None:
    """What is stored or known of the model of a state is not used: it is not ready until it is captured anew."""
    ENGINE.capture_again(ref(state))


def is_edited(state: State) -> bool:
    """Whether the code of a model has changed since it was captured."""
    return ENGINE.is_edited(ref(state))


def capture(state: State, progress: ProgressCallback | None = None) -> None:
    """Capture the model of a state and keep it, waiting for it."""
    with _saying_how():
        ENGINE.capture(ref(state), progress)


def capture_job(state: State) -> WorkloadJob:
    """A capture to start, watch and cancel; `keep` its result and `is_ready` is true."""
    with _saying_how():
        return ENGINE.job(ref(state))


@contextmanager
def _saying_how() -> Iterator[None]:
    """A model whose code may not run yet is refused with the command that lets it."""
    try:
        yield
    except CodeError as error:
        from hwexplorer import shell

        raise RequestError(f"{error}: {shell.capture(error.target)}") from None


def keep(state: State, captured: Workload) -> None:
    """Use this workload for the model of a state from now on."""
    ENGINE.keep(ref(state), captured)


_ADOPTED: dict[str, Workload] = {}


def adopt(workload: Workload) -> str:
    """The name under which a workload that somebody holds is a model of this process."""
    name = f"{re.sub(r'[^A-Za-z0-9_-]', '_', workload.name)}.{id(workload):x}{targets.STORED}"
    if name not in _ADOPTED:  # which also holds it: no other gets its id
        _ADOPTED[name] = workload
        ENGINE.keep(ENGINE.refer(name), workload)
    return name


def is_adopted(name: str) -> bool:
    return name in _ADOPTED


def folders() -> tuple[Path, ...]:
    """Folders of the user's own device files."""
    return ENGINE.folders


def run_limits(state: State) -> ProcessLimits:
    """What a run of the model of a state may take. Raises RequestError where nobody asked for its code to run."""
    return ENGINE.run_limits(ref(state))


def revision() -> int:
    """Another number whenever a model is no longer what it was."""
    return ENGINE.revision
