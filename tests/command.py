"""The command line as a function, in this process."""

import contextlib
import io
import json
from typing import Any


class Result:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> Any:
        assert self.code in (0, 1), self.err
        return json.loads(self.out)


def hwexplorer(*words: str) -> Result:
    """Run the command line in this process."""
    from hwexplorer.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Result(code, out.getvalue(), err.getvalue())


def document(*words: str) -> Any:
    """Return what a command prints as JSON."""
    return hwexplorer(*words, "--format", "json").json()
