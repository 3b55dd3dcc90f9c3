"""The gateway: the hot path, and the composition of the whole."""
