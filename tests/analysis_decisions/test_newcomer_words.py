"""What a newcomer reads in tables and messages says what it is."""

import re

import pytest
from decisions import hwexplorer as run

from analysis.text.insight import change_effects
from hwexplorer import engine
from hwexplorer.answer import Answer
from hwexplorer.reports.advise import NOTICEABLE, advise, gain
from hwexplorer.reports.show.roofline import roofline
from hwexplorer.state import parse, with_setting


@pytest.mark.parametrize(("metric", "title"), [("edp", "Attributed"), ("latency", "First - second")])
def test_the_head_names_the_difference(metric: str, title: str) -> None:
    out = run("why", "resnet18", "h100_sxm", "tpu_v4", "--metric", metric).out
    assert title in out
    assert "Difference  " not in out
    assert ("not that of the two columns" in out) == (metric == "edp")


def test_parts_that_cancel_are_amounts() -> None:
    out = run("why", "resnet50", "h100_sxm", "kpu_t256").out.partition("By subgraph")[0]
    assert "The parts cancel to " in out
    assert "Of difference" not in out
    assert "% of the difference" not in out
    assert re.search(r"J·s: [a-z]+ [a-z]+", out)


@pytest.mark.parametrize("aim", ["energy", "latency"])
def test_advice_counts_what_improves_the_aim(aim: str) -> None:
    result = engine.result(parse("mobilenet_v2/l4"))
    found = advise(result, [engine.device("tpu_v5p")], aim)
    assert all(gain(s, found.now, aim) >= NOTICEABLE for s in found.suggestions)
    assert ("device tpu_v5p" in found.no_gain) == (aim == "energy")


def test_advice_starts_with_the_best_and_keeps_cautions() -> None:
    out = run("advise", "mobilenet_v2", "--on", "l4", "--instead", "tpu_v5p", "--aim", "latency").out
    document = run(
        "advise", "mobilenet_v2", "--on", "l4", "--instead", "tpu_v5p", "--aim", "latency", "--format", "json"
    )
    first = document.json()["suggestions"][0]["change"]
    assert f"Start with {first}\n" in out
    assert "data sheets only, nothing measured there" in out.partition("Before a change")[2]


def test_weights_of_four_bits_need_calibration_whatever_the_product_runs_in() -> None:
    state = parse("llama3_2_1b:decode@bf16/t4")
    effects = change_effects(engine.result(state), engine.result(with_setting(state, "w4a16")))
    assert effects.endswith("needs calibration, accuracy changes")


def test_one_limit_is_kept_by_as_many_as_all_limits() -> None:
    words = ("search", "gpt2", "--on", "rtx_4090,t4,hailo10h,l4", "--max-power", "200W")
    found = run(*words, "--format", "json").json()
    assert found["verdict"].startswith(f"{found['rulings'][0]['leaves']} of ")
    assert len(found["found"]) == found["rulings"][0]["leaves"]


def test_plot_and_roofline_count_the_same_kernels() -> None:
    state = parse("resnet50/h100_sxm")
    left = roofline(engine.result(state)).left
    assert f"memory would limit {left} of 56 kernels" in Answer("plot", state).to_text("text")


def test_the_cheapest_is_one_of_those_with_a_price() -> None:
    assert "h100_sxm is the cheapest of those with a price: " in run("cost", "resnet18", "--on", "h100_sxm,l4").out


def test_the_peak_names_the_cache_apart() -> None:
    out = run("show", "memory", "llama3_2_1b:decode,kv=4096", "--on", "rtx_4090").out
    assert " + key-value cache 134 MB + activations 2" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sweep", "conv2d", "--batch", "1,8"), "sweep --batches"),
        (("why", "conv2d", "gpu"), "h100_sxm is a device; name a model, and devices after --on"),
        (("why", "conv2d", "nothing_like_it"), "unknown model"),
    ],
)
def test_a_wrong_word_names_the_right_one(words: tuple[str, ...], says: str) -> None:
    assert says in run(*words).err


def test_one_device_overtakes_no_other() -> None:
    assert "overtakes" not in run("sweep", "conv2d", "--on", "l4", "--batches", "1,8").out
    assert "overtakes" in run("sweep", "conv2d", "--on", "l4,t4", "--batches", "1,8").out
