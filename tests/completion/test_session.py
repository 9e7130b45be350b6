"""One document while somebody types in it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from vivace.completion.neighbours import Neighbour
from vivace.completion.room import Room
from vivace.completion.session import Ask, Decision, Nothing, Session, Show, Wait
from vivace.completion.windows import Window

DOCUMENT = "def add(a, b):\n|\n\n\nprint(add(1, 2))\n"


class Typist:
    """Types into a document and asks the session at each key."""

    def __init__(self, document: str = DOCUMENT, path: str = "a.py") -> None:
        self.before, _, self.after = document.partition("|")
        self.session = Session(path, Room(4_000))
        self.now = 0.0
        self.follow = False

    def type(self, text: str, closers: str = "") -> Decision:
        self.before += text
        self.after = closers + self.after
        return self.ask()

    def ask(self, pause: float = 0.2) -> Decision:
        self.now += pause
        return self.session.at(self.before + self.after, len(self.before), self.now)

    def look_ahead(self, pause: float) -> Ask | float | None:
        self.now += pause
        text, offset = self.before + self.after, len(self.before)
        return self.session.ahead(text, offset, self.now, follow=self.follow)

    def follow_up(self) -> Ask:
        """What is asked while the suggestion is read."""
        self.follow = True
        asked = self.look_ahead(1.0)
        assert isinstance(asked, Ask)
        assert asked.background
        return asked

    def answer(self, asked: Decision | float | None, text: str) -> Decision:
        assert isinstance(asked, Ask)
        for sign in text:
            if self.session.heard(asked.number, sign):
                break
        self.session.ended(asked.number)
        return self.ask(0.0)


def test_typing_through_a_suggestion_asks_nothing() -> None:
    typist = Typist()
    assert typist.answer(typist.ask(), "    return a + b\n\n\nx") == Show("    return a + b", 0)
    for sign, rest in [("    ", "return a + b"), ("r", "eturn a + b"), ("eturn a", " + b")]:
        assert typist.type(sign) == Show(rest, 0)


def test_what_is_taken_back_is_answered_from_memory() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    return a + b\n\n")
    typist.type("    ret")
    typist.before = typist.before.removesuffix("et")
    assert typist.ask() == Show("eturn a + b", 0)


def test_inside_a_word_the_running_answer_is_waited_for() -> None:
    typist = Typist()
    typist.ask()
    asked = typist.type("    return so")
    assert isinstance(asked, Wait)
    asked = typist.answer(Ask(asked.number, (), Window("", ""), "", ""), "    total = a\n\n")
    assert isinstance(asked, Ask)
    assert (asked.typed, asked.starts_with) == ("    return", "")
    assert typist.type("r") == Wait(asked.number)
    assert typist.answer(asked, " sorted([a, b])\n\n") == Show("ted([a, b])", 0)


def test_what_is_typed_goes_behind_the_gap_and_the_window_stays() -> None:
    typist = Typist()
    first = typist.ask()
    second = typist.type("    total = a + b\n    return")
    assert isinstance(first, Ask)
    assert isinstance(second, Ask)
    assert first.window == second.window
    assert second.typed == "    total = a + b\n"


def test_an_answer_with_another_beginning_is_asked_for_again_with_this_one() -> None:
    typist = Typist()
    asked = typist.answer(typist.type("    x"), "    return a + b\n\n")
    assert isinstance(asked, Ask)
    assert asked.starts_with == "    x"
    assert typist.answer(asked, "    x = a + b\n\n") == Show(" = a + b", 0)


def test_a_model_that_has_nothing_to_say_is_not_asked_at_every_key() -> None:
    typist = Typist()
    assert isinstance(typist.answer(typist.type("    x"), ""), Nothing)
    assert isinstance(typist.type("y"), Nothing)


def test_an_engine_that_cannot_be_made_to_begin_so_is_not_asked_again() -> None:
    typist = Typist()
    asked = typist.answer(typist.type("    x"), "    return a + b\n\n")
    assert isinstance(typist.answer(asked, "    return a + b\n\n"), Nothing)
    assert isinstance(typist.type("y"), Nothing)


def test_brackets_of_the_editor_are_covered_by_what_closes_them() -> None:
    typist = Typist("x = 1\n|\ny = 2\n")
    asked = typist.ask()
    assert isinstance(typist.type("print(", ")"), Wait)
    assert typist.answer(asked, "print(x)\n") == Show("x)", 1)


def test_a_bracket_that_stands_there_is_not_closed_again_by_what_the_model_opens_itself() -> None:
    typist = Typist("def f(l):\n    return [|]\n")
    asked = typist.type("e")
    assert isinstance(asked, Ask)
    assert not asked.typed.endswith("[e"), "the model is to write it"
    assert typist.answer(asked, "[el for el in l]\n") == Show("l for el in l", 0)


def test_an_answer_that_failed_is_asked_for_again() -> None:
    typist = Typist()
    asked = typist.ask()
    assert isinstance(asked, Ask)
    typist.session.ended(asked.number, failed=True)
    again = typist.ask()
    assert isinstance(again, Ask)
    assert again.starts_with == ""


def test_after_a_pause_and_elsewhere_the_gap_is_anchored_anew() -> None:
    typist = Typist()
    typist.ask()
    typist.type("    total = a + b\n")
    later = typist.ask(60.0)
    assert isinstance(later, Ask)
    assert later.typed == ""
    assert later.window.prefix.endswith("total = a + b\n")


def test_the_gap_that_was_read_ahead_is_the_one_that_is_asked_about_however_late() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    return a + b\n\n")
    typist.answer(typist.type("    total = a\n    "), "    return total\n\n")
    assert isinstance(typist.look_ahead(1.0), float), "somebody may go on typing"
    ahead = typist.look_ahead(10.0)
    assert isinstance(ahead, Ask)
    assert not ahead.generate
    assert ahead.window.prefix.endswith("    total = a\n")
    assert typist.look_ahead(60.0) is None
    typist.now += 60.0
    asked = typist.type("x =")
    assert isinstance(asked, Ask)
    assert (asked.window, asked.typed) == (ahead.window, "    x")


def test_nothing_is_read_ahead_while_somebody_waits_for_an_answer() -> None:
    typist = Typist()
    asked = typist.ask()
    assert typist.look_ahead(60.0) is None
    typist.answer(asked, "    return a + b\n\n")
    typist.before = "x = 1\n" + typist.before
    assert isinstance(typist.look_ahead(0.0), Ask)


def test_a_line_that_ends_where_it_is_typed_to_is_not_asked_about_again() -> None:
    typist = Typist()
    assert isinstance(typist.answer(typist.type("    return a"), " a\n\n"), Nothing)


# -- what follows a suggestion --------------------------------------------------------------------


def test_what_follows_a_suggestion_stands_when_it_is_taken() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    if a:\n\n")
    asked = typist.follow_up()
    assert asked.typed == "    if a"
    typist.answer(asked, ":\n        return b\n    return a\n")
    assert typist.type("    if a:") == Show("\n        return b", 0)


def test_where_a_suggestion_ends_its_line_the_next_lines_stand_when_one_is_begun() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    c = a + b\n\n")
    typist.answer(typist.follow_up(), " b\n    d = c\n    return d\n\n\nprint")
    assert isinstance(typist.type("    c = a + b"), Nothing), "there is no more for this line"
    assert typist.type("\n    ") == Show("d = c\n    return d", 0)


def test_a_suggestion_is_followed_once_and_only_when_it_is_being_read() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    return a + b\n\n")
    typist.follow = True
    assert isinstance(typist.look_ahead(0.1), float)
    typist.type("    ret")
    assert isinstance(typist.look_ahead(0.25), float), "the key began the wait anew"
    asked = typist.look_ahead(0.25)
    assert isinstance(asked, Ask)
    for seconds in (0.5, 1.0, 2.0):
        assert not isinstance(typist.look_ahead(seconds), Ask)
    typist.answer(asked, " c\n\n")
    assert not isinstance(typist.look_ahead(1.0), Ask)


def test_what_follows_is_kept_while_the_suggestion_is_typed_and_dropped_when_it_is_not() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    return a + b\n\n")
    asked = typist.follow_up()
    typist.type("    return")
    assert typist.session.is_following(asked.number)
    assert isinstance(typist.type(" x"), Ask)
    assert not typist.session.is_following(asked.number)
    assert typist.session.heard(asked.number, "late")


def test_who_takes_a_suggestion_waits_for_what_follows_if_it_is_being_written() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    if a:\n\n")
    asked = typist.follow_up()
    typist.session.heard(asked.number, ":\n        ret")
    assert typist.type("    if a:") == Wait(asked.number)
    assert typist.answer(asked, "urn b\n    return a\n") == Show("\n        return b", 0)


def test_who_takes_a_suggestion_does_not_wait_for_what_nobody_has_begun() -> None:
    typist = Typist()
    typist.answer(typist.ask(), "    if a:\n\n")
    follows = typist.follow_up()
    asked = typist.type("    if a:")
    assert isinstance(asked, Ask)
    assert not asked.background
    assert (asked.typed, asked.starts_with) == (follows.typed, "")
    assert not typist.session.is_following(follows.number)


def test_other_files_change_only_with_the_anchor() -> None:
    typist = Typist()
    typist.session.neighbours = [Neighbour("new.py", "x = 1\n"), Neighbour("old.py", "y = 2\n")]
    first = typist.ask()
    typist.session.neighbours = [Neighbour("newer.py", "z = 3\n")]
    second = typist.type("    total = a + b\n    return")
    later = typist.ask(60.0)
    assert isinstance(first, Ask)
    assert isinstance(second, Ask)
    assert isinstance(later, Ask)
    assert [each.path for each in first.files] == ["old.py", "new.py"]
    assert second.files == first.files
    assert [each.path for each in later.files] == ["newer.py"]


def _writes(before: str, starts_with: str) -> str:
    """What a model would write here: always the same, and not always what is wanted."""
    size = len(before)
    return starts_with + "ab( c)\n d"[size % 7 :] + "e\n"[: size % 3]


class Typing(RuleBasedStateMachine):
    """Keys, answers, failures, jumps, pauses and looks ahead in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.offset = "ab\n\nc = f(a)\n", 3
        self.session = Session("notes.txt", Room(40))
        self.now = 0.0
        self.asked: dict[int, tuple[str, str, str]] = {}
        self.running: Ask | None = None
        self.decision: Decision = Nothing()
        self.read: Window | None = None
        """What the engine read last."""
        self.read_here: Window | None = None
        """The same, if it was ahead and no key came since."""
        self.following: Ask | None = None

    def key(self, *, here: bool = False) -> None:
        self.now += 0.1
        ahead, self.read_here = self.read_here, None
        self.decision = self.session.at(self.text, self.offset, self.now)
        if isinstance(self.decision, Ask):
            self.running = self.decision
            assert not here or ahead in (None, self.decision.window)
            self.ask(self.decision)
        following = self.following
        if following is not None and self.decision == Wait(following.number):
            self.running, self.following = following, None

    def ask(self, ask: Ask) -> None:
        self.read = ask.window
        told = self.text[: self.offset]
        written = _writes(ask.window.prefix + ask.typed, ask.starts_with)
        self.asked[ask.number] = (told, self.text[self.offset :], written)

    @rule(text=st.sampled_from(["a", "b", "(", " ", "\n", "ab", "c)", "."]))
    def types(self, text: str) -> None:
        self.text = self.text[: self.offset] + text + self.text[self.offset :]
        self.offset += len(text)
        self.key(here=True)

    @rule(opener=st.sampled_from(["()", "[]", "''"]))
    def types_a_pair(self, opener: str) -> None:
        self.text = self.text[: self.offset] + opener + self.text[self.offset :]
        self.offset += 1
        self.key(here=True)

    @rule()
    def takes_back(self) -> None:
        if self.offset:
            self.text = self.text[: self.offset - 1] + self.text[self.offset :]
            self.offset -= 1
        self.key()

    @rule(place=st.integers(0, 40))
    def goes_elsewhere(self, place: int) -> None:
        self.offset = min(place, len(self.text))
        self.key()

    @rule()
    def waits(self) -> None:
        self.now += 20.0

    @rule(elsewhere=st.none() | st.integers(0, 40), follow=st.booleans())
    def looks_ahead(self, elsewhere: int | None, follow: bool) -> None:
        if elsewhere is not None and min(elsewhere, len(self.text)) != self.offset:
            self.offset, self.read_here = min(elsewhere, len(self.text)), None
            if isinstance(self.decision, Show):
                self.decision = Nothing()  # it is there no more
        self.now += 0.3
        found = self.session.ahead(self.text, self.offset, self.now, follow=follow)
        if isinstance(self.decision, Ask | Wait) and self.running is not None:
            assert found is None, "whoever waits for an answer goes before"
        if isinstance(found, float):
            assert found > 0
        if not isinstance(found, Ask):
            return
        again = self.session.ahead(self.text, self.offset, self.now, follow=follow)
        assert not isinstance(again, Ask)
        if found.background:
            assert isinstance(self.decision, Show)
            self.following = found
            self.ask(found)
        else:
            assert found.window != self.read
            self.read = self.read_here = found.window

    @precondition(lambda self: self.following is not None)
    @rule(count=st.integers(0, 12), ends=st.booleans(), failed=st.booleans())
    def what_follows_is_written(self, count: int, ends: bool, failed: bool) -> None:
        assert self.following is not None
        number = self.following.number
        for sign in self.asked[number][2][:count]:
            if self.session.heard(number, sign):
                break
        if ends:
            self.session.ended(number, failed=failed)
            self.following = None

    @precondition(lambda self: self.running is not None)
    @rule(count=st.integers(0, 12), failed=st.booleans())
    def answers(self, count: int, failed: bool) -> None:
        assert self.running is not None
        number = self.running.number
        for sign in self.asked[number][2][:count]:
            if self.session.heard(number, sign):
                break
        self.session.ended(number, failed=failed)
        self.running = None
        self.key()

    @precondition(lambda self: isinstance(self.decision, Show))
    @rule()
    def accepts(self) -> None:
        shown = self.decision
        assert isinstance(shown, Show)
        before, after = self.text[: self.offset], self.text[self.offset + shown.covers :]
        self.text = before + shown.text + after
        self.offset = len(before) + len(shown.text)
        self.key()

    @invariant()
    def what_is_shown_is_the_rest_of_an_answer_for_this_very_text(self) -> None:
        if not isinstance(self.decision, Show):
            return
        assert self.decision.text
        assert self.text.startswith((")", "]", "'"), self.offset) or not self.decision.covers
        before = self.text[: self.offset]
        answers = (written for _, _, written in self.asked.values())
        assert any(self._goes_on(written, before) for written in answers)

    def _goes_on(self, written: str, before: str) -> bool:
        assert isinstance(self.decision, Show)
        ends = range(len(written) - len(self.decision.text) + 1)
        return any(
            written[at:].startswith(self.decision.text) and before.endswith(written[:at])
            for at in ends
        )

    @invariant()
    def who_waits_waits_for_what_runs(self) -> None:
        if isinstance(self.decision, Wait):
            assert self.running is not None
            assert self.decision.number == self.running.number


TestTyping = Typing.TestCase
TestTyping.settings = settings(max_examples=examples(300), stateful_step_count=30)
