"""The architectures, from stored program to domain flow; those of an annex are imported when first asked for."""

from __future__ import annotations

from importlib import import_module

from hardware.architectures.architecture import Architecture
from hardware.architectures.cpu import CPU
from hardware.architectures.gpu import GPU
from hardware.architectures.kpu import KPU
from hardware.architectures.npu import NPU
from hardware.architectures.tpu import TPU
from hardware.errors import unknown
from hardware.hierarchy import Hierarchy

# Others are compared with it unless the user says otherwise; this machine's own processor; what CUDA runs on.
BASELINE = GPU
HOST = CPU
TORCH_HOST = HOST.id  # where torch puts a tensor that is on no accelerator, by the same word
CUDA = GPU

# The modules of architectures in an annex, which hold it as `ARCHITECTURE`, by id.
_ANNEXES = {"spatial": "hardware.spatial.accelerator"}
_DEFAULT_DEVICES = {"spatial": "eyeriss"}  # of these

_known: dict[str, Architecture | None] = {CPU.id: CPU, GPU.id: GPU, TPU.id: TPU}
_known |= {**dict.fromkeys(_ANNEXES), NPU.id: NPU, KPU.id: KPU}


def every() -> tuple[Architecture, ...]:
    """Return all architectures, in order."""
    return tuple(map(get, _known))


def names() -> tuple[str, ...]:
    """Return the ids of all architectures, in order."""
    return tuple(_known)


def get(name: str) -> Architecture:
    """Return the architecture with an id. Raises RequestError for an unknown one."""
    if name not in _known:
        raise unknown("architecture", name, _known)
    architecture: Architecture = _known[name] or import_module(_ANNEXES[name]).ARCHITECTURE
    return architecture


def find_architecture(name: str, hierarchy: Hierarchy | None) -> Architecture:
    """Return the architecture of a device file. Raises ValueError where its hierarchy is missing, wrong, or not
    allowed."""
    found = get(name)
    if (found.describe is None) != (hierarchy is None):
        raise ValueError("is missing" if hierarchy is None else f"devices of architecture {name} have none")
    return found if hierarchy is None or found.describe is None else found.describe(hierarchy)


def classes() -> dict[str, str]:
    """Return the default device of each architecture: an id is usable wherever a device is."""
    return {name: one.default_device if one else _DEFAULT_DEVICES[name] for name, one in _known.items()}


def register(architecture: Architecture) -> None:
    """Add an architecture, after the others."""
    _known[architecture.id] = architecture


def unregister(name: str) -> None:
    """Remove an architecture that was added."""
    del _known[name]
