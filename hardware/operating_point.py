"""What a user sets of a chip through its driver, as `nvidia-smi -pl` and `-lgc` do: a power cap and a clock lock,
`h100_sxm@400W@1400MHz`. The chip stays what it is: its evidence, its prices and its power at rest are unchanged."""

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from hardware.base.errors import RequestError
from hardware.base.text import parse_amount
from hardware.device import Device
from hardware.device_file import Fact

# Not the `@` of a product's name, `CPU @ 3.40GHz`.
_MARK = re.compile(r"(?<=\S)@(?=\S|$)|\s+@\s*(?=[0-9.]+ *k?w\b)", re.IGNORECASE)
_AT_REST = 0.9  # most of a cap that the device may draw at rest
CAPPED = ("power_limit_w", "sustained_w")  # facts that a cap bounds
_CLOCKS = ("clock_hz", "vector_clock_hz", "matrix_clock_hz")
_ROUNDING = 1.0 + 1e-5  # keys have six digits
_STEPS = 7  # caps that a search tries
_LEAST_SHARE = 0.4  # the least of them, relative to the power limit


def split_operating_point(name: str) -> tuple[str, list[str]]:
    """Return the device and its settings as written: `h100@400w@1.4GHz` is `h100`, `400w` and `1.4GHz`."""
    device, *settings = _MARK.split(name.strip())
    return device, settings


def set_operating_point(device: Device, settings: Sequence[str]) -> Device:
    """Return the device with a power cap and a clock lock. Raises RequestError for one that it cannot take."""
    amounts: dict[str, float] = {}
    for text in settings:
        unit, amount = _parse_setting(text)
        if unit in amounts:
            raise RequestError(f"{device.key}: {'power cap' if unit == 'W' else 'clock lock'} is set twice")
        amounts[unit] = amount
    facts, point, share = dict(device.facts), [], device.clock_share
    if (cap_w := amounts.get("W")) is not None:
        point.append(f"{cap_w:g}W")
        _check_range(f"{device.key}@{cap_w:g}W", cap_w, least_cap_w(device), device.power_limit_w, "W", "power limit")
        _scale(facts, {name: min(cap_w / facts[name].value, 1.0) for name in CAPPED}, point[-1])
    if (lock := amounts.get("MHz")) is not None:
        point.append(f"{lock:g}MHz")
        clocks = {name: facts[name].value / 1e6 for name in _CLOCKS}
        own, highest = clocks["clock_hz"], max(clocks.values())
        _check_range(f"{device.key}@{lock:g}MHz", lock, device.least_clock_hz / 1e6, highest, "MHz", "highest clock")
        follows = {name: field.follows.get("clock_hz", 0.0) for name, field in device.arch.data.facts.items()}
        below = min(lock / own, 1.0)  # a lock bounds the clock: above the usual one it changes nothing
        ratios = {name: below**power for name, power in {**follows, "clock_hz": 1.0}.items() if power}
        ratios |= {name: min(lock / clock, 1.0) for name, clock in clocks.items()}
        _scale(facts, ratios, point[-1])
        share *= ratios["matrix_clock_hz"]
    new = msgspec.structs.replace(device, facts=facts, operating_point=tuple(point), clock_share=share)
    return msgspec.structs.replace(new, name=f"{device.file.name}{new.operating_words}{device.mark}")


def least_cap_w(device: Device) -> float:
    """Return the least power cap of a device, W: a little more than it draws at rest, in steps of 0.1 W."""
    return math.ceil(max(device.idle_w, device.clocked_idle_w) / _AT_REST * 10.0) / 10.0


def power_caps(device: Device) -> Iterator[str]:
    """Yield names of an unchanged device at caps from 40 % of its limit, in watts of two digits; last, its own key."""
    limit_w, least_w = device.power_limit_w, least_cap_w(device)
    shares = (_LEAST_SHARE + (1.0 - _LEAST_SHARE) * step / _STEPS for step in range(_STEPS))
    for cap_w in dict.fromkeys(float(f"{share * limit_w:.2g}") for share in shares):
        if least_w <= cap_w < limit_w and not device.power_cap:
            yield f"{device.key}@{cap_w:g}W"
    yield device.key


def _parse_setting(text: str) -> tuple[str, float]:
    """Return the unit, W or MHz, and the amount of a setting, in the digits that a key has."""
    match = re.fullmatch(r"(.*?)(w|hz)", text.strip(), re.IGNORECASE)
    if match is None:
        raise RequestError(f"@{text[:20]}: expected a power or a clock, as h100_sxm@400W or h100_sxm@1400MHz")
    if match[2].lower() == "w":
        return "W", float(f"{parse_amount(match[1].lower() + 'W', 'W'):g}")
    return "MHz", float(f"{parse_amount(match[1].upper() + 'Hz', 'Hz') / 1e6:g}")


def _check_range(key: str, amount: float, least: float, most: float, unit: str, limit: str) -> None:
    """Raise RequestError if a device cannot take an amount."""
    if amount > most * _ROUNDING:
        raise RequestError(f"{key}: the {limit} is {most:g} {unit} (allowed: {least:g} to {most:g} {unit})")
    if amount < least / _ROUNDING:
        raise RequestError(f"{key}: the least that works is {least:g} {unit} (allowed: {least:g} to {most:g} {unit})")


def _scale(facts: dict[str, Fact], ratios: dict[str, float], setting: str) -> None:
    """Multiply facts, and say in their source what set them."""
    for name, ratio in ratios.items():
        if (old := facts.get(name)) is not None and ratio != 1.0:
            low, high = (None if end is None else end * ratio for end in (old.low, old.high))
            source = f"set to {setting}, was {old.value:g}: {old.source}"
            facts[name] = Fact(old.value * ratio, old.unit, source, "derived", low, high)
