"""Runs as flat tables for other programs: the same facts as in the folders, one row each, in types that stay."""
