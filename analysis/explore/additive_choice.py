"""The choice of one option for each part of a model if times, energies and losses of parts add up.

The least energy or time within a bound on the loss is exact: partial sums are kept unless another has no more of
either. The least product of energy and time lies on the lower hull of all sums, whose corners are the least weighted
sums of both: corners are found between corners until there is none."""

import msgspec
import numpy as np

from hardware.demand import Floats

_STATES = 20_000  # partial sums; beyond, losses are rounded up in steps of the bound
_STEPS = 10_000.0
_CLOSE = 1e-12


class Choice(msgspec.Struct, frozen=True):
    """The option of each part, with the sums of latency (s), energy (J) and loss."""

    options: tuple[int, ...]
    latency_s: float
    energy_j: float
    loss: float

    @property
    def edp_js(self) -> float:
        """Return energy times latency."""
        return self.latency_s * self.energy_j


def choose(latency_s: Floats, energy_j: Floats, loss: Floats, most: float, metric: str) -> Choice | None:
    """Return the choice with the least `metric` (latency, energy or edp) and at most a loss of `most`; arrays are
    (p, o), an infinite loss forbids an option. None if no choice keeps the bound."""

    def solve(weight_s: float, weight_j: float) -> Choice | None:
        """Return the choice with the least weighted sum."""
        options = _least_sum(weight_s * latency_s + weight_j * energy_j, loss, most)
        if options is None:
            return None
        parts = np.arange(len(options))
        sums = (float(table[parts, list(options)].sum()) for table in (latency_s, energy_j, loss))
        return Choice(options, *sums)

    if metric != "edp":
        return solve(*((1.0, 0.0) if metric == "latency" else (0.0, 1.0)))
    ends = solve(1.0, 0.0), solve(0.0, 1.0)
    if ends[0] is None or ends[1] is None:
        return None
    corners, sides = [ends[0], ends[1]], [(ends[0], ends[1])]
    while sides:
        fast, frugal = sides.pop()
        weight_s, weight_j = fast.energy_j - frugal.energy_j, frugal.latency_s - fast.latency_s
        if weight_s <= 0.0 or weight_j <= 0.0:
            continue
        between = solve(weight_s, weight_j)
        side = weight_s * fast.latency_s + weight_j * fast.energy_j
        if between and weight_s * between.latency_s + weight_j * between.energy_j < side * (1.0 - _CLOSE):
            corners.append(between)
            sides += [(fast, between), (between, frugal)]
    return min(corners, key=lambda corner: corner.edp_js)


def _least_sum(cost: Floats, loss: Floats, most: float) -> tuple[int, ...] | None:
    """Return the options with the least sum of costs whose losses add up to at most `most`; None if there are none."""
    if not np.isfinite(most):
        return tuple(np.where(np.isfinite(loss), cost, np.inf).argmin(axis=1).tolist())
    losses, costs, paths = np.zeros(1), np.zeros(1), np.zeros((1, 0), dtype=np.int16)
    for part_cost, part_loss in zip(cost, loss, strict=True):
        allowed = np.flatnonzero(np.isfinite(part_loss))
        all_losses = (losses[:, None] + part_loss[allowed]).ravel()
        all_costs = (costs[:, None] + part_cost[allowed]).ravel()
        if len(all_losses) > _STATES and most > 0.0:
            all_losses = np.ceil(all_losses / most * _STEPS) * most / _STEPS
        order = np.lexsort((all_costs, all_losses))
        order = order[all_losses[order] <= most * (1.0 + _CLOSE)]
        least = np.minimum.accumulate(all_costs[order]) if len(order) else np.zeros(0)
        kept = order[np.append(True, least[1:] < least[:-1])] if len(order) else order
        if not len(kept):
            return None
        came, option = np.divmod(kept, len(allowed))
        losses, costs = all_losses[kept], all_costs[kept]
        paths = np.hstack([paths[came], allowed[option][:, None].astype(np.int16)])
    return tuple(paths[costs.argmin()].tolist())
