"""`python -m analysis.model.process.reading TARGET`: the subprocess that reads a file of data, with limits and the
option to cancel it. It answers as answering.py says."""

import sys

from analysis.model.ir.workload import Workload, encode
from analysis.model.names import targets
from analysis.model.process.answering import answer
from analysis.model.reading_budget import Budget, Progress
from hardware.base import plugins


def main() -> int:
    """Read the file that the arguments name and answer. Return the exit code."""
    return answer(lambda progress: encode(_read(sys.argv[-1], progress)))


def _read(text: str, progress: Progress) -> Workload:
    target = targets.parse(text)
    if target is None:
        raise ValueError(text)
    budget, path = Budget(progress=progress), targets.source(target)
    if target.path.endswith(targets.WEIGHTS):
        from analysis.model.transformer import weight_headers

        return weight_headers.load(path, target.factory, budget)
    workload: Workload = plugins.load("readers", path.suffix)(path, target.inputs, budget)
    return workload


if __name__ == "__main__":
    sys.exit(main())
