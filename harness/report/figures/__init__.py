"""Figures: pictures of a collection as SVG, for light and dark pages; each is a pure function of values."""
