"""Reader of ONNX files as data: it executes nothing, and opens no other file. The package `onnx` parses them and infers
shapes."""

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ModuleNotFoundError("ONNX files need the package onnx: pip install onnx")
