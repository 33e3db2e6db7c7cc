"""A small package of somebody else's, as docs/extending.md describes one."""

from pathlib import Path

RUNTIMES = Path(__file__).with_name("runtimes.toml")
