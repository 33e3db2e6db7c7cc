"""One model on one device in one scenario: partition, kernels, memory, estimate, tree."""
