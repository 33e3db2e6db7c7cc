"""The batches for which a workload has figures: all, one, or up to a maximum, as its notes state."""

import re
from collections.abc import Sequence

from analysis.model import request_bounds
from analysis.model.ir.workload import SHARE, Workload
from hardware.base.errors import RequestError
from hardware.base.records import memoize

_FIXED = r"captured at batch ([0-9]+) alone"
_UP_TO = r"captured for batches up to ([0-9]+) alone"


def fixed_note(batch: int, why: str) -> str:
    """Return the note of a workload that has figures for one batch only; `fixed_batch` reads it."""
    return f"captured at batch {batch} alone: {why}"


def range_note(most: int, why: str) -> str:
    """Return the note of a workload that has figures for batches up to `most`; `largest_batch` reads it."""
    return f"captured for batches up to {most} alone: {why}"


@memoize(shared=True)
def largest_batch(workload: Workload) -> int:
    """Return the largest batch for which a workload has figures."""
    match = next(filter(None, (re.match(_UP_TO, note) for note in workload.notes)), None)
    return int(match[1]) if match else request_bounds.BATCH


@memoize(shared=True)
def fixed_batch(workload: Workload) -> int | None:
    """Return the only batch for which a workload has figures, None if it is not limited to one."""
    sizes = " ".join([str(size) for item in workload.inputs for size in item.shape])
    if not workload.inputs or "batch" in sizes or SHARE in sizes:
        return None
    match = next(filter(None, (re.match(_FIXED, note) for note in workload.notes)), None)
    return int(match[1]) if match else 1


def refusal(workload: Workload, batch: int) -> str:
    """Return why a workload has no figures at a batch; '' if it has."""
    fixed, most = fixed_batch(workload), largest_batch(workload)
    if fixed is not None and batch != fixed:
        return f"{workload.name} is captured at one fixed batch: batch {fixed} is the only one it has"
    return f"{workload.name} is captured for batches up to {most}: its code takes another path beyond" * (batch > most)


def check_batch(workload: Workload, batch: int) -> None:
    """Raise RequestError for a batch without figures."""
    if reason := refusal(workload, batch):
        raise RequestError(reason)


def batch_words(workload: Workload, batch: int) -> str:
    """Return a batch in words: `batch 8`, or `8 requests at once` of a language model."""
    return f"{batch} requests at once" if "output" in workload.defaults else f"batch {batch}"


def batches_of(workload: Workload, usual: Sequence[int]) -> tuple[int, ...]:
    """Return the batches of `usual` for which a workload has figures, or its only batch."""
    fixed = fixed_batch(workload)
    return tuple(batch for batch in usual if not refusal(workload, batch)) if fixed is None else (fixed,)
