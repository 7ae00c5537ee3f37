"""Which cells are measured, and in which order: pure."""
