"""Devices that serve a load together, and what verbs say of a load in a model's name."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.estimate import evaluate_steps
from analysis.estimate.scenario import Scenario
from analysis.model.transformer.transformer_request import parse
from analysis.serving.deployment import ParallelDegrees, open_step, open_steps
from analysis.serving.simulation import simulate
from hardware.device_catalog import load_device
from hardware.engines.runtime import find_scheduler
from hwexplorer import engine
from hwexplorer.cli import main
from hwexplorer.state import State
from tests.command import document
from tests.serving.test_simulation import LOADS, first_requests

MODEL = "llama3_8b:serve,in=256,out=32,rate=4"


def served(model: str, device: str) -> Any:
    return engine.serve_load(State(model, precision="bf16", devices=(device,), on=device))


def test_devices_share_a_model_by_shards_and_replicas_by_the_rest() -> None:
    assert served(MODEL, "l4*2").server.layout == ParallelDegrees(tp=2)
    assert served(MODEL, "l4*6").server.layout == ParallelDegrees(tp=2, dp=3)
    assert served(MODEL.replace("rate", "pp=2,rate"), "l4*4").server.layout == ParallelDegrees(pp=2, dp=2)
    assert served("llama3_8b:serve,rate=4,pp=2,tp=4", "l4").row.devices == 8
    slow, usual, stated = (served(f"{MODEL},tp=2{link}", "l40s").row for link in (",link=0.1", "", ",link=31.5"))
    assert slow.ttft_p50_s > usual.ttft_band_s[1] > stated.ttft_band_s[1]


@settings(max_examples=12, deadline=None)
@given(LOADS, st.integers(2, 5))
def test_replicas_do_the_work_of_all_requests(load: Any, replicas: int) -> None:
    server = served(MODEL, f"h100_sxm*{replicas}" if replicas == 3 else f"l4*{2 * replicas}").server
    load, replicas = first_requests(load, 40), server.layout.dp
    run = server.serve(load)
    assert run.output_tokens == load.output.sum()
    assert (run.end_s >= run.first_s).all()
    assert run.end_of_run_s == run.end_s.max()
    idle_s = run.end_of_run_s * min(replicas, load.requests) - run.busy_s
    assert run.idle_j == pytest.approx(idle_s * server.costs.static_w, rel=1e-6, abs=1e-3)


def test_a_replica_of_one_is_the_server_itself() -> None:
    one = served(MODEL, "l4")
    alone = simulate(one.server.costs, one.server.scheduler, one.load)
    assert alone.end_s == pytest.approx(one.run.end_s)


@pytest.mark.parametrize("stages", [2, 4])
def test_one_request_is_no_quicker_in_a_pipeline(stages: int) -> None:
    alone, pipeline = (served(f"llama3_8b:serve,in=256,out=32,rate=0.01,pp={pp}", "l4") for pp in (1, stages))
    assert pipeline.server.costs.cache_tokens > stages * alone.server.costs.cache_tokens
    assert pipeline.row.tpot_p50_s >= alone.row.tpot_p50_s
    costs = pipeline.server.costs
    of_all, of_one = costs.mixed(1, 100.0, 64, 64 * 132.0), costs.micro_batch.mixed(1, 100.0, 64, 64 * 132.0)
    waiting_j = (stages - 1) * costs.micro_batch.static_w * of_one[0]
    assert of_all == pytest.approx((of_one[0], of_one[1] + waiting_j), rel=0.1)  # a short prompt is not divided


def test_a_pipeline_holds_more_and_is_no_quicker_for_one_request() -> None:
    alone, stages = (served(f"llama3_8b:serve,in=256,out=32,rate=0.01,pp={pp}", "l4") for pp in (1, 4))
    assert stages.server.costs.cache_tokens > 4 * alone.server.costs.cache_tokens
    assert stages.row.tpot_p50_s >= alone.row.tpot_p50_s
    assert stages.row.energy_j_per_token > alone.row.energy_j_per_token  # three of four stages wait
    many, many_stages = (served(f"llama3_8b:serve,in=256,out=32,concurrency=128,pp={pp}", "l4") for pp in (1, 4))
    assert 1.5 < many_stages.row.tokens_per_s / many.row.tokens_per_s < 4.0


def test_capacity_is_what_no_load_exceeds() -> None:
    for model in ("in=256,out=32", "in=1024,out=256", "in=64,out=512"):
        one = served(f"llama3_8b:serve,{model},concurrency=256", "l4")
        assert 0.5 < one.row.utilization < 1.05
    assert served("llama3_8b:serve,in=256,out=32,rate=500", "l4").row.lag_per_s > 100


def test_compare_names_the_best_first_and_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "llama3_70b:serve,in=256,out=32,rate=1", "--on", "l4*8,h100_sxm*4,l4"]
    found = document(*words)
    rows = found["loads"]
    assert [row["key"] for row in rows] == ["h100_sxm*4", "l4*8"]
    aims = [row["energy_j_per_token"] * row["request_p50_s"] for row in rows]
    assert aims == sorted(aims)
    assert "L4 does not fit" in found["not_fitting"][0]
    assert main(words) in (0, None)
    out = capsys.readouterr().out
    assert "batch 1" not in out
    assert "1 request/s of 256 prompt and 32 output tokens" in out


def test_parts_of_a_tree_add_up_to_the_mean_step_of_the_load() -> None:
    tree = document("tree", MODEL, "--on", "h100_sxm")
    row = served(MODEL, "h100_sxm").row
    assert tree["batch"] == round(row.mean_batch)
    assert sum(child["energy_j"] for child in tree["children"]) == pytest.approx(tree["energy_j"])
    per_token = tree["energy_j"] / tree["batch"] / 32
    assert per_token == pytest.approx(row.energy_j_per_token, rel=0.4)  # the run idles between requests as well


def test_an_equal_request_is_an_equal_answer() -> None:
    first, again = (served(MODEL, "l4") for _ in range(2))
    assert np.array_equal(first.run.end_s, again.run.end_s)
    other = served(MODEL + ",seed=1", "l4")
    assert not np.array_equal(first.run.end_s, other.run.end_s)


@pytest.mark.parametrize("rate", [2, 20])
def test_a_server_that_keeps_up_sends_the_tokens_that_are_asked_for(rate: int) -> None:
    row = served(f"llama3_8b:serve,in=1024,out=256,rate={rate}", "h100_sxm*2").row
    assert row.tokens_per_s == pytest.approx(rate * 256, rel=0.05)
    assert row.power_w == pytest.approx(row.energy_j_per_token * row.tokens_per_s)


def test_a_draft_that_is_believed_gives_tokens_sooner() -> None:
    plain, drafted, refused = (
        served(f"{MODEL}{words}", "h100_sxm").row for words in ("", ",spec=4,accept=0.8", ",spec=4,accept=0")
    )
    assert drafted.tpot_p50_s < 0.6 * plain.tpot_p50_s
    assert refused.tpot_p50_s > plain.tpot_p50_s


def test_prompts_on_workers_of_their_own_delay_no_tokens() -> None:
    together = served(f"{MODEL.replace('rate=4', 'rate=40')},dp=2", "h100_sxm")
    apart = served(f"{MODEL.replace('rate=4', 'rate=40')},prefill=1,decode=1", "h100_sxm*2")
    assert apart.row.devices == together.row.devices == 2
    assert apart.run.others_s.sum() < together.run.others_s.sum()
    assert served("llama3_8b:serve,prefill=1,decode=3,rate=4", "l4*8").server.layout == ParallelDegrees(
        tp=2, prefill=1, decode=3
    )


@pytest.mark.parametrize(
    ("device", "rates"), [("h100_sxm", (10, 50, 60, 61, 70, 100, 1000)), ("kpu_t256", (1, 4, 4.9, 5, 10))]
)
def test_more_load_is_never_fewer_tokens_nor_more_joules(device: str, rates: tuple[float, ...]) -> None:
    rows = [served(f"llama3_8b:serve,in=512,out=64,rate={rate}", device).row for rate in rates]
    tokens, joules = ([getattr(row, name) for row in rows] for name in ("tokens_per_s", "energy_j_per_token"))
    assert tokens == sorted(tokens)
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(joules))
    for row, rate in zip(rows, rates, strict=True):
        assert row.tokens_per_s == pytest.approx(row.requests_per_s * 64)
        assert row.requests_per_s == pytest.approx(rate - row.lag_per_s)
    assert [row.lag_per_s > 0 for row in rows] == [rate > rows[-1].requests_per_s for rate in rates]
    assert "e+" not in rows[-1].state


@pytest.mark.parametrize(
    "words", ["in=64,out=1", "in=512,out=1", "in=256,out=32,spread=0.5", "in=64,out=32,prefill=1,decode=1,tp=1"]
)
def test_a_server_at_its_capacity_serves_no_more_than_an_endless_queue_lets_it(words: str) -> None:
    device = "l4*2" if "prefill" in words else "l4"
    one = served(f"llama3_8b:serve,{words},rate=1000", device)
    assert one.row.lag_per_s > 0
    whole = one.load.requests / one.run.end_of_run_s  # it fills and drains besides
    assert whole <= one.row.requests_per_s
    assert served(f"llama3_8b:serve,{words},rate={0.9 * one.row.requests_per_s:.3g}", device).row.lag_per_s == 0


def test_a_trace_whose_last_answer_is_long_is_kept_up_with(tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,20\n1,800,200\n2,100,5\n")
    assert served(f"llama3_8b:serve,requests={file}", "h100_sxm").row.lag_per_s == 0
    rows = "".join(f"{n / 50},2000,200\n" for n in range(300))
    file.write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    assert served(f"llama3_8b:serve,requests={file}", "l4").row.lag_per_s > 30


def test_an_endless_queue_gives_no_token_sooner_than_a_short_one() -> None:
    rows = [served(f"llama3_8b:serve,in=256,out=256,rate={rate}", "l4").row for rate in (1, 4, 400)]
    assert rows[-1].lag_per_s > 0
    assert [row.tpot_p50_s for row in rows] == sorted(row.tpot_p50_s for row in rows)


def test_more_clients_than_a_server_holds_are_its_capacity() -> None:
    few, many = (served(f"llama3_8b:serve,in=512,out=128,concurrency={n}", "h100_sxm").row for n in (20, 2000))
    assert many.utilization == 1.0
    assert many.state == "full: more clients wait"
    assert few.state.startswith("keeps up: ")


def test_an_api_server_limits_short_requests() -> None:
    row = served("llama3_8b:serve,in=1,out=1,rate=200", "h100_sxm").row
    assert row.utilization == pytest.approx(200 * find_scheduler("vllm", 80e9).intake_s.value)


def test_clients_are_as_many_as_stated_with_any_number_of_replicas() -> None:
    rows = [served(f"llama3_8b:serve,in=256,out=64,concurrency=1{words}", "l4").row for words in ("", ",dp=4")]
    assert rows[0].tokens_per_s == pytest.approx(rows[1].tokens_per_s)
    assert rows[1].power_w > rows[0].power_w


def test_one_graph_has_the_steps_that_prefill_and_that_decode() -> None:
    device, scenario = load_device("h100_sxm"), Scenario(precision="bf16")
    for model, words in (("gpt_oss_20b", "ep=2"), ("gemma3_27b", ""), ("deepseek_v2_lite", "")):
        decode = open_steps(parse(model), ParallelDegrees(ep=2 if words else 1))[1]
        own = open_step(f"{model}:decode,{words}".rstrip(","))
        assert decode.name == own.name
        figures = [
            evaluate_steps([one.bound(sequence=1, kv=kv) for kv in (1, 3000)], [1, 64], device, scenario)
            for one in (decode, own)
        ]
        assert figures[0] == pytest.approx(figures[1])
