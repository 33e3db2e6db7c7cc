"""Verbs of the annexes (traces, this machine, silicon). The main house loads them by name, through the registry."""
