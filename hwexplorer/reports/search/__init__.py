"""Configurations within limits, and those that no other beats."""
