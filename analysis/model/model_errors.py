"""Errors of a model request. Every message is one line that a person can act on."""

from __future__ import annotations


class ModelError(Exception):
    """Base of everything that `store.load` raises on purpose."""


class UnknownModelError(ModelError, LookupError):
    """No model or building block of that name."""


class ModelSpecError(ModelError, ValueError):
    """A malformed specification: a parameter the block lacks, an image size that cannot be."""


class EmptyModelError(ModelError):
    """A model in which nothing computes."""


class CaptureError(ModelError, RuntimeError):
    """The capture subprocess could not deliver."""


class CaptureCancelledError(CaptureError):
    """The capture was cancelled."""


class UnreadableError(ModelError, ValueError):
    """A file that is no model, or one that cannot be costed."""
