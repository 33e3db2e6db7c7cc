"""Published runs of services as loads: what is read, what is left out and why, and what is judged."""

import csv
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.measured.services import TABLE, interpret_served_row, make_server, predict_served
from analysis.measured.tables import SHIPPED, Unpredictable, read_rows
from analysis.serving.request_load import reuse_prefixes
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


def test_what_a_row_does_not_state_is_a_range() -> None:
    """Lengths vary or not, prompts are sent again or not, versions schedule ahead or not, one client waits or none."""
    cells = row(source="AIConfigurator's own runs", runtime="vllm", model="llama3_8b", runtime_version="0.12.0")
    cells |= {"concurrency": "64", "prompt_tokens": "512", "output_tokens": "64"}
    (predicted,), _ = predict_served([cells])
    served = predicted.row
    assert {each.deployment.runtime for each in (served, *served.others)} == {"vllm_2025", "vllm_2025_ahead"}
    assert {each.lengths.spread for each in (served, *served.others)} == {0.0, 0.2}
    assert {len(each.load.blocks) > 0 for each in (served, *served.others)} == {False, True}
    assert {min(each.scheduler.max_sequences, 64) for each in (served, *served.others)} == {63, 64}
    for figure, (low, high) in predicted.ends.items():
        assert high > low <= predicted.usual[figure] <= high
        point = next(point for point in predicted.points if point.quantity == figure)
        assert point.band[0] <= low <= point.nearest <= high <= point.band[1]


def test_prompts_that_are_sent_again_are_in_the_cache_while_they_have_room() -> None:
    cells = row(source="AIConfigurator's own runs", runtime="vllm", model="llama3_8b", runtime_version="0.12.0")
    cells |= {"concurrency": "64", "prompt_tokens": "2000", "output_tokens": "16"}
    served = interpret_served_row(cells)
    again = next(each for each in served.others if each.load.blocks)
    whole, all_differ = again.load.prompt.sum(), msgspec.structs.replace(again.load, blocks=())
    assert reuse_prefixes(again.load, 1e9).prompt.sum() < 0.25 * whole
    assert reuse_prefixes(again.load, 10_000).prompt.sum() == whole
    assert reuse_prefixes(all_differ, 1e9).prompt.sum() == whole


def test_experts_that_a_degree_does_not_divide_lie_on_all_devices() -> None:
    served = interpret_served_row(row(model="gpt_oss_120b", tensor_parallel="4", expert_parallel="2", flag=""))
    assert served.deployment.layout.words == "tp=4,ep=4"


def test_flags_of_a_note_bound_the_scheduler() -> None:
    cells = RATED | {"note": f"{RATED['note']}; max_num_seqs 512, chunk 768"}
    served = interpret_served_row(cells)
    assert (served.scheduler.max_sequences, served.scheduler.max_tokens) == (512, 768)
    assert served.load.concurrency == 0
    assert np.diff(served.load.arrival_s).mean() == pytest.approx(1 / 16, rel=0.2)


def test_sglang_runs_as_itself() -> None:
    served = interpret_served_row(row(source="AIConfigurator's own runs", runtime="sglang"))
    assert served.deployment.runtime == "sglang"
    assert served.scheduler.forms_ahead


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
