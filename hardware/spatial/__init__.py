"""Spatial accelerators, an annex: their mappings are searched among tilings of loop nests over memories and arrays."""
