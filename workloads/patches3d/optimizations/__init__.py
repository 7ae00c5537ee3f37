"""Optimizations that only the patches3d workload has, a file each."""
