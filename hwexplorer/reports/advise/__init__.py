"""Suggest what to change: batch, precision, runtime, device; a format for each layer; which operators to fuse."""

from hwexplorer.declare import Group
from hwexplorer.reports.advise._plans import KINDS

VERB = Group(choose=lambda words: ["advise", *words[1:], "--plan", words[0]] if words[:1] and words[0] in KINDS
             else ["advise", *words])  # fmt: skip
