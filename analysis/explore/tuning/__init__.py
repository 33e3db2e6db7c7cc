"""Facts and prices of a device changed: curves over a knob, the least change that matches another device."""
