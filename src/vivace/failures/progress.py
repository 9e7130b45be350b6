"""Whether a command that still fails fails later than it did.

What is said of a failure is no help: a wrong number becomes another wrong number. Where it is
noticed is: a build that ends, a test fewer that fails, a later line of the same test.
"""

from __future__ import annotations

from collections.abc import Sequence

from vivace.failures.failure import Failure

__all__ = ["gets_further"]


def gets_further(before: Sequence[Failure], after: Sequence[Failure]) -> bool:
    """Both with frames of the project alone."""
    if not before or not after:
        return False
    if _broken(before) != _broken(after):
        return _broken(before)
    if _broken(after) or len(before) != len(after):
        return len(after) < len(before)
    return len(after) == 1 and _later(before[0], after[0])


def _broken(failures: Sequence[Failure]) -> bool:
    return any(each.kind == "compile" for each in failures)


def _later(before: Failure, after: Failure) -> bool:
    """Whether what was begun last is noticed behind where it was noticed before."""
    one, other = before.frames[-1], after.frames[-1]
    if (one.path, one.name, before.test) != (other.path, other.name, after.test):
        return False
    return one.line is not None and other.line is not None and one.line < other.line
