"""Rules: what they mean, where they are wrong, and how CI hears of it."""

import math
from contextlib import suppress

import pytest
from decisions import hwexplorer, run
from hypothesis import given
from hypothesis import strategies as st

from analysis.estimate.metrics import METRICS, select_metrics
from analysis.estimate.tree_figures import tree
from analysis.explore.outcome import Outcome, check, edp_share, parse_rule
from hardware.base.errors import RequestError
from tests.sampling import for_each


def _on(name: str):  # type: ignore[no-untyped-def]
    return run("resnet18", {"": "h100_sxm", "gpu": "h100_sxm", "cpu": "xeon_8490h"}.get(name, name))


def _outcome_on(name: str) -> Outcome:
    return Outcome(name, _on(name))


@pytest.mark.parametrize("word", select_metrics(lambda metric: metric.is_ruled and not metric.is_of_load))
def test_figures_are_those_of_the_estimate(word: str) -> None:
    value = METRICS[word].figure(_on(""))
    for comparison, limit, holds in (
        ("<", 2, True),
        (">", 2, False),
        ("<=", 1, True),
        (">=", 1, True),
        ("<", 1, False),
    ):
        unit = {"J": "J", "s": "s", "Js": "Js", "byte": "B", "W": "W", "1/s": "/s", "1/J": "/J"}.get(
            METRICS[word].unit, ""
        )
        rule = parse_rule(f"{word}(h100_sxm) {comparison} {value * limit!r}{unit}")
        (found,) = check([rule], _outcome_on).findings
        assert found.value == value
        assert found.holds == holds, (comparison, limit)


def test_amounts_have_units() -> None:
    assert parse_rule("energy(gpu)<50mJ").amount == 0.05
    assert parse_rule(" latency ( gpu ) >= 2 ms ").amount == 0.002
    assert parse_rule("utilization > 5%").amount == 0.05
    assert parse_rule("memory() <= 1GiB").amount == 2**30


def test_shares_add_up() -> None:
    result = _on("")
    assert math.isclose(edp_share(result, "*"), 1.0, rel_tol=1e-9)
    part = edp_share(result, "layer4.*")
    subgraphs = tree(result).subgraphs.share
    expected = sum(s for s, name in zip(subgraphs, result.partition.id, strict=True) if name.startswith("layer4."))
    assert part == pytest.approx(expected, rel=0.2)
    with pytest.raises(RequestError, match="no node"):
        edp_share(result, "layer9.*")


def test_ratios() -> None:
    (found,) = check([parse_rule("ratio(energy, cpu, gpu) > 0")], _outcome_on).findings
    assert found.value == _on("cpu").energy_j / _on("gpu").energy_j


@for_each(
    ("text", "says"),
    [
        ("", "expected"), ("< 5", "expected"), ("enrgy(gpu) < 5mJ", "did you mean energy"),
        ("energy(gpu < 5mJ", "expected"), ("energy(gpu) 5mJ", "expected"), ("energy(gpu) < 5mV", "5mV"),
        ("energy(gpu) <", "expected"), ("energy(gpu, cpu) < 5J", "energy takes one device"),
        ("share() < 1", "share takes a path"), ("ratio(speed, cpu, gpu) > 1", "unknown figure 'speed'"),
        ("ratio(energy, cpu) > 1", "ratio takes a figure and two devices"), ("share(,) < 1", "an argument is a device"),
        ("energy < 50", "'50' has no unit (accepted: 100mJ, 2.5 J)"),
        ("energy(gpu) < 5mJ or so", "or so"), ("energy(gpu) = 5", "expected"),
    ],
)  # fmt: skip
def test_wrong_rule_is_one_line_that_quotes_it(text: str, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_rule(text)
    assert str(caught.value).startswith(f"rule {text!r}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_a_request_error(text: str) -> None:
    with suppress(RequestError):
        parse_rule(text)


def test_exit_codes() -> None:
    passed = hwexplorer("check", "resnet18", "--rule", "energy(gpu) < 1J", "--rule", "share(layer4.*) < 1")
    assert (passed.code, passed.err) == (0, "")
    broken = hwexplorer("check", "resnet18", "--rule", "energy(gpu) < 1J", "--rule", "latency(gpu) < 1ns")
    assert broken.code == 1
    assert "latency of resnet18 on h100_sxm is" in broken.err
    assert "FAIL" in broken.out
    near = hwexplorer(
        "check", "resnet18", "--rule", f"latency(gpu) < {_on('').latency_s * 1.02!r}s", "--format", "json"
    )
    (found,) = near.json()["findings"]
    assert (near.code, found["verdict"], found["holds"]) == (0, "UNKNOWN", True)
    assert "hwexplorer calibrate h100_sxm result.log" in found["next"]
    document = hwexplorer("check", "resnet18", "--rule", "latency(gpu) < 1ns", "--format", "json").json()
    assert document["holds"] is False


def test_verdicts_follow_the_odds_and_never_contradict_the_figure() -> None:
    value = _on("").latency_s
    limits = [value * share for share in (0.2, 0.7, 0.95, 1.05, 1.5, 5.0)]
    found = check([parse_rule(f"latency < {limit!r}s") for limit in limits], _outcome_on).findings
    odds = [one.odds or 0.0 for one in found]
    assert odds == sorted(odds)
    assert [one.verdict for one in found][:: len(found) - 1] == ["FAIL", "PASS"]
    for one, limit in zip(found, limits, strict=True):
        assert one.margin == pytest.approx(1.0 - value / limit)
        assert one.verdict != ("FAIL" if one.holds else "PASS")
    (opposite,) = check([parse_rule(f"latency > {limits[2]!r}s")], _outcome_on).findings
    assert (opposite.odds or 0.0) + odds[2] == pytest.approx(1.0)


def test_model_that_does_not_fit_breaks_every_rule_of_time() -> None:
    for model in ("llama3_70b:decode", "llama3_70b:serve,rate=1"):
        document = hwexplorer("check", model, "--on", "l4", "--rule", "latency < 100s", "--format", "json").json()
        assert document["verdict"] == "FAIL"
        assert "does not fit" in document["findings"][0]["says"]


def test_rules_say_which_devices_and_software_they_are_about() -> None:
    out = hwexplorer("check", "conv2d", "--rule", "ratio(energy, l4, tpu_v4) < 100").out
    assert out.startswith("conv2d, batch 1, bf16, TensorRT, XLA on l4, tpu_v4\n")
