"""One try and two, and answers that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench._edit_engine import Answers, Endpoint, Reply
from bench.edit_quality import counts, of, tried
from bench.edit_tasks import TASKS

from vivace.protocol.items import Item, Message

TASK = next(task for task in TASKS if task.id == "python-cache-boundary")
RENAME = next(task for task in TASKS if task.id == "python-cache-rename-method")
RIGHT = f"```python\n{TASK.edited(TASK.reference)}```"
HELLO = [Message(role="user", content="Hello")]


class Scripted(Endpoint):
    """Says these one after the other."""

    def __init__(self, *said: str) -> None:
        super().__init__("http://127.0.0.1:1", "a-0.5b")
        self.said = list(said)

    def ask(self, items: Sequence[Item], prediction: str, most: int) -> Reply:
        return Reply(self.said.pop(0), 1.0, 10, complete=True)


def outcomes(*said: str) -> list[str]:
    results = tried("rewrite", Answers(Scripted(*said), None), TASK)
    assert [result.tries for result in results] == [1, 2]
    return [result.outcome for result in results]


def test_a_second_try_counts_only_with_two() -> None:
    assert outcomes("no idea", RIGHT) == ["refused", "right"]


def test_what_was_applied_is_not_tried_again() -> None:
    assert outcomes(RIGHT) == ["right", "right"]
    damaged = RIGHT.replace("class Entry", "class Item")
    assert outcomes(damaged) == ["damage", "damage"]


def test_what_is_refused_twice_stays_refused() -> None:
    assert outcomes("no idea", "none still") == ["refused", "refused"]


def test_a_rename_asks_no_model() -> None:
    results = tried("vivace", Answers(Scripted(), None), RENAME)
    assert [(result.outcome, result.asked) for result in results] == [("right", 0), ("right", 0)]


def test_results_are_counted_by_way_and_tries() -> None:
    results = tried("rewrite", Answers(Scripted("no idea", RIGHT), None), TASK)
    assert counts(of(results, "rewrite", 1))["refused"] == 1
    assert counts(of(results, "rewrite", 2, "tuned on"))["right"] == 1
    assert not of(results, "rewrite", 2, "held out")
    assert not of(results, "vivace")


def test_an_answer_that_was_kept_is_not_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    first = Answers(Scripted("Hi."), path).ask(HELLO, "", 1)
    assert Answers(Scripted(), path).ask(HELLO, "", 1) == first
    assert Answers(Scripted("More."), path).ask(HELLO, "", 2).text == "More."
