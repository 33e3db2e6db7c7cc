"""Verbs of the annexes (traces, this machine, silicon). The registry loads them by name."""
