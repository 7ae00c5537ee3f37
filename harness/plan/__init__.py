"""Which configurations are measured, and in which order: pure."""
