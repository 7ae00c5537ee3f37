"""Optimizations that only the speaker workload has, a file each."""
