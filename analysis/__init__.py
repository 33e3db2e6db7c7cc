"""What a model costs on a device."""
