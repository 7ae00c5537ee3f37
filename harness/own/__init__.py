"""The user's own training: jobs made of their objects, adapters to other trainers, and a watch over a foreign loop."""
