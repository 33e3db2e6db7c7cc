"""Reader of ONNX files as data: it needs no library, executes nothing and opens no other file."""
