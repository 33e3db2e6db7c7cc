"""Where a workload can be read from without torch: ONNX, exported programs, transformer configurations, blocks."""
