"""`python -m hwexplorer` is the console script."""

import sys

from hwexplorer.itself import without_current_folder

without_current_folder()

from hwexplorer.cli import main  # noqa: E402

sys.exit(main())
