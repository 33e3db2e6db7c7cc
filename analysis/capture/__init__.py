"""From a PyTorch module to a workload. The only package that imports torch; run it as a subprocess
(`python -m analysis.capture`) from anything that must stay light."""
