"""A device made of measurements: rates fitted or moved, the file found under its name, its next command."""

import csv
import re
import shlex
from pathlib import Path

import msgspec
import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.base.errors import RequestError
from hardware.device import Device
from hardware.device_catalog import device_in_mode, load_device
from hwexplorer import engine
from hwexplorer.cli import main
from hwexplorer_annexes.calibration import device_fit
from tests.command import document

MODELS = ("resnet18", "mobilenet_v2", "squeezenet1_1", "vit_b_16", "densenet121", "vgg11", "alexnet", "resnet50")
HEAD = ("device", "framework", "model", "batch", "precision", "latency_ms")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWEXPLORER_DEVICES_DIR", str(tmp_path / "data"))
    engine.devices_changed()
    return tmp_path / "data" / "devices"


def true_device() -> Device:
    """Return a device whose software is unlike what ships."""
    base = load_device("ryzen9_7950x")
    rates = base.software
    compute = {name: tuple(end * 0.4 for end in ends) for name, ends in rates.compute.items()}
    bandwidth = {name: tuple(end * 0.6 for end in ends) for name, ends in rates.bandwidth.items()}
    overhead = {"other": (4e-6, 4e-6, 4e-6), "CONV": (30e-6, 30e-6, 30e-6)}
    changed = msgspec.structs.replace(rates, compute=compute, bandwidth=bandwidth, overhead=overhead)
    return device_in_mode(msgspec.structs.replace(base.file, rates=changed))


def true_latency_s(model: str, batch: int = 1) -> float:
    return estimate(store.ready(model), true_device(), Scenario(batch, "fp32", "pytorch_eager", "nchw")).latency_s


def write_rows(path: Path, models: tuple[str, ...] = MODELS) -> Path:
    """Write timings of models on the true device as a table."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        for model in models:
            for batch in (1, 8):
                latency_ms = true_latency_s(model, batch) * 1e3
                writer.writerow(("ryzen9_7950x", "pytorch eager NCHW", model, batch, "fp32", latency_ms))
    return path


def test_ten_rows_fit_a_device_that_predicts_models_it_never_saw(
    tmp_path: Path, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = document("calibrate", str(write_rows(tmp_path / "rows.csv")), "--name", "mine")
    assert made["error_after"] < 0.12 < made["error_before"]
    assert made["file"] == str(own_folder / "mine.toml")
    low, high = made["band"]
    inside = [low * row["after_s"] <= row["measured_s"] <= high * row["after_s"] for row in made["rows"]]
    assert sum(inside) >= 0.8 * len(inside)
    row = document("compare", "resnet18", "--on", "mine", "--precision", "fp32")["rows"][0]
    assert row["trust"]["level"] == "measured"
    assert row["runtime"].startswith("PyTorch eager")  # 'auto' is what was measured
    assert row["latency_s"] == pytest.approx(true_latency_s("resnet18"), rel=0.15)
    assert main(["devices", "--format", "json"]) == 0
    assert "mine" in capsys.readouterr().out


def test_left_out_rows_are_predicted_by_a_fit_that_never_had_them(tmp_path: Path) -> None:
    from analysis.measured.tables import read_rows

    base, models = load_device("ryzen9_7950x"), MODELS[:6]
    rows, _ = device_fit.interpret_rows(read_rows([write_rows(tmp_path / "rows.csv", models)]), base)
    rows = [
        msgspec.structs.replace(row, latency_s=(row.latency_s or 0.0) * (4.0 if row.family == "mobilenet_v" else 1.0))
        for row in rows
    ]
    made = device_fit.fit_rows(rows, base, "mine")
    for family in ("resnet", "vgg"):
        without = device_fit.fit_rows([row for row in rows if row.family != family], base, "without").device
        for row in (row for row in made.rows if row.family == family):
            asked = Scenario(row.batch, "fp32", "pytorch_eager", "nchw")
            assert row.after_s == pytest.approx(estimate(store.ready(row.name), without, asked).latency_s, rel=0.5)


def test_a_shipped_device_is_never_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("xeon_8490h", "../x", "A b"):
        assert main(["calibrate", "l4", "9 ms resnet50", "--name", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_time_in_words_makes_a_device_with_a_name_of_its_own(own_folder: Path) -> None:
    made = document("calibrate", "l4", "9.7 ms resnet50 batch 8 fp16 tensorrt")
    assert (made["device"], made["name"]) == ("my_l4", "my_l4")
    rate = document("calibrate", "l4", "20 tokens/s llama3_8b:prefill,sequence=100, batch 8 vllm")["rows"][0]
    (row,), measured_s = made["rows"], [pytest.approx(9.7e-3), 800 / 20]
    assert (row["name"], row["batch"], [row["measured_s"], rate["measured_s"]]) == ("resnet50", 8, measured_s)
    assert made["next"].endswith("resnet50 --batch 8 --precision fp16 --runtime tensorrt --on my_l4")
    assert [row["device"] for row in document(*shlex.split(made["next"])[1:])["rows"]] == ["my_l4"]
    assert "limit holds its time" in str(document("calibrate", "l4", "7 ms resnet50:train batch 64")["notes"])
    assert document("compare", "resnet50:train,batch=64", "--on", "my_l4")["rows"][0]["latency_band_s"][0] < 7.1e-3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "needs the file of a measurement"),
        (("l4",), "l4: cannot be read"),
        (("l4", "0 ms resnet50"), "must be above 0"),
        (("l4", "9 ms resnet50 batch 8 fp17"), "unknown setting 'fp17': did you mean fp16"),
        (("l4", "9 ms resnet5000"), "unknown model 'resnet5000': did you mean"),
        (("9 ms resnet50",), "must name the device"),
        (("l5", "9 ms resnet50"), "unknown device 'l5'"),
    ],
)
def test_a_wrong_request_is_one_line(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_more_rows_less_known_chips_and_contradictions_move_further() -> None:
    one, two = (device_fit.find_move([0.2] * n, "siblings") for n in (1, 2))
    unknown = device_fit.find_move([0.2], "engineering")
    assert 0.0 < one.log_time < min(two.log_time, unknown.log_time) < 0.2
    assert two.same < one.same < one.others < 1.0
    shares = [device_fit.find_move([error], "measured").share for error in (0.1, 0.7, 1.5)]
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[-1] > 0.95


def test_one_row_is_predicted_as_measured_and_moves_all_figures_of_its_chip(own_folder: Path, tmp_path: Path) -> None:
    scenario = Scenario(32, "fp16", "tensorrt_enqueue")
    base = load_device("l40s")
    before = {name: estimate(store.ready(name), base, scenario) for name in ("resnet50", "resnet101")}
    measured_s = before["resnet50"].latency_s * 1.15
    head = "device,framework,model,batch,precision,scenario,latency_ms"
    (tmp_path / "row.csv").write_text(f"{head}\nl40s,TensorRT,resnet50,32,fp16,x,{measured_s * 1e3}\n")
    made = document("calibrate", str(tmp_path / "row.csv"))
    assert any("times with TensorRT" in note for note in made["notes"])
    device = load_device("my_l40s", (own_folder,))
    for name, one in before.items():
        after = estimate(store.ready(name), device, scenario)
        assert after.latency_s == pytest.approx(measured_s, rel=0.05) or name == "resnet101"
        assert one.latency_s < after.latency_s < 1.16 * one.latency_s
        assert after.trust.level == "measured"
        assert after.trust.band[1] / after.trust.band[0] < one.trust.band[1] / one.trust.band[0]
    for other in (Scenario(1, "fp16", "pytorch_eager"), Scenario(64, "int8", "tensorrt")):
        one, after = (estimate(store.ready("resnet50"), chip, other) for chip in (base, device))
        assert after.latency_s > one.latency_s * (1.01 if other.execution == "tensorrt" else 1.001)
        assert after.trust.band[1] / after.trust.band[0] < one.trust.band[1] / one.trust.band[0]


def test_a_row_moves_its_family_of_models_further_than_others(own_folder: Path) -> None:
    names, scenario = ("resnet50", "resnet101", "vgg16"), Scenario(8, "fp16", "tensorrt")
    before = {name: estimate(store.ready(name), load_device("l40s"), scenario).latency_s for name in names}
    document("calibrate", "l40s", f"{before['resnet50'] * 1.3e3} ms resnet50 batch 8 fp16 tensorrt")
    mine = load_device("my_l40s", (own_folder,))
    run, kin, other = (estimate(store.ready(name), mine, scenario).latency_s / s for name, s in before.items())
    assert 1.0 < other < kin - 0.05 < kin < run


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("device,model,latency\nl40s,resnet50,1.2\n", "each needs a model and latency_ms or throughput_per_s"),
        ("Device,Model\nl40s,resnet50\n", "column 'device' is missing .it has Device, Model."),
    ],
)
def test_a_table_without_a_usable_row_says_which_columns_are_needed(
    tmp_path: Path, table: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "row.csv").write_text(table)
    assert main(["calibrate", str(tmp_path / "row.csv")]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_a_row_of_a_changed_device_keeps_its_mode_and_its_changes_once(own_folder: Path, tmp_path: Path) -> None:
    expression = "jetson_agx_orin:30w{memory_bandwidth*2}"
    head = "device,framework,model,batch,precision,scenario,latency_ms"
    (tmp_path / "row.csv").write_text(f"{head}\nmine,TensorRT,resnet50,8,fp16,x,9\n")
    assert main(["calibrate", str(tmp_path / "row.csv"), "--on", expression, "--name", "mine"]) == 0
    made, base = load_device("mine", (own_folder,)), load_device(expression)
    assert (made.power_mode, made.memory_bandwidth) == ("30w", base.memory_bandwidth)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "[rates.compute]\nGEMM = [0.5, 0.4, 0.6]\n[rates.bandwidth]\nother = [0.5, 0.4, 0.6]\n"
            '[rates.overlap]\nvalue = 6\nlow = 3\nhigh = 9\nsource = ""',
            "other is missing",
        ),
        ('[runtimes.nonsense]\nname = "x"\nmode = "eager"\nruns_on = []', "nonsense"),
        ('[[trust]]\nruntime = "x"\nmode = "eager"\nrows = 3\nmedian_error = 0.1\nlow = 2.0\nhigh = 3.0', "hold 1"),
    ],
)  # fmt: skip
def test_a_device_file_that_says_nonsense_of_itself(line: str, says: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "hardware/catalog/xeon_w2155.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('"xeon_w2155"', '"mine"', 1) + "\n" + line + "\n")
    with pytest.raises(RequestError, match=says) as error:
        load_device("mine", (tmp_path,))
    assert "\n" not in str(error.value)
