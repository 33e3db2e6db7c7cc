"""Read the format of weights that the `quantization_config` of a Hugging Face configuration states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardware import file_access
from hardware.precision import parse

_FORMATS = Path(__file__).with_name("weight_formats.toml")
Raw = dict[str, Any]


def precision_of(stated: Raw) -> str | None:
    """Return the precision of a `quantization_config`, None if it is not supported."""
    key = "{} {} {}".format(*_stored_format(str(stated.get("quant_method", ""))[:40], stated))
    name: str | None = file_access.shipped(_FORMATS)["precisions"].get(key)
    return name


def weight_notes(raw: Raw) -> list[str]:
    """Return a note with the precision of `quantization_config` and its formats by role, or why it has none."""
    stated = raw.get("quantization_config")
    if not isinstance(stated, dict):
        return [] if stated is None else ["its quantization_config is not a table"]
    method = str(stated.get("quant_method", ""))[:40]
    bits, kind, activations = _stored_format(method, stated)
    name = precision_of(stated)
    if name is None:
        known = ", ".join(file_access.shipped(_FORMATS)["methods"])
        said = f"{bits} bit {kind}, activations {activations} bit" if bits else f"a method without a reader ({known})"
        return [f"its quantization_config is {method or 'unnamed'}: {said}; no precision matches: choose one"]
    means = parse(name)
    kept = "bf16" if activations == 16 and means.activations == means.weights else means.activations
    other = "" if kept == means.activations else f" (its activations stay {kept})"
    return [
        f"stored by {method} with weights in {means.weights}, activations {means.activations}, cache {means.cache}: "
        f"--precision {name}{other}"
    ]


def _stored_format(method: str, stated: Raw) -> tuple[int, str, int]:
    """Return the bits of weights, their number format and the bits of activations; 0 bits if unknown."""
    if method == "compressed-tensors":
        return _compressed(stated)
    usual = file_access.shipped(_FORMATS)["methods"].get(method)
    if usual is None:
        return 0, "", 0
    if stated.get("load_in_4bit"):
        return 4, str(stated.get("bnb_4bit_quant_type", "fp4"))[:8], 16
    bits = stated.get("bits", stated.get("w_bit", usual.get("bits", 4)))
    return bits if isinstance(bits, int) else 0, usual["kind"], usual["activations"]


def _compressed(stated: Raw) -> tuple[int, str, int]:
    groups = stated.get("config_groups")
    group: Any = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    group = group if isinstance(group, dict) else {}
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, dict) or not isinstance(weights.get("num_bits"), int):
        return 0, "", 0
    activations = inputs.get("num_bits") if isinstance(inputs, dict) else 16
    kind = "nvfp4" if group.get("format") == "nvfp4-pack-quantized" else str(weights.get("type", "int"))[:8]
    return weights["num_bits"], kind, activations if isinstance(activations, int) else 16
