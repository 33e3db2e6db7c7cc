"""`hwexplorer show load`: what a user sees of a language model under load."""

import json
from pathlib import Path
from typing import Any

import pytest

from hwexplorer.cli import main

MODEL = "llama3_8b:serve,in=256,out=32"


def loads(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["show", "load", *words, "--format", "json"]) in (0, None)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["loads"]
    return rows


def test_more_clients_give_more_tokens_for_fewer_joules(capsys: pytest.CaptureFixture[str]) -> None:
    one, many = (loads(capsys, f"{MODEL},concurrency={n}", "--on", "h100_sxm")[0] for n in (1, 32))
    assert many["tokens_per_s"] > one["tokens_per_s"]
    assert many["energy_j_per_token"] < one["energy_j_per_token"]
    assert many["tpot_p50_s"] >= one["tpot_p50_s"]


def test_a_queue_without_end_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "load", f"{MODEL},rate=500", "--on", "l4"]) in (0, None)
    assert "At 500 requests/s L4 falls behind by" in capsys.readouterr().out


def test_limits_say_how_many_servers_a_rate_takes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["show", "load", f"{MODEL},rate=40", "--on", "l4", "--max-tpot", "60ms"]
    assert main(words) in (0, None)
    out = capsys.readouterr().out
    assert "requests/s within the limits (99 % of requests)" in out
    assert "such servers" in out


def test_a_trace_of_requests_is_served(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n0.5,200,20\n")
    (row,) = loads(capsys, f"llama3_8b:serve,requests={trace}", "--on", "h100_sxm")
    assert row["load"] == "the requests of trace.csv"


def test_a_sweep_into_overload_says_what_is_served_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", f"{MODEL},rate=4", "--on", "l4", "--rates", "1,100"]) in (0, None)
    out = capsys.readouterr().out
    assert "still gains" not in out
    assert "L4 serves 1" in out
    assert "TTFT of a load that falls behind covers 400 simulated requests" in out


def test_a_service_within_its_rate_has_no_empty_summary(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "html"):
        assert main(["show", "load", f"{MODEL},rate=4", "--on", "l4", "--all", "--format", form]) in (0, None)
        assert "Summary" not in capsys.readouterr().out


@pytest.mark.parametrize("option", ["rates", "clients"])
def test_a_sweep_of_a_model_without_a_load_refuses_rates(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "resnet18", "--on", "l4", f"--{option}", "1,2"]) == 2
    error = capsys.readouterr().err
    assert f"--{option} needs a load" in error
    assert error.count("\n") == 1
