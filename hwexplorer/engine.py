"""What a State asks of the one engine of this process."""

from __future__ import annotations

from pathlib import Path

from analysis.run.engine import Engine
from analysis.run.estimate import Estimate
from analysis.run.scenario import Scenario
from analysis.workload.job import Job
from analysis.workload.model_ref import ModelRef
from analysis.workload.store import ProgressCallback
from analysis.workload.workload import Workload
from hwexplorer.state import State

ENGINE = Engine()
device, named, allow, use_folders = ENGINE.device, ENGINE.named, ENGINE.allow, ENGINE.use_folders


def ref(state: State) -> ModelRef:
    """The model of a state."""
    return ENGINE.refer(state.model, state.image_size)


def scenario(state: State) -> Scenario:
    return Scenario(state.batch, state.precision, state.execution, state.layout, state.sequence, state.kv)


def workload(state: State) -> Workload:
    """The model of a state, which must be ready. Raises RequestError otherwise, and for a batch it has not."""
    return ENGINE.workload(ref(state), scenario(state))


def captured(state: State) -> Workload:
    """The model of a state whatever the state's batch. Raises RequestError where it is not captured."""
    return ENGINE.model(ref(state))


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
    ENGINE.capture(ref(state), progress)


def capture_job(state: State) -> Job:
    """A capture to start, watch and cancel; `keep` its result and `is_ready` is true."""
    return ENGINE.job(ref(state))


def keep(state: State, captured: Workload) -> None:
    """Use this workload for the model of a state from now on."""
    ENGINE.keep(ref(state), captured)


def folders() -> tuple[Path, ...]:
    """Folders of the user's own device files."""
    return ENGINE.folders


def revision() -> int:
    """Another number whenever a model is no longer what it was."""
    return ENGINE.revision
