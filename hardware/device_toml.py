"""The text of a device file in the format of the catalogue."""

import re
from typing import Any

import msgspec

from hardware.base.errors import RequestError
from hardware.device import Device


def device_toml(device: Device) -> str:
    """Return the TOML text of the file of a device."""
    data: dict[str, Any] = msgspec.to_builtins(device.file)
    plain = {key: value for key, value in data.items() if not isinstance(value, dict) and key != "trust"}
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items() if value not in ((), [], "", None)]
    for key, value in data.items():
        if isinstance(value, dict) and value:
            lines += _toml_table(key, value)
    for band in data["trust"]:
        lines += ["", "[[trust]]", *(f"{key} = {_toml_value(value)}" for key, value in band.items())]
    return "\n".join(lines) + "\n"


def portable_toml(device: Device, name: str) -> str:
    """Return the TOML text of a file `name`.toml that describes the device in its power mode, as text to edit: what is
    stated, and in comments what follows by rule. Raises RequestError for a device with changed prices."""
    if device.file.price_factors:
        raise RequestError(f"{device.key}: its prices are changed by factors; state them in [coefficients] of a file")
    by_rule = [key for key, fact in device.facts.items() if fact.source.startswith("rule:")]
    stated = {key: fact for key, fact in device.facts.items() if key not in by_rule}
    title = f"{device.file.name} ({name})"  # tables name devices: the file's is not that of its origin
    spec = msgspec.structs.replace(
        device.file, id=name, name=title, aliases=(), changes=(), facts=stated, based_on=device.key
    )
    if device.key != device.id:  # published peaks are those of the file's own mode
        spec = msgspec.structs.replace(spec, peak_flops={}, exceptions={})
    text = device_toml(msgspec.structs.replace(device, file=spec))
    derived = [
        f"# {key} = {fact.value:.6g} {fact.unit}: {fact.source}" for key, fact in device.facts.items() if key in by_rule
    ]
    return "\n".join([text, "# Facts that follow by rule, unless [facts] states them:", *derived, ""])


def _toml_table(name: str, value: dict[str, Any]) -> list[str]:
    deep = {k: v for k, v in value.items() if isinstance(v, dict) and any(isinstance(x, dict) for x in v.values())}
    flat = {k: v for k, v in value.items() if k not in deep and v is not None}
    lines = ["", f"[{name}]", *(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in flat.items())] if flat else []
    for key, inner in deep.items():
        lines += _toml_table(f"{name}.{_toml_key(key)}", inner)
    return lines


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if value % 1 or abs(value) >= 1e15 else f"{value:.1f}"
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(
                f"{_toml_key(k)} = {_toml_value(v)}"
                for k, v in value.items()
                if v is not None and (k, v) != ("note", "")
            )
            + " }"
        )
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return msgspec.json.encode(value).decode()
