"""The vocabulary: frozen dataclasses that every other part speaks, standard library only."""
