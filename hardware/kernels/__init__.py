"""Kernel libraries of engines: one table for estimates and for measured operators."""
