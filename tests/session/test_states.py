"""Every cell of the table of states and events: the next state, or refused."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.session.operation import ENDS, NUMBERS
from gateway.session.states import OUTCOMES, TABLE, Event, OperationStateMachine, State, WrongEvent

CELLS = """
              QUEUE   ADMIT    FORWARD    REFUSE   TAKE     ANALYSE   FINISH    FAIL    CANCEL    CLOSE   TIME_OUT   DROP  AGAIN
DECIDED       QUEUED  -        FORWARDED  -        -        -         FINISHED  FAILED  CANCELED  CLOSED  TIMED_OUT  NOT_FORWARDED  -
QUEUED        -       DECIDED  -          -        -        -         FINISHED  FAILED  CANCELED  CLOSED  TIMED_OUT  NOT_FORWARDED  -
FORWARDED     -       -        -          DECIDED  RUNNING  ANALYSED  FINISHED  FAILED  CANCELED  CLOSED  TIMED_OUT  -  QUEUED
RUNNING       -       -        -          -        -        -         FINISHED  FAILED  CANCELED  CLOSED  TIMED_OUT  -  QUEUED
ANALYSED      -       -        -          -        -        ANALYSED  FINISHED  FAILED  CANCELED  CLOSED  TIMED_OUT  -  QUEUED
FINISHED      -       -        -          -        -        -         -         FAILED  -         -       -          -  QUEUED
FAILED        -       -        -          -        -        -         -         -       -         -       -          -  -
CANCELED      -       -        -          -        -        -         -         -       -         -       -          -  -
CLOSED        -       -        -          -        -        -         -         -       -         -       -          -  -
TIMED_OUT     -       -        -          -        -        -         -         -       -         -       -          -  -
NOT_FORWARDED -       -        -          -        -        -         -         -       -         -       -          -  -
"""  # noqa: E501  a table is read along its lines
_EVENTS, *_ROWS = (line.split() for line in CELLS.strip().splitlines())
EXPECTED = {
    (State[row[0]], Event[event]): None if cell == "-" else State[cell]
    for row in _ROWS
    for event, cell in zip(_EVENTS, row[1:], strict=True)
}


def at(state: State) -> OperationStateMachine:
    life = OperationStateMachine()
    life.state = state
    return life


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)), ids=lambda one: one.name)
def test_a_state_and_an_event_give_the_next_state_or_are_refused(state: State, event: Event) -> None:
    life, following = at(state), EXPECTED[state, event]
    if following is None:
        with pytest.raises(WrongEvent):
            life.apply(event)
        assert life.state is state
        return
    life.apply(event)
    assert life.state is following


def test_what_ended_is_not_forwarded_and_nothing_is_forwarded_twice() -> None:
    assert [state for state in State if Event.FORWARD in TABLE[state]] == [State.DECIDED]
    reached, new = set[State](), {State.FORWARDED}
    while new:
        reached |= new
        # But for what Spark says not to have begun, or has failed and may be run again.
        anew = (Event.REFUSE, Event.AGAIN)
        found = (s for one in new for event, s in TABLE[one].items() if event not in anew)
        new = set(found) - reached
    assert State.DECIDED not in reached


def test_how_far_it_came_is_known_after_its_end() -> None:
    life = OperationStateMachine()
    life.apply(Event.FORWARD)
    before = life.forwarded
    life.apply(Event.REFUSE)
    assert (before, life.forwarded) == (True, False)
    life.apply(Event.FORWARD)
    life.apply(Event.ANALYSE)
    life.apply(Event.FINISH)
    assert (life.forwarded, life.analysed, life.ended, life.outcome) == (True, True, True, "finished")
    life.apply(Event.FAIL)
    assert (life.analysed, life.outcome) == (True, "failed")


def test_every_end_has_an_outcome_and_every_state_that_thrift_has_a_number() -> None:
    assert {state for state in State if not TABLE[state] or state is State.FINISHED} == OUTCOMES.keys()
    assert NUMBERS.keys() == set(State) - {State.ANALYSED}
    for number, event in ENDS.items():
        assert NUMBERS[TABLE[State.RUNNING][event]] == number
