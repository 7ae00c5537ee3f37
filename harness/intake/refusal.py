"""Refusals: why something from a stranger is not taken in, in words that are safe to show."""

SHOWN = 120  # characters of foreign text in a sentence
_SENTENCE = 400


class Unfit(Exception):
    """What is wrong with a run or a bundle; whoever asked for it adds the subject and the usual remedy."""

    def __init__(self, words: str, remedy: str = "") -> None:
        """Keeps the words, and the remedy where it is another than the usual one."""
        super().__init__(words)
        self.words, self.remedy = words, remedy


def shown(text: str, most: int = SHOWN) -> str:
    """Foreign text on one line, without what does not print, and cut where it is long."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[:most]}…"


def sentence(subject: str, unfit: Unfit, usual_remedy: str) -> str:
    """The whole sentence: the subject, what is wrong with it, and what helps."""
    return f"{subject}: {shown(unfit.words, _SENTENCE)}; {unfit.remedy or usual_remedy}."
