"""Reports: a matrix as terminal text, Markdown, JSON or a plot; pure, returns text and prints nothing."""
