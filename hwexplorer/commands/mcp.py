"""Answer agents: a server of the Model Context Protocol on standard input and output.

Tools: check, compare, why, search, serve, models, devices. Standard output carries the protocol alone.
"""

from __future__ import annotations

import argparse
import os
import sys

from hwexplorer.commands._agent_protocol import serve
from hwexplorer.declare import Verb
from hwexplorer.process.output import say


def _run(arguments: argparse.Namespace) -> None:
    if sys.stdin.isatty():
        say("an agent's program writes to this server: one request of JSON-RPC a line; ctrl+d ends it")
    with os.fdopen(os.dup(1), "wb") as answer_pipe:
        os.dup2(2, 1)  # whatever else is printed goes to standard error
        try:
            serve(sys.stdin.buffer, answer_pipe)
        finally:
            os.dup2(answer_pipe.fileno(), 1)


VERB = Verb(run=_run, shown=("",))
