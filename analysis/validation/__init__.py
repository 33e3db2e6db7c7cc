"""Comparison of estimates with measurements: shipped rows, validation, calibration."""
