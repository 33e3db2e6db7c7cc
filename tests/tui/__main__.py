"""`python -m tests.tui [STATE]`: the screen on made-up figures."""

import sys

from hwexplorer.state import parse
from hwexplorer.tui.app import run
from tests.tui.fake import Fake

run(parse(sys.argv[1] if len(sys.argv) > 1 else ""), Fake(), ascii="--ascii" in sys.argv)
