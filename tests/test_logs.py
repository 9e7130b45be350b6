"""What the log says of errors: their kind and place, and nothing of what they quote."""

from __future__ import annotations

import asyncio
import errno
import logging
import sqlite3
from typing import NoReturn

import pytest

from vivace.errors import StoreError
from vivace.logs import Discreet, Throttled, on_loop_error, place_of

SECRET = "def pay(card): the prompt of a person"


@pytest.fixture
def lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    caplog.handler.setFormatter(Discreet("%(name)s %(message)s"))
    caplog.set_level(logging.DEBUG)
    for name in ("uvicorn", "uvicorn.error"):  # another test's server may have set them up
        caplog.set_level(logging.DEBUG, name)
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
    return caplog


def fails() -> NoReturn:
    raise KeyError(SECRET)


def chained() -> None:
    try:
        fails()
    except KeyError as error:
        raise StoreError(f"The store failed: {SECRET}") from error


def told(error: BaseException) -> str:
    return Discreet().format(
        logging.LogRecord("vivace", logging.ERROR, "", 0, "failed", (), (type(error), error, None))
    )


def test_of_an_error_the_log_has_kind_and_place_but_no_message(
    lines: pytest.LogCaptureFixture,
) -> None:
    try:
        fails()
    except KeyError:
        logging.getLogger("vivace.x").exception("fault turn=%s", "resp_1")
    assert SECRET not in lines.text
    assert "vivace.x fault turn=resp_1\n" in lines.text
    assert 'test_logs.py", line' in lines.text
    assert "in fails\nbuiltins.KeyError" in lines.text


def test_the_cause_behind_an_error_is_told_in_the_same_way(lines: pytest.LogCaptureFixture) -> None:
    try:
        chained()
    except StoreError:
        logging.getLogger("vivace.x").exception("not stored")
    assert SECRET not in lines.text
    assert "builtins.KeyError\nwhich led to\n" in lines.text
    assert "in chained\nvivace.errors.StoreError" in lines.text


def test_errors_that_hold_others_are_told_with_all_of_them() -> None:
    group = ExceptionGroup(SECRET, [ValueError(SECRET), ExceptionGroup("", [KeyError(SECRET)])])
    group.__context__ = group.exceptions[0]  # what is known is not told twice
    text = told(group)
    assert SECRET not in text
    assert text.count("ValueError") == 1
    assert text.count("KeyError") == 1


def test_causes_that_go_in_a_circle_come_to_an_end() -> None:
    one, other = ValueError(SECRET), KeyError(SECRET)
    one.__context__, other.__context__ = other, one
    assert told(one).endswith("builtins.KeyError\nwhich led to\nbuiltins.ValueError")


def test_an_error_among_the_words_of_a_line_is_its_kind_and_place(
    lines: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KeyError) as caught:
        fails()
    log = logging.getLogger("library")
    log.error("failed: %s", caught.value)
    log.error("failed: %(why)r", {"why": caught.value})
    log.error(caught.value)
    assert SECRET not in lines.text
    assert lines.text.count("KeyError at test_logs.py:") == 3


def test_what_a_formatter_before_ours_made_of_the_error_is_not_used() -> None:
    record = logging.LogRecord("a", logging.ERROR, "", 0, "failed", (), None)
    record.exc_text = SECRET
    assert Discreet().format(record) == "failed"


def test_what_the_system_calls_it_is_told() -> None:
    assert place_of(OSError(errno.ENOSPC, SECRET)) == "OSError (ENOSPC)"
    with pytest.raises(sqlite3.Error) as caught:
        sqlite3.connect(":memory:").execute(f"select '{SECRET}")
    assert place_of(caught.value).startswith("OperationalError (SQLITE_ERROR) at test_logs.py:")


def test_the_place_of_an_error_is_where_it_was_raised() -> None:
    with pytest.raises(KeyError) as caught:
        fails()
    assert place_of(caught.value).startswith("KeyError at test_logs.py:")
    assert place_of(caught.value).endswith("in fails")
    assert place_of(LookupError(SECRET)) == "LookupError"


@pytest.mark.parametrize("name", ["vivace.x", "uvicorn.error"])
def test_nobody_forges_a_line_or_steers_the_terminal(
    lines: pytest.LogCaptureFixture, name: str
) -> None:
    logging.getLogger(name).warning("name=%s", "x\n2026 INFO vivace all is well\x1b[2J\u202e")
    assert lines.text == f"{name} name=x\ufffd2026 INFO vivace all is well\ufffd[2J\ufffd\n"


def test_the_query_of_an_address_may_hold_a_key(lines: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("uvicorn.error")
    log.info('%s - "WebSocket %s" [accepted]', "127.0.0.1:5", "/v1/responses?key=viv_secret&a=b")
    assert lines.text == 'uvicorn.error 127.0.0.1:5 - "WebSocket /v1/responses?..." [accepted]\n'


def test_a_lost_task_and_a_failed_callback_are_told_without_what_they_hold(
    lines: pytest.LogCaptureFixture,
) -> None:
    async def loses(words: str) -> None:
        raise KeyError(words)

    def breaks(words: str) -> None:
        raise ValueError(words)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(on_loop_error)
        task = asyncio.create_task(loses(SECRET), name="a task")
        loop.call_soon(breaks, SECRET)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert task.done()
        del task

    asyncio.run(main())
    assert SECRET not in lines.text
    assert "Task exception was never retrieved" in lines.text
    assert "loses\n" in lines.text
    assert "builtins.KeyError" in lines.text
    assert "Exception in a callback" in lines.text
    assert "builtins.ValueError" in lines.text


def test_lines_that_anybody_can_cause_are_bounded_and_counted(
    lines: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    now, log = 0.0, logging.getLogger("vivace.throttled")
    bound = Throttled(3, 10.0, lambda: now)
    log.addFilter(bound)
    request.addfinalizer(lambda: log.removeFilter(bound))
    for number in range(100):
        log.info("refused %s %s", number, KeyError(SECRET))
    log.error("a fault")
    now = 11.0
    for _ in range(2):
        log.info("refused %s", KeyError(SECRET))
    told = lines.text.splitlines()
    assert [line.split()[2] for line in told if "refused" in line] == [
        "0",
        "1",
        "2",
        "KeyError",
        "KeyError",
    ]
    assert [line for line in told if "left out" in line] == [
        "vivace.throttled refused KeyError (left out 97 lines before)"
    ]
    assert "vivace.throttled a fault" in told
    assert SECRET not in lines.text
