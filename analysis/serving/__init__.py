"""A language model that serves a stream of requests: costs of steps, schedulers, and what requests wait for."""
