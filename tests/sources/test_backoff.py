"""Waits are regular while all is well, grow while it is not, and differ between gateways."""

from __future__ import annotations

from random import Random

from gateway.sources.backoff import MAX_S, Backoff


def test_waits_double_up_to_a_limit_and_start_again_after_an_answer() -> None:
    backoff = Backoff(30, Random(7))
    waits = [backoff.record_failure() for _ in range(12)]
    for wait, most in zip(waits, (1, 2, 4, 8, 16, 32, 64, *[MAX_S] * 5), strict=True):
        assert most / 2 <= wait <= most
    assert 27 <= backoff.record_success() <= 30
    assert backoff.record_failure() <= 1


def test_days_without_an_answer_overflow_nothing() -> None:
    backoff = Backoff(30, Random(7))
    assert max(backoff.record_failure() for _ in range(5000)) <= MAX_S


def test_two_gateways_do_not_ask_at_the_same_times() -> None:
    one, other = Backoff(30, Random(1)), Backoff(30, Random(2))
    assert [one.record_failure() for _ in range(5)] != [other.record_failure() for _ in range(5)]
    again = Backoff(30, Random(1))
    first = Backoff(30, Random(1))
    assert [again.record_failure() for _ in range(5)] == [first.record_failure() for _ in range(5)]
