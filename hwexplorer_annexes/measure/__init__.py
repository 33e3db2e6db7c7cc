"""Measure this machine, or make a device of measurements."""

from hwexplorer.extend import declare

VERB = declare.Group(by_words={1: "calibrate"}, shown=("--quick", "measured.csv --on t4 --name my_t4"))
