"""Facts and prices of a device changed: elasticities, curves over a knob, the least change that matches another."""
