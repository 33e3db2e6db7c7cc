"""`hwexplorer show load`: what a user sees of a language model under load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwexplorer.cli import main

MODEL = "llama3_8b:request,in=256,out=32"


def loads(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["show", "load", MODEL, "--format", "json", *words]) in (0, None)
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["loads"]
    return rows


def test_more_clients_give_more_tokens_for_fewer_joules(capsys: pytest.CaptureFixture[str]) -> None:
    one, many = loads(capsys, "--on", "h100_sxm", "--clients", "1", "--clients", "32")
    assert many["tokens_per_s"] > one["tokens_per_s"]  # type: ignore[operator]
    assert many["energy_j_per_token"] < one["energy_j_per_token"]  # type: ignore[operator]
    assert many["tpot_p50_s"] >= one["tpot_p50_s"]  # type: ignore[operator]


def test_a_queue_without_end_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "load", MODEL, "--on", "l4", "--rate", "500"]) in (0, None)
    assert "At 500 requests/s NVIDIA L4 falls behind by" in capsys.readouterr().out


def test_a_trace_of_requests_is_served(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n0.5,200,20\n")
    (row,) = loads(capsys, "--on", "h100_sxm", "--requests", str(trace))
    assert row["load"] == "the requests of trace.csv"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resnet18", "--on", "h100_sxm"], "is no language model"),
        ([MODEL, "--rate", "0"], "--rate"),
        ([MODEL, "--clients", "0"], "--clients"),
        ([MODEL, "--cached", "256"], "at most 255"),
    ],
)
def test_wrong_requests_are_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "load", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
