"""Errors of a model request. Every message is one line that a person can act on."""

from hardware.base.errors import RequestError


class ModelError(RequestError):
    """Base of everything that `store.load` raises on purpose."""


class UnknownModelError(ModelError, LookupError):
    """The name matches no model or building block."""


class ModelSpecError(ModelError):
    """A malformed specification: an unknown parameter of a block, an invalid image size."""


class EmptyModelError(ModelError):
    """The model has no operator to cost."""


class CaptureError(ModelError, RuntimeError):
    """The capture subprocess failed or sent no workload."""


class CaptureCancelledError(CaptureError):
    """The capture was cancelled."""


class UnreadableError(ModelError):
    """The file is not a model, or its model cannot be costed."""
