"""What happens inside an arm: the only part of the harness that imports torch."""
