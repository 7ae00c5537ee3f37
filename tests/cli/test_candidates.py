"""What a search may switch on: as patient as the protocol that was asked, and on a GPU as patient as can be."""

from dataclasses import replace

from harness.core.environment import Environment
from harness.core.plan import Request
from harness.measure.surroundings import read_environment
from harness.search import QualityClass, put_off, request_of
from tests.analyze.machines import H200

CPU = replace(read_environment("cpu"), compiler="g++", cpu_flags=("amx_bf16",))


def asked(protocol: str, *only: str) -> Request:
    return Request(workloads=("leak",), size="quick", design="matrix", only=only, protocol=protocol)


def sought(there: Environment, asked_for: Request) -> tuple[set[str], list[str]]:
    """The names that are sought on a machine, and what is said of others."""
    one, quality = replace(asked_for, environment=there), QualityClass.CLOSE
    return {name.partition("=")[0] for name in request_of(one, quality).only}, list(put_off(one, quality))


def test_a_first_look_on_a_cpu_leaves_out_what_takes_minutes_to_start_and_says_so() -> None:
    found, said = sought(CPU, asked("brief"))
    assert {"amp_bfloat16", "workers"} <= found
    assert "compile" not in found
    assert said == [
        "compile is not sought: it starts too slowly for a first look (about 90 s): --protocol standard tries it."
    ]


def test_a_patient_search_tries_it() -> None:
    found, said = sought(CPU, asked("standard"))
    assert "compile" in found
    assert said == []


def test_whoever_names_it_gets_it() -> None:
    assert sought(CPU, asked("brief", "compile", "workers=1")) == ({"compile", "workers"}, [])


def test_on_a_gpu_it_is_always_tried() -> None:
    found, said = sought(replace(H200, compiler="g++"), asked("brief"))
    assert "compile" in found
    assert said == []
