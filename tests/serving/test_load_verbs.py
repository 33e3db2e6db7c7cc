"""Verbs about a model under a load: they speak of the load on all its devices, not of one step on one of them."""

from typing import Any

import pytest

from tests.command import document, hwexplorer

MODEL, DEVICES = "llama3_8b:serve,in=256,out=32,rate=4", "h100_sxm*4"


@pytest.fixture
def served() -> dict[str, Any]:
    found: dict[str, Any] = document("compare", MODEL, "--on", DEVICES)["loads"][0]
    return found


def test_verbs_about_one_device_keep_how_many_share_the_load() -> None:
    for verb in ("why", "tree"):  # the default device stood for any number of it
        assert "x 4" in hwexplorer(verb, MODEL, "--on", DEVICES).out.splitlines()[0], verb


def test_rules_of_a_load_are_about_its_slow_requests(served: dict[str, Any]) -> None:
    rules = ("ttft < 1s", f"tpot({DEVICES}) < 1s", "energy < 1kJ", "latency < 99s", "throughput > 1")
    words = [word for rule in rules for word in ("--rule", rule)]
    found = document("check", MODEL, "--on", DEVICES, *words)["findings"]
    keys = ("ttft_p99_s", "tpot_p99_s", "energy_j_per_token", "request_p50_s", "tokens_per_s")
    assert [each["value"] for each in found] == pytest.approx([served[key] for key in keys])
    refused = hwexplorer("check", "mlp", "--on", "l4", "--rule", "ttft < 1s")
    assert refused.code == 2
    assert "ttft is a figure of a load" in refused.err


def test_advice_about_a_load_is_by_the_load(served: dict[str, Any]) -> None:
    advice = document("advise", MODEL, "--on", DEVICES, "--instead", "b200")
    rows = {row["key"]: row for row in advice["loads"]}
    assert rows["now"] == served | {"key": "now"}
    assert rows["device b200"]["devices"] == 4
    assert rows["device b200"]["tpot_p50_s"] < served["tpot_p50_s"]
    assert "precision fp8" in rows
    assert not advice["answers"][0].startswith("now")
