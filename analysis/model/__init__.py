"""Captured models: operations and memory traffic as arrays of polynomials in the batch."""
