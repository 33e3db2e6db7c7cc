"""Workloads of transformers, written from their configuration."""
