"""Compare devices for one model: latency, energy, EDP, and which is best."""
