"""Results remembered with the record they follow from."""

import msgspec
import numpy as np
import pytest

from analysis.estimate.kernels import demand, structure
from analysis.estimate.operator_facts import operator_graph, partition, subgraph_graph
from analysis.estimate.peak_memory import _sizes, lifetimes
from analysis.model import store
from hardware.base.records import LARGE_BYTES, Large, forget_memos, memoize, share_memos
from hardware.precision import uniform


class Record(msgspec.Struct, frozen=True, dict=True):
    number: int


CALLS: list[tuple[int, ...]] = []


@memoize(keep=2)
def plus(record: Record, more: int) -> int:
    CALLS.append((record.number, more))
    return record.number + more


@memoize(shared=True)
def kind(record: Record) -> str:
    return "even" if record.number % 2 == 0 else "odd"


def test_found_once_and_no_more_than_so_many_kept() -> None:
    CALLS.clear()
    record = Record(1)
    assert [plus(record, more) for more in (1, 1, 2, 1, 3, 1, 2)] == [2, 2, 3, 2, 4, 2, 3]
    assert CALLS == [(1, 1), (1, 2), (1, 3), (1, 2)]  # the third gave up the second, which was not asked for longest
    assert plus(Record(1), 1) == 2
    assert len(CALLS) == 5  # another record remembers for itself
    forget_memos(record, plus)
    assert plus(record, 1) == 2
    assert len(CALLS) == 6


@memoize(large=True)
def array(record: Record, place: int) -> tuple[np.ndarray, int]:
    CALLS.append((record.number, place))
    return np.zeros(LARGE_BYTES // 8 // 4), place


def test_large_results_of_all_records_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardware.base.records._LATEST", 1)
    monkeypatch.setattr(Large, "_all", set())  # results of other tests would go first
    monkeypatch.setattr(Large, "_total", 0)
    CALLS.clear()
    record, other = Record(1), Record(2)
    for place in range(3):
        array(record, place)
    array(record, 0)
    array(other, 7)  # too much: what was not used longest goes
    assert len(CALLS) == 4
    assert [array(record, 0)[1], array(other, 7)[1]] == [0, 7]
    assert len(CALLS) == 4
    assert array(record, 1)[1] == 1
    assert CALLS[4:] == [(1, 1)]


def test_by_positional_arguments() -> None:
    with pytest.raises(TypeError, match="positional"):
        plus(Record(1), more=1)


def test_shared_whoever_finds_it() -> None:
    one, other = Record(2), Record(3)
    share_memos(one, other)
    assert kind(other) == kind(one) == "odd"


def test_a_model_at_other_lengths_shares_what_follows_from_its_graph() -> None:
    """Five kinds of results, graphs and workspace among them: prefixes of names used to forget those."""
    model = store.load("llama3_8b:decode,layers=1")
    other = model.bound(kv=77)
    assert other is not model
    assert other is model.bound(kv=77)
    for of_graph in (partition, operator_graph, subgraph_graph, lambda each: _sizes(each, 16.0)):
        assert of_graph(other) is of_graph(model), of_graph
    for by_mode in (structure, lifetimes):
        assert by_mode(other, "eager") is by_mode(model, "eager"), by_mode
    assert demand(other, 1, uniform(2.0), "eager") is not demand(model, 1, uniform(2.0), "eager")
