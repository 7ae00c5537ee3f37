"""Shards: a plan in parts of about the same length, each a run by itself, for several machines of one kind."""

import re
from collections.abc import Mapping
from dataclasses import replace

from harness.core.mistake import Mistake
from harness.core.plan import STAGES, Block, Plan
from harness.plan.cost import Pace, seconds_for

MOST = 1000


def parse_shard(text: str) -> tuple[int, int]:
    """Number and count of `3/12`; raises Mistake."""
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= MOST:
        raise Mistake(f"'{text}' names no shard; write NUMBER/COUNT, as 1/12, with a count of {MOST} at most.")
    return number, count


def shards(plan: Plan, paces: Mapping[str, Pace], count: int) -> tuple[tuple[Block, ...], ...]:
    """The blocks of each of so many shards; raises Mistake where some would have none.

    A block stays whole, since its arms take turns. So do the blocks of a workload in the design `stages`: what steps
    show of one tells what a part of it comes to. The longest are dealt first, each to the shard with least to do.
    """
    by_workload = plan.design == STAGES
    units: dict[str, list[Block]] = {}
    for one in plan.blocks:
        units.setdefault(one.reference.workload if by_workload else one.identity, []).append(one)
    if count > len(units):
        remedy = "--design alone can be cut finer" if by_workload else "it cannot be cut finer"
        raise Mistake(f"This plan has {len(units)} parts for {count} shards, and {remedy}.")
    lengths_s = {name: seconds_for(replace(plan, blocks=tuple(unit)), paces) for name, unit in units.items()}
    found: list[list[Block]] = [[] for _ in range(count)]
    loads_s = [0.0] * count
    for name in sorted(units, key=lambda one: -lengths_s[one]):
        least = loads_s.index(min(loads_s))
        found[least] += units[name]
        loads_s[least] += lengths_s[name]
    order = {block.identity: place for place, block in enumerate(plan.blocks)}
    return tuple(tuple(sorted(blocks, key=lambda one: order[one.identity])) for blocks in found)


def shard_of(plan: Plan, paces: Mapping[str, Pace], text: str) -> Plan:
    """One shard as a plan; the first of them names what has no result on such a machine."""
    number, count = parse_shard(text)
    blocks = shards(plan, paces, count)[number - 1]
    return replace(plan, blocks=blocks, no_results=plan.no_results if number == 1 else ())
