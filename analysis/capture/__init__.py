"""From a PyTorch module to a workload. The only package that imports torch; run it as a subprocess
(`python -m analysis.capture`) from anything that must stay light.

The package can be called: `analysis.capture(model, example_inputs)` captures a module at hand.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .notebook import Captured


class _Capture(ModuleType):
    def __call__(self, model: Any, inputs: Any, *, batch_dim: int | None = 0, name: str = "") -> Captured:
        """Return the workload of a torch module or function and its example inputs: a tensor, an array or a shape as
        (1, 3, 224, 224), several in a tuple or list, or by name in a dictionary. `batch_dim` is the dimension that
        becomes the batch; None keeps all sizes as they are. Raises a `CaptureError` that says in one line what cannot
        be captured and where."""
        from analysis.capture.user_model import capture_module

        from .notebook import as_captured

        return as_captured(
            capture_module(model, inputs, batch_dim, name or getattr(model, "__name__", type(model).__name__))
        )


sys.modules[__name__].__class__ = _Capture
