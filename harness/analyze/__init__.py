"""Analysis: from a plan and its records to estimates, verdicts, causes and the matrix; pure, and without torch."""
