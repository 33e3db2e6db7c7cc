"""Search, front and ranking: against brute force, and what is said where nothing is found."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from decisions import DEFAULTS, device, hwexplorer, run, workload
from hypothesis import given
from hypothesis import strategies as st

from analysis.estimate.figures import describe_deviations
from analysis.estimate.metrics import METRICS, select_metrics
from analysis.estimate.scenario import Scenario
from analysis.explore.constrained_search import find_within, is_sure
from analysis.explore.grid import Axes, Points, Ranking, evaluate
from analysis.explore.odds import SAFE
from analysis.explore.outcome import Constraint
from analysis.model.ir.workload import Workload
from hardware.base.errors import RequestError
from hardware.base.text import parse_amount
from hardware.device import Device
from hwexplorer.configurations import axes_of
from hwexplorer.reports.models import rank_models
from hwexplorer.state import State
from tests.sampling import for_each

FRONT = ("energy", "latency")


def _evaluate(
    workloads: Sequence[Workload], devices: Sequence[Device], batches: tuple[int, ...], precisions: tuple[str, ...]
) -> Points:
    return evaluate(Axes(tuple(workloads), tuple(devices), batches, precisions, Scenario()))


@cache
def _grid() -> Points:
    devices = [device(name) for name in DEFAULTS]
    return _evaluate([workload("resnet18")], devices, (1, 8, 64), ("fp32", "int8")).distinct()


class _One(NamedTuple):
    a: int
    b: int
    c: int

    def sort_key(self, metric: str) -> float:
        return float(np.prod(self)) if metric == "product" else float(getattr(self, metric))


@given(st.lists(st.builds(_One, *[st.integers(0, 6)] * 3), min_size=1, max_size=40))
def test_the_front_is_that_of_brute_force_and_holds_what_is_least(points: list[_One]) -> None:
    front = Ranking(points).front("abc")
    assert list(front) == [
        one for one in points if not any(other != one and np.less_equal(other, one).all() for other in points)
    ]
    for metric in ("a", "b", "c", "product"):
        assert Ranking(points).order(metric, *"abc")[0] in front


def test_accuracy_is_an_objective_over_models() -> None:
    loaded = [workload(name) for name in ("resnet18", "resnet50", "mobilenet_v2")]
    found = find_within(_evaluate(loaded, [device("gpu")], (1, 8), ("fp32",)), (), objectives=(*FRONT, "accuracy"))
    best = max(c.accuracy or 0 for c in (*found.found, *found.dominated))
    assert any(c.accuracy == best for c in found.found)


def test_unlike_accuracies_are_refused() -> None:
    loaded = [workload("resnet18"), workload("fcn_resnet50")]
    grid = _evaluate(loaded, [device("gpu")], (1,), ("fp32",))
    with pytest.raises(RequestError, match="different kinds"):
        find_within(grid, (), objectives=(*FRONT, "accuracy"))
    with pytest.raises(RequestError, match="no published accuracy"):
        find_within(_evaluate([workload("mlp")], [device("gpu")], (1,), ("fp32",)), (), objectives=(*FRONT, "accuracy"))


@pytest.mark.parametrize("name", select_metrics(lambda metric: metric.limit_example))
def test_search_finds_exactly_what_is_within(name: str) -> None:
    more = METRICS[name].more_is_better
    values = sorted(c.figure(name) for c in _grid())
    middle = values[len(values) // 2]
    found = find_within(_grid(), [Constraint(name, ">=" if more else "<=", middle)])
    figures = [(c, c.figure(name)) for c in _grid() if c.fits]
    expected = [c for c, figure in figures if (figure >= middle if more else figure <= middle)]
    for group, silicon in ((found.found, True), (found.design_targets, False)):
        assert len(group) == sum(c.silicon is silicon for c in expected)
        order = [(not is_sure(c, SAFE), c.edp_js) for c in group]  # those that may miss a limit come last
        assert order == sorted(order)
    assert expected
    assert (found.nearest is None) is bool(found.found)


def test_a_limit_that_nothing_meets_is_named_with_the_best_there_is() -> None:
    found = find_within(_grid(), [Constraint("energy", "<=", 1.0), Constraint("latency", "<=", 1e-12)])
    assert not found.found
    assert "No configuration stays below 1.00 ps (latency). The lowest is " in found.verdict
    assert found.nearest.latency_s == min(c.latency_s for c in _grid() if c.silicon)
    assert found.nearest_excess > 1


def test_a_design_that_was_named_counts_in_the_headline() -> None:
    found = hwexplorer("search", "resnet18", "--on", "cpu,gpu,tpu,kpu", "--max-power", "25W")
    assert all(words in found.out for words in ("Only on paper: ", "on paper, least EDP: kpu_t256 (paper) at batch "))
    assert "No configuration stays below 25.0 W (average power). The lowest is " in " ".join(found.out.split())


def test_contradicting_limits_are_said_to_contradict() -> None:
    grid = _grid().where(lambda c: c.silicon)
    fastest = min(grid, key=lambda c: c.latency_s)
    most = max(grid, key=lambda c: c.throughput_per_s)
    limits = [Constraint("latency", "<=", fastest.latency_s), Constraint("throughput", ">=", most.throughput_per_s)]
    if any(all(c.excess(limit) <= 1 for limit in limits) for c in grid):
        pytest.skip("one configuration is both the fastest and of the highest throughput")
    found = find_within(grid, limits)
    assert "contradict each other" in found.verdict
    assert found.nearest is not None


def test_rank_flags_the_front_and_sorts() -> None:
    results = [run(name, "h100_sxm") for name in ("resnet18", "resnet50", "mobilenet_v2", "vit_b_16")]
    found = rank_models(results, "accuracy")
    accuracies = [row.accuracy for row in found.rows]
    assert accuracies == sorted(accuracies, reverse=True, key=lambda value: value or 0)
    assert found.rows[0].on_front
    energies = [row.energy_j for row in rank_models(results, "energy").rows]
    assert energies == sorted(energies)


def test_transformers_are_ranked_by_family() -> None:
    found = hwexplorer("models", "--family", "encoder", "--on", "gpu", "--format", "json").json()
    names = {row["model"] for row in found["rows"]}
    assert "bert_base" in names
    assert all(row["accuracy"] is None for row in found["rows"])


@for_each(
    ("text", "unit", "value"),
    [
        ("100mJ", "J", 0.1), ("100 mJ", "J", 0.1), ("2.5", "J", 2.5), ("50ms", "s", 0.05), ("800us", "s", 8e-4),
        ("512MB", "byte", 512e6), ("2GiB", "byte", 2**31), ("15W", "W", 15), ("10000", "1/s", 1e4),
        ("10k/s", "1/s", 1e4), ("10k", "1/s", 1e4), ("1,500", "", 1500), ("50%", "fraction", 0.5), ("1e-3J", "J", 1e-3),
        ("20uJs", "Js", 2e-5), ("$", "USD", None), ("5 apples", "J", None), ("MJ", "J", None), ("5ms", "J", None),
        ("", "J", None), ("1e999", "J", None), ("5 %", "J", None),
    ],
)  # fmt: skip
def test_amounts(text: str, unit: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(RequestError, match="accepted"):
            parse_amount(text, unit)
    else:
        assert parse_amount(text, unit) == pytest.approx(value, rel=1e-12)


def test_odds_of_a_limit_follow_the_band() -> None:
    """Half at the middle of the band, sure beyond its ends, and never more for a narrower limit."""
    one = next(c for c in _grid() if c.silicon)
    low, high = one.latency_band_s
    limits = (Constraint("latency", "<=", limit) for limit in (low / 4, (low * high) ** 0.5, high * 4))
    odds = [one.odds_of_keeping(limit) for limit in limits]
    assert odds[0] < 0.05
    assert odds[1] == pytest.approx(0.5)
    assert odds[2] > 0.95
    rate = Constraint("throughput", ">=", one.batch / (low * high) ** 0.5)
    assert 0.0 <= one.odds_of_keeping(rate) <= 1.0
    assert one.odds_of_keeping(Constraint("power", "<=", one.average_power_w * 1.01)) == 1.0


def test_a_run_stands_once_by_the_format_that_runs() -> None:
    grid = _evaluate([workload("resnet18")], [device("hailo8")], (1,), ("fp32", "fp16", "int8"))
    found = find_within(grid, [Constraint("latency", "<=", 10.0)]).found
    assert [c.precision for c in found] == ["int8"]


def test_what_no_software_runs_wins_nothing() -> None:
    on = device("jetson_orin_dla")
    assert run("resnet18", on.key).can_win
    result = run("llama3_8b:layers=1,decode", on.key)
    assert result.fits
    assert not result.can_win
    assert any("no software is known" in mark for mark in describe_deviations(result))
    trained = run("resnet18:train", "tpu_v4", 8, "int8")
    assert not trained.can_win
    assert any("to run training in int8 on it" in mark for mark in describe_deviations(trained))
    axes = axes_of(State("resnet18:train", batch=8), None, None, power_modes=False)
    assert axes.batches == (8,)
    assert {"fp32", "bf16"} <= {*axes.precisions} <= {"fp32", "fp16", "bf16", "fp8"}


def test_what_does_not_fit_has_no_speed_and_says_what_fits() -> None:
    found = hwexplorer("compare", "llama3_8b:request,in=64,out=8@fp32", "--on", "h100_sxm,rtx_4090").out
    assert "GeForce RTX 4090: needs 32." in found
    assert "does not fit in fp32; in fp16 it does" in found
    assert "RTX 4090: first token" not in found
    assert "RTX 4090 against" not in found
