"""Facts and energy counters of this machine, read from its kernel. This module does not import torch."""

import contextlib
import os
import platform
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

SYSTEM = Path("/")
_SIZES = {"K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "": 1.0}
_POLL_S = 0.05  # between two readings of power rails, which have no energy counter


class CpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The processor as the kernel describes it. Facts have the names of device files; unknown ones are left out."""

    name: str
    vendor: str
    facts: dict[str, float]
    flags: tuple[str, ...]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def read_cpu(root: Path | None = None) -> CpuFacts:
    """Return the facts of the processor: cores (not threads) that this process may use, caches, memory and clock."""
    root = root or SYSTEM
    info = dict(re.findall(r"^([^\t:\n]+?)\s*:\s*(.*)$", _read_text(root / "proc/cpuinfo"), re.MULTILINE))
    folder = root / "sys/devices/system/cpu"
    available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores, caches = set(), {}
    for number in sorted(available):
        each = folder / f"cpu{number}"
        core = tuple(_read_text(each / "topology" / part) for part in ("physical_package_id", "core_id"))
        cores.add(core if any(core) else ("", str(number)))
        for cache in sorted((each / "cache").glob("index*")):
            shared = _read_text(cache / "shared_cpu_list") or str(number)
            key = _read_text(cache / "level"), _read_text(cache / "type"), shared
            size = re.fullmatch(r"(\d+)([KMG]?)", _read_text(cache / "size"))
            caches[key] = float(size[1]) * _SIZES[size[2]] if size else 0.0
    units = min(len(cores) or 1, _core_quota(root) or len(available))
    facts = {"units": float(units)}
    level = {
        n: [size_bytes for (name, kind, _), size_bytes in caches.items() if name == n and kind != "Instruction"]
        for n in "123"
    }
    if level["1"]:
        facts["l1_bytes_per_unit"] = max(level["1"])
    facts |= {f"l{n}_bytes": sum(level[n]) for n in "23" if level[n]}
    memory = re.search(r"MemTotal:\s+(\d+) kB", _read_text(root / "proc/meminfo"))
    if memory:
        facts["memory_bytes"] = float(memory[1]) * 1024
    clock = _read_text(folder / "cpu0/cpufreq/cpuinfo_max_freq")
    if clock.isdigit():
        facts["clock_hz"] = float(clock) * 1e3
    elif megahertz := re.fullmatch(r"[\d.]+", info.get("cpu MHz", "")):
        facts["clock_hz"] = float(megahertz[0]) * 1e6
    limit = _read_text(root / "sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw")
    if limit.isdigit() and int(limit):
        facts["tdp_w"] = float(limit) * 1e-6
    name = info.get("model name") or info.get("Model") or platform.processor() or platform.machine()
    vendor = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}.get(info.get("vendor_id", ""), "ARM")
    flags = tuple((info.get("flags") or info.get("Features") or "").split())
    known = {name: value for name, value in facts.items() if value > 0}
    return CpuFacts(name=" ".join(name.split()), vendor=vendor, facts=known, flags=flags)


def _core_quota(root: Path) -> int:
    words = _read_text(root / "sys/fs/cgroup/cpu.max").split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return 0
    return max(round(int(words[0]) / int(words[1])), 1)


class EnergyMeter:
    """A reader of energy counters. `source` names the counter, or says how to make one readable."""

    def __init__(self, root: Path | None = None, nvml: Callable[[], float] | None = None) -> None:
        self._counters: list[Callable[[], float]] = []
        self._until = threading.Event()
        self.source = "NVML's energy counter of the board" if nvml else self._open_host_counters(root or SYSTEM)
        if nvml:
            self._counters = [nvml]

    def joules(self) -> float | None:
        """Return the joules since an arbitrary start. Return None if no counter is readable."""
        if not self._counters:
            return None
        try:
            return sum(counter() for counter in self._counters)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Stop the thread that reads power rails."""
        self._until.set()

    def _open_host_counters(self, root: Path) -> str:
        domains = sorted((root / "sys/class/powercap").glob("intel-rapl:[0-9]"))
        if domains:
            try:
                for domain in domains:
                    int((domain / "energy_uj").read_text())
            except (OSError, ValueError):
                return (
                    "energy is not read: RAPL's counters are for root "
                    "(chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj as root, or `setcap cap_dac_read_search`)"
                )
            self._counters = [_RaplCounter(domain) for domain in domains]
            return "RAPL's package counters through powercap"
        rails = sorted((root / "sys/bus/i2c/drivers/ina3221").glob("*/hwmon/hwmon*"))
        if rails:
            self._counters = [_RailCounter(rails, self._until)]
            return f"power rails of the board, {1 / _POLL_S:.0f} times a second"
        is_virtual = " hypervisor " in f" {_read_text(root / 'proc/cpuinfo')} "
        hint = "inside a virtual machine they are the host's" if is_virtual else "modprobe intel_rapl_common"
        return f"energy is not read: the kernel shows no RAPL counters under /sys/class/powercap ({hint})"


class _RaplCounter:
    def __init__(self, domain: Path) -> None:
        self._file = domain / "energy_uj"
        range_uj = _read_text(domain / "max_energy_range_uj")
        self._range = int(range_uj) if range_uj.isdigit() else 1 << 38
        self._last, self._total = int(self._file.read_text()), 0

    def __call__(self) -> float:
        now = int(self._file.read_text())
        self._total += (now - self._last) % self._range
        self._last = now
        return self._total * 1e-6


class _RailCounter:
    def __init__(self, rails: list[Path], until: threading.Event) -> None:
        self._pairs = [
            (file, file.with_name(file.name.replace("in", "curr")))
            for rail in rails
            for file in sorted(rail.glob("in[1-3]_input"))
        ]
        self._until, self._total, self._at = until, 0.0, time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._until.wait(_POLL_S):
            now = time.monotonic()
            with contextlib.suppress(OSError, ValueError):
                watts = sum(int(_read_text(v) or 0) * int(_read_text(a) or 0) * 1e-6 for v, a in self._pairs)
                self._total += watts * (now - self._at)
            self._at = now

    def __call__(self) -> float:
        return self._total
