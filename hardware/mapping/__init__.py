"""How each architecture runs operators: Demand x Device x Plan -> times, traffic, event counts and the reason."""
