"""How many nodes a report lists."""

from hwexplorer.options import option, whole

TOP = option("--top", type=whole(1, 100_000), default=10, metavar="TOP", help="nodes listed (default 10)")
