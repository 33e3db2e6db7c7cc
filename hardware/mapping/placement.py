"""Where a compiler puts the layers of a network on a chip that they share: parts that fit, each in its turn."""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import READ_WEIGHT, Demand, Floats, Ints


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What a chip holds at once, bytes of weights and layers, and what it takes to hold something else: seconds to
    switch, and for each byte that one part hands to another."""

    weight_bytes: float
    layers: int
    switch_s: float
    byte_s: float


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """k kernels in the order of execution. `weight_bytes` (k,) they hold; `need_s` (k,) of the whole chip, which those
    of a part share; `stream_s` (k,) below which nothing passes through them; `lag` (k,) how much later they are
    through than their inputs, in parts of the time of all."""

    weight_bytes: Floats
    need_s: Floats
    stream_s: Floats
    lag: Floats

    def part(self, begin: int, end: int) -> Steps:
        return Steps(**{name: getattr(self, name)[begin:end] for name in self.__struct_fields__})


def models(demand: Demand) -> Ints:
    """The number of the model that each kernel belongs to, (k,)."""
    return demand.stream.model if demand.stream else np.zeros(demand.n_kernels, dtype=np.int64)


def previous(demand: Demand) -> Ints:
    """The kernel that touched a transfer's data last, -1 for what is new, (t,)."""
    return demand.stream.previous if demand.stream else np.full(len(demand.transfer_op), -1)


def starts(group: Ints) -> Ints:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.diff(group, prepend=-1))


def contexts(demand: Demand, steps: Steps, room: Room) -> Ints:
    """The part of its model (context) that each kernel is in, numbered over all models, (k,)."""
    if room.layers == 1:
        return np.arange(demand.n_kernels)
    own, before = demand.kernel[demand.transfer_op], previous(demand)
    is_handed = (before >= 0) & (demand.transfer_role != READ_WEIGHT) & (before != own)
    seconds = demand.transfer_bytes[is_handed] * room.byte_s
    begins, ends = np.minimum(own, before)[is_handed], np.maximum(own, before)[is_handed]
    first = starts(models(demand))
    begins_part = np.zeros(demand.n_kernels, dtype=np.int64)
    begins_part[first] = 1
    for begin, end in zip(first.tolist(), [*first[1:].tolist(), demand.n_kernels], strict=True):
        part = steps.part(begin, end)
        if end - begin > room.layers or part.weight_bytes.sum() > room.weight_bytes:
            mine = (begins >= begin) & (begins < end)
            handed = _handed(begins[mine] - begin, ends[mine] - begin, seconds[mine], end - begin)
            begins_part[begin + np.array(quickest(part, handed, room))] = 1
    numbers: Ints = np.cumsum(begins_part) - 1
    return numbers


def _handed(begins: Ints, ends: Ints, seconds: Floats, n: int) -> list[list[tuple[int, float]]]:
    """What is made or handed on by one kernel and used by a later one: at each later one, where and seconds."""
    handed: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for begin, end, each in zip(begins.tolist(), ends.tolist(), seconds.tolist(), strict=True):
        handed[end].append((begin, each))
    return handed


def quickest(steps: Steps, handed: list[list[tuple[int, float]]], room: Room) -> list[int]:
    """Where the parts of one model begin, so that a batch takes the least time through all of them.

    The kernels of a part work at once. What is handed on crosses the link once, at the first cut that parts its two
    kernels."""
    n = len(steps.need_s)
    weights, need, lag = (np.cumsum([0.0, *each]) for each in (steps.weight_bytes, steps.need_s, steps.lag))
    low = np.maximum(np.searchsorted(weights, weights[1:] - room.weight_bytes), np.arange(n) + 1 - room.layers)
    low = np.minimum(np.maximum.accumulate(low), np.arange(n))  # one that is too large by itself is a part
    under_way = np.zeros(n)  # seconds of what will be used, by where it was handed on
    for end in range(n):
        for begin, seconds in handed[end]:
            under_way[begin] += seconds
    least, before = np.zeros(n + 1), np.zeros(n + 1, dtype=np.int64)  # of all kernels before
    slowest = np.zeros(n)  # of what begins at each kernel and ends here
    for end in range(1, n + 1):
        for begin, seconds in handed[end - 1]:
            under_way[begin] -= seconds
        part = slice(int(low[end - 1]), end)
        np.maximum(slowest[part], steps.stream_s[end - 1], out=slowest[part])
        cost = np.maximum(need[end] - need[part], slowest[part]) * (1.0 + lag[end] - lag[part]) + least[part]
        cost += np.cumsum(np.maximum(under_way[part][::-1], 0.0))[::-1]
        best = int(cost.argmin())
        least[end], before[end] = float(cost[best]) + room.switch_s, part.start + best
    begins, end = [], n
    while end > 0:
        end = int(before[end])
        begins.append(end)
    return begins
