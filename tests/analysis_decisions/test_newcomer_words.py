"""What a newcomer reads in tables and messages says what it is."""

from decisions import hwexplorer as run

from analysis.explore.comparison import change_effects
from hwexplorer import engine
from hwexplorer.state import parse, with_setting


def test_weights_of_four_bits_need_calibration_whatever_the_product_runs_in() -> None:
    state = parse("llama3_2_1b:decode@bf16/t4")
    effects = change_effects(engine.result(state), engine.result(with_setting(state, "w4a16")))
    assert effects.endswith("needs calibration, accuracy changes")


def test_one_limit_is_kept_by_as_many_as_all_limits() -> None:
    words = ("search", "gpt2", "--on", "rtx_4090,t4,hailo10h,l4", "--max-power", "200W")
    found = run(*words, "--format", "json").json()
    assert found["verdict"].startswith(f"{found['rulings'][0]['leaves']} of ")
    assert len(found["found"]) == found["rulings"][0]["leaves"]


def test_the_peak_names_the_cache_apart() -> None:
    out = run("show", "memory", "llama3_2_1b:decode,kv=4096", "--on", "rtx_4090").out
    assert " + key-value cache 134 MB + activations 2" in out
