"""The log of the language server: no word of anybody's code, at whatever level.

pygls logs the parameters of messages, and a WebSocket library its frames: both are code. Of what
others log, only the form of the message is kept, without what was to be put into it.
"""

from __future__ import annotations

import logging

from vivace.logs import log_to_stderr

__all__ = ["Wordless", "log_without_code"]

_FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"


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
    """Have all that this process logs on standard error, which editors show as the server's."""
    log_to_stderr(level, _FORM)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Wordless())
