"""The evidence for figures of served loads: errors and bands from published runs, with devices and models left out.

`python -m analysis.annexes.machine.serving_validation` writes load_trust.json.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from analysis.estimate.trust import MOST, ClassEvidence, Factors
from hardware import file_access

PATH = Path(__file__).with_name("load_trust.json")


@lru_cache(maxsize=1)
def load_evidence() -> dict[str, ClassEvidence]:
    """Return the evidence for TTFT, TPOT, energy and throughput, by these names."""
    known = msgspec.json.decode(file_access.read(PATH, MOST), type=list[ClassEvidence])
    return {each.quantity: each for each in known}


def load_band(figure: str) -> Factors:
    """Return the factors of a figure of a served load between which 80 to 90 % of measurements are expected."""
    return load_evidence()[figure].band
