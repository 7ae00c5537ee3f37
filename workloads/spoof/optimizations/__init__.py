"""Optimizations that only the anti-spoofing workload has, a file each, and the conditions it can be measured under."""
