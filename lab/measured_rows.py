"""The measured rows of the repository: which are held, and so judge what others were fitted to."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from analysis.measured.tables import SHIPPED, read_rows

FITTED_ON = ("latency.csv.gz", "energy.csv.gz")  # tables that the efficiencies are fitted to
MODELS = (*FITTED_ON, "llm.csv.gz", "cpu.csv.gz", "accelerators.csv.gz", "training.csv.gz")
# One row of HELD of each source is held: no fit, flag, rule, table or band may follow from it. Its columns decide, but
# for those of what was measured and of remarks.
HELD = 5
_MEASURED = re.compile(
    "latency|energy|power|tpot|ttft|itl_|e2e|seconds|tflops|throughput|tokens_per_s|requests_per_s|running_batch|mhz|^pj"
    "|points|note|origin|licence|flag|measured_on|repeats|pipelined|^path$",
    re.IGNORECASE,
)


def is_held(row: Mapping[str, str]) -> bool:
    """Return True for the fifth of rows, by a hash of what they state, that only judges predictions."""
    stated = "|".join(f"{name}={row[name]}" for name in sorted(row) if row[name] and not _MEASURED.search(name))
    return int(sha256(stated.encode()).hexdigest()[:8], 16) % HELD == 0


def shipped_rows(tables: Sequence[str] = MODELS, held: bool | None = None) -> list[dict[str, str]]:
    """Return the rows of the shipped tables, by default those of whole models: all, the held ones, or the others."""
    rows = read_rows([SHIPPED / name for name in tables], needed=("device",))
    return rows if held is None else [row for row in rows if is_held(row) == held]
