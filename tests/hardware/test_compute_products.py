"""Compute products of others: stated operations and watts of each profile, prices of each class of tiles."""

from pathlib import Path

import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from hardware.architectures.kpu_products import read_product
from hardware.base.errors import RequestError
from hardware.device_catalog import load_device
from tests.models import load_once

pytest.importorskip("yaml")

PRODUCT = """
id: kpu_small
name: Small KPU
vendor: stillwater
dies:
- process_node_id: tsmc_n16
  blocks:
  - kind: kpu
    total_tiles: 20
    tiles:
    - {tile_type: INT8-primary, num_tiles: 12, pe_array_rows: 32, pe_array_cols: 32, pe_circuit_class: balanced_logic,
       ops_per_tile_per_clock: {int8: 2048.0, int4: 4096.0, bf16: 1024.0}}
    - {tile_type: SYSTOLIC, num_tiles: 4, array_rows: 64, array_cols: 64, circuit_class: balanced_logic,
       mac: {op: mac, modes: [{operand_format: int8, lanes: 1, energy: {anchor: "balanced_logic:int8", ratio: 0.5}}]}}
    - {tile_type: MINPLUS, num_tiles: 3, pe_array_rows: 32, pe_array_cols: 32, ops_per_tile_per_clock: {},
       datapath: {functional_units: [{op: min_plus, modes: [
         {operand_format: int16, energy: {kind: relative, anchor: "balanced_logic:int8", ratio: 0.45}}]}]}}
    - {tile_type: ISP, num_tiles: 1, core: {function_id: isp.raw_to_yuv,
       energy: {pj_per_unit: 224.0, ref_node_id: tsmc_n40}}}
    memory: {memory_type: lpddr5, memory_size_gb: 8.0, memory_bandwidth_gbps: 64.0, l3_kib_per_tile: 256,
      l2_kib_per_tile: 32, l1_kib_per_tile: 4}
power:
  idle_power_watts: 0.3
  default_thermal_profile: 6W
  thermal_profiles:
  - {name: 3W, tdp_watts: 1.5, clock_mhz: 300.0}
  - {name: 6W, tdp_watts: 3.0, clock_mhz: 500.0}
"""
NODE = "id: tsmc_n16\nnode_nm: 16\nenergy_per_op_pj: {'balanced_logic:int8': 0.3, 'balanced_logic:bf16': 0.6}\n"


def _write(folder: Path, text: str = PRODUCT) -> Path:
    path = folder / "compute_products" / "stillwater" / "small.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    node = folder / "process-nodes" / "tsmc" / "n16.yaml"
    node.parent.mkdir(parents=True)
    node.write_text(NODE, encoding="utf-8")
    return path


def test_a_product_states_operations_watts_and_prices(tmp_path: Path) -> None:
    path = _write(tmp_path)
    operations = {"int8": 12 * 2048 + 4 * 8192, "int4": 12 * 4096, "bf16": 12 * 1024}
    for mode, watts, clock_hz in (("", 3.0, 5e8), (":3w", 1.5, 3e8), (":6W", 3.0, 5e8)):
        device = load_device(f"{path}{mode}")
        assert (device.power_limit_w, device.clock_hz, device.units, device.process_nm) == (watts, clock_hz, 16, 16)
        for name, count in operations.items():
            assert device.peaks["matrix", name] == pytest.approx(count * clock_hz)
    assert device.key == "kpu_small:6w"
    assert load_device("kpu_small:3w").power_limit_w == 1.5  # by its id, once its file was opened
    spec = read_product(path)
    assert {name: fact.value for name, fact in spec.format_units.items()} == {"bf16": 12, "int4": 12}
    assert spec.coefficients["tile.mac:int8"].value == pytest.approx((0.3 * 12 + 0.15 * 4) / 16 * 1e-12)
    assert "3 tiles MINPLUS: min_plus:int16 0.135 pJ" in spec.notes
    assert "1 tiles ISP: isp.raw_to_yuv (tsmc_n40) 224 pJ" in spec.notes
    assert estimate(load_once("resnet18"), device, Scenario(1, "int8")).average_power_w <= 3.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "small.yaml: while parsing"),
        ("[]", "small.yaml: no compute product"),
        ("a: &x 1\nb: *x", "aliases are not read"),
        (PRODUCT.replace("kind: kpu", "kind: tpu"), "only KPUs are read, this one is tpu"),
        (PRODUCT.replace("clock_mhz: 500.0", "clock_mhz: .nan"), "no compute product: ValueError at facts.clock_hz"),
        (PRODUCT.replace("num_tiles: 12", "num_tiles: -12"), "no compute product"),
        (PRODUCT.replace("memory_size_gb: 8.0", "memory_size_gb: 1e400"), "no compute product"),
        (PRODUCT.replace("idle_power_watts: 0.3", "idle_power_watts: 9"), "no compute product"),
        (PRODUCT.replace("thermal_profiles", "profiles"), "no compute product: KeyError at 'thermal_profiles'"),
    ],
)
def test_another_file_is_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as error:
        load_device(str(_write(tmp_path, text)))
    assert says in str(error.value)
    assert "\n" not in str(error.value)
