"""How precise a minute of machine time makes each tool: the same pair of variants, timed by five of them."""
