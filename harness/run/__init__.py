"""Processes: the launcher that keeps arms in turn, the worker that is one, and the rehearsal that invents them."""
