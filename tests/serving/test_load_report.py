"""`hwexplorer show load`: what a user sees of a language model under load."""

from pathlib import Path
from typing import Any

import pytest

from tests.command import document, hwexplorer

MODEL = "llama3_8b:serve,in=256,out=32"


def loads(*words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = document("show", "load", *words)["loads"]
    return rows


def test_more_clients_give_more_tokens_for_fewer_joules() -> None:
    one, many = (loads(f"{MODEL},concurrency={n}", "--on", "h100_sxm")[0] for n in (1, 32))
    assert many["tokens_per_s"] > one["tokens_per_s"]
    assert many["energy_j_per_token"] < one["energy_j_per_token"]
    assert many["tpot_p50_s"] >= one["tpot_p50_s"]


def test_a_queue_without_end_is_an_answer() -> None:
    assert "At 500 requests/s L4 falls behind by" in hwexplorer("show", "load", f"{MODEL},rate=500", "--on", "l4").out


def test_limits_say_how_many_servers_a_rate_takes() -> None:
    words = ["show", "load", f"{MODEL},rate=40", "--on", "l4", "--max-tpot", "60ms"]
    out = hwexplorer(*words).out
    assert "requests/s within the limits (99 % of requests)" in out
    assert "such servers" in out


def test_a_trace_of_requests_is_served(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n0.5,200,20\n")
    (row,) = loads(f"llama3_8b:serve,requests={trace}", "--on", "h100_sxm")
    assert row["load"] == "the requests of trace.csv"


def test_a_sweep_into_overload_says_what_is_served_at_most() -> None:
    out = hwexplorer("sweep", f"{MODEL},rate=4", "--on", "l4", "--rates", "1,100").out
    assert "still gains" not in out
    assert "L4 serves 1" in out
    assert "TTFT of a load that falls behind covers 400 simulated requests" in out


def test_a_service_within_its_rate_has_no_empty_summary() -> None:
    for form in ("text", "html"):
        assert (
            "Summary" not in hwexplorer("show", "load", f"{MODEL},rate=4", "--on", "l4", "--all", "--format", form).out
        )


@pytest.mark.parametrize("option", ["rates", "clients"])
def test_a_sweep_of_a_model_without_a_load_refuses_rates(option: str) -> None:
    done = hwexplorer("sweep", "resnet18", "--on", "l4", f"--{option}", "1,2")
    assert done.code == 2

    assert f"--{option} needs a load" in done.err
    assert done.err.count("\n") == 1
