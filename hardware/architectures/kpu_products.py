"""Compute products of branes-ai/embodied-schemas (YAML) as device files: KPUs, with the process node of their die.

A product states tiles by class with operations per clock, memories, and thermal profiles of clock and watts, which
become power modes. Formats that only some tiles multiply are a checkerboard (`format_units`). Prices per operation are
the node's, by the class of cells of each tile: hopes, which only the mode `designer` takes. What has no operations
that this product knows (min-plus, fixed functions) takes part in no product; notes say what it costs.
"""

import re
from pathlib import Path
from typing import Any

from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.device import DESIGN_TARGET, DeviceFile, Fact, PowerMode, check_file
from hardware.precision import BASE, FORMATS, UNIT_FORMATS

SUFFIXES = (".yaml", ".yml")
_MOST_BYTES = 1 << 20
_KIB = 1024.0
_OPS_PER_MAC = 2.0


def read_product(path: Path) -> DeviceFile:
    """Return a product as a device file. Raises RequestError for a file that is none, or for another product."""
    data = _yaml(path)
    try:
        spec = _device_file(path, data)
        check_file(spec)
        return spec
    except RequestError:
        raise
    except (KeyError, TypeError, IndexError, StopIteration, AttributeError, ValueError) as error:
        raise RequestError(f"{path.name}: no compute product: {type(error).__name__} at {error}") from None


def _yaml(path: Path) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise RequestError(f"{path.name}: a YAML file needs PyYAML: pip install 'hwexplorer[yaml]'") from None
    try:
        text = file_access.text(file_access.read(path, _MOST_BYTES))
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise RequestError(f"{path.name}: aliases are not read")
        return yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        words = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise RequestError(f"{path.name}: {words}") from None


def _find_node(path: Path, node_id: str) -> dict[str, Any]:
    """Return the process node of an id from the folder of nodes beside the product's; empty if it is not there."""
    for folder in (parent / "process-nodes" for parent in path.resolve().parents):
        for file in sorted(folder.rglob("*.yaml")) if folder.is_dir() else ():
            if file.stem in node_id and (node := _yaml(file)).get("id") == node_id:
                return dict(node)
    return {}


def operation_pj(tile: dict[str, Any], node: dict[str, Any]) -> dict[str, float]:
    """Return the picojoules of an operation of a tile by its name and format, at the nominal voltage of the node; of a
    fixed function, by its unit at the node that its source states."""
    anchors = node.get("energy_per_op_pj", {})
    if core := tile.get("core"):
        return {f"{core['function_id']} ({core['energy']['ref_node_id']})": float(core["energy"]["pj_per_unit"])}
    units = tile.get("datapath", {}).get("functional_units", []) or [tile[name] for name in ("mac",) if name in tile]
    prices = {}
    for unit in units:
        for mode in unit["modes"]:
            energy, name = mode.get("energy") or {}, f"{unit['op']}:{mode['operand_format']}"
            if energy.get("kind") == "absolute":
                prices[name] = float(energy["pj"])
            elif (anchor := anchors.get(energy.get("anchor") or _anchor(tile, mode["operand_format"]))) is not None:
                prices[name] = float(anchor) * float(energy.get("ratio", 1.0))
    anchor_of = {name: _anchor(tile, name) for name in (() if units else tile.get("ops_per_tile_per_clock", {}))}
    return prices | {f"mac:{name}": float(anchors[anchor]) for name, anchor in anchor_of.items() if anchor in anchors}


def _anchor(tile: dict[str, Any], format_name: str) -> str:
    return f"{tile.get('pe_circuit_class') or tile.get('circuit_class')}:{format_name}"


def _operations(tile: dict[str, Any]) -> dict[str, float]:
    """Return the operations of a tile in a clock by format, those that units multiply."""
    stated = dict(tile.get("ops_per_tile_per_clock") or {})
    if not stated and "mac" in tile:
        cells = tile["array_rows"] * tile["array_cols"] * _OPS_PER_MAC
        for mode in tile["mac"]["modes"]:
            stated[mode["operand_format"]] = cells * mode.get("lanes", 1) / mode.get("issue_interval_cycles", 1)
    return {name: float(count) for name, count in stated.items() if name in UNIT_FORMATS}


def _device_file(path: Path, data: dict[str, Any]) -> DeviceFile:
    die = data["dies"][0]
    block = next((block for block in die["blocks"] if block["kind"] == "kpu"), None)
    if block is None:
        kinds = ", ".join(block["kind"] for block in die["blocks"])
        raise RequestError(f"{path.name}: of compute products only KPUs are read, this one is {kinds}")
    source = f"branes-ai/embodied-schemas {path.name}"

    def fact(value: float, unit: str, quality: str = DESIGN_TARGET, note: str = "") -> Fact:
        """Return a fact of the file."""
        return Fact(float(value), unit, source, quality, note=note)

    def profile_facts(profile: dict[str, Any]) -> dict[str, Fact]:
        """Return the clock and watts of a thermal profile."""
        limit = fact(profile["tdp_watts"], "W")
        return {"clock_hz": fact(profile["clock_mhz"] * 1e6, "Hz"), "power_limit_w": limit, "tdp_w": limit}

    node = _find_node(path, die["process_node_id"])
    nm = float(node["node_nm"]) if node else float(re.findall(r"\d+", die["process_node_id"])[0])
    working = [tile for tile in block["tiles"] if _operations(tile)]
    units = sum(tile["num_tiles"] for tile in working)
    main = max(working, key=lambda tile: tile["num_tiles"])
    formats = [name for name in UNIT_FORMATS if any(name in _operations(tile) for tile in working)]
    having = {name: [tile for tile in working if name in _operations(tile)] for name in formats}
    tiles = {name: sum(tile["num_tiles"] for tile in having[name]) for name in formats}
    rates = {
        name: sum(_operations(tile)[name] * tile["num_tiles"] for tile in having[name]) / _OPS_PER_MAC / units
        for name in formats
    }
    memory, power = block["memory"], data["power"]
    profiles = {profile["name"]: profile for profile in power["thermal_profiles"]}
    lanes = fact(main["pe_array_rows"] + main["pe_array_cols"], "FMA/clock", "assumed", "one for each row and column")
    prices = {}
    for name in formats:
        costs = [(operation_pj(tile, node).get(f"mac:{name}"), tile["num_tiles"]) for tile in having[name]]
        known = [(pj, count) for pj, count in costs if pj is not None]
        if known:
            mean_pj = sum(pj * count for pj, count in known) / sum(count for _, count in known)
            prices[f"tile.mac:{name}"] = fact(mean_pj * 1e-12, "J/MAC", note="per MAC, as the maker's model of tiles")
    notes = ["Design target, no silicon: no figure of this device was ever measured"]
    for tile in block["tiles"]:
        costs_pj = ", ".join(f"{name} {pj:.3g} pJ" for name, pj in operation_pj(tile, node).items())
        notes.append(f"{tile['num_tiles']} tiles {tile['tile_type']}: {costs_pj or 'no energy stated'}")
    return DeviceFile(
        id=re.sub(r"\W", "_", str(data["id"])),
        name=str(data["name"]),
        vendor=str(data["vendor"]).title(),
        architecture="kpu",
        memory_technology=str(memory["memory_type"]).upper(),
        unit_name="tile",
        is_silicon=False,
        notes=tuple(notes),
        facts={
            "process_nm": fact(nm, "nm"),
            "units": fact(units, "count"),
            **profile_facts(profiles[power["default_thermal_profile"]]),
            "memory_bytes": fact(memory["memory_size_gb"] * 1e9, "byte"),
            "memory_bandwidth": fact(memory["memory_bandwidth_gbps"] * 1e9, "byte/s"),
            "idle_w": fact(power["idle_power_watts"], "W"),
            "array_rows": fact(main["pe_array_rows"], "count"),
            "array_columns": fact(main["pe_array_cols"], "count"),
            "scratchpad_bytes": fact(memory["l3_kib_per_tile"] * _KIB * block["total_tiles"], "byte"),
            "tile_memory_bytes": fact(memory["l2_kib_per_tile"] * _KIB, "byte"),
            "stream_buffer_bytes": fact(memory.get("l1_kib_per_tile", memory.get("l1_kib_per_pe", 4.0)) * _KIB, "byte"),
        },
        fma_per_clock={
            "matrix": {name: fact(rate, "FMA/clock") for name, rate in rates.items()},
            "vector": {name: lanes for name in {BASE: 0.0} | rates if not FORMATS[name].is_packed},
        },
        format_units={name: fact(count, "count") for name, count in tiles.items() if count < units},
        power_modes={
            re.sub(r"\W", "_", name.casefold()): PowerMode(facts=profile_facts(profile))
            for name, profile in profiles.items()
        },
        coefficients=prices,
    )
