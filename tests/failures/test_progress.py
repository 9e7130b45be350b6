"""Whether a command that still fails has come further."""

from __future__ import annotations

import pytest

from vivace.failures.failure import Failure, Frame, Kind
from vivace.failures.progress import gets_further


def failure(line: int, kind: Kind = "assertion", test: str = "", message: str = "x") -> Failure:
    frames = (Frame("shop.py", 3), Frame("test_shop.py", line))
    return Failure(kind=kind, message=message, frames=frames, test=test)


ONE = failure(5)
BROKEN = failure(1, "compile")


@pytest.mark.parametrize(
    ("before", "after", "further"),
    [
        ([ONE], [failure(5, message="y")], False),
        ([ONE], [failure(9)], True),
        ([failure(9)], [ONE], False),
        ([ONE], [failure(9, test="another")], False),
        ([ONE, failure(9)], [failure(9)], True),
        ([ONE], [ONE, failure(9)], False),
        ([BROKEN], [ONE], True),
        ([BROKEN, BROKEN], [BROKEN], True),
        ([BROKEN], [BROKEN], False),
        ([ONE, failure(9)], [BROKEN], False),
        ([ONE], [], False),
        ([], [ONE], False),
    ],
)
def test_further_is_a_build_that_ends_a_test_fewer_or_a_later_line(
    before: list[Failure], after: list[Failure], further: bool
) -> None:
    assert gets_further(before, after) is further
