"""One file for each optimization that any workload may use; the docstring of a file is its page."""
