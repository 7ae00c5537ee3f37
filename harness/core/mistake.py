"""Mistakes of the user, which end in one sentence with a remedy instead of a traceback."""


class Mistake(Exception):
    """Something the user can put right; the message is the whole sentence that is shown."""
