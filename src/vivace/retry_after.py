"""How long a server wants to be left alone, as its answer says it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

__all__ = ["retry_after"]

_LONGEST = 86_400.0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of the ``retry-after`` header, said as a number or as a date."""
    said = headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except ValueError:
            return None
    return min(seconds, _LONGEST) if seconds > 0 and not math.isnan(seconds) else None
