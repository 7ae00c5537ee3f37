"""Optimizations that only the leak classifier can use."""
