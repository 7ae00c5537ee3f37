"""The commands by what they do; each imports its half of the house when it runs."""

from harness.cli.commands import asking, campaign, measuring, reading, searching, sharing

GROUPS = tuple(one.app for one in (asking, measuring, searching, campaign, reading, sharing))  # in the order of --help
