"""The placement of a network's layers on a chip: a compiler cuts the network into parts that fit, which run in turn."""

import msgspec
import numpy as np

from hardware.demand import READ_WEIGHT, Demand, Floats, Ints


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity of a chip, bytes of weights and layers at once; seconds to switch its content, and seconds per byte
    that one part hands to another."""

    weight_bytes: float
    layers: int
    switch_s: float
    byte_s: float


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """k kernels in order, (k,) each: `weight_bytes`; `need_s` of the whole chip, which a part shares; `stream_s`, the
    least seconds in which data passes; `lag` behind the inputs, as a fraction of the part's time."""

    weight_bytes: Floats
    need_s: Floats
    stream_s: Floats
    lag: Floats


def starts(group: Ints) -> Ints:
    """Return the index at which each run of equal numbers begins."""
    return np.flatnonzero(np.diff(group, prepend=-1))


def contexts(demand: Demand, steps: Steps, room: Room) -> Ints:
    """Return the part of its model (context) that each kernel is in, numbered over all models, (k,)."""
    if room.layers == 1:
        return np.arange(demand.n_kernels)
    own, before = demand.kernel[demand.transfers.op], demand.transfers.previous
    is_handed = (before >= 0) & (demand.transfers.role != READ_WEIGHT) & (before != own)
    seconds = demand.transfers.size_bytes[is_handed] * room.byte_s
    begins, ends = np.minimum(own, before)[is_handed], np.maximum(own, before)[is_handed]
    model, first = demand.model, starts(demand.model)
    begins_part = np.zeros(demand.n_kernels, dtype=np.int64)
    begins_part[first] = 1
    handed = np.searchsorted(model[begins], model[first]).tolist()  # transfers are ordered by model
    alike: dict[tuple[bytes, ...], list[tuple[slice, slice]]] = {}  # models that differ in batch alone
    for begin, end, some, more in zip(
        first.tolist(), [*first[1:].tolist(), demand.n_kernels], handed, [*handed[1:], len(begins)], strict=True
    ):
        kernels, of = slice(begin, end), slice(some, more)
        if end - begin > room.layers or steps.weight_bytes[kernels].sum() > room.weight_bytes:
            network = steps.weight_bytes[kernels], begins[of] - begin, ends[of] - begin
            alike.setdefault(tuple(each.tobytes() for each in network), []).append((kernels, of))
    for runs in alike.values():
        kernels, of = runs[0]
        of_batch = ("need_s", "stream_s", "lag")
        shared = {name: np.stack([getattr(steps, name)[some] for some, _ in runs], axis=1) for name in of_batch}
        many = Steps(weight_bytes=steps.weight_bytes[kernels], **shared)
        handed_s = np.stack([seconds[each] for _, each in runs], axis=1)
        found = quickest(many, begins[of] - kernels.start, ends[of] - kernels.start, handed_s, room)
        for (each, _), parts in zip(runs, found, strict=True):
            begins_part[each.start + np.array(parts)] = 1
    numbers: Ints = np.cumsum(begins_part) - 1
    return numbers


def quickest(steps: Steps, begins: Ints, ends: Ints, seconds: Floats, room: Room) -> list[list[int]]:
    """Return, for each of b batches, the kernels at which the parts of one model begin so that the total time is least.
    All arrays of `steps` but the weights are (k, b).

    Each of h transfers goes from one kernel to a later one and takes `seconds` (h, b) if a cut separates these: it
    crosses the link once, at the first cut."""
    n, b = steps.need_s.shape
    weights, need, lag = (
        np.concatenate([np.zeros((1, *each.shape[1:])), each]).cumsum(axis=0)
        for each in (steps.weight_bytes, steps.need_s, steps.lag)
    )
    low = np.maximum(np.searchsorted(weights, weights[1:] - room.weight_bytes), np.arange(n) + 1 - room.layers)
    low = np.minimum(np.maximum.accumulate(low), np.arange(n))  # a kernel that is too large is a part by itself
    order = np.argsort(ends, kind="stable")
    begins, seconds, until = begins[order], seconds[order], np.searchsorted(ends[order], np.arange(n + 1)).tolist()
    under_way = np.zeros((n, b))  # seconds of transfers that are still to be used, by origin
    np.add.at(under_way, begins, seconds)
    least, before = np.zeros((n + 1, b)), np.zeros((n + 1, b), dtype=np.int64)  # of all kernels before
    slowest = np.zeros((n, b))  # slowest stream of the part from each kernel to `end`
    batches, first = np.arange(b), low.tolist()
    for end in range(1, n + 1):
        for i in range(until[end - 1], until[end]):
            under_way[begins[i]] -= seconds[i]
        start = first[end - 1]
        part = slice(start, end)
        streams = slowest[part]
        np.maximum(streams, steps.stream_s[end - 1], out=streams)
        cost = np.subtract(need[end], need[part])
        np.maximum(cost, streams, out=cost)
        cost *= 1.0 + lag[end] - lag[part]
        cost += least[part]
        cost += np.add.accumulate(np.maximum(under_way[part][::-1], 0.0), axis=0)[::-1]
        best = cost.argmin(axis=0)
        least[end], before[end] = cost[best, batches] + room.switch_s, start + best
    found = []
    for each in before.T.tolist():
        parts, end = [], n
        while end > 0:
            end = each[end]
            parts.append(end)
        found.append(parts)
    return found
