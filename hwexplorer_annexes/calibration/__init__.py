"""Make a device of measurements."""
