"""`python -m tests.fuzz [READER ..]`: every reader's fuzzer, with seeds and a time budget; `make fuzz` runs all."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz import running


def main() -> int:
    known = running.readers()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"default all: {', '.join(known)}")
    parser.add_argument("--mutations", type=int, default=50_000, help="of each reader (default 50,000)")
    parser.add_argument("--seconds", type=float, default=900.0, help="for each reader (default 900)")
    parser.add_argument("--seed", type=int, default=0, help="what comes follows from it (default 0)")
    parser.add_argument("--case", type=int, help="show this one case and run it here")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="readers at once (default 2)")
    arguments = parser.parse_args()
    wrong = set(arguments.readers) - set(known)
    if wrong:
        parser.error(f"unknown reader {min(wrong)!r} (allowed: {', '.join(known)})")
    chosen = arguments.readers or known
    if arguments.case is not None:
        one = running.case(chosen[0], arguments.seed, arguments.case)
        print(repr(one))
        print("read" if running.module(chosen[0]).survive(one) else "refused")
        return 0
    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        budget = (arguments.mutations, arguments.seconds, arguments.seed)
        for outcome in pool.map(lambda reader: running.run(reader, *budget), chosen):
            print(outcome.line(), flush=True)
            for what, number in outcome.failures.items():
                print(f"    case {number}: {what}", flush=True)
            failed += len(outcome.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
