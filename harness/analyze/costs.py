"""Costs: what a million samples cost where the price of an hour is known."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.analyze.tables import document, entries
from harness.core.mistake import Mistake

SECONDS_PER_HOUR, SAMPLES = 3_600, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour of a machine costs."""

    machine: str  # its neutral name, as its folder of results is called
    per_hour: float
    source: str  # where the price was read, and when


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in one currency."""

    currency: str
    by_machine: Mapping[str, Price]

    def cost(self, rate: float, machine: str) -> float | None:
        """Of a million samples at so many a second; None where the machine has no price."""
        price = self.by_machine.get(machine)
        return price.per_hour / SECONDS_PER_HOUR * SAMPLES / rate if price else None


NO_PRICES = Prices(currency="", by_machine={})


def parse_prices(text: str, file: str) -> Prices:
    """The prices of a TOML text: `currency` and tables `[[price]]`; raises Mistake that names the file."""
    found = document(text, file, {"currency", "price"})
    prices, currency = entries(found, "price", Price, file), found.get("currency", "")
    if not isinstance(currency, str) or (prices and not currency.strip()):
        raise Mistake(f'{file} names no currency; add a line such as currency = "USD".')
    by_machine: dict[str, Price] = {}
    for price in prices:
        if not math.isfinite(price.per_hour) or price.per_hour <= 0:
            raise Mistake(f"{file} has no price above 0 for {price.machine}; put the price of an hour there.")
        if not price.source.strip():
            raise Mistake(f"{file} has a price of {price.machine} without a source; say where it was read, and when.")
        if price.machine in by_machine:
            raise Mistake(f"{file} has two prices of {price.machine}; keep one.")
        by_machine[price.machine] = price
    return Prices(currency=currency, by_machine=by_machine)
