"""Optimizations that only the image classifier can use."""
