"""The speedmatrix harness: measures which training optimizations pay, by how much, and why."""

__version__ = "0.3.0"
