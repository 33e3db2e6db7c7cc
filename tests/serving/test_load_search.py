"""A search for the devices and the layout of one load, and a sweep over loads."""

import pytest

from analysis.explore.odds import SAFE
from analysis.model.transformer.transformer_request import preset
from analysis.serving.deployment import ParallelDegrees, command_lines, layouts, split_layouts
from analysis.serving.request_load import Lengths, open_load
from hwexplorer import engine
from hwexplorer.reports.show import load as search_load
from hwexplorer.state import State
from tests.command import document, hwexplorer

MODEL = "llama3_8b:serve,in=256,out=32,rate=4"


def test_found_deployments_keep_the_limits_the_best_first() -> None:
    limits = ("--max-ttft", "500ms", "--max-tpot", "45ms")
    words = ("search", MODEL, "--on", "l4,h100_sxm", "--devices", "4", *limits, "--sort", "energy")
    rows = document(*words)["found"]
    assert rows
    assert all(row["ttft_p99_s"] <= 0.5 and row["tpot_p99_s"] <= 0.045 and row["devices"] <= 4 for row in rows)
    order = [(one["odds"] < SAFE, one["energy_j_per_token"]) for one in rows]  # bolder ones come last
    assert order == sorted(order)
    assert all(0 < one["odds"] < 1 for one in rows)


def test_limits_that_nothing_keeps_name_the_nearest_that_keeps_up() -> None:
    words = ("search", "llama3_8b:serve,in=1024,out=256,rate=8", "--on", "l4", "--devices", "8", "--max-tpot", "1us")
    found = document(*words)
    assert not found["found"]
    assert found["falling_behind"] < found["evaluated"] - found["not_fitting"]
    assert found["nearest"]["lag_per_s"] == 0
    out = hwexplorer(*words).out
    assert "No deployment keeps TPOT p99 at most 1.00 µs" in out
    assert f"nearest: {found['nearest']['key']}" in out


def test_the_commands_start_the_layout_that_was_found() -> None:
    words = ("search", "llama3_70b:serve,in=256,out=32,rate=1", "--on", "h100_sxm", "--devices", "4")
    found = document(*words)
    layout = found["found"][0]["layout"]
    commands = {line["server"]: line["command"] for line in found["commands"]}
    degree = dict(part.split("=") for part in layout.split(","))["tp"]
    assert f"--tensor-parallel-size {degree}" in commands["vLLM"]
    assert f"--tp-size {degree}" in commands["SGLang"]
    assert f"--tp_size {degree}" in commands["TensorRT-LLM"]
    assert "--max-model-len 288" in commands["vLLM"]


def test_layouts_share_devices_evenly() -> None:
    dense, sparse = (set(layouts(preset(name).config, 8)) for name in ("llama3_8b", "mixtral_8x7b"))
    assert ParallelDegrees(tp=2, pp=4) in dense
    assert all(layout.devices <= 8 and layout.ep == 1 for layout in dense)
    assert {ParallelDegrees(ep=8), ParallelDegrees(tp=4, ep=4), ParallelDegrees(tp=8)} <= sparse


def test_a_sweep_goes_from_light_to_heavy() -> None:
    rows = document("sweep", MODEL, "--on", "l4", "--rates", "1,8,2")["loads"]
    assert [row["load"] for row in rows] == ["1 request/s", "2 requests/s", "8 requests/s"]
    assert [row["tpot_p50_s"] for row in rows] == sorted(row["tpot_p50_s"] for row in rows)
    assert len(document("sweep", MODEL, "--on", "l4")["loads"]) == 5


def test_a_search_without_devices_is_over_those_one_can_hire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_load, "hired_devices", lambda: frozenset({"h100_sxm"}))
    out = hwexplorer("search", MODEL, "--devices", "1").out
    assert "on H100" in out or "on h100_sxm" in out
    assert "devices whose price to hire is published; --on names others" in out


def test_search_divides_devices_among_prefill_and_decode() -> None:
    server = engine.serve_load(State("llama3_8b:serve,in=2048,out=64,rate=1", devices=("l40s",), on="l40s")).server
    for rate in (0.5, 4.0, 16.0):
        load = open_load(rate, Lengths(prompt=2048, output=64))
        found = list(split_layouts(server, load, 16))
        prefill_s, decode_s = server.worker_seconds(load)
        assert [each.devices for each in found] == sorted({each.devices for each in found})
        for each in found:
            assert each.prefill >= 1
            assert each.decode >= 1
            assert each.devices <= 16
            assert (each.prefill > each.decode) == (prefill_s > decode_s) or each.prefill == each.decode
    assert not list(split_layouts(server, load, 1))


def test_commands_of_prefill_apart_start_both_kinds_of_workers() -> None:
    served = engine.serve_load(State("llama3_8b:serve,rate=1,prefill=1,decode=2", devices=("l40s*3",), on="l40s*3"))
    for line in command_lines(served.server, 2048):
        assert "start 1" in line.command
        assert " 2 " in line.command


def test_commands_state_the_drafts_of_a_load() -> None:
    state = State("llama3_8b:serve,in=128,out=32,rate=1,spec=3", precision="bf16", devices=("h100_sxm",), on="h100_sxm")
    commands = {line.server: line.command for line in command_lines(engine.serve_load(state).server, 160, 3)}
    assert '"num_speculative_tokens":3' in commands["vLLM"]
    assert "--speculative-num-draft-tokens 4" in commands["SGLang"]
    assert "max_draft_len: 3" in commands["TensorRT-LLM"]
    assert not any("speculative" in line.command for line in command_lines(engine.serve_load(state).server, 160))


@pytest.mark.parametrize(
    ("model", "device"),
    [("gpt_oss_20b:serve,rate=1,ep=2,dp=2", "h100_sxm"), ("llama3_8b:serve,rate=1,tp=2,dp=2,spec=2", "h100_sxm")],
)
def test_nothing_but_words_follows_the_comment_of_a_command(model: str, device: str) -> None:
    served = engine.serve_load(State(model, precision="int4", devices=(device,), on=device))
    for line in command_lines(served.server, 2048, 2):
        flags, comment = line.command.split(" # ", 1)
        assert "--" not in comment.replace("--extra_llm_api_options with", "")
        assert "a checkpoint in int4" in comment
        words = [word for word in flags.split() if word.startswith("--")]
        assert len(words) == len(set(words))


def test_replicas_of_a_model_with_experts_are_started_one_by_one() -> None:
    """Ranks of vLLM's data parallelism share their experts, and would not be replicas."""
    lines = {}
    for model in ("gpt_oss_20b", "llama3_8b"):
        state = State(f"{model}:serve,rate=1,tp=2,dp=2", devices=("h100_sxm",), on="h100_sxm")
        lines[model] = command_lines(engine.serve_load(state).server, 2048)[0].command
    assert "start 2 of them" in lines["gpt_oss_20b"]
    assert "--data-parallel-size" not in lines["gpt_oss_20b"]
    assert "--data-parallel-size 2" in lines["llama3_8b"]


def test_a_cap_serves_with_less_energy_within_the_limits() -> None:
    words = ("search", MODEL, "--on", "h100_sxm", "--devices", "1", "--max-tpot", "20ms", "--cap", "--sort", "energy")
    rows = document(*words)["found"]
    free = next(row for row in rows if row["key"] == "h100_sxm")
    assert rows[0]["key"].startswith("h100_sxm@")
    assert rows[0]["energy_j_per_token"] < free["energy_j_per_token"]
    assert rows[0]["tpot_p99_s"] <= 0.02
    assert rows[0]["usd_per_million_tokens"] == pytest.approx(free["usd_per_million_tokens"])
    assert "without a cap: h100_sxm (one device)" in hwexplorer(*words).out
