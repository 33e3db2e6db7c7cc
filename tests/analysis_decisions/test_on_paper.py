"""What exists on paper only is marked wherever its name stands, and wins nothing unasked."""

import csv
import io
import json
from typing import Any

import pytest
from decisions import DEFAULTS, device, hwexplorer, run

from analysis.explore.comparison import recommendations
from analysis.model.names import zoo
from hardware.device import ON_PAPER
from hardware.device_catalog import catalogue_devices, device_as_designed, load_device, load_devices
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from hwexplorer.state import State
from tests.sampling import for_each

PAPER = [found for found in load_devices()[0] if not found.silicon]
GRID = ("--batches", "1", "--precisions", "int8")


def _json(*words: str) -> Any:
    return json.loads(hwexplorer(*words, "--format", "json").out)


def test_the_catalogue_has_some() -> None:
    assert {found.id.partition("_")[0] for found in PAPER} == {"kpu", "ethos"}
    for found in PAPER:
        assert found.name.endswith(ON_PAPER)
        assert found.label.endswith(ON_PAPER)
        assert found.marked_key == found.key + ON_PAPER
    assert device("kpu_t256:15w").marked_key == "kpu_t256:15w (paper)"
    assert device("h100_sxm").marked_key == "h100_sxm"


@for_each(
    "words",
    [
        ("compare", "conv2d", "--on", "gpu,kpu"),
        ("sweep", "conv2d", "--on", "gpu,kpu", *GRID),
        ("search", "conv2d", "--on", "gpu,kpu", "--front", *GRID),
        ("models", "--on", "kpu", "conv2d"),
        ("advise", "conv2d", "--on", "gpu", "--instead", "kpu"),
        ("tree", "conv2d", "--on", "kpu"),
        ("devices",),
        ("why", "conv2d", "gpu", "kpu"),
        ("show", "plot", "conv2d", "--plot", "batch"),
    ],
)
@for_each("form", ["text", "html"])
def test_the_mark_stands_wherever_the_name_does(words: tuple[str, ...], form: str) -> None:
    done = hwexplorer(*words, "--all", "--format", form)
    assert done.code == 0, done.err
    assert "(paper)" in done.out


def test_figures_say_whether_there_is_silicon(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["device"]: row["silicon"] for row in _json("compare", "conv2d")["rows"]}
    assert rows == {key: device(key).silicon for key in rows}
    assert rows["kpu_t256"] is False
    listed = {each["id"]: each["silicon"] for each in _json("devices")["devices"]}
    assert {key for key, silicon in listed.items() if not silicon} == {found.id for found in PAPER}
    shipped = [info for info in zoo.models() if info.name == "alexnet"]  # of all models, one is enough here
    monkeypatch.setattr(zoo, "models", lambda: shipped)
    words = ("sweep", "--all", "--batches", "1", "--precisions", "fp32", "--workers", "1")
    swept = csv.DictReader(io.StringIO(hwexplorer(*words).out))
    assert {row["device"] for row in swept if row["silicon"] == "False"} == {found.id for found in PAPER}


def test_no_design_target_is_best_of_the_usual_devices() -> None:
    """The KPU won energy and memory of every comparison."""
    results = [run("resnet18", on, 1, "int8") for on in (*DEFAULTS, "kpu_t768")]
    least = min(results, key=lambda result: result.energy_j)
    assert not least.device.silicon, "nothing to show: the design target does not take the least energy"
    best = recommendations(results)
    assert all(device(key).silicon for key in best.values())
    assert recommendations(results, silicon=False)["energy"] == least.device.key
    found = _json("compare", "resnet18", "--precision", "int8")
    assert all(device(key).silicon for key in found["recommendations"].values())
    assert "recommendations_design_targets" not in found


@pytest.mark.parametrize("asked", ["--max-latency=1s", "--front"])
def test_the_catalogue_is_chosen_from_in_silicon(asked: str) -> None:
    words = ("search", "conv2d", asked, *GRID)
    plain = _json(*words)
    assert plain["design_targets"] == []
    assert plain["evaluated"] == len(catalogue_devices(on_paper=False)) == len(load_devices()[0]) - len(PAPER)
    for more in (("--include-design-targets",), ("--on", "gpu,kpu_t768,kpu_t64")):
        found = _json(*words, *more)
        assert found["found"]
        assert all(each["silicon"] for each in found["found"])
        assert found["design_targets"]
        assert not any(each["silicon"] for each in found["design_targets"])
    assert found["evaluated"] == 3
    assert "On paper only" in hwexplorer(*words, "--on", "gpu,kpu").out
    assert "On paper only" not in hwexplorer(*words, "--on", "gpu").out


@pytest.mark.usefixtures("few_devices")
def test_advice_names_silicon() -> None:
    words = ("advise", "conv2d", "--on", "gpu", "--aim", "energy")
    for extra, has in (((), False), (("--include-design-targets",), True), (("--instead", "kpu,tpu"), True)):
        found = _json(*words, *extra)
        assert all(each["after"]["silicon"] for each in found["suggestions"])
        assert bool(found["design_targets"]) is has
        assert not any(each["after"]["silicon"] for each in found["design_targets"])


def test_nothing_on_paper_overtakes_unasked() -> None:
    words = ("sweep", "conv2d", *GRID)
    for extra, may in (((), False), (("--include-design-targets",), True), (("--on", "gpu,kpu"), True)):
        found = _json(*words, *extra)
        assert ("kpu_t256" in json.dumps(found["crossovers"])) is may


def test_the_screen_marks_and_asks_alike() -> None:
    from hwexplorer.views.answer_lines import answer
    from hwexplorer.views.device_rows import device_rows

    state = State("conv2d", devices=("h100_sxm", "kpu_t256", "kpu_t64"))
    assert any(line.startswith("On paper: ") and "not ranked" in line for line in answer(state, on_paper=True))
    assert "KPU" not in answer(state)[0]
    assert device_rows(state, "h100_sxm")[1].run.device.label == "Stillwater KPU-T256 (paper)"


def test_paper_is_priced_as_silicon_and_as_its_designer_hopes() -> None:
    """By default an event costs what it does in silicon of the node; the designer's own prices are a mode of their
    own."""
    target, form = load_device("kpu_t256"), make_plan(load_device("kpu_t256"), "fp32")
    hoped = device_as_designed(target)
    assert hoped is not None
    assert device_as_designed(hoped) is None
    row = target.arch.row["tile.mac"]
    stated = target.file.coefficients["tile.mac:fp32"].value
    assert coefficients(hoped, form).value[row] == pytest.approx(stated)
    assert coefficients(target, form).value[row] > 3 * stated
    assert device_as_designed(load_device("h100_sxm")) is None
