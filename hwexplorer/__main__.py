"""`python -m hwexplorer` is the console script."""

import gc
import sys


def main() -> int:
    """Run the command line."""
    gc.disable()  # imports create no garbage: looking for it takes a thirtieth of the start
    from hwexplorer.cli import main

    return main()


if __name__ == "__main__":
    from hwexplorer.process.relaunch import without_current_folder

    without_current_folder()
    sys.exit(main())
