"""Find devices, batches and precisions within limits such as --max-power 20W."""
