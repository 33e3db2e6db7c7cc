"""The captured model: what it computes and moves, as arrays that are polynomial in the batch."""
