"""Waits grow up to the longest, lie in the upper half of it by chance, and begin anew when it went well."""

from __future__ import annotations

from gapwatch.publisher.back_off import BackOff


def test_waits_double_up_to_the_longest_and_half_of_each_is_chance() -> None:
    waits = []
    for _ in range(200):
        back_off = BackOff(1.0, 6.0)
        waits.append([back_off.next_seconds() for _ in range(5)])

    for longest, drawn in zip((1.0, 2.0, 4.0, 6.0, 6.0), zip(*waits, strict=True), strict=True):
        assert longest / 2 <= min(drawn) < 0.6 * longest
        assert 0.9 * longest < max(drawn) <= longest


def test_what_went_well_begins_anew() -> None:
    back_off = BackOff(1.0, 60.0)
    for _ in range(5):
        back_off.next_seconds()
    assert back_off.next_seconds() > 1.0

    back_off.reset()

    assert back_off.next_seconds() <= 1.0
