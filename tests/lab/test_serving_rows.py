"""Published runs of services as loads: what is read, what is left out and why, and what is judged."""

import csv
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.measured.services import TABLE, interpret_served_row, make_server
from analysis.measured.tables import SHIPPED, Unpredictable, read_rows
from analysis.serving.served_load import load_evidence
from lab import judge

ROWS = read_rows([SHIPPED / TABLE])


def row(**cells: str) -> dict[str, str]:
    return next(each for each in ROWS if all(each[name] == value for name, value in cells.items()))


RATED = row(source="dstack, H100 and MI300X", request_rate_per_s="16", device="mi300x", flag="", n_devices="8")
RATED |= {"note": "8xMi300x 1FP8-amd; ShareGPT lengths, means"}
PLAIN = row(source="InferenceX, as kept by AIConfigurator", runtime="vllm", model="llama3_70b", flag="")


def test_a_run_starts_with_all_clients_and_counts_all_requests() -> None:
    served = interpret_served_row(PLAIN)
    assert served.load.requests == 10 * served.load.concurrency
    assert not served.load.arrival_s.any()
    assert served.statistic == "mean"
    assert served.scheduler.max_sequences == served.load.concurrency


def test_experts_that_a_degree_does_not_divide_lie_on_all_devices() -> None:
    served = interpret_served_row(row(model="gpt_oss_120b", tensor_parallel="4", expert_parallel="2", flag=""))
    assert served.deployment.layout.words == "tp=4,ep=4"


def test_flags_of_a_note_bound_the_scheduler() -> None:
    cells = RATED | {"note": f"{RATED['note']}; max_num_seqs 512, chunk 768"}
    served = interpret_served_row(cells)
    assert (served.scheduler.max_sequences, served.scheduler.max_tokens) == (512, 768)
    assert served.load.concurrency == 0
    assert np.diff(served.load.arrival_s).mean() == pytest.approx(1 / 16, rel=0.2)


def test_workers_of_prompts_hold_several_prompts_a_step() -> None:
    cells = {"source": "InferenceX, as kept by AIConfigurator", "runtime": "trtllm", "model": "deepseek_v3", "flag": ""}
    cells |= {"device": "h200_sxm"}
    apart, together = (interpret_served_row(row(**cells, prefill_workers=workers)) for workers in ("1", ""))
    assert apart.deployment.prompt_layout.words == "ep=8"
    assert apart.scheduler.max_tokens == 8 * 4480
    assert together.scheduler.max_tokens < 17_920


def test_runs_of_a_day_have_the_drafts_of_their_script() -> None:
    cells = {"runtime": "trtllm", "model": "deepseek_v3", "phase_split": "aggregated", "flag": ""}
    cells |= {"device": "h200_sxm"}
    versions = [row(**cells, tensor_parallel="8", runtime_version=version) for version in ("", "1.1.0rc2.post2")]
    assert [interpret_served_row(each).deployment.drafts for each in versions] == [0, 3]
    alone = row(**cells, runtime_version="1.1.0rc2.post2", attention_data_parallel="8")
    assert interpret_served_row(alone).deployment.drafts == 1


def test_lengths_of_chats_vary_about_their_means() -> None:
    served = interpret_served_row(RATED)
    means = (served.lengths.prompt, served.lengths.output)
    for lengths, mean in zip((served.load.prompt, served.load.output), means, strict=True):
        assert lengths.mean() == pytest.approx(mean, rel=0.1)
        assert lengths.std() == pytest.approx(mean, rel=0.15)
        assert lengths.min() >= 1


def test_a_step_of_whole_prompts_leaves_less_room_for_the_cache() -> None:
    """A first step of the longest context takes the memory of activations, 17 GB."""
    whole = interpret_served_row(RATED).deployment
    assert whole.scheduler == "vllm_2024_whole"
    setups = (whole, msgspec.structs.replace(whole, scheduler="vllm_2024"))
    room = [each.open(each.layout, 4096).costs.cache_tokens for each in setups]
    assert room[0] < room[1] - 17e9 / (126 * 8 * 128 * 2 * 2 / 8)  # bytes of a token on each of eight devices


def test_prompts_that_a_benchmark_repeats_are_in_the_cache() -> None:
    served = interpret_served_row(row(source="AIConfigurator's own runs", runtime="vllm", model="llama3_8b"))
    first, again = served.load.prompt[:100], served.load.prompt[100:]
    assert not served.load.cached[:100].any()
    assert first.min() > 100 > again.max()
    assert (served.load.cached[100:] > again).all()


def test_sglang_runs_as_itself() -> None:
    served = interpret_served_row(row(source="AIConfigurator's own runs", runtime="sglang"))
    assert served.deployment.runtime == "sglang"
    assert served.scheduler.forms_ahead


def test_runs_of_vllm_schedule_a_step_ahead_as_their_version_or_flag_says() -> None:
    energy = interpret_served_row(row(source="ML.ENERGY v3", runtime_version="0.11.1", flag=""))
    asked, newer = (
        interpret_served_row(row(source=PLAIN["source"], runtime="vllm", model="gpt_oss_120b", runtime_version=version))
        for version in ("0.11.2", "0.18.0")
    )
    assert [each.deployment.runtime for each in (energy, asked, newer)] == ["vllm_2025", "vllm_2025_ahead", "vllm"]


def test_a_run_that_two_sources_keep_counts_once() -> None:
    copy = row(source="AIConfigurator's own runs", runtime_version="0.16.0")
    with pytest.raises(Unpredictable, match="the same runs"):
        interpret_served_row(copy)


SPLIT = row(source="dstack, prefill to decode ratio", prefill_workers="2", decode_workers="2", prompt_tokens="2048")


def test_prefill_and_decode_on_separate_workers_are_served_so() -> None:
    split = interpret_served_row(SPLIT | {"concurrency": "4", "requests": "8", "output_tokens": "20"})
    setup = split.deployment
    assert setup.layout.prefill == int(SPLIT["prefill_workers"])
    assert setup.layout.decode == int(SPLIT["decode_workers"])
    assert setup.devices == int(SPLIT["n_devices"])
    run = make_server([split])(split)
    assert run.output_tokens == split.load.output.sum()
    assert not run.others_s.any()


@pytest.mark.parametrize("copies", ["2", "8"])
def test_groups_of_devices_with_sequences_of_their_own_are_devices_that_share_experts(copies: str) -> None:
    cells = row(model="gpt_oss_120b", tensor_parallel="4", flag="", phase_split="aggregated")
    cells |= {"attention_data_parallel": copies, "tensor_parallel": str(8 // int(copies)), "expert_parallel": "1"}
    setup = interpret_served_row(cells).deployment
    assert setup.layout.words == "ep=8"
    assert setup.open(setup.layout, 2048).costs.copies == 8


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"source": "InferenceX token position study"}, "hosts of unknown cores"),
        ({"device": "h100_sxm", "request_rate_per_s": "16"}, "keep attention in 16 bits"),
        ({"load_kind": "mlperf server"}, "MLPerf"),
        ({"flag": "workers_not_stated"}, "workers"),
        ({"flag": "devices_unclear"}, "contradict"),
        ({"flag": "rate_not_in_file"}, "rate"),
    ],
)
def test_rows_are_left_out_for_a_reason(cells: dict[str, str], reason: str) -> None:
    with pytest.raises(Unpredictable, match=reason):
        interpret_served_row(row(**cells))


def test_a_queue_is_no_time_to_first_token() -> None:
    assert "TTFT" not in interpret_served_row(row(flag="queue", phase_split="aggregated", model="llama3_70b")).measured


def test_bands_hold_the_estimate_and_most_of_what_was_left_out() -> None:
    for evidence in load_evidence().values():
        low, high = evidence.band
        assert low < 1 < high
        assert evidence.in_band is None or evidence.in_band >= 0.8


def test_services_of_ones_own_are_judged_by_figure_and_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(PLAIN))
        writer.writeheader()
        writer.writerows([PLAIN | {"concurrency": clients} for clients in ("2", "4", "8", "16")])
        writer.writerow(row(load_kind="mlperf server"))
    assert judge.main([str(path), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    served = {(each["name"], each["rows"]) for each in answer["classes"]}
    assert served == {("served at load, TTFT", 4), ("served at load, TPOT", 4)}
    assert "1 curve" in answer["choices"][0]
    assert list(answer["skipped"].values()) == [1]


def test_a_model_that_does_not_fit_is_not_predicted() -> None:
    served = interpret_served_row(PLAIN | {"model": "llama3_405b", "n_devices": "1", "tensor_parallel": "1"})
    with pytest.raises(Unpredictable, match="does not fit"):
        make_server([served])


@pytest.mark.parametrize(("device", "steps"), [("b300", 5), ("h200_sxm", 0), ("gb200", 0)])
def test_sglang_holds_prompts_as_the_scripts_of_its_benchmark_say(device: str, steps: int) -> None:
    cells = {"runtime": "sglang", "model": "deepseek_v3", "device": device, "concurrency": "8", "note": ""}
    assert interpret_served_row(PLAIN | cells).scheduler.holds_steps == steps
