"""Capture a torch module of the running program, as a workload with a one-line `repr`. torch is imported on call."""

from typing import Any

from analysis.model.ir.workload import Workload, coverage
from hardware.base.text import percent, quantity


class Captured(Workload, frozen=True, dict=True):
    """A workload, with a summary of its size and coverage."""

    @property
    def macs(self) -> float:
        """Multiply-accumulates of one input."""
        return float((self.operators.macs @ self.value_at(**dict.fromkeys(self.dims, 1))).sum())

    @property
    def coverage(self) -> float:
        """Share of operators with a cost rule."""
        return float(self.operators.has_rule.mean()) if self.n_operators else 1.0

    def __repr__(self) -> str:
        words = [
            f"{quantity(self.parameters, 'SI')} parameters",
            quantity(self.macs, "MAC"),
            f"{self.n_operators} operators",
            "inputs " + ", ".join("x".join(str(size) for size in item.shape) for item in self.inputs),
        ]
        if gaps := [f"{name} ({count}x)" for name, count in coverage(self).missing[:5]]:
            words.append(f"{percent(self.coverage)} of operators covered, not {', '.join(gaps)}")
        return f"<{self.name}: {', '.join(words)}>"


def capture(model: Any, inputs: Any, *, batch_dim: int | None = 0, name: str = "") -> Captured:
    """Return the workload of a torch module or function. An input is a tensor, an array or a shape as (1, 3, 224, 224);
    give several in a tuple or list, or by name in a dictionary. `batch_dim` is the dimension that becomes the batch;
    None keeps all sizes fixed. Raises a `CaptureError` that says in one line what cannot be captured and where."""
    from analysis.capture.user_model import capture_module

    workload = capture_module(model, inputs, batch_dim, name or getattr(model, "__name__", type(model).__name__))
    return Captured(**{name: getattr(workload, name) for name in workload.__struct_fields__})
