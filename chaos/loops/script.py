"""What engines play in a loop: every answer calls the next step, until the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from chaos.marks import broken_off

__all__ = [
    "CODEX",
    "DONE",
    "SDK",
    "STEP",
    "TURNS",
    "WORDS",
    "came_out",
    "question",
    "script",
    "wrong",
]

TURNS = 20
"""Of a loop: each but the last calls a tool."""
WORDS = 60
"""That an answer says before that, so that there is time to kill somebody."""
SDK, CODEX = "sdk", "codex"
STEP = "step"
"""The tool of the SDK's loops, and the program of Codex's."""
DONE = f"All {TURNS - 1} steps are done."


def question(kind: str, name: str) -> str:
    """With which a loop begins; its name is in it, so that no two loops show engines the same."""
    return f"Begin the {kind} loop {name}"


def came_out(kind: str, number: int) -> str:
    """What a step says."""
    return f"{kind} {STEP} {number} is done"


def _announced(kind: str, number: int) -> str:
    return f"Next is {kind} {STEP} {number}."


def script() -> str:
    """For both kinds of clients: they are told apart by what their steps say."""
    return "".join([*_replies(SDK, _function), *_replies(CODEX, _command)])


def _function(number: int) -> tuple[str, str]:
    return STEP, msgspec.json.encode({"number": number}).decode()


def _command(number: int) -> tuple[str, str]:
    # Codex waits this long for a command before it tells the model that it still runs.
    given = {"cmd": f"./{STEP} {number}", "yield_time_ms": 30_000}
    return "exec_command", msgspec.json.encode(given).decode()


def _replies(kind: str, call: Callable[[int], tuple[str, str]]) -> Iterator[str]:
    yield _reply("message", f"^{question(kind, '')}", _says(kind, 1), _calls(*call(1)))
    for number in range(1, TURNS):
        # A client that has seen the words and not the call may go on from these words.
        yield _reply("message", rf"{_announced(kind, number)}$", _calls(*call(number)))
    for number in range(1, TURNS - 1):
        after = number + 1
        acts = _says(kind, after), _calls(*call(after))
        yield _reply("tool", rf"{came_out(kind, number)}\b", *acts)
    # All that was shown is told once, in the last answer: to tell it takes time.
    last = f'{{ do = "say", text = "\\n" }}, {{ do = "recite" }}, {{ do = "say", text = "{DONE}" }}'
    yield _reply("tool", rf"{came_out(kind, TURNS - 1)}\b", _MARKS, last)


_MARKS = f'{{ do = "mark", times = {WORDS} }}'


def _says(kind: str, number: int) -> str:
    return f'{_MARKS}, {{ do = "say", text = "\\n{_announced(kind, number)}" }}'


def _calls(name: str, text: str) -> str:
    return f'{{ do = "call", name = "{name}", text = \'{text}\' }}'


def _reply(after: str, when: str, *acts: str) -> str:
    return f"[[replies]]\nafter = \"{after}\"\nwhen = '{when}'\nthen = [{', '.join(acts)}]\n"


def wrong(text: str, *, last: bool) -> str | None:
    """What is wrong with the words of an answer, in a sentence; None if nothing is."""
    if (broken := broken_off(text)) is not None:
        return broken
    if (said := text.count("@")) != WORDS:
        return f"it has {said} words instead of {WORDS}"
    if text.endswith(DONE) != last:
        return "it does not end the loop" if last else "it ends the loop too early"
    return None
