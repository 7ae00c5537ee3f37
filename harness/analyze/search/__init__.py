"""The stage model of a workload, what it predicts, and what a search for the fastest stack found."""
