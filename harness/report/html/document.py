"""The document: renders runs as one HTML file that loads nothing and in which foreign text is never anything but text.

Three walls stand between a stranger's run and the reader: every value is escaped where it is written, a content
security policy runs only the one script and the one style sheet whose checksums it names, and that script makes
elements and text but never HTML. docs/decisions/html-report.md tells why.
"""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.analyze.quality import Agreement
from harness.analyze.verdict import Verdict
from harness.report import predicted, sentences, words
from harness.report.advice_text import RULE
from harness.report.html import arms, summary
from harness.report.html.axis import axis
from harness.report.html.exhibit import Shown, lines
from harness.report.html.gaps import gaps
from harness.report.html.series import embedded, series

_PART = re.compile(r"[^_+]*[_+]|[^_+]+")  # of a name, with the sign that ends it
_PACKAGE = "harness.report.html"
_SCRIPTS = ("theme.js", "rows.js", "table.js", "bursts.js", "copy.js")


def to_html(shown: Shown) -> str:
    """The page of one run or of many; the same data give the same bytes."""
    found = lines(shown)
    style, script = _asset("style.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    return (
        _environment()
        .get_template("page.html")
        .render(
            shown=shown,
            lines=found,
            gaps=gaps(shown, found),
            machines=len({exhibit.kept.machine for exhibit in shown.exhibits}),
            axis=axis(line.estimate for line in found),
            style=Markup(style),  # noqa: S704  the package's own
            script=Markup(script),  # noqa: S704
            data=Markup(embedded(series(found))),  # noqa: S704  cannot end its element
            policy=policy(style, script),
            order={one: place for place, one in enumerate(Verdict)},
            agreement={one: place for place, one in enumerate(Agreement)},
            rule_of_advice=RULE,
        )
    )


def policy(style: str, script: str) -> str:
    """What the browser may do with the page: run this script, apply this style, show the icon, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_checksum(script)}'",
            f"style-src '{_checksum(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(_PACKAGE, "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for module in (words, sentences, predicted, arms, summary):
        found.globals[module.__name__.rpartition(".")[2]] = module
    found.filters["breakable"] = breakable
    found.filters["verbatim"] = _verbatim
    return found


def breakable(text: object) -> Markup:
    """A long name that may be broken where its parts meet, and nowhere else: `precomputed_` / `preparation`."""
    return Markup("<wbr>").join(_PART.findall(words.one_line(str(text))))


def _verbatim(code: str) -> Markup:
    """Lines of code as they are, escaped."""
    return escape("\n".join(words.verbatim(code)))


def _finalized(value: object) -> str:
    """Foreign text in one line of characters that print, whatever it came from; the package's own markup as it is."""
    return value if isinstance(value, Markup) else words.one_line(str(value))
