import pytest

from harness.core.configuration import Configuration, ConfigurationRequest, Option, parse_config, parse_option
from harness.core.mistake import Mistake


@pytest.mark.parametrize(
    ("text", "name", "level"),
    [
        ("tf32", "tf32", None),
        ("workers=8", "workers", 8),
        (" compile=max-autotune ", "compile", "max-autotune"),
        ("workers=", "workers", None),
        ("workers=-1", "workers", "-1"),
        ("workers=²", "workers", "²"),  # a digit to str.isdigit, but no number
    ],
)
def test_switches(text: str, name: str, level: int | str | None) -> None:
    assert parse_option(text) == Option(name=name, level=level)


def test_a_switch_reads_back_from_what_it_prints() -> None:
    for option in (Option(name="tf32"), Option(name="workers", level=8), Option(name="compile", level="default")):
        assert parse_option(str(option)) == option


@pytest.mark.parametrize(
    ("text", "workload", "size", "batch", "names"),
    [
        ("leak", "leak", None, None, ()),
        ("leak:", "leak", None, None, ()),
        ("leak@quick", "leak", "quick", None, ()),
        ("leak#64:tf32", "leak", None, 64, ("tf32",)),
        ("leak@quick#64:workers=2 + tf32", "leak", "quick", 64, ("workers=2", "tf32")),
        ("mine:original+workers=1", "mine", None, None, ("original", "workers=1")),
    ],
)
def test_cells(text: str, workload: str, size: str | None, batch: int | None, names: tuple[str, ...]) -> None:
    assert parse_config(text) == ConfigurationRequest(workload=workload, size=size, batch=batch, names=names)


@pytest.mark.parametrize(
    "text", ["", ":tf32", "@quick", "leak@", "leak@Quick Size", "leak@quick@smoke", "leak@a#b", "leak#0", "leak#-4"]
)
def test_what_is_no_cell_is_a_mistake_with_an_example(text: str) -> None:
    with pytest.raises(Mistake, match=r"is not a configuration: write WORKLOAD.*for example leak:workers=2"):
        parse_config(text)


def test_a_cell_prints_as_it_is_written() -> None:
    config = Configuration(
        workload="leak", size="quick", batch=64, options=(Option(name="tf32"), Option(name="workers", level=2))
    )
    assert str(config) == "leak@quick#64:tf32+workers=2"
    request = parse_config(str(config))
    assert (request.workload, request.size, request.batch) == ("leak", "quick", 64)
    assert tuple(map(parse_option, request.names)) == config.options
