from harness.core.records import BITS, POWER_CAP, SLOWDOWNS, reasons


def test_every_reason_is_a_slowdown_but_the_limit_of_power() -> None:
    assert set(BITS.values()) == {POWER_CAP} | SLOWDOWNS
    assert POWER_CAP not in SLOWDOWNS


def test_names_come_in_the_order_of_their_bits_and_idling_has_none() -> None:
    assert reasons(0xFF) == ("sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake")
    assert reasons(0x01 | 0x02 | 0x10 | 0x100) == ()
