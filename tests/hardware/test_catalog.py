"""The device catalogue: every file is complete, physical and unambiguous; a bad one is one line and harms no other."""

import csv
import gzip
import re
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hardware import known_architectures
from hardware.architecture_facts import price_table
from hardware.base.errors import RequestError, fold_name
from hardware.device import DESIGNER, QUALITIES, Device
from hardware.device_catalog import CATALOG, describe_device, find_folders, load_device, load_devices
from hardware.device_toml import portable_toml
from hardware.engines.runtime import runtimes
from hardware.plan import make_plan
from hardware.precision import FORMATS, NAMES, Format, parse
from hwexplorer.cli import main
from tests.sampling import for_each

DEVICES = {device.id: device for device in load_devices()[0]}
MODES = [
    *DEVICES,
    *(f"{device.id}:{mode}" for device in DEVICES.values() for mode in device.file.power_modes),
]
TOLERANCE = 0.03
EACH = for_each("device", DEVICES.values())

UNMAPPED = ("NVIDIA A30 x3", "NVIDIA A100-SXM-80GB (1x1g.10gb MIG)", "NVIDIA A100-PCIe-80GB x2", "NVIDIA A40 x2")


def test_every_file_loads() -> None:
    devices, errors = load_devices()
    assert errors == []
    assert len(devices) == len(list(CATALOG.glob("*.toml")))


def test_at_least_sixty_devices_in_all_architectures() -> None:
    by_architecture = Counter(device.architecture for device in DEVICES.values())
    assert sum(by_architecture.values()) >= 60
    assert set(by_architecture) == set(known_architectures.ALL)
    assert by_architecture.pop("kpu") == 4, "those that its maker describes"
    assert min(by_architecture.values()) >= 5


@pytest.mark.parametrize(("name", "device_id"), known_architectures.classes().items())
def test_each_class_has_its_default_device(name: str, device_id: str) -> None:
    assert load_device(name).id == device_id
    assert DEVICES[device_id].architecture == name


def test_design_targets_are_marked() -> None:
    """What was never built says so in the file, in the notes and in each fact that a specification gave."""
    targets = {device.id for device in DEVICES.values() if not device.file.is_silicon}
    cores = {name for name in targets if name.startswith("ethos_u")}
    assert targets - cores == {"kpu_t64", "kpu_t100", "kpu_t256", "kpu_t768"}
    assert len(cores) == 11
    for device_id in targets:
        assert any("no silicon" in note for note in DEVICES[device_id].file.notes)
        assert DEVICES[device_id].facts["tdp_w"].quality == "design target"


@EACH
def test_identity(device: Device) -> None:
    assert (CATALOG / f"{device.id}.toml").is_file()
    assert re.fullmatch(r"[a-z0-9_]+", device.id)
    assert device.name
    assert device.vendor
    assert device.file.unit_name
    assert device.file.year == 0 or 2010 <= device.file.year <= 2030
    assert device.memory_technology in price_table()["dram"]


@EACH
def test_every_fact_has_unit_source_and_quality(device: Device) -> None:
    spec = device.file
    everything = [
        *spec.facts.values(),
        *(fact for rates in spec.fma_per_clock.values() for fact in rates.values()),
        *spec.peak_flops.values(),
        *(fact for mode in spec.power_modes.values() for fact in mode.facts.values()),
        *spec.coefficients.values(),
    ]
    for fact in everything:
        assert fact.unit
        assert fact.quality in QUALITIES
        assert fact.source in spec.sources or len(fact.source) > 12, fact.source
    used = {fact.source for fact in everything}
    assert set(spec.sources) <= used, "a source that nothing cites"
    assert set(device.facts) <= set(device.arch.data.facts)


@EACH
def test_published_peaks_follow_from_units_rate_and_clock(device: Device) -> None:
    """units x FMA per clock x clock x 2 is within 3 % of the published dense peak, or the file says why not."""
    spec = device.file
    for precision, fact in spec.peak_flops.items():
        computed = [peak for (_, format_), peak in device.peaks.items() if format_ == precision]
        assert computed, f"{precision} is published but no unit runs it"
        error = min(abs(peak / fact.value - 1.0) for peak in computed)
        if error > TOLERANCE:
            assert len(spec.exceptions.get(precision, "")) > 20, f"{precision} is {error:.1%} off, unexplained"
        else:
            assert precision not in spec.exceptions, f"the exception of {precision} is not needed"
    assert set(spec.exceptions) <= set(spec.peak_flops)


def test_peaks_are_dense() -> None:
    """Traps of public catalogues: sparse figures, wrong units, wrong rates (research notes, 'Traps')."""
    peak = {device_id: device.peaks for device_id, device in DEVICES.items()}
    assert peak["h100_sxm"]["matrix", "fp16"] == pytest.approx(989.4e12, rel=0.01)
    assert peak["h200_sxm"]["matrix", "fp8"] == pytest.approx(1978.9e12, rel=0.01)
    assert peak["b200"]["matrix", "fp16"] == pytest.approx(2250e12, rel=0.01)
    assert peak["v100_sxm2_16gb"]["vector", "int8"] == pytest.approx(62.7e12, rel=0.01)
    assert peak["a100_sxm4_80gb"]["vector", "fp32"] == pytest.approx(19.5e12, rel=0.01)
    assert peak["rtx_3090"]["matrix", "fp16"] == pytest.approx(71e12, rel=0.01)
    assert peak["rtx_4090"]["matrix", "int8"] == pytest.approx(660.6e12, rel=0.01)
    assert peak["jetson_agx_orin"]["matrix", "int8"] == pytest.approx(85e12, rel=0.01)
    assert peak["jetson_thor"]["matrix", "fp16"] == pytest.approx(258.5e12, rel=0.01)
    assert peak["tpu_v4"]["matrix", "bf16"] == pytest.approx(275e12, rel=0.01)
    assert DEVICES["tpu_v3"].tdp_w == 450  # 220 W is its measured mean
    assert DEVICES["h100_pcie"].units == 114
    assert DEVICES["l4"].units == 58
    assert not any("matrix" in DEVICES[name].file.fma_per_clock for name in ("i7_13700k", "jetson_nano"))


@EACH
def test_matrix_units_are_not_slower_in_narrower_formats(device: Device) -> None:
    order = ("fp32", "tf32", "fp16", "fp8")
    rates = [fact.value for name in order if (fact := device.file.fma_per_clock.get("matrix", {}).get(name))]
    assert rates == sorted(rates)


@for_each("name", MODES)
def test_physics_of_every_power_mode(name: str) -> None:
    device = load_device(name)
    value = {key: fact.value for key, fact in device.facts.items()}
    assert 0 < value["idle_w"] < value["power_limit_w"]
    assert value["idle_w"] < value["tdp_w"]
    assert value["active_w"] < value["sustained_w"] <= max(value["power_limit_w"], value["tdp_w"])
    assert 1e8 <= value["clock_hz"] <= 6.5e9
    if "memory_bus_bits" in value and "memory_transfer_rate" in value:
        bandwidth = value["memory_bus_bits"] / 8 * value["memory_transfer_rate"]
        assert bandwidth == pytest.approx(value["memory_bandwidth"], rel=TOLERANCE)
    assert value["memory_bytes"] >= device.last_level_bytes
    caches = value.get("l2_bytes", 0) + value.get("l3_bytes", 0) + value.get("scratchpad_bytes", 0)
    assert value["memory_bytes"] >= caches
    for low, high in ((fact.low, fact.high) for fact in device.facts.values()):
        assert low is None or high is None or low <= high


@EACH
def test_power_modes_only_restrict(device: Device) -> None:
    """No mode is faster than the device's own peaks, except those that a vendor sells as an overdrive."""
    overdrive = {"jetson_orin_nano:25w", "jetson_orin_nano:maxn", "jetson_xavier_nx:15w"}
    overdrive |= {f"kpu_t{n}:{w}" for n, w in ((64, "10w"), (256, "50w"), (768, "100w"))}
    for mode in device.file.power_modes:
        assert re.fullmatch(r"maxn|maxq|[0-9]+w(_desktop)?", mode) or (mode == DESIGNER and not device.silicon)
        throttled = load_device(f"{device.id}:{mode}")
        assert throttled.key == f"{device.id}:{mode}"
        if throttled.key not in overdrive:
            assert throttled.clock_hz <= device.clock_hz
            assert throttled.units <= device.units
            assert throttled.memory_bandwidth <= device.memory_bandwidth


def test_jetsons_have_power_modes() -> None:
    jetsons = [d for d in DEVICES.values() if d.id.startswith("jetson_") and d.architecture == "gpu"]
    assert len(jetsons) >= 8
    assert all("maxn" in d.file.power_modes or d.id == "jetson_xavier_nx" for d in jetsons)
    assert {"15w", "30w", "50w", "maxn"} <= set(DEVICES["jetson_agx_orin"].file.power_modes)
    assert all({"15w", "30w", "50w"} <= set(DEVICES[k].file.power_modes) for k in ("kpu_t100", "kpu_t256"))


def test_names_and_aliases_mean_one_device() -> None:
    """Ids, names and aliases, however they are spelt, name one device each."""
    owner: dict[str, str] = {}
    for device in DEVICES.values():
        assert len({alias.casefold() for alias in device.file.aliases}) == len(device.file.aliases)
        for name in (device.id, device.name, *device.file.aliases):
            assert owner.setdefault(fold_name(name), device.id) == device.id, f"{name!r} names two devices"
            assert name.casefold() not in known_architectures.classes()
            assert ":" not in name or name.startswith("CPU: "), "a colon separates the power mode"


@for_each(
    ("written", "device_id"),
    {
        "V100 PCIe 16GB": "v100_pcie_16gb",
        "Tesla V100-PCIE-16GB": "v100_pcie_16gb",
        "NVIDIA H100 NVL": "h100_nvl",
        "H100 NVL 94GB": "h100_nvl",
        "AMD Instinct MI300X VF": "mi300x",
        "NVIDIA GeForce RTX 2060 with Max-Q Design": "rtx_2060_max_q",
        "NVIDIA RTX 2000 Ada Generation": "rtx_2000_ada",
        "Intel(R) Xeon(R) Platinum 8480+": "xeon_8480_plus",
        "Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz": "xeon_8380",
        "12th Gen Intel(R) Core(TM) i7-12700K": "i7_12700k",
        "Intel(R) Arc(TM) A770 Graphics": "arc_a770",
        "Ampere(R) Altra(R) Max Processor": "altra_max_m128",
        "NVIDIA Jetson AGX Orin Developer Kit": "jetson_agx_orin",
        "NVIDIA Thor": "jetson_thor",
        "TPU v5 lite": "tpu_v5e",
        "Cloud TPU v4": "tpu_v4",
        "Coral USB Accelerator": "coral_edge_tpu",
        "Raspberry Pi 5 Model B Rev 1.0": "raspberry_pi_5",
        "RTX3090": "rtx_3090",
        "4090": "rtx_4090",
        "7900 XTX": "rx_7900_xtx",
        "RTX 4090 Mobile": "rtx_4090_laptop",
        "A100 80GB": "a100_sxm4_80gb",
        "V100-32GB": "v100_sxm2_32gb",
        "H100 94GB": "h100_nvl",
        "HGX H100": "h100_sxm",
        "AGX Orin 32GB": "jetson_agx_orin_32gb",
        "B200-SXM-180GB": "b200",
        "Snapdragon 8 Elite": "snapdragon_8_elite_npu",
        "NVIDIA Tesla M60": "m60",
        "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S": "radeon_8060s",
        "RTX 3080 12GB": "rtx_3080_12gb",
        "AMD Ryzen 9 5950X 16-Core Processor": "ryzen9_5950x",
        "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz": "xeon_e5_2686_v4",
        "c7i.4xlarge": "xeon_8488c",
        "CPU: ARMv8 Processor rev 1 (v8l) x3": "jetson_agx_orin_cpu",
        "CPU: BCM2835 Arm Cortex-A72 r0p3 x1": "raspberry_pi_4",
        "CPU: NVIDIA Carmel (ARMv8.2) x1": "jetson_agx_xavier_cpu",
        "Coral USB Edge TPU on Intel Core i7-6700 desktop": "coral_edge_tpu",
        "NVIDIA Jetson AGX Orin 32G": "jetson_agx_orin_32gb",
        "NVIDIA RTX-2000E-Ada-16GB": "rtx_2000_ada",
    }.items(),
)
def test_names_as_drivers_and_clouds_write_them(written: str, device_id: str) -> None:
    assert load_device(written).id == device_id


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("RTX 3080 16GB", r"^rtx_3080 has 10 GB, not 16 GB: rtx_3080\{memory_bytes=16e9\} changes only the capacity$"),
        ("A100 PCIe", "may be a100_pcie_40gb or a100_pcie_80gb: name one of them"),
        ("Tesla M61", "no shipped device is like it"),
        ("8", "unknown device"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "unknown device"),
        ("RTX 6000", "unknown device"),
        ("Core Ultra 7 155H", "did you mean arc_155h"),
        ("8x H100", "unknown device"),
        ("h10_sxm", "did you mean h100_sxm"),
        ("M1 Max 24-core GPU", "did you mean apple_m1_max_gpu"),
        ("/home/me/l4", r"a device file is TOML, named by folder and id"),
        ("./mine.yaml", r"mine.yaml: No such file or directory"),
    ],
)
def test_a_name_of_another_variant_is_refused(written: str, answer: str) -> None:
    with pytest.raises(RequestError, match=answer):
        load_device(written)


@pytest.mark.parametrize("measured", UNMAPPED)
def test_several_devices_are_not_one(measured: str) -> None:
    assert not [d.id for d in DEVICES.values() if measured in d.file.aliases]


def test_shipped_measurements_are_mapped() -> None:
    """Of the measured rows that name one device of a kind that is catalogued, nearly all find it."""
    packages = [CATALOG.parents[1] / name for name in ("hardware", "analysis", "hwexplorer")]
    found = [path for package in packages for path in package.rglob("latency.csv*")]
    if not found:
        pytest.skip("no measured data beside the code")
    raw = found[0].read_bytes()
    text = (gzip.decompress(raw) if found[0].suffix == ".gz" else raw).decode("utf-8")
    rows = Counter(row["device"] for row in csv.DictReader(text.splitlines()))
    aliases = {a.casefold() for d in DEVICES.values() for a in (*d.file.aliases, d.name)}
    mapped = sum(n for name, n in rows.items() if name.casefold() in aliases)
    assert mapped >= 0.95 * sum(rows.values())


@EACH
def test_every_precision_has_a_plan(device: Device) -> None:
    """A precision the device lacks is run as another, with a mark; test_events.py proves that it has prices."""
    supported = {name for rates in device.file.fma_per_clock.values() for name in rates}
    for precision in NAMES:
        chosen = make_plan(device, precision)
        assert ("matrix" in device.file.fma_per_clock) or chosen.convolution[0] == "vector"
        for unit, format_ in (chosen.convolution, chosen.contraction):
            assert format_ in device.file.fma_per_clock[unit]
        assert chosen.vector in device.file.fma_per_clock["vector"]
        asked = parse(precision)
        like_it = {name for name, form in FORMATS.items() if _kind(form) == _kind(FORMATS[asked.multiplied])}
        # `a16` is fp16 or bf16, whichever there is.
        as_asked = like_it if asked.weights != asked.activations else {asked.multiplied}
        if not as_asked & supported and precision != "tf32":
            assert chosen.marks


def _kind(form: Format) -> tuple[str, float]:
    return form.kind, form.bits


@EACH
def test_customary_formats(device: Device) -> None:
    """fp32 means what the customary software does: TF32 convolutions on NVIDIA since Ampere, bf16 under XLA."""
    fp32 = make_plan(device, "fp32")
    if device.vendor == "NVIDIA" and device.architecture == "gpu":
        recent = "tf32" in device.file.fma_per_clock.get("matrix", {})
        tensor, plain = ("matrix", "tf32") if recent else ("vector", "fp32"), ("vector", "fp32")
        pytorch, tensorrt = (make_plan(device, "fp32", runtimes()[name]) for name in ("pytorch_eager", "tensorrt"))
        assert (pytorch.convolution, pytorch.contraction) == (tensor, plain)
        assert (tensorrt.convolution, tensorrt.contraction) == (tensor, tensor)
    if device.architecture == "tpu":
        assert fp32.contraction[1] in ("bf16", "int8")
        assert fp32.marks


@EACH
def test_sheet_is_plain_and_complete(device: Device) -> None:
    page = describe_device(device)
    assert page["id"] == device.id
    assert page["power_modes"] == list(device.file.power_modes)
    assert set(page["facts"]) >= {name for name, field in device.arch.data.facts.items() if field.is_required}


def test_derived_facts_say_so() -> None:
    """What a file leaves empty is derived by the stated rule and marked; it is never mistaken for a figure."""
    fact = DEVICES["b200"].facts["idle_w"]
    assert "idle_w" not in DEVICES["b200"].file.facts
    assert fact.quality == "derived"
    assert fact.source.startswith("rule: ")
    assert fact.value == pytest.approx(0.12 * DEVICES["b200"].tdp_w)


# --- Files that are wrong -------------------------------------------------------------------------------------------

GOOD = (CATALOG / "t4.toml").read_text(encoding="utf-8").replace('id = "t4"', 'id = "mine"')


def _edit(pattern: str, replacement: str) -> str:
    text, count = re.subn(pattern, replacement, GOOD, count=1, flags=re.MULTILINE)
    assert count == 1, pattern
    return text


PRICE = '[coefficients]\n"{}" = {{ value = {}, unit = "{}", source = "me", quality = "assumed" }}\n'

BAD = {
    "missing field": (_edit(r"^tdp_w = .*\n", ""), "facts.tdp_w is missing"),
    "missing table": (_edit(r"^\[facts\]", "[power_modes.maxn.facts]"), "facts"),
    "missing identity": (_edit(r"^vendor = .*\n", ""), "vendor"),
    "wrong unit": (_edit(r'^(tdp_w = .*unit = )"W"', r'\1"kW"'), "facts.tdp_w: unit is 'kW', expected 'W'"),
    "negative": (_edit(r"^(tdp_w = \{ value = )70", r"\g<1>-70"), "facts.tdp_w: value -70"),
    "zero": (_edit(r"^(units = \{ value = )40", r"\g<1>0"), "facts.units: must be greater than 0"),
    "no bandwidth": (
        _edit(
            r"^tdp_w",
            'last_level_bandwidth = { value = -0, unit = "byte/s", source = "a", quality = "published" }\ntdp_w',
        ),
        "facts.last_level_bandwidth: must be greater than 0",
    ),
    "no rate": (_edit(r"^(fp32 = \{ value = )64", r"\g<1>-0.0"), "fma_per_clock.vector.fp32: must be greater than 0"),
    "not finite": (_edit(r"^(tdp_w = \{ value = )70", r"\g<1>inf"), "facts.tdp_w: value inf"),
    "not a number": (_edit(r"^(tdp_w = \{ value = )70", r'\g<1>"seventy"'), "value must be a number, not text"),
    "idle over limit": (_edit(r"^(idle_w = \{ value = )10(.*), low = .*, high = \d+", r"\g<1>90\2"), "facts.idle_w"),
    "bus and rate": (_edit(r"^(memory_bus_bits = \{ value = )256", r"\g<1>128"), "facts.memory_bandwidth"),
    "unknown field": (_edit(r"^tdp_w", "tpd_w"), "did you mean tdp_w"),
    "unknown key": (_edit(r"^vendor = ", "vender = "), "did you mean vendor"),
    "unknown architecture": (_edit(r'^architecture = "gpu"', 'architecture = "gpuu"'), "did you mean gpu"),
    "unknown precision": (_edit(r"^int4 = ", "int5 = "), "did you mean int"),
    "unknown quality": (
        _edit(r'^(units = .*quality = )"[a-z ]*"', r'\1"rumour"'),
        "facts.units: quality is 'rumour' (allowed: data sheet",
    ),
    "out of range": (_edit(r"^(tdp_w = \{ value = )70", r"\g<1>1e200"), "facts.tdp_w: value 1e+200 is out of range"),
    "next to nothing": (_edit(r"^(clock_hz = \{ value = )[0-9.e]+", r"\g<1>1e-200"), "facts.clock_hz: value 1e-200"),
    "low alone": (_edit(r"^(idle_w = .*), low = .*, high = \d+", r"\1, low = nan"), "facts.idle_w: low nan"),
    "high alone": (_edit(r"^(idle_w = .*), low = .*, high = \d+", r"\1, high = nan"), "facts.idle_w: high nan"),
    "low above": (_edit(r"^(idle_w = .*), low = .*, high = \d+", r"\1, low = 11"), "outside low-high 11.0-10.0"),
    "a number without end": (_edit(r"^year = \d+", "year = " + "9" * 5000), "is not valid TOML"),
    "a key without end": (GOOD + ".".join("a" * 30_000) + " = 1\n", "has a line with more than 100 dots"),
    "nested": (GOOD + "a = " + "[" * 30_000 + "]" * 30_000, "is not valid TOML"),
    "too large": (GOOD + "#" * (1 << 18), "is larger than 262,144 bytes"),
    "runs what it has not": (GOOD + '[runs.fp32]\nconvolution = "matrix:zzz"', "runs.fp32.convolution: unknown unit"),
    "runs on nothing": (GOOD + '[runs.fp32]\ncontraction = "tensor:fp16"', "runs.fp32.contraction: unknown unit"),
    "runs an unknown name": (
        GOOD + '[runs.fp32]\nconvolutions = "vector:fp32"',
        "did you mean convolution or contraction?",
    ),
    "runs an unknown precision": (GOOD + '[runs.fp31]\nwhy = "so"', "runs: unknown precision 'fp31'"),
    "stored as nothing": (GOOD + '[runs.fp32]\nstored = "fp12"', "runs.fp32.stored: unknown precision 'fp12'"),
    "an exception of nothing": (GOOD + '[exceptions]\nfp31 = "so"', "exceptions: unknown precision 'fp31'"),
    "price of nothing": (GOOD + PRICE.format("memory.dram_reed", 1e-12, "J/byte"), "did you mean memory.dram_read"),
    "price in another unit": (GOOD + PRICE.format("memory.dram_read", 1e-12, "J/bit"), "expected 'J/byte'"),
    "price of a format": (GOOD + PRICE.format("memory.dram_read:fp31", 1e-12, "J/byte"), "unknown precision 'fp31'"),
    "price without end": (GOOD + PRICE.format("memory.dram_read", "inf", "J/byte"), "value inf is out of range"),
    "wrong id": (GOOD.replace('id = "mine"', 'id = "yours"'), "must equal the file name"),
    "not TOML": ("id = [unclosed", "is not valid TOML"),
    "empty": ("", "id"),
}


def _refused(folder: Path, name: str = "mine") -> str:
    """The one line that a bad file gives on loading it; every other device is unharmed."""
    with pytest.raises(RequestError) as error:
        load_device(name, (folder,))
    message = str(error.value)
    assert "\n" not in message
    assert load_device("t4", (folder,)).units == 40
    assert load_device("NVIDIA T4", (folder,)).id == "t4"
    devices, errors = load_devices((folder,))
    assert len(devices) == len(DEVICES)
    assert errors == [message]
    return message


def test_a_users_device_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace("NVIDIA T4", "Mine").replace("Tesla T4", "My own"), "utf-8")
    assert load_device("mine", (tmp_path,)).units == 40
    assert load_device("my own", (tmp_path,)).id == "mine"
    assert "mine" in find_folders((tmp_path,))
    assert len(load_devices((tmp_path,))[0]) == len(DEVICES) + 1


@pytest.mark.parametrize("case", BAD)
def test_bad_file_is_one_line_naming_file_and_field(case: str, tmp_path: Path) -> None:
    text, expected = BAD[case]
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    message = _refused(tmp_path)
    assert message.startswith("device file mine.toml: ")
    assert expected in message


def test_duplicate_id(tmp_path: Path) -> None:
    (tmp_path / "t4.toml").write_text((CATALOG / "t4.toml").read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(RequestError, match=r"^device file t4\.toml: id: 't4' is already defined by catalog/$"):
        load_device("t4", (tmp_path,))


def test_power_modes_go_by_the_numbers_of_nvpmodel() -> None:
    """`nvpmodel -m 1` is 7 W on an Orin Nano, 15 W on an AGX Orin, 10 W on an AGX Xavier."""
    limits = {"jetson_orin_nano": 7.0, "jetson_agx_orin": 15.0, "jetson_agx_xavier": 10.0}
    for name, limit_w in limits.items():
        assert load_device(f"{name}:pm1").power_limit_w == limit_w
    with pytest.raises(RequestError):
        load_device("jetson_orin_nano:pm9")


def test_a_processor_without_a_last_cache_is_compared_without_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (CATALOG / "xeon_8490h.toml").read_text()
    changes = ((r"^(l3_bytes = \{ value = )[0-9.e+]+", r"\g<1>0"), ("^id = .*", 'id = "mine"'), ("^aliases = .*", ""))
    for pattern, replacement in changes:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    (tmp_path / "mine.toml").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["compare", "resnet18", "--on", "mine", "--devices-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_cloud_instances_name_their_devices() -> None:
    """Names as Google and Azure list them; Amazon's are `AWS` and the family."""
    instances = {
        "a2-highgpu-8g": "a100_sxm4_40gb", "a2-ultragpu-1g": "a100_sxm4_80gb", "a3-megagpu-8g": "h100_sxm",
        "a3-ultragpu-8g": "h200_sxm", "g2-standard-48": "l4", "ct5lp-hightpu-4t": "tpu_v5e", "p5e.48xlarge": "h200_sxm",
        "Standard_NC24ads_A100_v4": "a100_pcie_80gb", "Standard_ND96isr_MI300X_v5": "mi300x",
    }  # fmt: skip
    assert {name: load_device(name).id for name in instances} == instances


@for_each("name", ["rtx_309", "ryzen 9999x", "a1000x"])
def test_three_devices_are_suggested_at_most(name: str) -> None:
    with pytest.raises(RequestError) as unknown:
        load_device(name)
    assert str(unknown.value).partition("?")[0].count(" or ") <= 2


@for_each("name", ["kpu_t256", "kpu_t256:15w{units=512}", "h100_sxm", "jetson_orin_nano:7w"])
def test_a_device_file_travels(name: str) -> None:
    """The file that `devices NAME -o mine.toml` writes describes the same device, with the same facts and peaks."""
    device = load_device(name)
    with TemporaryDirectory() as folder:
        (Path(folder) / "mine.toml").write_text(portable_toml(device, "mine"))
        mine = load_device("mine", (Path(folder),))
    assert mine.silicon == device.silicon
    assert mine.peaks == pytest.approx(device.peaks, rel=1e-5)
    for fact, value in device.values.items():
        assert mine.values[fact] == pytest.approx(value, rel=1e-5), fact


def test_a_peak_that_contradicts_its_units_is_an_error(tmp_path: Path) -> None:
    text = (
        portable_toml(load_device("kpu_t256"), "mine")
        .replace("units = { value = 256.0", "units = { value = 100.0")
        .replace("int4 = { value = 179.0, unit", "int4 = { value = 79.0, unit")
    )
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(RequestError, match=r"peak_flops.fp32: 1.567e\+13 FLOP/s, but 100 units"):
        load_device("mine", (tmp_path,))
    (tmp_path / "mine.toml").write_text(text + '\n[exceptions]\nfp32 = "so"\nbf16 = "so"\nint8 = "so"\nint4 = "so"\n')
    assert load_device("mine", (tmp_path,)).units == 100


def test_a_page_says_which_peaks_the_limit_does_not_allow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "kpu_t256"]) == 0
    assert "25.6 W for 315 TOPS in int8" in capsys.readouterr().out
    assert main(["devices", "rtx_4090"]) == 0
    assert "not reachable" not in capsys.readouterr().out
