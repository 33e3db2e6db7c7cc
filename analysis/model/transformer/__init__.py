"""Transformers written from their configuration."""
