"""The work of experts: which operators are theirs, and how the tokens that choose them are spread over devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.model.ir.workload import Bools, Floats, Workload
from hardware.memo import memoize


@memoize(shared=True)
def is_expert(workload: Workload) -> Bools:
    """Return True for the operators of experts and those that dispatch tokens to them and combine results, (n,)."""
    inside = np.array([".experts." in f"{path}." for path in workload.operators.path])
    moves: Bools = inside | [target.startswith("hwexplorer.expert_") for target in workload.operators.target]
    return moves


def mean_work(workload: Workload, batch: int, prompts: Floats) -> Floats | None:
    """Return the experts that the mean device reads over the busiest's, 1 for other work, (n,); None on one device."""
    routing = workload.routing
    if routing is None or routing.devices == 1:
        return None
    return np.where(is_expert(workload), _by_phase(workload, batch, prompts, routing.mean_load), 1.0)


def expert_rows(workload: Workload, batch: int, prompts: Floats) -> Floats | None:
    """Return the experts of a device, the rows of tokens that they get, and those of experts of other devices where all
    devices have all tokens, (3, n), zero for other work."""
    routing = workload.routing
    if routing is None:
        return None

    def count_rows(tokens: float) -> Floats:
        """Return the numbers of a step of so many tokens."""
        own = float(np.prod(routing.expert_load(tokens)))
        others = tokens * routing.active - own if workload.attention_copies == 1 else 0.0
        return np.array([[routing.experts / routing.devices], [own], [max(others, 0.0)]])

    rows: Floats = _by_phase(workload, batch, prompts, count_rows) * is_expert(workload)
    return rows


def _by_phase(workload: Workload, batch: int, prompts: Floats, count: Callable[[float], Any]) -> Floats:
    """Return what `count` returns for the tokens of a prompt, and for those of a step of decoding elsewhere."""
    prompt, token = (count(batch * n) for n in (workload.defaults.get("sequence", 1), 1))
    values: Floats = np.where(prompts > 0, prompt, token)
    return values
