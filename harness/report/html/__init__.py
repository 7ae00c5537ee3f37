"""The HTML report: one file that asks for nothing, opens offline, and shows the evidence behind every ratio."""
