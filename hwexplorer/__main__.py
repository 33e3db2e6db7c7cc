"""`python -m hwexplorer` is the console script."""

import gc
import signal
import sys


def main() -> int:
    """Run the command line. Until it handles signals, ctrl+c ends the process without a traceback of imports."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # imports create no garbage: looking for it takes a thirtieth of the start
    from hwexplorer.cli import main

    code = main()
    gc.freeze()  # the interpreter would look for garbage once more: the process ends without it
    return code


if __name__ == "__main__":
    from hwexplorer.process.relaunch import without_current_folder

    without_current_folder()
    sys.exit(main())
