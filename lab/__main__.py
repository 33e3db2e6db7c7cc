"""Rebuild the shipped files that follow from measured rows and presets, and check that they stay as they are.

`python -m lab` (or `make lab`) takes about eight minutes of one core. Exit code 1 means that a file changed.
"""

import sys
import time
from hashlib import sha256

from analysis.estimate import measured_runs, trust
from lab import closed_form, efficiency_fit, judge
from lab import measured_runs as runs

SHIPPED = {
    closed_form.SIZES: closed_form.write_sizes,
    measured_runs.PATH: runs.main,
    efficiency_fit.CROSS_VALIDATION: efficiency_fit.main,
    trust.PATH: judge.write,
}


def main() -> int:
    """Rebuild each file, print its hash and the seconds it took, and return 1 if one changed."""
    has_changed = False
    for path, rebuild in SHIPPED.items():
        before, start_s = sha256(path.read_bytes()).hexdigest(), time.perf_counter()
        rebuild()
        after = sha256(path.read_bytes()).hexdigest()
        has_changed |= before != after
        seconds = time.perf_counter() - start_s
        print(f"{path.name}: {'as before' if before == after else 'CHANGED'}, {after}, {seconds:.0f} s", flush=True)
    return int(has_changed)


if __name__ == "__main__":
    sys.exit(main())
