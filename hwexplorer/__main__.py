"""`python -m hwexplorer` is the console script."""

import sys

from hwexplorer.cli import main

sys.exit(main())
