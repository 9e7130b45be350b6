"""A command that fails: what is read of it, asked, tried, proposed, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import eventually_async
from vivace.desk.applying import Accepted, Journaled
from vivace.desk.events import NoFix, NothingWritten
from vivace.desk.tried_fixes import Fixer
from vivace.desk.watch_events import (
    Asking,
    CommandFailed,
    CommandPassed,
    CommandSaid,
    FixFailed,
    Proposed,
    Saved,
    WatchEvent,
)
from vivace.desk.watching import Round, Watching
from vivace.engines.base import Work
from vivace.engines.scripted import Reply, Say, Stall
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

SHOP = """\
def total(prices):
    result = 0
    for price in prices:
        result -= price
    return result


def mean(prices):
    return total(prices) / len(prices)
"""
FIXED = SHOP.replace("-=", "+=")
TEST = """\
from shop import mean, total

assert total([2, 3]) == 5, total([2, 3])
"""
T = TypeVar("T")
RUN = f"{sys.executable} test_shop.py"


class Somebody:
    """Hears everything; takes so many hunks of what is proposed."""

    def __init__(self, take: int | None = None) -> None:
        self.told: list[WatchEvent] = []
        self.asked: list[bool] = []
        self._take = take

    def tell(self, event: WatchEvent) -> None:
        self.told.append(event)

    async def accepts(self, edit: Accepted, *, passed: bool) -> Sequence[Accepted]:
        self.asked.append(passed)
        return [Accepted(edit.target, edit.hunks[: self._take])]

    def heard(self, kind: type[T]) -> list[T]:
        return [event for event in self.told if isinstance(event, kind)]


class Desk:
    def __init__(self, folder: Path, gateway: RunningGateway) -> None:
        self.root = folder / "tree"
        self.root.mkdir()
        self.state = folder / "state"
        self.gateway = gateway
        self.prompts: list[str] = []
        self.write(**{"shop.py": SHOP, "test_shop.py": TEST})
        generate = gateway.engine.generate

        def listening(work: Work):  # type: ignore[no-untyped-def]
            self.prompts.append(str(work.prompt))
            return generate(work)

        gateway.engine.generate = listening  # type: ignore[method-assign]

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.root / name).write_text(text)

    def answers(self, *texts: tuple[str, str]) -> None:
        """Each a pattern of the prompt, and the code that is answered to it."""
        self.gateway.engine.play(
            [Reply(when=when, then=(Say(f"```python\n{text}```"),)) for when, text in texts]
        )

    def watching(
        self, person: Somebody, command: str = RUN, attempts: int = 1, deep: str | None = None
    ) -> Watching:
        workspace = Workspace(self.root)
        fixer = Fixer(workspace, "", self.gateway.url, None, MODEL, deep, attempts)
        writer = Journaled(Journal(workspace, self.state))
        return Watching(command, workspace, "", fixer, writer, person)

    def once(self, person: Somebody, command: str = RUN, attempts: int = 1) -> int:
        return asyncio.run(self.watching(person, command, attempts).once())

    def round(self, person: Somebody, command: str = RUN) -> Round:
        return asyncio.run(self.watching(person, command).round())

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.root.iterdir() if path.suffix == ".py"}


@pytest.fixture
def desk(tmp_path: Path, gateway: RunningGateway) -> Desk:
    return Desk(tmp_path, gateway)


TOTAL = FIXED.partition("\n\n\n")[0] + "\n"


def test_a_failing_test_leads_to_what_it_calls_and_the_fix_is_tried_before_it_is_shown(
    desk: Desk,
) -> None:
    desk.answers(("", TOTAL))
    person = Somebody(take=0)
    found = desk.round(person)
    assert found.ran.status == 1
    assert found.fix is not None
    assert found.fix.passed
    assert found.fix.made.outcome.text == FIXED
    (failed,) = person.heard(CommandFailed)
    assert failed.failures[0].message == "AssertionError: -5"
    (asking,) = person.heard(Asking)
    assert asking.place == "total in shop.py (lines 1-5)"
    assert person.asked == [True]
    assert desk.files() == {"shop.py": SHOP, "test_shop.py": TEST}
    assert person.heard(NothingWritten)


def test_the_model_is_told_the_reason_and_shown_one_function(desk: Desk) -> None:
    desk.answers(("", TOTAL))
    desk.round(Somebody(take=0))
    (prompt,) = desk.prompts
    assert "AssertionError: -5" in prompt
    assert "result -= price" in prompt
    assert "def mean" not in prompt


def test_what_is_accepted_is_written_the_command_run_again_and_undo_takes_it_back(
    desk: Desk,
) -> None:
    desk.answers(("", TOTAL))
    assert desk.once(Somebody()) == 0
    assert desk.files() == {"shop.py": FIXED, "test_shop.py": TEST}
    journal = Journal(Workspace(desk.root), desk.state)
    assert [entry.title for entry in journal.entries()] == [f"fix: {RUN}"]
    journal.undo()
    assert desk.files() == {"shop.py": SHOP, "test_shop.py": TEST}


def test_a_command_that_passes_asks_nobody(desk: Desk) -> None:
    desk.write(**{"shop.py": FIXED})
    person = Somebody()
    assert desk.once(person) == 0
    assert desk.prompts == []
    assert person.asked == []


def test_an_error_in_the_persons_own_code_is_the_place_itself(desk: Desk) -> None:
    desk.write(
        **{
            "shop.py": FIXED,
            "test_shop.py": "from shop import mean\n\nassert mean([]) == 0\n",
        }
    )
    guarded = "def mean(prices):\n    if not prices:\n        return 0\n"
    desk.answers(("", guarded + "    return total(prices) / len(prices)\n"))
    found = desk.round(Somebody(take=0))
    assert found.fix is not None
    assert (found.fix.passed, found.fix.place.name) == (True, "mean")
    assert "It fails at this line:\\nreturn total(prices) / len(prices)" in desk.prompts[0]


def test_what_does_not_help_is_not_proposed_and_the_next_place_is_tried(desk: Desk) -> None:
    desk.write(
        **{"test_shop.py": "from shop import mean, total\n\nassert mean([2, 4]) == 3, 'wrong'\n"}
    )
    twice = "def mean(prices):\n    return total(prices) / len(prices) * 2\n"
    desk.answers(("def mean", twice), ("def total", TOTAL))
    person = Somebody()
    assert desk.once(person) == 0
    assert [each.place.partition(" ")[0] for each in person.heard(Asking)] == ["mean", "total"]
    (failed,) = person.heard(FixFailed)
    assert failed.why.endswith("still fails.")
    assert desk.files()["shop.py"] == FIXED


def test_nothing_is_proposed_where_nothing_passes(desk: Desk) -> None:
    desk.answers(("", SHOP.partition("\n\n\n")[0].replace("-=", "*=") + "\n"))
    person = Somebody()
    assert desk.once(person) == 1
    assert person.asked == []
    assert person.heard(NoFix)
    assert desk.files()["shop.py"] == SHOP


def test_a_fix_after_which_it_fails_for_another_reason_is_proposed_as_that(desk: Desk) -> None:
    desk.write(**{"test_shop.py": TEST + "assert mean([2, 4]) == 4, 'mean'\n"})
    desk.answers(("AssertionError: -5", TOTAL))
    person = Somebody(take=0)
    found = desk.round(person)
    assert found.fix is not None
    assert not found.fix.passed
    assert person.asked == [False]


def test_the_deep_model_is_asked_when_the_fast_one_has_no_fix(tmp_path: Path) -> None:
    engines = [
        {"name": name, "kind": "scripted", "model": name, "rate": 2000} for name in (MODEL, "deep")
    ]
    with RunningGateway(config=configuration(engines=engines)) as gateway:
        desk = Desk(tmp_path, gateway)
        desk.answers(("", SHOP.partition("\n\n\n")[0] + "\n"))
        deep = gateway.gateway.catalogue.engines[1]
        deep.play([Reply(then=(Say(f"```python\n{TOTAL}```"),))])  # type: ignore[attr-defined]
        person = Somebody()
        assert asyncio.run(desk.watching(person, deep="deep").once()) == 0
        asked = [each.model for each in person.heard(Asking)]
        assert (asked[0], asked[-1]) == (MODEL, "deep")
        assert desk.files()["shop.py"] == FIXED


def test_several_are_asked_for_at_once_and_the_first_that_passes_wins(desk: Desk) -> None:
    desk.answers(("", TOTAL))
    person = Somebody()
    assert desk.once(person, attempts=3) == 0
    assert [each.number for each in person.heard(Asking)] == [1, 2, 3]
    assert len(person.heard(Proposed)) == 1
    assert desk.files()["shop.py"] == FIXED


def test_what_two_attempts_come_to_is_tried_once(desk: Desk) -> None:
    desk.answers(("", SHOP.partition("\n\n\n")[0].replace("-=", "*=") + "\n"))
    person = Somebody()
    assert desk.once(person, attempts=3) == 1
    why = [each.why for each in person.heard(FixFailed)]
    assert sum("still fails" in each for each in why) == 1
    assert any("same as another" in each for each in why)


def test_a_fix_with_which_it_does_not_end_is_none(desk: Desk) -> None:
    desk.answers(("", "def total(prices):\n    while True:\n        pass\n    return prices\n"))
    person = Somebody()
    watching = desk.watching(person)
    watching.patience_s = 1.0
    assert asyncio.run(watching.once()) == 1
    assert any("does not end within" in each.why for each in person.heard(FixFailed))


def test_an_answer_that_does_not_parse_is_never_tried(desk: Desk) -> None:
    desk.write(**{"test_shop.py": f"open('{desk.state}', 'a').write('run ')\n{TEST}"})
    desk.answers(("", "def total(prices:\n    return sum(prices)\n"))
    person = Somebody()
    assert desk.once(person) == 1
    assert desk.state.read_text() == "run "
    assert any("syntax" in each.why for each in person.heard(FixFailed))


def test_a_compilers_error_is_mended_where_it_stands(desk: Desk) -> None:
    desk.write(**{"shop.py": "def total(prices)\n    return sum(prices)\n"})
    desk.answers(("", "def total(prices):\n    return sum(prices)\n"))
    person = Somebody()
    assert desk.once(person) == 0
    (failed,) = person.heard(CommandFailed)
    assert failed.failures[0].kind == "compile"


def test_a_test_that_expects_something_else_is_never_the_place(desk: Desk) -> None:
    desk.write(**{"test_shop.py": "def test_one():\n    assert 1 == 2\n\n\ntest_one()\n"})
    desk.answers(("", "def test_one():\n    assert True\n"))
    person = Somebody()
    assert desk.once(person) == 1
    assert desk.prompts == []
    assert "may see and change" in person.heard(NoFix)[0].why


@pytest.mark.parametrize("command", ["exit 3", "echo nothing in particular; exit 3"])
def test_where_no_file_is_named_nothing_is_asked(desk: Desk, command: str) -> None:
    person = Somebody()
    assert desk.once(person, command) == 3
    assert desk.prompts == []
    assert "names no line" in person.heard(NoFix)[0].why


def test_without_a_server_the_command_still_runs_and_why_is_said(desk: Desk) -> None:
    person = Somebody()
    watching = desk.watching(person)
    watching.fixer = Fixer(Workspace(desk.root), "", "http://127.0.0.1:9/v1", None, MODEL)
    assert asyncio.run(watching.once()) == 1
    (no_fix,) = person.heard(NoFix)
    assert "127.0.0.1:9" in no_fix.why
    assert len(person.heard(Asking)) == 1
    assert desk.files()["shop.py"] == SHOP


def test_secrets_that_a_command_prints_are_not_sent(desk: Desk) -> None:
    token = f"ghp_{'a1' * 18}"
    printed = ", 'x' + chr(10) + 'ghp_' + 'a1' * 18\n"
    desk.write(**{"test_shop.py": TEST.replace(", total([2, 3])\n", printed)})
    desk.answers(("", TOTAL))
    desk.round(Somebody(take=0))
    assert desk.prompts
    assert token not in "".join(desk.prompts)


def test_the_command_runs_in_the_folder_it_was_given_in_and_so_does_the_trial(desk: Desk) -> None:
    inner = desk.root / "inner"
    inner.mkdir()
    for name, text in (("shop.py", SHOP), ("test_shop.py", TEST)):
        (inner / name).write_text(text)
        (desk.root / name).unlink()
    desk.answers(("", TOTAL))
    person = Somebody()
    watching = desk.watching(person)
    watching.here = "inner"
    watching.fixer = Fixer(Workspace(desk.root), "inner", desk.gateway.url, None, MODEL)
    assert asyncio.run(watching.once()) == 0
    assert (inner / "shop.py").read_text() == FIXED


# -- again at each save ---------------------------------------------------------------------------


class Saves:
    """Saves that a test makes."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        self.ours: list[str] = []

    def save(self, *paths: str) -> None:
        self._queue.put_nowait(paths)

    async def __aiter__(self) -> AsyncIterator[tuple[str, ...]]:
        while True:
            yield await self._queue.get()

    @contextmanager
    def command(self) -> Iterator[None]:
        yield

    def settled(self, paths: Iterable[str]) -> None:
        self.ours += paths


def test_each_save_runs_it_again(desk: Desk) -> None:
    desk.write(**{"shop.py": FIXED})
    person = Somebody()

    def has_passed(times: int) -> bool:
        return len(person.heard(CommandPassed)) == times

    async def watch() -> None:
        watching, saves = desk.watching(person, "echo run"), Saves()
        watching.saves = saves
        task = asyncio.create_task(watching.until_stopped())
        for count in (1, 2, 3):
            await eventually_async(partial(has_passed, count))
            saves.save("shop.py")
        await eventually_async(partial(has_passed, 4))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(watch())
    assert person.heard(Saved) == [Saved(("shop.py",))] * 3


def test_a_save_ends_what_is_under_way(desk: Desk) -> None:
    desk.gateway.engine.play([Reply(then=(Stall(3600),))])
    person = Somebody()

    async def watch() -> None:
        watching, saves = desk.watching(person), Saves()
        watching.saves = saves
        task = asyncio.create_task(watching.until_stopped())
        await eventually_async(lambda: desk.gateway.engine.running() == 1)
        desk.write(**{"shop.py": FIXED})
        saves.save("shop.py")
        await eventually_async(lambda: bool(person.heard(CommandPassed)))
        await eventually_async(lambda: desk.gateway.engine.running() == 0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(watch())


def test_save_within_the_second_of_the_save_before_is_what_the_command_runs(desk: Desk) -> None:
    """Python tells by second and size whether what it compiled is up to date."""
    person = Somebody()

    def save(text: str) -> None:
        desk.write(**{"shop.py": text})
        os.utime(desk.root / "shop.py", (1_700_000_000, 1_700_000_000))

    async def watch() -> None:
        watching = desk.watching(person, f"env -u PYTHONDONTWRITEBYTECODE {RUN}")
        watching.saves = saves = Saves()
        desk.gateway.engine.play([Reply(then=(Stall(3600),))])
        task = asyncio.create_task(watching.until_stopped())
        await eventually_async(lambda: desk.gateway.engine.running() == 1)
        save(FIXED)
        saves.save("shop.py")
        await eventually_async(lambda: len(ends(person)) == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    save(SHOP)
    asyncio.run(watch())
    assert ends(person) == [CommandFailed, CommandPassed]


def ends(person: Somebody) -> list[type]:
    """How each run of the command ended."""
    return [type(each) for each in person.told if isinstance(each, CommandFailed | CommandPassed)]


def test_a_command_under_way_ends_with_its_children_when_it_is_stopped(desk: Desk) -> None:
    person = Somebody()

    async def watch() -> None:
        watching = desk.watching(person, "sleep 3600 & echo $!; wait")
        watching.saves = Saves()
        task = asyncio.create_task(watching.until_stopped())
        await eventually_async(lambda: bool(person.heard(CommandSaid)))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        child = int(person.heard(CommandSaid)[0].data)
        await eventually_async(lambda: not _alive(child))

    asyncio.run(watch())


def _alive(process: int) -> bool:
    """Nobody may have asked yet how it ended."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_we_write_is_told_to_whoever_looks_for_saves(desk: Desk) -> None:
    desk.answers(("", TOTAL))
    person = Somebody()

    async def watch() -> Saves:
        watching, saves = desk.watching(person), Saves()
        watching.saves = saves
        await watching.once()
        return saves

    assert asyncio.run(watch()).ours == ["shop.py"]
