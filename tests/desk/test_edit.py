"""An edit at the desk: what somebody is told on the way, and what becomes of what they decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.support.server import MODEL, RunningGateway, configuration
from vivace.client.connection import open_connection
from vivace.conversation.deltas import Delta
from vivace.desk.applying import Accepted, Journaled
from vivace.desk.asking import Asker
from vivace.desk.edit import Editing, Result, Settings
from vivace.desk.events import Asked, CheckFails, CheckSaid, Event, NothingWritten, Refused, Wrote
from vivace.desk.person import Unattended
from vivace.desk.targets import open_target
from vivace.edits.placing.region import Region
from vivace.engines.base import Chat, Work
from vivace.engines.scripted import Reply, Say, Stall
from vivace.protocol.requests import Prediction
from vivace.syntax.finding import Finding, Severity
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

OLD = "def add(a, b):\n    return a\n\n\ndef sub(a, b):\n    return a\n"
NEW = OLD.replace("    return a\n", "    return a + b\n", 1).replace(
    "b):\n    return a\n", "b):\n    return a - b\n"
)
LONG = "".join(f"def f{n}(x):\n    return x\n\n\n" for n in range(60))


class Somebody(Unattended):
    """Remembers what they were told; takes so many of the hunks, and overrules or not."""

    def __init__(
        self, take: int | None = None, *, overrule: bool = False, reviews: bool = False
    ) -> None:
        self.told: list[Event] = []
        self.doubts: list[Finding] = []
        self._reviews = reviews
        self._take = take
        self._overrule = overrule

    def tell(self, event: Event) -> None:
        self.told.append(event)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.told]

    async def accepts(self, edits: Sequence[Accepted]) -> Sequence[Accepted]:
        self.doubts += [doubt for edit in edits for doubt in edit.doubts]
        return [Accepted(edit.target, edit.hunks[: self._take]) for edit in edits]

    @property
    def reviews(self) -> bool:
        return self._reviews

    async def overrules(self, *, can_be_applied: bool) -> bool:
        return can_be_applied and self._overrule


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    file = tmp_path / "tree" / "sums.py"
    file.write_text(OLD)
    return file


def run(
    gateway: RunningGateway,
    file: Path,
    person: Somebody,
    answer: str | Sequence[Reply],
    sketch: str | None = None,
    **settings: object,
) -> Result:
    code = Reply(then=(Say(f"```python\n{answer}```"),))
    gateway.engine.play([code] if isinstance(answer, str) else answer)

    async def edit() -> Result:
        workspace = Workspace(file.parent)
        async with open_connection(gateway.url, None) as connection:
            asker = Asker(connection, person, workspace, MODEL, sketch=sketch, patient=False)
            journal = Journal(workspace, file.parent.parent / "state")
            editing = Editing(asker, Journaled(journal), Settings(**settings))  # type: ignore[arg-type]
            return await editing.run([open_target(workspace, str(file))], "use b in all functions")

    return asyncio.run(edit())


def test_a_good_edit_is_told_as_it_comes_and_written(gateway: RunningGateway, file: Path) -> None:
    person = Somebody()
    result = run(gateway, file, person, NEW)
    assert (result.status, result.applied) == ("done", True)
    assert file.read_text() == NEW
    kinds = person.kinds()
    assert kinds[0] == "Asked"
    assert kinds[-2:] == ["Ended", "Wrote"]
    assert set(kinds[1:-2]) == {"Answered"}


def test_only_the_hunks_that_are_accepted_are_written(gateway: RunningGateway, file: Path) -> None:
    result = run(gateway, file, Somebody(take=1), NEW)
    assert result.applied
    assert file.read_text() == OLD.replace("return a\n", "return a + b\n", 1)


def test_who_takes_nothing_finds_nothing_written(gateway: RunningGateway, file: Path) -> None:
    person = Somebody(take=0)
    result = run(gateway, file, person, NEW)
    assert (result.status, result.applied) == ("nothing", False)
    assert person.told[-1] == NothingWritten()
    assert file.read_text() == OLD


@pytest.mark.parametrize("overrule", [False, True])
def test_what_the_checks_refuse_is_the_persons_to_decide(
    gateway: RunningGateway, file: Path, overrule: bool
) -> None:
    person = Somebody(overrule=overrule)
    result = run(gateway, file, person, NEW.replace("return a - b", "return a - (b"))
    (refused,) = [event for event in person.told if isinstance(event, Refused)]
    assert "syntax" in refused.why
    assert "+    return a - (b" in refused.diff
    assert result.applied is overrule
    assert (file.read_text() == OLD) is not overrule


@pytest.mark.parametrize("severity", ["warning", "error"])
@pytest.mark.parametrize("reviews", [False, True])
def test_what_is_suspicious_is_offered_with_the_doubt_to_who_looks_at_each_hunk(
    gateway: RunningGateway,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    severity: Severity,
    reviews: bool,
) -> None:
    doubt = Finding("dropped", "It drops a call.", "Keep it.", severity, (1, 2))
    monkeypatch.setattr("vivace.edits.checks.problems", lambda *_, **__: [doubt])
    person = Somebody(reviews=reviews)
    result = run(gateway, file, person, NEW)
    offered = reviews and severity == "warning"
    assert result.applied is offered
    assert (result.status == "refused") is not offered
    assert person.doubts == ([doubt] if offered else [])


def test_where_the_place_is_not_clear_nothing_is_guessed(
    gateway: RunningGateway, file: Path
) -> None:
    file.write_text(LONG)
    person = Somebody()
    result = run(gateway, file, person, "def f1(x):\n    return 2\n")
    assert (result.status, result.applied) == ("refused", False)
    assert file.read_text() == LONG
    (refused,) = [event for event in person.told if isinstance(event, Refused)]
    assert "not clear which part" in refused.why
    assert "Asked" not in person.kinds()


class Chooser(Somebody):
    """Means one of the places that they are asked about, by its number; none: stops."""

    def __init__(self, number: int | None) -> None:
        super().__init__()
        self._number = number

    async def chooses(self, places: Sequence[Region]) -> Sequence[Region] | None:
        return [] if self._number is None else [places[self._number]]


def test_the_place_that_somebody_chooses_is_edited(gateway: RunningGateway, file: Path) -> None:
    file.write_text(LONG)
    person = Chooser(1)
    result = run(gateway, file, person, "def f1(x):\n    return x + b\n")
    asked = [event.plan.region.name for event in person.told if isinstance(event, Asked)]
    assert asked[0] == "f1"
    assert "unbound" in [each.code for each in result.edits[0].outcome.problems]


def test_a_sketch_says_which_place_is_meant(gateway: RunningGateway, file: Path) -> None:
    file.write_text(LONG)
    sketch = "def f31(x):\n    return -x\n"
    result = run(gateway, file, Somebody(), sketch, sketch)
    assert result.applied
    assert file.read_text() == LONG.replace("def f31(x):\n    return x\n", sketch)


def test_a_sketch_is_carried_out_where_somebody_wants_it(
    gateway: RunningGateway, file: Path
) -> None:
    file.write_text(LONG)
    person = Chooser(1)
    run(gateway, file, person, "def f1(x):\n    return -x\n", "# the opposite\n")
    asked = [event.plan.region.name for event in person.told if isinstance(event, Asked)]
    assert asked == ["f1"]


@pytest.mark.parametrize(
    ("person", "deep", "asked"),
    [
        (Somebody(), "big-70b", ["big-70b"]),
        (Somebody(), "small-1b", []),  # is as unsure as the first
        (Chooser(None), "big-70b", []),
        (Chooser(0), "big-70b", [MODEL]),
    ],
)
def test_where_nobody_knows_the_place_a_large_model_looks_for_it(
    file: Path, person: Somebody, deep: str, asked: list[str]
) -> None:
    file.write_text(LONG)
    blocks = "sums.py\n<<<<<<< SEARCH\ndef f7(x):\n=======\ndef f7(x, b):\n>>>>>>> REPLACE\n"
    engines = [
        {"name": model, "kind": "scripted", "model": model, "rate": 2000} for model in (MODEL, deep)
    ]

    async def edit() -> Result:
        workspace = Workspace(file.parent)
        async with open_connection(gateway.url, None) as connection:
            asker = Asker(connection, person, workspace, MODEL, deep=deep, patient=False)
            journal = Journal(workspace, file.parent.parent / "state")
            editing = Editing(asker, Journaled(journal), Settings())
            return await editing.run([open_target(workspace, str(file))], "use b in all functions")

    with RunningGateway(config=configuration(engines=engines)) as gateway:
        for engine in gateway.gateway.catalogue.engines:
            engine.play([Reply(then=(Say(blocks),))])  # type: ignore[attr-defined]
        result = asyncio.run(edit())
    assert [event.model for event in person.told if isinstance(event, Asked)] == asked
    assert ("def f7(x, b):" in file.read_text()) is result.applied is (asked == ["big-70b"])


def test_nothing_is_touched_where_nothing_is_to_be_applied(
    gateway: RunningGateway, file: Path
) -> None:
    result = run(gateway, file, Somebody(), NEW, apply=False)
    assert (result.status, result.applied) == ("done", False)
    assert result.edits[0].outcome.text == NEW
    assert file.read_text() == OLD


def test_a_check_that_fails_is_heard_and_the_edit_is_kept(
    gateway: RunningGateway, file: Path
) -> None:
    person = Somebody()
    result = run(gateway, file, person, NEW, check="echo the reason; exit 3")
    assert result.status == "check_failed"
    assert result.checked is not None
    assert result.checked.status == 3
    assert any(event == CheckSaid(b"the reason\n") for event in person.told)
    assert isinstance(person.told[-1], CheckFails)
    assert any(isinstance(event, Wrote) for event in person.told)
    assert file.read_text() == NEW


@pytest.mark.parametrize("leniency", [0.0, 4.0])
def test_how_far_the_old_code_is_believed_goes_with_what_is_foretold(
    gateway: RunningGateway, file: Path, monkeypatch: pytest.MonkeyPatch, leniency: float
) -> None:
    heard: list[Prediction | None] = []
    generate = gateway.engine.generate

    def overheard(work: Work) -> AsyncGenerator[Delta, None]:
        assert isinstance(work.prompt, Chat)
        heard.append(work.prompt.prediction)
        return generate(work)

    async def edit() -> None:
        workspace = Workspace(file.parent)
        async with open_connection(gateway.url, None) as connection:
            asker = Asker(connection, Somebody(), workspace, MODEL, leniency=leniency)
            await asker.edit(open_target(workspace, str(file)), "use b in all functions")

    monkeypatch.setattr(gateway.engine, "generate", overheard)
    gateway.engine.play([Reply(then=(Say(f"```python\n{NEW}```"),))])
    asyncio.run(edit())
    assert heard == [Prediction(f"```python\n{OLD}```", leniency=leniency)]


def test_what_is_said_after_the_code_is_not_waited_for(gateway: RunningGateway, file: Path) -> None:
    chatter = (Say(f"```python\n{NEW}```\nI changed both functions."), Stall(3600), Say(" Enjoy!"))
    result = run(gateway, file, Somebody(), [Reply(then=chatter)])
    assert result.applied
    assert file.read_text() == NEW
