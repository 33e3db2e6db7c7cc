"""How loop nests lie on a spatial accelerator: what each level of memory sees of them, and the search of tilings."""
