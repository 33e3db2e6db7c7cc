"""What one estimate says: events, roofline, mapping, energy, memory, EDP, partition, concurrency."""
