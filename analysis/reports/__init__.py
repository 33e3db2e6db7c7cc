"""Reports on one estimate: events, roofline, mapping, energy, memory, EDP, partition, concurrency."""
