"""Intake: runs that come from strangers and go to them, as bundles; nothing in them is believed or executed."""
