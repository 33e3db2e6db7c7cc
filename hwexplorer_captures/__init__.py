"""Captures of models of libraries under the GPL and the AGPL: operators and sizes, without code and weights."""
