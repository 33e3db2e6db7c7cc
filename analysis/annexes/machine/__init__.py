"""Estimates held against measurements: the rows that ship, validation, calibration."""
