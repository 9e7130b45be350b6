"""Broken beats unknown beats held, and nothing that proves little passes for proof."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from chaos.history import Called, Calm, Entry, Joined, Left, Recorder, Saw, Struck, load
from chaos.invariants.found import Found
from chaos.story import Story
from chaos.verdict import Verdict, Word, judge, keep, worst

from tests.chaos.telling import Telling, as_it_should_be


def crash(story: Story) -> Found:
    yield f"what is not there: {story.lives['resp_unknown']}", ()


def complain(_: Story) -> Found:
    yield "something is wrong", ("resp_1",)


def agree(_: Story) -> Found:
    yield from ()


def test_what_holds_everywhere_holds() -> None:
    verdict = judge(as_it_should_be())
    assert (verdict.word, verdict.violations, verdict.doubts) == (Word.HOLDS, [], [])


def test_a_checker_that_crashes_leaves_it_unknown_and_says_so() -> None:
    verdict = judge(as_it_should_be(), {"I5": crash, "I6": agree})
    assert verdict.word is Word.UNKNOWN
    assert "I5" in verdict.doubts[0]


def test_what_is_broken_stays_broken_though_a_checker_crashed() -> None:
    verdict = judge(as_it_should_be(), {"I5": crash, "I6": complain})
    assert verdict.word is Word.BROKEN
    assert [violation.invariant for violation in verdict.violations] == ["I6"]
    assert verdict.doubts


def test_a_history_that_makes_no_sense_is_unknown() -> None:
    stray = Saw(1, "nobody", {"type": "response.created", "sequence_number": 0, "response": {}})
    assert judge([stray]).word is Word.UNKNOWN


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ([], Word.UNKNOWN),
        ([Word.HOLDS, Word.HOLDS], Word.HOLDS),
        ([Word.HOLDS, Word.UNKNOWN], Word.UNKNOWN),
        ([Word.BROKEN, Word.UNKNOWN, Word.HOLDS], Word.BROKEN),
    ],
)
def test_the_worst_of_several_counts(words: list[Word], word: Word) -> None:
    assert worst(words) is word


# -- too thin -------------------------------------------------------------------------------------


def struck(begin: float, end: float | None, target: str = "gateway") -> list[Entry]:
    """A turn that lasts from 0.02 to 0.07, of a client that stays."""
    tell = Telling()
    tell.note(Joined, "a", "alice")
    tell.create("a", "t1", "First")
    tell.turn("a", "resp_1", "t1", "First")
    tell.history.append(Struck(begin, end, "kill", target))
    tell.history.append(Joined(1, "idle", "alice"))
    tell.history.append(Calm(2, {}))
    answer = next(
        entry.event["response"] for entry in reversed(tell.history) if isinstance(entry, Saw)
    )
    path = "/v1/responses/resp_1"
    tell.history.append(Called(3, 4, "alice", "GET", path, None, 200, answer))
    return tell.history


def test_a_fault_that_hit_an_open_turn_counts() -> None:
    verdict = judge(struck(0.04, 0.05))
    assert verdict.word is Word.HOLDS
    assert verdict.hit == {"kill of gateway": ["resp_1"]}


@pytest.mark.parametrize("begin", [0.005, 0.5], ids=["before it", "after it"])
def test_a_fault_that_hit_no_open_turn_proves_nothing(begin: float) -> None:
    verdict = judge(struck(begin, 0.6))
    assert verdict.word is Word.UNKNOWN
    assert verdict.doubts == ["kill of gateway hit no open turn"]


def test_a_fault_of_a_stream_counts_if_that_stream_had_a_turn() -> None:
    assert judge(struck(0.04, 0.05, "a")).word is Word.HOLDS
    assert judge(struck(0.04, 0.05, "idle")).word is Word.UNKNOWN


def test_a_passing_turn_whose_end_nobody_saw_is_no_riddle() -> None:
    history = struck(0.04, 0.05)
    created = next(entry for entry in history if isinstance(entry, Saw))
    created.event["response"]["store"] = False
    end = history.index(next(entry for entry in history if isinstance(entry, Struck)))
    cut = [*history[: end - 2], Left(0.045, "a", "closed"), *history[end:-1]]
    verdict = judge(cut)
    assert (verdict.word, verdict.doubts) == (Word.HOLDS, [])


def test_a_fault_that_was_not_healed_proves_nothing() -> None:
    assert judge(struck(0.04, None)).word is Word.UNKNOWN


def test_what_nobody_could_look_at_proves_nothing() -> None:
    history = struck(0.04, 0.05)
    unanswered = Called(3, None, "alice", "GET", "/v1/responses/resp_1")
    assert judge([*history[:-1], unanswered]).word is Word.UNKNOWN
    assert judge(history[:-2]).doubts == ["it never became calm"]


# -- what is saved --------------------------------------------------------------------------------


def test_a_verdict_is_kept_with_its_history(tmp_path: Path) -> None:
    history = struck(0.04, 0.05)
    verdict = judge(history, {"I6": complain})
    path = keep(tmp_path / "run", history, verdict)
    assert load(path) == history
    saved = (tmp_path / "run" / "verdict.json").read_bytes()
    assert msgspec.json.decode(saved, type=Verdict) == verdict


def test_a_recorder_that_is_killed_leaves_all_but_its_last_word(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    for entry in struck(0.04, 0.05):
        recorder(entry)
    recorder.close()
    data = recorder.path.read_bytes()
    recorder.path.write_bytes(data[:-5])
    assert load(recorder.path) == recorder.history[:-1]
