"""The reference training systems, a folder each."""
