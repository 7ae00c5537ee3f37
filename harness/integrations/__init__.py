"""Front ends: what asv and pytest-benchmark need to show measurements of ours; they measure nothing themselves."""
