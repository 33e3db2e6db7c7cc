"""Suggest what to change: batch, precision, runtime, device; a format for each layer; which operators to fuse."""

from hwexplorer.declare import Group

VERB = Group()
