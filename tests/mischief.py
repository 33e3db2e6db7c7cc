"""A subprocess of a job that runs a test's code in the place of its work, under the limits of the job."""

import sys

_PROGRAM = """
import os, struct, sys, time
from multiprocessing.connection import Connection
import msgspec
from analysis.model.process import child
def answer(number, *_words):
    pipe = Connection(number)
    def send(**fields): pipe.send_bytes(msgspec.msgpack.encode(fields))
    exec({code!r}, globals() | dict(number=number, pipe=pipe, send=send))
child.answer = answer
sys.exit(child.main())
"""


def command(code: str) -> tuple[str, ...]:
    """The command of a job; the code has `number`, `pipe` and `send`."""
    return sys.executable, "-P", "-c", _PROGRAM.format(code=code)
