"""Nothing is said of a kept turn before it is on record; what is said keeps its order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from vivace.conversation.keeping import END, TURN, Keeping, attempt, needs, returned, steer
from vivace.conversation.response import open_response
from vivace.protocol.codec import decode_create
from vivace.protocol.events import (
    ErrorPayload,
    Event,
    InterruptAccepted,
    OutputTextDelta,
    ResponseCompleted,
    ResponseCreated,
    ReturnedSteer,
    SteerAccepted,
    SteerFailed,
    SteerReceipt,
)

RESPONSE = open_response(decode_create(b'{"input": "hi"}'), "resp_1", "m", 0)
CREATED = ResponseCreated(sequence_number=0, response=RESPONSE)
COMPLETED = ResponseCompleted(sequence_number=9, response=RESPONSE)
INTERRUPTED = InterruptAccepted(response_id="resp_1")
ACCEPTED = SteerAccepted(
    sequence_number=0, steer=SteerReceipt(id="steer_1", previous_response_id="resp_1")
)


def word(number: int) -> OutputTextDelta:
    return OutputTextDelta(
        sequence_number=number, item_id="msg_1", output_index=0, content_index=0, delta="a"
    )


def failed(steer_id: str | None) -> SteerFailed:
    given_back = ReturnedSteer(
        id=steer_id or UNSET, previous_response_id="resp_1", input=Raw(b'"x"')
    )
    error = ErrorPayload(type="invalid_request_error", code="c", message="m", param=None)
    return SteerFailed(sequence_number=1, error=error, steer=given_back)


def test_created_waits_for_the_turn_and_takes_along_what_came_meanwhile() -> None:
    keeping = Keeping()
    keeping.say([CREATED, word(1)])
    assert keeping.ready() == []
    keeping.say([word(2)])
    keeping.recorded(TURN)
    assert keeping.ready() == [CREATED, word(1), word(2)]
    keeping.say([word(3)])
    assert keeping.ready() == [word(3)]
    assert not keeping.holds


def test_the_end_waits_for_its_record_and_so_does_an_interrupts_receipt() -> None:
    keeping = Keeping()
    keeping.recorded(TURN)
    keeping.say([word(1), INTERRUPTED, COMPLETED])
    assert keeping.ready() == [word(1)]
    keeping.recorded(END)
    assert keeping.ready() == [INTERRUPTED, COMPLETED]


def test_a_steer_is_accepted_when_it_is_on_record_and_handed_back_when_that_is() -> None:
    keeping = Keeping()
    keeping.recorded(TURN)
    keeping.say([ACCEPTED, failed("steer_1")])
    assert keeping.ready() == []
    keeping.recorded(steer("steer_1"))
    assert keeping.ready() == [ACCEPTED]
    keeping.recorded(returned("steer_1"))
    assert keeping.ready() == [failed("steer_1")]


def test_a_steer_that_was_never_accepted_is_handed_back_at_once() -> None:
    keeping = Keeping()
    keeping.say([failed(None)])
    assert keeping.ready() == [failed(None)]


def test_words_of_another_engine_wait_for_its_attempt_and_those_before_do_not() -> None:
    keeping = Keeping()
    keeping.recorded(TURN)
    keeping.say([word(1)])
    keeping.begin_attempt(2)
    keeping.say([word(2)])
    assert keeping.ready() == [word(1)]
    keeping.recorded(attempt(2))
    assert keeping.ready() == [word(2)]


def test_words_pass_when_all_they_need_is_on_record_and_nothing_waits_before_them() -> None:
    keeping = Keeping()
    assert not keeping.passes([word(1)])
    keeping.recorded(TURN)
    assert keeping.passes([word(1), word(2)])
    assert not keeping.passes([word(1), COMPLETED])
    keeping.say([ACCEPTED])
    assert not keeping.passes([word(1)])
    keeping.recorded(steer("steer_1"))
    keeping.ready()
    keeping.begin_attempt(2)
    assert not keeping.passes([word(1)])


STEPS = st.lists(
    st.one_of(
        st.sampled_from([CREATED, COMPLETED, INTERRUPTED, ACCEPTED, failed("steer_1")]).map(
            lambda event: ("say", event)
        ),
        st.integers(1, 20).map(lambda number: ("say", word(number))),
        st.sampled_from([TURN, END, steer("steer_1"), returned("steer_1"), attempt(2)]).map(
            lambda what: ("recorded", what)
        ),
        st.just(("attempt", 2)),
        st.just(("cut", 1)),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_whatever_the_order_nothing_is_early_nothing_is_lost_and_the_order_stays(
    steps: list[tuple[str, object]],
) -> None:
    keeping = Keeping()
    said: list[Event] = []
    heard: list[Event] = []
    recorded: set[str] = set()
    for step, what in steps:
        if step == "say":
            said.append(what)  # type: ignore[arg-type]
            passes = keeping.passes([what])  # type: ignore[list-item]
            keeping.say([what])  # type: ignore[list-item]
            if passes:  # then it need not have been held
                assert keeping.ready() == [what]
                keeping.put_back([what])  # type: ignore[list-item]
        elif step == "recorded":
            recorded.add(str(what))
            keeping.recorded(str(what))
        elif step == "attempt":
            keeping.begin_attempt(2)
        ready = keeping.ready()
        for event in ready:
            assert needs(event) is None or needs(event) in recorded
        if step == "cut":  # the sending was broken off
            keeping.put_back(ready)
        else:
            heard += ready
    for what in (TURN, END, steer("steer_1"), returned("steer_1"), attempt(2)):
        keeping.recorded(what)
    assert heard + keeping.ready() == said
