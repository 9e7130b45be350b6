"""The log of a server: what happened and where, never what was said.

An error's message may quote a prompt, a key or an answer: a ``KeyError`` quotes the key, a decoder
the text, a provider the request. So of an error the log tells its kind and its place in the code,
and the cause behind it, but no message; whoever logs the words of an error of ours on purpose
writes ``str(error)``. This holds for every way into the log: our own lines, those of libraries,
asyncio's reports of lost tasks, and what ends the process or a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import logging
import math
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, TextIO

from vivace.visible import visible

__all__ = [
    "Discreet",
    "Throttled",
    "Wordless",
    "log_to_stderr",
    "log_without_code",
    "on_loop_error",
    "place_of",
]

log = logging.getLogger("vivace")

_FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"
_FRAMES = 30
_CALLBACK = re.compile(r" callback .*", re.DOTALL)
"""What asyncio writes of a callback, with the values it was to be called with."""
_QUERY = re.compile(r"\?[^\s\"']+")
"""The part of an address that a client may have put its key into."""


class Discreet(logging.Formatter):
    """One line for each record, and below it the places an error came through."""

    def format(self, record: logging.LogRecord) -> str:
        ours = copy.copy(record)
        ours.msg = _discreet(record.msg)
        if isinstance(record.args, Mapping):
            ours.args = {name: _discreet(each) for name, each in record.args.items()}
        elif record.args:
            ours.args = tuple(_discreet(each) for each in record.args)
        ours.exc_text = None  # it may be another formatter's
        return super().format(ours)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        message = record.message.strip()
        if not record.name.startswith("vivace"):
            message = _QUERY.sub("?...", message)
        record.message = visible(message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return "" if ei[1] is None else "\n".join(_traced(ei[1], set()))


class _Stderr(logging.StreamHandler[TextIO]):
    """For a line that cannot be made, logging's own writes out all that was to be in it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            place = f"{PurePath(record.pathname).name}:{record.lineno}"
            self.stream.write(f"a line of the log is lost, of {record.name} at {place}\n")


def log_to_stderr(level: int, form: str) -> None:
    """Have all that this process logs, and all that it dies of, on standard error."""
    handler = _Stderr(sys.stderr)
    handler.setFormatter(Discreet(form))
    logging.basicConfig(level=level, handlers=[handler])

    def uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        log.critical("this process ends", exc_info=(kind, error, trace))

    def in_thread(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread else "?"
        log.critical("thread %s ends", name, exc_info=args.exc_value)

    def unraisable(args: sys.UnraisableHookArgs) -> None:
        if not sys.is_finalizing():  # by then nothing is left to write a line with
            log.error("an error that nobody could catch", exc_info=args.exc_value)

    sys.excepthook = uncaught
    threading.excepthook = in_thread
    sys.unraisablehook = unraisable


class Throttled(logging.Filter):
    """Bounds the lines of a logger that anybody on the network can make it write.

    Errors pass. What is left out is counted, and told with the next line that is not.
    """

    def __init__(
        self,
        max_lines: int = 200,
        interval_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._max_lines = max_lines
        self._interval_s = interval_s
        self._clock = clock
        self._until = -math.inf
        self._lines = self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        if (now := self._clock()) >= self._until:
            self._until, self._lines = now + self._interval_s, 0
        if self._lines >= self._max_lines:
            self._left_out += 1
            return False
        self._lines += 1
        if self._left_out and isinstance(record.msg, str) and isinstance(record.args, tuple):
            # Not put together here: only a formatter knows what of an error may be said.
            record.msg += " (left out %d lines before)"
            record.args, self._left_out = (*record.args, self._left_out), 0
        return True


class Wordless(logging.Filter):
    """Takes everything out of the lines of others that could be code."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("vivace"):
            record.msg = str(record.msg).partition("\n")[0] if record.args else _place(record)
            record.args = ()
        return True


def _place(record: logging.LogRecord) -> str:
    """For a line that came ready-made, with who knows what in it."""
    return f"said something in {record.module}:{record.lineno}"


def log_without_code(level: int = logging.WARNING) -> None:
    """For a server that an editor or an agent starts, and whose standard error they show: no word
    of anybody's code, at whatever level. pygls logs the parameters of messages, and a WebSocket
    library its frames; of what others log, only the form of the message is kept, without what was
    to be put into it."""
    log_to_stderr(level, _FORM)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Wordless())


def on_loop_error(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """For ``loop.set_exception_handler``: asyncio's own writes out what tasks hold."""
    words = _CALLBACK.sub(" a callback", str(context.get("message")))
    task = context.get("task", context.get("future"))
    name = getattr(task.get_coro(), "__qualname__", "") if isinstance(task, asyncio.Task) else ""
    log.error("%s %s", words, name, exc_info=context.get("exception"))


def place_of(error: BaseException) -> str:
    """The kind of error and where it was raised, in one line."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return _kind(error)
    frame, line = frames[-1]
    code = frame.f_code
    return f"{_kind(error)} at {PurePath(code.co_filename).name}:{line} in {code.co_name}"


def _discreet(value: object) -> Any:
    return place_of(value) if isinstance(value, BaseException) else value


def _kind(error: BaseException) -> str:
    """Its class, and the system's or SQLite's own name for what happened, which quotes nothing."""
    name = type(error).__qualname__
    code = getattr(error, "sqlite_errorname", None)
    if isinstance(error, OSError):
        code = errno.errorcode.get(error.errno or 0)
    return f"{name} ({code})" if code else name


def _traced(error: BaseException, seen: set[int]) -> Iterator[str]:
    """As Python writes a traceback, causes first, but with nothing of what was in it."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _traced(before, seen)
        yield "which led to"
    frames = list(traceback.walk_tb(error.__traceback__))
    for frame, line in frames[-_FRAMES:]:
        code = frame.f_code
        yield f'  File "{code.co_filename}", line {line}, in {code.co_qualname}'
    yield f"{type(error).__module__}.{_kind(error)}"
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            if id(each) not in seen:
                yield from _traced(each, seen)
