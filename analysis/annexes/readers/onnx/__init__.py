"""ONNX files read as data: no library, nothing executed, nothing outside the file."""
