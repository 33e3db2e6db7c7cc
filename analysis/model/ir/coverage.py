"""The share of a model's work with a cost rule: of bytes moved, and of FLOPs, which are bounded without a rule."""

from pathlib import Path

import msgspec
import numpy as np

from analysis.model.ir.workload import Workload
from hardware.base import file_access
from hardware.base.records import memoize
from hardware.base.text import percent

_CONSTANTS = Path(__file__).with_suffix(".toml")
_SHOWN = 3
ALONE = "the language model alone"  # the start of a note that names the omitted parts of a model


class Coverage(msgspec.Struct, frozen=True):
    """Shares (0-1) of operators, bytes and FLOPs with a cost rule. An operator without a rule counts the FLOPs of a
    matrix product of its tensors. `missing` has the names and counts of operators without a rule."""

    operators: float = 1.0
    bytes: float = 1.0
    flops: float = 1.0
    missing: tuple[tuple[str, int], ...] = ()

    @property
    def work(self) -> float:
        """The smaller of the shares of bytes and FLOPs."""
        return min(self.bytes, self.flops)

    @property
    def gap(self) -> str:
        """A line that says how much of the work has no cost rule; '' if enough has one."""
        if self.work >= least():
            return ""
        listed = ", ".join(f"{name} ({count}x)" for name, count in self.missing[:_SHOWN])
        more = f" and {len(self.missing) - _SHOWN} more" if len(self.missing) > _SHOWN else ""
        return f"INCOMPLETE: about {percent(self.work)} of the work has a cost rule; without: {listed}{more}"


def _constant(name: str) -> float:
    return float(file_access.shipped(_CONSTANTS)[name]["value"])


def least() -> float:
    """Return the share of work with a rule below which no recommendation is given."""
    return _constant("least")


@memoize(keep=16)
def coverage(workload: Workload, batch: int = 1) -> Coverage:
    """Return the shares of a workload with a cost rule at a batch."""
    ops, tensors, point = workload.operators, workload.tensors, workload.value_at(batch=batch)
    known, count = ops.has_rule, workload.n_operators
    if known.all():
        return Coverage()
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


def uncovered_note(workload: Workload, batch: int = 1) -> str:
    """Return a line that names the work missing from a workload's figures; '' if they are complete."""
    parts = (note for note in workload.notes if note.startswith(ALONE))
    return "; ".join(filter(None, (coverage(workload, batch).gap, *parts)))
