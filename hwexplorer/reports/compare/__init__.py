"""One model on several devices, as a whole or node by node; several models on one device."""
