"""The share of a model's work that has a cost rule: of the bytes it moves, and of FLOPs as far as they are bounded."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from analysis.model.ir.workload import Workload
from hardware import file_access
from hardware.memo import memoize

_CONSTANTS = Path(__file__).with_suffix(".toml")
_SHOWN = 3
ALONE = "the language model alone"  # so begins a note that says which parts of a model are left out


class Coverage(msgspec.Struct, frozen=True):
    """Shares (0-1) of operators, bytes and FLOPs with a cost rule. An operator without one counts as a product of the
    tensors that it reads and writes."""

    operators: float = 1.0
    bytes: float = 1.0
    flops: float = 1.0
    missing: tuple[tuple[str, int], ...] = ()

    @property
    def work(self) -> float:
        """The lesser of the shares of bytes and FLOPs."""
        return min(self.bytes, self.flops)

    @property
    def gap(self) -> str:
        """Why the figures are not the model's, in one line; '' where enough of its work has a rule."""
        if self.work >= least():
            return ""
        listed = ", ".join(f"{name} ({count}x)" for name, count in self.missing[:_SHOWN])
        more = f" and {len(self.missing) - _SHOWN} more" if len(self.missing) > _SHOWN else ""
        return f"INCOMPLETE: about {self.work:.0%} of the work has a cost rule; without: {listed}{more}"


def _constant(name: str) -> float:
    return float(file_access.shipped(_CONSTANTS)[name]["value"])


def least() -> float:
    """Return the share of the work below which nothing is recommended."""
    return _constant("least")


def coverage(workload: Workload, batch: int = 1) -> Coverage:
    """Return the share of a workload that has a cost rule at a batch."""
    return Coverage() if workload.operators.has_rule.all() else _partial(workload, batch)


def uncovered_note(workload: Workload, batch: int = 1) -> str:
    """Return in one line what the figures of a workload leave out; '' if nothing is missing."""
    parts = (note for note in workload.notes if note.startswith(ALONE))
    return "; ".join(filter(None, (coverage(workload, batch).gap, *parts)))


@memoize(keep=16)
def _partial(workload: Workload, batch: int) -> Coverage:
    ops, tensors, point = workload.operators, workload.tensors, workload.value_at(batch=batch)
    known, count = ops.has_rule, workload.n_operators
    times = np.ones(count) if workload.repeats is None else workload.repeats @ point
    width = np.where(tensors.fixed_bytes > 0, tensors.fixed_bytes, _constant("width"))
    read, written = ops.in_numel @ point, tensors.numel @ point
    moved, flops = np.zeros(count), ops.flops @ point
    for i in range(count):
        ins, outs = slice(*ops.in_ptr[i : i + 2]), ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]
        moved[i] = read[ins] @ width[ops.in_tensor[ins]] + written[outs] @ width[outs]
        if not known[i] and len(read[ins]) > 1:
            flops[i] = 2 * np.sqrt(np.prod(np.sort([*read[ins], written[outs].sum()])[-3:]))
    names = [ops.target[i] for i in np.flatnonzero(~known)]
    counts = sorted(((name, names.count(name)) for name in dict.fromkeys(names)), key=lambda entry: -entry[1])
    shares = [float((work * times)[known].sum() / ((work * times).sum() or 1.0)) for work in (moved, flops)]
    return Coverage(float(known.mean()), shares[0], shares[1], tuple(counts))
