"""A device of one's own machine: facts read, timings kept, rates fitted, the file found under its name."""

import base64
import csv
import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import encode
from hardware.device import Device
from hardware.device_catalog import device_in_mode, load_device
from hardware.device_toml import device_toml
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.cli import main
from hwexplorer_annexes.measure import device_fit, few_rows, host_facts, torch_process
from hwexplorer_annexes.measure.measurement_log import (
    BenchmarkCase,
    LogLine,
    MeasuredMachine,
    MeasurementLog,
    Sample,
    encode_line,
    read_log,
    shared_csv,
)

MODELS = ("resnet18", "mobilenet_v2", "squeezenet1_1", "vit_b_16", "densenet121", "vgg11", "alexnet", "resnet50")
FEW = MODELS[:6]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWEXPLORER_DEVICES_DIR", str(tmp_path / "data"))
    engine.devices_changed()
    return tmp_path / "data" / "devices"


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def a_machine(root: Path) -> None:
    """Two cores of two threads each, of which all are ours."""
    info = "".join(
        f"processor\t: {n}\nvendor_id\t: GenuineIntel\nmodel name\t: Test  CPU @ 2.00GHz\ncpu MHz\t\t: 2000.0\n"
        "flags\t\t: fpu avx2 fma\n\n"
        for n in range(2)
    )
    put(root, {"proc/cpuinfo": info, "proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\n"})
    for n in range(64):
        folder = f"sys/devices/system/cpu/cpu{n}"
        caches = {"index0": ("1", "Data", "32K", str(n)), "index1": ("2", "Unified", "1M", f"{n}"),
                  "index2": ("3", "Unified", "8M", "0-63")}  # fmt: skip
        for name, (level, kind, size, shared) in caches.items():
            parts = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
            put(root, {f"{folder}/cache/{name}/{key}": value for key, value in parts.items()})
        put(root, {f"{folder}/topology/core_id": str(n), f"{folder}/topology/physical_package_id": "0"})


def test_facts_of_a_machine(tmp_path: Path) -> None:
    a_machine(tmp_path)
    found = host_facts.read_cpu(tmp_path)
    assert (found.name, found.vendor, found.flags) == ("Test CPU @ 2.00GHz", "Intel", ("fpu", "avx2", "fma"))
    cores = found.facts["units"]
    assert cores >= 1
    assert found.facts["l1_bytes_per_unit"] == 32768
    assert found.facts["l2_bytes"] == cores * 2**20
    assert found.facts["l3_bytes"] == 8 * 2**20
    assert (found.facts["memory_bytes"], found.facts["clock_hz"]) == (16384 * 1024, 2e9)
    put(tmp_path, {"sys/fs/cgroup/cpu.max": "100000 100000"})
    assert host_facts.read_cpu(tmp_path).facts["units"] == 1


def test_energy_is_read_or_said_why_not(tmp_path: Path) -> None:
    assert "no RAPL counters" in host_facts.EnergyMeter(tmp_path).source
    domain = "sys/class/powercap/intel-rapl:0"
    put(tmp_path, {f"{domain}/energy_uj": "900", f"{domain}/max_energy_range_uj": "1000"})
    meter = host_facts.EnergyMeter(tmp_path)
    put(tmp_path, {f"{domain}/energy_uj": "100"})  # it began again at its range
    assert meter.joules() == pytest.approx(200e-6)
    put(tmp_path, {f"{domain}/energy_uj": "not for you"})
    assert meter.joules() is None
    refused = host_facts.EnergyMeter(tmp_path)
    assert "chmod" in refused.source
    assert refused.joules() is None


HERE = MeasuredMachine(
    device="cpu", name="Test CPU", vendor="AMD", architecture="cpu", date="2026-11-22", threads=4,
    flags=("avx2", "fma"),
    facts={"units": 4.0, "clock_hz": 3e9, "l1_bytes_per_unit": 32768.0, "l2_bytes": 2.0**21, "l3_bytes": 2.0**25},
    versions={"torch": "2.13.0"},
)  # fmt: skip


def truth() -> Device:
    """A machine whose software is nothing like what ships."""
    base = load_device("ryzen9_7950x")
    rates = base.software
    compute = {name: tuple(each * 0.4 for each in ends) for name, ends in rates.compute.items()}
    bandwidth = {name: tuple(each * 0.6 for each in ends) for name, ends in rates.bandwidth.items()}
    overhead = {"other": (4e-6, 4e-6, 4e-6), "CONV": (30e-6, 30e-6, 30e-6)}
    changed = msgspec.structs.replace(rates, compute=compute, bandwidth=bandwidth, overhead=overhead)
    facts = {**base.file.facts, "units": msgspec.structs.replace(base.file.facts["units"], value=4.0)}
    return device_in_mode(msgspec.structs.replace(base.file, rates=changed, facts=facts))


def timings(rounds: int = 3) -> list[LogLine]:
    device, lines = truth(), list[LogLine]([HERE])
    for model in MODELS:
        workload = store.ready(model)
        assert workload is not None
        for batch in (1, 8):
            case = BenchmarkCase(key=f"{model} {batch}", op="model", batch=batch, threads=4, model=model)
            seconds = estimate(workload, device, Scenario(batch, "fp32", "pytorch_eager", "nchw")).latency_s
            lines.append(case)
            lines += [Sample(of=case.key, seconds=seconds * (1 + 0.01 * i)) for i in range(rounds)]
    return lines


def kept(path: Path, lines: list[LogLine]) -> MeasurementLog:
    path.write_bytes(b"".join(map(encode_line, lines)))
    return read_log(path)


def test_what_was_measured_is_read_again_and_a_stop_loses_a_line(tmp_path: Path) -> None:
    lines = [
        HERE,
        BenchmarkCase(key="a", op="copy", moved=8.0),
        Sample(of="a", seconds=2.0),
        Sample(of="a", seconds=1.0),
    ]
    measured = kept(tmp_path / "m", lines)
    assert (measured.timed[0].seconds, measured.timed[0].rounds) == (1.0, 2)
    data = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(data[:-10] + b"\n" + encode_line(Sample(of="a", seconds=4.0)))
    assert [each.rounds for each in read_log(tmp_path / "m").timed] == [2]
    assert read_log(tmp_path / "m").timed[0].seconds == 2.0


def test_samples_in_which_others_took_a_core_count_only_alone(tmp_path: Path) -> None:
    quiet = [Sample(of="a", seconds=1.0 + i / 100) for i in range(3)]
    busy = [Sample(of="a", seconds=9.0, taken=True) for _ in range(7)]
    measured = kept(tmp_path / "m", [HERE, BenchmarkCase(key="a", op="x"), *quiet, *busy])
    assert measured.timed[0].seconds == pytest.approx(1.0)
    assert measured.disturbed_share == pytest.approx(0.7)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff", b"[]\n", b'{"kind": "machine", "is": {}}\n', b'{"kind": "x", "is": 1}\n', b"[" * 99999],
)
def test_what_is_no_measurement_is_said_in_a_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(RequestError, match="not what `hwexplorer measure` writes") as error:
        read_log(tmp_path / "m")
    assert "\n" not in str(error.value)


def test_samples_that_are_no_times_are_left_out_and_counted(tmp_path: Path) -> None:
    data = b"".join(map(encode_line, timings())).splitlines()
    samples = [place for place, line in enumerate(data) if b'"sample"' in line]
    for place, seconds in zip(samples, (b"0.0", b"null", b"1e-320", b"Infinity"), strict=False):
        data[place] = re.sub(rb'"seconds":[^,}]*', b'"seconds":' + seconds, data[place])
    (tmp_path / "m").write_bytes(b"\n".join(data) + b"\n")
    log = read_log(tmp_path / "m")
    assert sum(log.invalid.values()) == 4
    skipped = device_fit.fit_machine(log, "this_cpu").skipped
    assert any("3 samples are left out: their times are 0, infinite or missing" in line for line in skipped)


def test_a_fit_predicts_models_that_it_never_saw(tmp_path: Path) -> None:
    made = device_fit.fit_machine(kept(tmp_path / "m", timings()), "this_cpu")
    before, after = device_fit.median_error(made.rows, before=True), device_fit.median_error(made.rows)
    assert after < 0.12 < before
    device = made.device
    assert {name for name, fact in device.file.facts.items() if fact.quality == "measured"} >= {"units", "clock_hz"}
    held = device.file.trust[0]
    inside = [held.low * row.after_s <= row.measured_s <= held.high * row.after_s for row in made.rows]
    assert sum(inside) >= 0.8 * len(inside)


def test_the_file_is_the_device_and_is_found_at_once(
    tmp_path: Path, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "m.jsonl", timings())
    assert main(["calibrate", str(tmp_path / "m.jsonl"), "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["file"] == str(own_folder / "this_cpu.toml")
    assert main(["calibrate", str(tmp_path / "m.jsonl")]) == 0
    page = capsys.readouterr().out
    assert "How it is known" in page
    assert "Fitted" in page
    assert main(["compare", "resnet18", "--on", "this_cpu", "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["trust"]["level"] == "measured"
    assert row["runtime"].startswith("PyTorch eager")  # 'auto' is what was measured
    seconds = estimate(store.ready("resnet18"), truth(), Scenario(1, "fp32", "pytorch_eager", "nchw")).latency_s
    assert row["latency_s"] == pytest.approx(seconds, rel=0.15)
    assert main(["devices", "--format", "json"]) == 0
    assert "this_cpu" in capsys.readouterr().out
    assert main(["device", "this_cpu"]) == 0
    assert "2026-11-22" in capsys.readouterr().out


def test_shipped_files_are_never_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path / "m.jsonl", timings())
    for name in ("xeon_8490h", "../x", "A b"):
        assert main(["calibrate", str(tmp_path / "m.jsonl"), "--name", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    kept(tmp_path / "few.jsonl", timings()[:9])
    assert main(["calibrate", str(tmp_path / "few.jsonl")]) == 2
    assert "too few" in capsys.readouterr().err


def test_a_csv_makes_a_device_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text(shared_csv(kept(tmp_path / "m", timings()), "mine"))
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert {row["model"] for row in rows} == set(MODELS)
    assert "spread" in rows[0]["note"]
    assert (
        main(["calibrate", str(tmp_path / "rows.csv"), "--on", "ryzen9_7950x", "--name", "mine", "--format", "json"])
        == 0
    )
    made = json.loads(capsys.readouterr().out)
    assert made["error_after"] < made["error_before"]
    assert main(["validate", "--data", str(tmp_path / "rows.csv"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["predicted"] == len(rows)


def test_a_machine_that_others_use_makes_no_device(tmp_path: Path) -> None:
    lines = [msgspec.structs.replace(line, taken=i % 10 < 7) if isinstance(line, Sample) else line
             for i, line in enumerate(timings(10))]  # fmt: skip
    with pytest.raises(RequestError, match="measure again while it is idle"):
        device_fit.fit_machine(kept(tmp_path / "m", lines), "this_cpu")


def test_one_row_moves_its_class_towards_it_and_narrows_its_band(
    own_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = Scenario(32, "fp16", "tensorrt", "channels_last")
    base = load_device("l40s")
    before = {name: estimate(store.ready(name), base, scenario) for name in ("resnet50", "resnet101")}
    measured_s = before["resnet50"].latency_s * 1.3
    head = "device,framework,model,batch,precision,scenario,latency_ms"
    (tmp_path / "row.csv").write_text(f"{head}\nl40s,TensorRT,resnet50,32,fp16,x,{measured_s * 1e3}\n")
    assert main(["calibrate", str(tmp_path / "row.csv"), "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert any("of convolutions takes" in note for note in made["notes"])
    device = load_device("my_l40s", (own_folder,))
    for name, one in before.items():
        after = estimate(store.ready(name), device, scenario)
        assert one.latency_s < after.latency_s < 1.3 * one.latency_s
        assert after.trust.level == "measured"
        assert after.trust.band[1] / after.trust.band[0] < one.trust.band[1] / one.trust.band[0]
    other = Scenario(1, "fp16", "pytorch_eager")
    assert estimate(store.ready("resnet50"), device, other).trust.level == "siblings"  # not of what was measured


def test_one_row_moves_further_where_rows_of_one_software_agree(
    own_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = {}
    for framework in ("OpenVINO", "ncnn"):
        row = f"device,framework,model,batch,precision,latency_ms\nxeon_8270,{framework},resnet50,8,fp32,90\n"
        (tmp_path / "row.csv").write_text(row)
        assert main(["calibrate", "--from", str(tmp_path / "row.csv"), "--name", "mine", "--format", "json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert any("rows of one device differ by" in note for note in made["notes"])
        one = made["rows"][0]
        moved[framework] = np.log(one["after_s"] / one["before_s"]) / np.log(one["measured_s"] / one["before_s"])
    assert moved["OpenVINO"] > 1.5 * moved["ncnn"] > 0.0


def test_a_row_far_beyond_the_spreads_moves_rates_by_a_smaller_share() -> None:
    part = ("compute", "convolutions")
    variances = few_rows.spreads("gpu")
    moved = [
        few_rows.condition([{part: 1.0}], [error], variances).parts[part] / error for error in (0.1, 0.2, 0.4, 0.8)
    ]
    assert moved[0] == pytest.approx(moved[1])
    assert 1.0 > moved[1] > moved[2] > moved[3] > 0.0


def test_a_row_in_one_format_says_nothing_of_the_rates_in_another(own_folder: Path, tmp_path: Path) -> None:
    def latency_s(device: Device, precision: str) -> float:
        scenario = Scenario(256, precision, "tensorrt", "channels_last")  # starts of kernels are a small part
        return estimate(store.ready("resnet50"), device, scenario).latency_s

    base = load_device("h100_sxm")
    head = "device,framework,model,batch,precision,scenario,latency_ms"
    row = f"h100_sxm,TensorRT,resnet50,256,int8,x,{latency_s(base, 'int8') * 1.3e3}"
    (tmp_path / "row.csv").write_text(f"{head}\n{row}\n")
    assert main(["calibrate", str(tmp_path / "row.csv")]) == 0
    device = load_device("my_h100_sxm", (own_folder,))
    assert latency_s(device, "int8") > 1.01 * latency_s(base, "int8")
    assert latency_s(device, "fp16") == pytest.approx(latency_s(base, "fp16"), rel=0.003)
    (own_folder / "my_h100_sxm.toml").write_text(device_toml(device).replace('["int8"]', '["int9"]'))
    with pytest.raises(RequestError, match="rates_in: unknown format 'int9'"):
        load_device("my_h100_sxm", (own_folder,))


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


def test_torch_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch_process.importlib.util, "find_spec", lambda name: None)
    assert main(["measure", "--quick"]) == 2
    said = capsys.readouterr().err
    assert "pip install torch" in said
    assert said.count("\n") == 1


def test_models_are_timed_here_and_a_second_run_goes_on(tmp_path: Path) -> None:
    plan = {
        "effort": "quick",
        "seconds": 0.01,
        "probes": False,
        "models": ["squeezenet1_1"],
        "batches": [1],
        "threads": 1,
    }
    first = torch_process.measure_models(plan, tmp_path / "x" / "m.jsonl", 1.0, lambda phase, fraction: None)
    assert [(each.case.model, each.case.batch) for each in first.timed] == [("squeezenet1_1", 1)]
    assert first.timed[0].seconds > 1e-3
    assert first.timed[0].rounds >= 3  # of fewer no spread is known
    assert first.machine.versions["torch"]
    again = torch_process.measure_models(plan, tmp_path / "x" / "m.jsonl", 1.0, lambda phase, fraction: None)
    assert again.timed[0].rounds > first.timed[0].rounds


def test_a_device_that_torch_lacks_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="torch sees no"):
        torch_process.measure_models({"device": "cuda:77"}, tmp_path / "m", 1.0, lambda phase, fraction: None)


def test_what_is_left_out_is_predicted_as_by_a_fit_that_never_had_it(tmp_path: Path) -> None:
    """Of few timings that contradict each other each moves the fit far: a step along its derivatives is no fit."""
    lines = [
        msgspec.structs.replace(line, seconds=line.seconds * 4.0)
        if isinstance(line, Sample) and line.of.startswith("mobilenet")
        else line
        for line in timings()
        if isinstance(line, MeasuredMachine) or getattr(line, "key", getattr(line, "of", "")).startswith(FEW)
    ]
    made = device_fit.fit_machine(kept(tmp_path / "all", lines), "this_cpu")
    for name in ("resnet18", "mobilenet_v2"):
        rest = [
            line
            for line in lines
            if isinstance(line, MeasuredMachine) or not getattr(line, "key", getattr(line, "of", "")).startswith(name)
        ]
        without = device_fit.fit_machine(kept(tmp_path / name, rest), "without").device
        for row in (row for row in made.rows if row.name.startswith(name)):
            workload = store.ready(row.name)
            assert workload is not None
            asked = Scenario(row.batch, "fp32", "pytorch_eager", "nchw")
            assert row.after_s == pytest.approx(estimate(workload, without, asked).latency_s, rel=0.5), row.name


def test_a_batch_that_a_model_has_not_is_not_predicted(tmp_path: Path) -> None:
    """A model whose capture fixes its batch says the same at every batch: its timing at another tells nothing."""
    workload = store.ready("resnet18")
    assert workload is not None
    fixed = msgspec.structs.replace(workload.inputs[0], shape=(1, 3, 224, 224))
    text = base64.b64encode(encode(msgspec.structs.replace(workload, inputs=(fixed,)))).decode()
    lines: list[LogLine] = [HERE]
    for batch in (1, 8):
        lines.append(BenchmarkCase(key=f"own {batch}", op="model", batch=batch, threads=4, model="own", workload=text))
        lines.append(Sample(of=f"own {batch}", seconds=1.0))
    assert [each.workload() is None for each in kept(tmp_path / "m", lines).timed] == [False, True]
