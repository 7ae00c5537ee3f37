"""Processes: the launcher that keeps arms in turn, and the worker that is one."""
