"""The step that trains a model: backward and update written from the forward pass."""
