"""The commands by what they do; each imports its half of the house when it runs."""
