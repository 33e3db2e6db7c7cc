"""Several estimates held against each other: compare, explain, sweep, search, advise, cost, rules."""
