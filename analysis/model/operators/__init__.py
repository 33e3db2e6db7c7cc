"""What one operator call costs, by its ATen name."""
