"""The formats that weights are stored in, as `quantization_config` of a `config.json` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardware import file_access
from hardware.precision import parse

_FILE = Path(__file__).with_suffix(".toml")
Raw = dict[str, Any]


def notes(raw: Raw) -> list[str]:
    """Return the precision that it means, with its formats by role, or why none does."""
    stated = raw.get("quantization_config")
    if not isinstance(stated, dict):
        return []
    method = str(stated.get("quant_method", ""))[:40]
    bits, kind, activations = _stored_format(method, stated)
    name = file_access.shipped(_FILE)["precisions"].get(f"{bits} {kind} {activations}")
    if name is None:
        known = ", ".join(file_access.shipped(_FILE)["methods"])
        said = f"{bits} bit {kind}, activations {activations} bit" if bits else f"a method without a reader ({known})"
        return [f"its quantization_config is {method or 'unnamed'}: {said}; no precision here is that: choose one"]
    means = parse(name)
    kept = "bf16" if activations == 16 and means.activations == means.weights else means.activations
    other = "" if kept == means.activations else f" (its activations stay {kept})"
    return [
        f"stored by {method} with weights in {means.weights}, activations {means.activations}, cache {means.cache}: "
        f"--precision {name}{other}"
    ]


def _stored_format(method: str, stated: Raw) -> tuple[int, str, int]:
    """Bits of weights, what they are, bits of activations; no bits where it is not told."""
    if method == "compressed-tensors":
        return _compressed(stated)
    usual = file_access.shipped(_FILE)["methods"].get(method)
    if usual is None:
        return 0, "", 0
    if stated.get("load_in_4bit"):
        return 4, str(stated.get("bnb_4bit_quant_type", "fp4"))[:8], 16
    bits = stated.get("bits", stated.get("w_bit", usual.get("bits", 4)))
    return bits if isinstance(bits, int) else 0, usual["kind"], usual["activations"]


def _compressed(stated: Raw) -> tuple[int, str, int]:
    """Return bits and kind of weights, and bits of activations, of the first group of layers."""
    groups = stated.get("config_groups")
    group: Any = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    group = group if isinstance(group, dict) else {}
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, dict) or not isinstance(weights.get("num_bits"), int):
        return 0, "", 0
    activations = inputs.get("num_bits") if isinstance(inputs, dict) else 16
    kind = "nvfp4" if group.get("format") == "nvfp4-pack-quantized" else str(weights.get("type", "int"))[:8]
    return weights["num_bits"], kind, activations if isinstance(activations, int) else 16
