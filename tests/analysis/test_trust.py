"""How well an estimate is known, and bands that hold what was left out of the fit."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.estimate import trust
from analysis.measured.predictions import LARGE, PredictionPoint
from analysis.serving.served_load import load_evidence
from hardware.device_catalog import load_devices
from hardware.setup import make_setup, resolve_runtime
from hwexplorer.cli import main
from hwexplorer_annexes.calibration import rate_fit
from lab import trust_bands
from lab.trust_bands import Errors, errors_of_classes, errors_of_devices, judge_class, row_weights
from tests.analysis import grid
from tests.command import document
from tests.sampling import every, for_each

TABLE = trust.trust_table()
PAGE = Path(__file__).parents[2] / "docs" / "trust.md"
COLUMN = ("Device", "NVIDIA GeForce RTX 3090")
BEGIN, END = "test_trust.py -->\n", "<!-- end of classes -->"


def made(errors: dict[tuple[str, str], list[float]]) -> list[PredictionPoint]:
    """Rows by device and family, measured exp(error) times what was predicted."""
    return [
        PredictionPoint("c", "latency", device, family, "r", "fused", "c", float(np.exp(e)), 1.0, (1.0, 1.0))
        for (device, family), those in errors.items()
        for e in those
    ]


def band_of(points: Sequence[PredictionPoint], others: Sequence[Sequence[PredictionPoint]] = ()) -> trust.Factors:
    """The band of a class of work beside these others."""
    return errors_of_devices(points).beside(errors_of_classes(others or (points,)), 1.0).band


def test_ends_by_hand() -> None:
    errors, beyond = np.linspace(-0.5, 0.5, 1001), (1.0 - rate_fit.TARGET) / 2.0
    low, high = np.log(Errors(errors, np.ones(1001)).band)
    assert (low, high) == pytest.approx((-0.5 + beyond, 0.5 - beyond), abs=2e-3)
    few = Errors(errors, np.full(1001, 3.0 / 1001)).band  # of three devices: a third less is beyond each end
    assert np.log(few) == pytest.approx((-0.5 + beyond * 2.0 / 3.0, 0.5 - beyond * 2.0 / 3.0), abs=2e-3)


def test_the_estimate_is_inside_however_biased_it_is() -> None:
    assert Errors(np.full(40, 0.7), np.ones(40)).band == pytest.approx((1 / 1.05, np.exp(0.7)))


def test_few_rows_of_a_device_are_mostly_their_class() -> None:
    wide, narrow = np.linspace(-0.5, 0.5, 400), Errors(np.zeros(5), np.ones(5))
    of_class = Errors(wide, np.full(400, 0.1))
    one, many = narrow.beside(of_class, LARGE).band, Errors(np.zeros(500), np.ones(500)).beside(of_class, LARGE).band
    assert many[1] < one[1] < of_class.band[1]
    assert many[1] == pytest.approx(1.05)
    assert narrow.beside(of_class, LARGE).weights.sum() == pytest.approx(5 + LARGE)


def test_devices_weigh_the_same_once_they_have_ten_rows() -> None:
    weights = row_weights(np.array(["a"] * 100 + ["b"] * 10 + ["c"]))
    assert weights[:100].sum() == pytest.approx(1.0)
    assert weights[100:110].sum() == pytest.approx(1.0)
    assert weights[110] == pytest.approx(0.1)


def test_bands_hold_devices_that_are_each_off_in_their_own_way() -> None:
    """Errors within a device agree: a quantile of all rows holds too few of the next device."""
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        errors = {
            (f"d{i}", f"f{j}"): (offset + 0.05 * rng.standard_normal(6)).tolist()
            for i, offset in enumerate(0.4 * rng.standard_normal(12))
            for j in range(4)
        }
        held = judge_class(rows := made(errors), rows, band_of(rows), {})
        assert held.in_band is not None
        assert held.in_band >= rate_fit.TARGET
        # Devices never seen, of the same making.
        new = 0.4 * rng.standard_normal(500) + 0.05 * rng.standard_normal(500)
        inside.append(((new > np.log(held.band[0])) & (new < np.log(held.band[1]))).mean())
    assert 0.80 <= np.mean(inside) <= 0.92


def test_a_share_of_few_devices_says_nothing() -> None:
    rows = made({(f"d{i}", "f"): [0.0] * 20 for i in range(3)})
    assert judge_class(rows, rows, (0.9, 1.1), {}).in_band == 1.0
    assert judge_class(rows, rows[:40], (0.9, 1.1), {}).in_band is None
    assert judge_class(rows, rows[::20], (0.9, 1.1), {}).in_band is None


def test_a_class_of_few_devices_leaves_room_for_another() -> None:
    spread = np.linspace(-0.2, 0.2, 40).tolist()
    alone = band_of(made({("a", "f"): spread}))
    several = band_of(made({(f"d{d}", f"f{i}"): spread for d in range(6) for i in range(4)}))
    assert alone[1] > several[1]


def test_a_class_of_one_device_is_as_wide_as_other_classes_differ_by_device() -> None:
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        offsets = 0.2 * rng.standard_normal(9)
        devices = [made({(f"d{i}", f"f{j}"): [offset] * 4 for j in range(3)}) for i, offset in enumerate(offsets)]
        band = band_of(devices[8], [[row for rows in devices[:8] for row in rows]])
        new = 0.2 * rng.standard_normal(200)
        held.append(((new > np.log(band[0])) & (new < np.log(band[1]))).mean())
    assert 0.80 <= np.mean(held) <= 0.95


# --- what ships -------------------------------------------------------------------------------------------


def test_bands_that_follow_from_other_rows_hold_most_held_ones() -> None:
    judged = [each for each in TABLE.classes if each.in_band is not None and each.quantity == "latency"]
    shares = [each.in_band or 0.0 for each in judged]
    assert 0.78 <= np.average(shares, weights=[each.rows for each in judged]) <= 0.92
    assert all(share >= 0.5 for share, each in zip(shares, judged, strict=True) if each.rows >= LARGE)


def test_no_band_leaves_out_the_estimate() -> None:
    trust_bands = [each.band for each in TABLE.classes] + [each.energy_band for each in TABLE.classes]
    for band in (*trust_bands, *(each.band for each in TABLE.measured)):
        assert band is None or band[0] <= 1 / 1.04 < 1.04 <= band[1]
    classes = {each.name for each in trust.work_classes()}
    assert {each.work_class for each in TABLE.measured} <= classes | {trust.SERVED}
    assert {each.device for each in TABLE.measured} <= {device.id for device in load_devices()[0]}


@for_each(
    ("model", "device", "batch", "precision", "execution", "level", "work_class"),
    [
        ("resnet50", "rtx_3090", 256, "fp16", "eager", "measured", "vision, GPU framework, batch 16 and more"),
        ("resnet50", "h100_sxm", 1, "fp16", "eager", "siblings", "vision, GPU framework, batch 1"),
        ("resnet50", "b200", 64, "fp16", "tensorrt", "siblings", "vision, TensorRT, batch 2 and more"),
        ("resnet50", "tpu_v4", 1, "bf16", "auto", "engineering", "tpu"),
        ("resnet50", "kpu_t256", 1, "int8", "auto", "design_target", ""),
        ("llama3_8b:decode", "h100_sxm", 1, "fp16", "tensorrt_llm", "siblings", "decode, 16 bit"),
        ("llama3_8b:decode", "h100_sxm", 1, "w4a16", "vllm", "siblings", "decode, 4 bit"),
        ("llama3_8b:request", "h100_sxm", 1, "fp16", "llama_cpp", "engineering", ""),
        ("resnet50", "jetson_agx_orin", 1, "fp16", "tensorrt", "measured", "vision, TensorRT, batch 1"),
        ("resnet50", "jetson_agx_orin", 1, "fp16", "onnxruntime", "engineering", "vision, TensorRT, batch 1"),
        ("resnet50", "jetson_agx_orin", 1, "fp16", "fused", "measured", "vision, TensorRT, batch 1"),
        ("llama3_8b:request", "mi300x", 1, "fp16", "auto", "engineering", "language models, AMD GPU, other software"),
        ("llama3_8b:request", "jetson_agx_orin", 1, "bf16", "auto", "siblings", "language models, integrated GPU"),
        ("resnet50", "mi300x", 1, "fp16", "auto", "siblings", "vision and encoders, AMD GPU"),
        ("llama3_8b:decode", "ryzen9_7950x", 1, "fp16", "llama_cpp", "measured", "decode, CPU"),
        ("llama3_8b:decode", "ryzen9_5950x", 1, "fp16", "llama_cpp", "siblings", "decode, CPU"),
        ("bert_large", "a30", 8, "int8", "tensorrt_plugins", "measured", "encoder, TensorRT"),
        ("bert_large", "a30", 8, "int8", "unknown", "engineering", "encoder, TensorRT"),
    ],
)
def test_levels(
    model: str, device: str, batch: int, precision: str, execution: str, level: str, work_class: str
) -> None:
    result = grid.run(model, device, batch, precision, execution)
    assert (result.work_class, result.trust.level) == (work_class, level)
    assert (result.trust.median_error is not None) is (level in ("measured", "siblings"))
    low, high = result.trust.band
    assert result.latency_band_s == (result.latency_s * low, result.latency_s * high)
    assert result.energy_band_j[0] <= result.energy_j <= result.energy_band_j[1]


@every(3)
def test_every_device_holds_its_own_figures(nth: int) -> None:
    for device in load_devices()[0][::nth]:
        for model in ("resnet18", "bert_base", "llama3_2_1b:decode", "gemm:M=64,N=64,K=64"):
            result = grid.run(model, device.key, 1, "fp16")
            assert result.trust.level in trust.LEVELS
            assert result.latency_band_s[0] < result.latency_s < result.latency_band_s[1], (device.key, model)
            assert result.energy_band_j[0] <= result.energy_j <= result.energy_band_j[1], (device.key, model)
            assert (result.trust.level == "design_target") is not device.silicon


def test_it_is_in_json_and_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    for row in document("compare", "resnet50")["rows"]:
        assert set(row["trust"]) == {"level", "rows", "median_error", "band"}
        low, high = row["trust"]["band"]
        assert row["latency_band_s"] == pytest.approx([row["latency_s"] * low, row["latency_s"] * high])
    assert main(["compare", "resnet50", "--on", "kpu,rtx_3090", "--batch", "256", "--runtime", "eager", "--all"]) == 0
    text = capsys.readouterr().out
    assert "design target" in text
    head, row = (next(line for line in text.splitlines() if line.startswith(f"{name} ")) for name in COLUMN)
    assert row[head.index("Evidence") :].startswith("measured ")


def test_an_estimate_reads_no_measurements() -> None:
    code = (
        "import sys; from hwexplorer.cli import main; main(['compare', 'resnet18', '--format', 'json']);"
        "sys.exit('analysis.measured.tables' in sys.modules or 'lab' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def classes_markdown(known: Sequence[trust.ClassEvidence]) -> str:
    """Return the table of classes as the README has it."""
    head = ("class of work", "rows", "devices", "median error", "90th", "bias", "in band", "band")
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for each in known:
        if each.name != trust.ENGINEERING:
            errors = _percent(each.median_error), _percent(each.error_90), f"{round(each.bias * 100):+d} %"
            few = "one device" if each.devices == 1 else "two devices" if each.devices == 2 else "few devices"
            inside = few if each.in_band is None else _percent(each.in_band)
            band = f"{each.band[0]:.2f} - {each.band[1]:.2f}"
            cells = (each.name, f"{each.rows:,}", each.devices, *errors, inside, band)
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"


def test_the_page_of_trust_says_it_by_class() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    stated = classes_markdown((*TABLE.classes, *load_evidence().values()))
    if os.environ.get("HWEXPLORER_GOLDEN"):
        PAGE.write_text(head + BEGIN + "\n" + stated + "\n" + END + tail, encoding="utf-8")
        return
    assert rest.split(END)[0].strip() == stated.strip(), "run: HWEXPLORER_GOLDEN=1 pytest tests/analysis/test_trust.py"


def test_hosts_widen_the_band_of_work_that_waits_for_them() -> None:
    """Others' hosts took up to 1.85 times as long to start a kernel as the mean of those measured."""
    low, high = trust_bands.widen_by_hosts((0.9, 1.1), "vision, GPU framework, batch 1")
    assert low < 0.9 * 0.65
    assert 1.8 < high < 2.1
    assert trust_bands.widen_by_hosts((0.9, 1.1), "vision, GPU framework, batch 16 and more") == (0.9, 1.1)


def test_a_class_has_its_own_band_on_devices_with_relatives_alone() -> None:
    table = trust.trust_table()
    widest = next(each.band for each in table.classes if each.name == trust.ENGINEERING)
    measured = {row.device for row in table.measured}
    setup = next(
        make_setup(device, "fp16", resolve_runtime(device, "auto", "vision"))
        for device in load_devices()[0]
        if device.silicon and device.id not in measured and device.software.not_fitted is not None
    )
    for each in (each for each in table.classes if each.quantity == "latency" and each.name != trust.ENGINEERING):
        band = trust.find_trust(setup, each.name)[0].band
        assert band == (each.band if trust.has_relatives(setup, each.name) else widest), each.name
    assert any(each.band[1] < widest[1] for each in table.classes)


def test_a_longer_time_adds_its_static_energy_to_the_band_as_one_more_group() -> None:
    result = grid.run("resnet18", "kpu_t256", 1, "fp16")
    assert result.energy_factors is None
    timed = msgspec.structs.replace(result, latency_band_s=(result.latency_s, result.latency_s))
    static_w = float(result.run.prices.value[result.device.arch.static_rows].sum())
    for side, away in (
        (1, result.latency_band_s[1] - result.latency_s),
        (0, result.latency_s - result.latency_band_s[0]),
    ):
        added = (result.energy_band_j[side] - result.energy_j) ** 2 - (timed.energy_band_j[side] - result.energy_j) ** 2
        assert added == pytest.approx((static_w * away) ** 2, rel=1e-6)


def test_links_over_pcie_that_nobody_states_widen_the_band_to_the_slowest_host() -> None:
    own = grid.device("l40s").link_bandwidth / 1e9
    links = ("", f",link={own}", f",link={own * 0.35 / 0.65:.9g}")
    open_, stated, two_sockets = (grid.run(f"llama3_8b:prefill,tp=4{link}", "l40s", 1, "bf16") for link in links)
    (fast, slow), usual = open_.latency_band_s, stated.latency_band_s
    assert slow / usual[1] == pytest.approx(two_sockets.latency_s / stated.latency_s, rel=1e-6)
    assert slow > 1.5 * usual[1]
    assert fast < usual[0]
