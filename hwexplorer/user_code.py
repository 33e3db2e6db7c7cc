"""The models whose code may run in the capture subprocess: a person must have named them."""

from collections.abc import Sequence

from analysis.model.names import targets
from analysis.model.names.model_ref import ModelRef, user_target
from analysis.model.names.targets import Target
from analysis.model.reading_budget import USER_LIMITS, ProcessLimits
from hardware.base.errors import RequestError
from hwexplorer.text import next_command

_ALLOWED: dict[str, ProcessLimits] = {}


def resolve_model_name(
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
    target = user_target(model)
    if target is None:
        if inputs or batch_dim is not None:
            raise RequestError(f"{model[:60]} takes no inputs: only a model of your own (net.py:make) does")
        return model
    target = targets.complete(target, inputs, batch_dim)
    if target.runs_code and (trusted or not target.called or inputs or batch_dim is not None):
        allow(str(target), limits)
    return str(target)


def allow(model: str, limits: ProcessLimits) -> None:
    """Allow the code of a model to run in the capture subprocess: a person named the model."""
    _ALLOWED[model] = limits


def capture_limits(reference: ModelRef) -> ProcessLimits | None:
    """Return the limits of a capture. Raises RequestError if it would run code that was not allowed."""
    allowed = _ALLOWED.get(str(reference))
    if allowed is None and isinstance(reference, Target) and reference.runs_code:
        command = next_command.capture_command(reference)
        raise RequestError(f"{reference.label} is not captured yet, and a state string runs no code: {command}")
    return allowed
