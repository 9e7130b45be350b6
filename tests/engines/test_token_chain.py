"""Chains of tokens: what templates allow, and that a chain is what a whole rendering would be."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.support.counting import instructions
from vivace.engines.base import Chat
from vivace.engines.messages import chat_messages
from vivace.engines.thinking import Marks
from vivace.engines.token_chain import (
    ChainBook,
    Growth,
    Messages,
    Prompt,
    Template,
    classify,
    end_of_thoughts,
)
from vivace.engines.tool_forms import ToolForms
from vivace.protocol.items import (
    CustomTool,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Item,
    Message,
    Reasoning,
    ReasoningText,
    Role,
    Tool,
    ToolCall,
)
from vivace.protocol.requests import Toolbox

START, END = "<|im_start|>", "<|im_end|>"
_SPECIAL = re.compile(f"({re.escape(START)}|{re.escape(END)})")
_THINKING = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


# -- templates ------------------------------------------------------------------------------------


class ChatML:
    """Every message stands alone; one token for every character, and one for each mark."""

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        head = f"{START}tools\n{json.dumps(tools)}{END}\n" if tools else ""
        return head + "".join(self.turns(messages)) + (f"{START}assistant\n" if opens else "")

    def told(self, arguments: Mapping[str, Any]) -> Template:
        return self

    def turns(self, messages: Messages) -> Iterator[str]:
        for message in messages:
            yield f"{START}{message['role']}\n{self.body(message)}{END}\n"

    def body(self, message: Mapping[str, Any]) -> str:
        calls = (call["function"] for call in message.get("tool_calls", ()))
        made = (f"<call>{call['name']} {call['arguments']}</call>" for call in calls)
        return "".join([message["content"], *made])

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in _SPECIAL.split(text):
            special = piece in (START, END)
            ids += [1 + (piece == END)] if special else [3 + ord(letter) for letter in piece]
        return ids


def last_user(messages: Messages) -> int:
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return users[-1] if users else -1


class DropsThinking(ChatML):
    """What was thought before the user's last message is left out."""

    def turns(self, messages: Messages) -> Iterator[str]:
        last = last_user(messages)
        for place, message in enumerate(messages):
            said = message["content"]
            if message["role"] == "assistant" and place < last:
                said = _THINKING.sub("", said)
            yield from super().turns([{**message, "content": said}])


class DropsThinkingAndMarksTheLast(DropsThinking):
    """As Qwen3: besides, a last message without thoughts gets empty ones."""

    def turns(self, messages: Messages) -> Iterator[str]:
        *_, final = messages
        if final["role"] == "assistant" and "</think>" not in final["content"]:
            final = {**final, "content": "<think>\n\n</think>\n\n" + final["content"]}
        yield from super().turns([*messages[:-1], final])


class MovesTools(ChatML):
    """As Mistral's: tools stand before the last thing the user said."""

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        turns = [*self.turns(messages)]
        if tools:
            turns.insert(last_user(messages), f"{START}tools\n{json.dumps(tools)}{END}\n")
        return "".join(turns) + (f"{START}assistant\n" if opens else "")


class RewritesEarlierTurns(ChatML):
    """As gpt-oss: an answer ends in another way once something follows."""

    def turns(self, messages: Messages) -> Iterator[str]:
        *earlier, final = super().turns(messages)
        yield from (turn.replace(END, "<|return|>") for turn in earlier)
        yield final


class MergesSystemMessages(ChatML):
    def turns(self, messages: Messages) -> Iterator[str]:
        system = [each["content"] for each in messages if each["role"] == "system"]
        yield f"{START}system\n{' '.join(system)}{END}\n"
        yield from super().turns([each for each in messages if each["role"] != "system"])


class KnowsNoTools(ChatML):
    def turns(self, messages: Messages) -> Iterator[str]:
        if any(message["role"] == "tool" for message in messages):
            raise ValueError("Conversation roles must alternate user/assistant/user/assistant/...")
        return super().turns(messages)


class RemindsOfTools(ChatML):
    """What is added depends on whether there are tools."""

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        text = super().render(messages, tools, opens=opens)
        return text.replace(f"{START}user\n", f"{START}user\n(tools!) ") if tools else text


class JoinsTokens(ChatML):
    """The end of a turn and the beginning of the next are one token."""

    def encode(self, text: str) -> list[int]:
        return super().encode(text.replace(f"{END}\n{START}", "\0"))


class NumbersItsTurns(ChatML):
    """As ChatGLM's ``[Round 3]``: what is added depends on how much came before."""

    def turns(self, messages: Messages) -> Iterator[str]:
        for place, turn in enumerate(super().turns(messages)):
            yield f"[{place}] {turn}"


@pytest.mark.parametrize(
    ("template", "growth"),
    [
        (ChatML(), "append_only"),
        (DropsThinking(), "within_tool_turns"),
        (DropsThinkingAndMarksTheLast(), "within_tool_turns"),
        (MovesTools(), "unstable"),
        (RewritesEarlierTurns(), "unstable"),
        (MergesSystemMessages(), "unstable"),
        (KnowsNoTools(), "unstable"),
        (RemindsOfTools(), "unstable"),
        (JoinsTokens(), "unstable"),
        (NumbersItsTurns(), "unstable"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ChatML) else value,
)
def test_a_template_is_known_by_what_it_does(template: Template, growth: Growth) -> None:
    assert classify(template) == growth


# -- conversations --------------------------------------------------------------------------------

READ = FunctionTool("read", "Reads.", {"type": "object", "properties": {"path": {}}})
PATCH = CustomTool("apply_patch")
QUERY = CustomTool("query", "Asks.")
TOOLS: tuple[Tool, ...] = (READ, PATCH, QUERY)
_ids = count()


def said(text: str, role: Role = "user") -> Message:
    return Message(id=f"msg_{next(_ids)}", role=role, content=text)


def answered(call: ToolCall, output: str) -> Item:
    kind = FunctionCallOutput if isinstance(call, FunctionCall) else CustomToolCallOutput
    return kind(id=f"out_{next(_ids)}", call_id=call.call_id, output=output)


def read(path: str) -> FunctionCall:
    place = next(_ids)
    arguments = json.dumps({"path": path})
    return FunctionCall(id=f"fc_{place}", call_id=f"c_{place}", name="read", arguments=arguments)


def query(text: str) -> CustomToolCall:
    place = next(_ids)
    return CustomToolCall(id=f"ctc_{place}", call_id=f"c_{place}", name="query", input=text)


class Talk:
    """A conversation as the gateway leads it, and the model's words as the template writes them."""

    def __init__(
        self, template: ChatML | None = None, *, owner: str = "me", book: ChainBook | None = None
    ) -> None:
        self.template = template or ChatML()
        self.book = book or ChainBook(self.template, classify(self.template))
        self.owner = owner
        self.items: list[Item] = []
        self.parent: str | None = None
        self.instructions: str | None = "Be brief."
        self.toolbox = Toolbox(TOOLS)
        self.prompt = Prompt([], "", 0, None)

    def _chat(self, *more: Item) -> Chat:
        items = [*self.items, *more]
        return Chat(items=items, instructions=self.instructions, toolbox=self.toolbox)

    @property
    def forms(self) -> ToolForms:
        return ToolForms(self.toolbox)

    def ask(self, *new: Item) -> Prompt:
        self.items += new
        self.prompt = self.book.prompt(self._chat(), self.forms, self.parent, self.owner)
        return self.prompt

    def whole(self) -> list[int]:
        """What the same question is when it is rendered from its beginning."""
        anew = ChainBook(self.template, "unstable")
        return anew.prompt(self._chat(), self.forms, None, self.owner).ids

    def hear(self, *output: Item, ended: bool = True, kept: Sequence[Item] | None = None) -> None:
        """The model answers; ``kept`` is what the gateway keeps of it, where that is less."""
        tools = self.forms.declarations()
        before = chat_messages(self._chat(), self.forms)
        after = chat_messages(self._chat(*output), self.forms)
        opened = self.template.render(before, tools, opens=True)
        text = self.template.render(after, tools, opens=False)
        assert text.startswith(opened)
        words = text[len(opened) :].removesuffix("\n")
        generated = self.template.encode(words if ended else words.removesuffix(END))
        self.parent = f"resp_{next(_ids)}"
        self.book.keep(self.parent, self.prompt, generated, len(output))
        self.items += output if kept is None else kept


def begun(template: ChatML | None = None) -> Talk:
    talk = Talk(template)
    talk.ask(said("hello"))
    talk.hear(said("hi", "assistant"))
    return talk


# -- a chain is what a whole rendering would be ---------------------------------------------------


class Exchange(Struct, frozen=True):
    asked: list[tuple[Role, str]]
    text: str
    calls: list[tuple[str, str]]
    answers: bool
    """Whether the calls of the answer before are answered."""
    ended: bool


texts = st.text(max_size=12)
words = st.text(min_size=1, max_size=12)
asking = st.lists(st.tuples(st.sampled_from(["user", "developer"]), texts), max_size=3)
called = st.tuples(st.sampled_from(["read", "query"]), texts)
calling = st.lists(called, max_size=2)
thinking = st.builds("<think>{}</think>{}".format, texts, words)
exchanges = st.one_of(
    st.builds(Exchange, asking, words | thinking, calling, st.booleans(), st.just(True)),
    st.builds(Exchange, asking, words | thinking, st.just([]), st.booleans(), st.just(False)),
    st.builds(
        Exchange,
        asking,
        st.just(""),
        st.lists(called, min_size=1, max_size=2),
        st.booleans(),
        st.just(True),
    ),
)


@pytest.mark.parametrize(
    "template",
    [ChatML(), DropsThinking(), MergesSystemMessages()],
    ids=lambda each: type(each).__name__,
)
@given(st.lists(exchanges, min_size=2, max_size=6))
def test_chained_tokens_are_those_of_the_whole_conversation(
    template: ChatML, turns: list[Exchange]
) -> None:
    talk = Talk(template)
    open_calls: list[ToolCall] = []
    for turn in turns:
        outputs = [answered(call, "done") for call in open_calls] if turn.answers else []
        new = [*outputs, *(said(text, role) for role, text in turn.asked)] or [said("go on")]
        prompt = talk.ask(*new)
        assert prompt.ids == talk.whole()
        by_tools = len(outputs) == len(new)
        may_grow = {"append_only": True, "within_tool_turns": by_tools, "unstable": False}
        assert prompt.continued == (talk.parent is not None and may_grow[talk.book.growth])
        open_calls = [read(text) if name == "read" else query(text) for name, text in turn.calls]
        message = [said(turn.text, "assistant")] if turn.text else []
        talk.hear(*message, *open_calls, ended=turn.ended)


def test_a_chain_keeps_what_the_model_really_said() -> None:
    # The same text in other tokens, as models write it: rendering anew would lose the cache.
    talk = Talk()
    first = talk.ask(said("hello"))
    own = [900, 901, 902, *talk.template.encode(END)]
    talk.book.keep("resp", first, own, 1)
    talk.parent, talk.items = "resp", [*talk.items, said("hi", "assistant")]
    prompt = talk.ask(said("and?"))
    assert prompt.continued
    assert prompt.ids[: len(first.ids) + len(own)] == [*first.ids, *own]


def test_an_answer_may_be_continued_twice() -> None:
    talk = begun()
    items, parent = list(talk.items), talk.parent
    for question in ("one way", "or another", "or a third"):
        talk.items, talk.parent = list(items), parent
        assert talk.ask(said(question)).continued
        assert talk.prompt.ids == talk.whole()
        talk.hear(said("well", "assistant"))


def test_an_answer_without_a_word_leaves_no_empty_turn_behind() -> None:
    # A warm-up, or a turn that was aborted before its first token.
    talk = Talk()
    talk.ask(said("hello"))
    talk.parent = "resp_warm"
    talk.book.keep(talk.parent, talk.prompt, [], 0)
    assert talk.ask(said("really, hello")).ids == talk.whole()


def test_a_warm_up_of_the_instructions_alone_leaves_no_empty_turn_behind() -> None:
    talk = Talk()
    talk.ask()
    talk.parent = "resp_warm"
    talk.book.keep(talk.parent, talk.prompt, [], 0)
    assert talk.ask(said("hello")).ids == talk.whole()


# -- when everything is rendered anew -------------------------------------------------------------


def test_the_first_turn_is_rendered_whole() -> None:
    talk = Talk()
    assert not talk.ask(said("hello")).continued
    assert talk.prompt.ids == talk.whole()


def _other_instructions(talk: Talk) -> None:
    talk.instructions = "Be verbose."


def _other_tools(talk: Talk) -> None:
    talk.toolbox = Toolbox((READ,))


def _other_owner(talk: Talk) -> None:
    talk.owner = "someone else"


def _unknown_parent(talk: Talk) -> None:
    talk.parent = "resp_unknown"


def _no_parent(talk: Talk) -> None:
    talk.parent = None


def _past_dropped(talk: Talk) -> None:
    del talk.items[0]


def _all_past_dropped(talk: Talk) -> None:
    talk.items.clear()


def _past_changed(talk: Talk) -> None:
    talk.items[0] = said("a summary")


def _spoken_for(talk: Talk) -> None:
    talk.items.append(said("words put into its mouth", "assistant"))


@pytest.mark.parametrize(
    "change",
    [
        _other_instructions,
        _other_tools,
        _other_owner,
        _unknown_parent,
        _no_parent,
        _past_dropped,
        _all_past_dropped,
        _past_changed,
        _spoken_for,
    ],
)
def test_a_conversation_that_changed_is_rendered_whole(change: Any) -> None:
    talk = begun()
    change(talk)
    assert not talk.ask(said("and?")).continued
    assert talk.prompt.ids == talk.whole()
    talk.hear(said("well", "assistant"))
    assert talk.ask(said("go on")).continued, "and from there the chain goes on"
    assert talk.prompt.ids == talk.whole()


def test_nothing_new_is_rendered_whole() -> None:
    talk = begun()
    assert not talk.ask().continued
    assert talk.prompt.ids == talk.whole()


def test_an_item_that_was_dropped_when_interrupted_costs_no_new_one() -> None:
    # The gateway keeps nothing of an interrupted message; the engine cannot know.
    talk = Talk()
    talk.ask(said("hello"))
    talk.hear(said("I was about to s", "assistant"), ended=False, kept=())
    assert talk.ask(said("Mind the tests.", "developer"), said("stop that")).ids == talk.whole()


def test_an_interrupted_call_costs_no_new_item() -> None:
    talk = Talk()
    talk.ask(said("hello"))
    text, call = said("I look.", "assistant"), read("a.py")
    talk.hear(text, call, query("half a que"), ended=False, kept=[text, call])
    assert talk.ask(answered(call, "x = 1"), said("go on")).ids == talk.whole()


def test_an_answer_that_was_dropped_before_a_standing_message_costs_no_new_one() -> None:
    # Truncation drops the oldest words but no standing instruction.
    talk = Talk()
    talk.ask(said("Mind the tests.", "developer"))
    talk.hear(said("Very well. " * 5, "assistant"), kept=())
    assert talk.ask(said("one"), said("two")).ids == talk.whole()


def test_words_that_were_dropped_before_a_call_cost_no_output() -> None:
    # Truncation keeps a call whose output has just come, but not what was said beside it.
    talk = Talk()
    talk.ask(said("Mind the tests.", "developer"))
    call = read("a.py")
    talk.hear(said("I look.", "assistant"), call, kept=[call])
    assert talk.ask(answered(call, "x = 1"), said("go on")).ids == talk.whole()


def test_thinking_is_kept_within_tool_turns_only() -> None:
    talk = Talk(DropsThinking())
    talk.ask(said("hello"))
    call = read("a.py")
    talk.hear(said("<think>hm</think>I look.", "assistant"), call)
    assert talk.ask(answered(call, "x = 1")).continued
    talk.hear(said("<think>ah</think>It is 1.", "assistant"))
    assert not talk.ask(said("thanks")).continued
    assert talk.prompt.ids == talk.whole()


def test_an_unstable_template_keeps_no_chains() -> None:
    talk = begun(MovesTools())
    assert not talk.ask(said("and?")).continued
    assert not talk.book._chains


# -- what it costs --------------------------------------------------------------------------------


def test_only_so_many_tokens_are_remembered_and_the_oldest_go_first() -> None:
    book = ChainBook(ChatML(), "append_only", capacity=10_000)
    for number in range(100):
        book.keep(f"resp_{number}", Prompt([7] * 900, "", 0, None), [7] * 98, 1)
    assert sum(len(chain.ids) for chain in book._chains.values()) <= 10_000
    assert list(book._chains) == [f"resp_{number}" for number in range(90, 100)]


def test_a_chain_in_use_outlives_those_that_are_not() -> None:
    talk = begun()
    talk.book._capacity = 10_000
    items, parent = list(talk.items), talk.parent
    for number in range(100):
        talk.items, talk.parent = list(items), parent
        assert talk.ask(said("again")).continued
        talk.book.keep(f"resp_{number}", Prompt([7] * 900, "", 0, None), [7] * 98, 1)


def test_one_chain_longer_than_the_bound_is_still_remembered() -> None:
    talk = begun()
    talk.book._capacity = 10
    talk.ask(said("and?"))
    talk.hear(said("well", "assistant"))
    assert list(talk.book._chains) == [talk.parent]
    assert talk.ask(said("go on")).continued


def test_a_response_that_is_kept_again_counts_once() -> None:
    book = ChainBook(ChatML(), "append_only", capacity=10_000)
    for _ in range(100):
        book.keep("resp", Prompt([7] * 900, "", 0, None), [7] * 98, 1)
    book.keep("resp_other", Prompt([7] * 900, "", 0, None), [7] * 98, 1)
    assert list(book._chains) == ["resp", "resp_other"]


def test_a_remembered_token_takes_few_bytes() -> None:
    book = ChainBook(ChatML(), "append_only", at_hand=0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(10):
            ids = list(range(1000, 51_000))
            book.keep(f"resp_{number}", Prompt(ids, "", 0, None), [], 1)
            del ids
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 500_000 < 6


def test_only_so_many_tokens_are_at_hand_and_those_of_a_continued_answer_go_first() -> None:
    book = ChainBook(ChatML(), "append_only", at_hand=2_000)
    for number in range(10):
        book.keep(f"resp_{number}", Prompt([7] * 900, "", 0, None), [7], 1)
    assert list(book._at_hand) == ["resp_8", "resp_9"]
    chat = Chat(items=[said("well", "assistant"), said("and?")])
    key = book.begin(chat, ToolForms(Toolbox()), None, "").key
    book.keep("resp_8", Prompt([7] * 900, key, 0, None), [7], 1)
    assert book.prompt(chat, ToolForms(Toolbox()), "resp_8", "").ids[:901] == [7] * 901
    assert list(book._at_hand) == ["resp_9"]


def test_what_is_no_longer_remembered_is_not_at_hand() -> None:
    book = ChainBook(ChatML(), "append_only", capacity=1_000)
    book.keep("resp_1", Prompt([7] * 900, "", 0, None), [7], 1)
    book.keep("resp_2", Prompt([7] * 900, "", 0, None), [7], 1)
    assert list(book._at_hand) == list(book._chains) == ["resp_2"]


def test_continuing_a_hundred_thousand_tokens_costs_what_it_does_for_a_few_thousand() -> None:
    def cost(messages: int) -> tuple[int, int, int]:
        talk = Talk()
        call = read("a.py")
        talk.ask(*(said("word " * 49) for _ in range(messages)))
        talk.hear(said("I look.", "assistant"), call)
        talk.items.append(answered(call, "x = 1\n" * 170))
        assert talk.parent is not None
        length = len(talk.book._chains[talk.parent].ids)
        chat, prompts = talk._chat(), []

        def go_on() -> None:
            prompts.append(talk.book.prompt(chat, talk.forms, talk.parent, talk.owner))

        going_on = instructions(go_on)
        [prompt] = prompts
        assert prompt.continued
        assert prompt.ids == talk.whole()
        kept = replace(prompt)
        keeping = instructions(lambda: talk.book.keep("resp_next", kept, [7] * 100, 1))
        return length, going_on, keeping

    few, *cheap = cost(20)
    many, *dear = cost(400)
    assert many > 100_000 > 10 * few
    assert dear == pytest.approx(cheap, rel=0.02)


# -- templates that want a user -------------------------------------------------------------------


class WantsAUser(ChatML):
    """As Qwen 3.5's: without a question of the user's it gives up."""

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        if last_user(messages) < 0:
            raise ValueError("No user query found in messages.")
        return super().render(messages, tools, opens=opens)


def test_a_conversation_in_which_no_user_has_spoken_is_padded_at_its_end() -> None:
    book = ChainBook(WantsAUser(), "append_only")
    told = Message(id="m1", role="developer", content="You are a coding agent.")
    asked = Message(id="m2", role="user", content="Hello")
    forms = ToolForms(Toolbox((FunctionTool("f"),)))
    warm = book.prompt(Chat(items=[told]), forms, None, "ada").ids
    turn = book.prompt(Chat(items=[told, asked]), forms, None, "ada").ids
    pairs = enumerate(zip(warm, turn, strict=False))
    shared = next(place for place, (one, two) in pairs if one != two)
    words = ChatML().encode(f"You are a coding agent.{END}\n{START}user\n")
    assert warm[shared - len(words) : shared] == words  # all that was told is read before the turn


def test_another_complaint_of_a_template_is_passed_on() -> None:
    class Broken(ChatML):
        def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
            raise ValueError("broken")

    book = ChainBook(Broken(), "unstable")
    with pytest.raises(ValueError, match="broken"):
        book.prompt(Chat(items=[Message(role="user", content="x")]), ToolForms(Toolbox()), None, "")


# -- thinking -------------------------------------------------------------------------------------


class Thinks(ChatML):
    """As Qwen3.5: told by a variable; thoughts are kept until the user speaks again."""

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        self.arguments = arguments or {}

    def told(self, arguments: Mapping[str, Any]) -> Template:
        return Thinks(arguments)

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        thinks = self.arguments.get("enable_thinking", True)
        opening = "<think>\n" if thinks else "<think>\n\n</think>\n\n"
        return super().render(messages, tools, opens=opens) + (opening if opens else "")

    def turns(self, messages: Messages) -> Iterator[str]:
        last = last_user(messages)
        for place, message in enumerate(messages):
            text, thoughts = message["content"], message.get("reasoning_content", "")
            if "</think>" in text:
                thoughts, text = (part.strip() for part in text.split("</think>"))
                thoughts = thoughts.removeprefix("<think>").strip()
            if message["role"] == "assistant" and place > last:
                text = f"<think>\n{thoughts}\n</think>\n\n{text}"
            yield from super().turns([{**message, "content": text}])


def thought(text: str) -> Reasoning:
    return Reasoning(id=f"rs_{next(_ids)}", content=[ReasoningText(text)])


def test_the_template_is_told_how_much_to_think() -> None:
    book = ChainBook(Thinks(), "within_tool_turns")
    for effort, end in (
        (None, "<think>\n"),
        ("high", "<think>\n"),
        ("none", "<think>\n\n</think>\n\n"),
    ):
        chat = Chat(items=[said("hello")], effort=effort)
        ids = book.prompt(chat, ToolForms(Toolbox()), None, "me").ids
        assert ids[-len(end) :] == Thinks().encode(end)


def test_thoughts_between_tool_calls_are_the_same_chained_and_rendered_anew() -> None:
    template = Thinks()
    assert classify(template) == "within_tool_turns"
    book, forms = ChainBook(template, "within_tool_turns"), ToolForms(Toolbox(TOOLS))
    call = read("a.py")
    asked = [said("hello")]
    first = book.prompt(Chat(items=asked, toolbox=Toolbox(TOOLS)), forms, None, "me")
    made = f"<call>read {call.arguments}</call>"
    book.keep("resp", first, template.encode(f"Look.\n</think>\n\n{made}{END}"), 2)
    after = Chat(
        items=[*asked, thought("Look."), call, answered(call, "done")], toolbox=Toolbox(TOOLS)
    )
    chained = book.prompt(after, forms, "resp", "me")
    assert chained.continued
    anew = ChainBook(template, "unstable").prompt(after, forms, None, "me")
    assert chained.ids == anew.ids
    assert _text(chained.ids).count("Look.") == 1


def _text(ids: Sequence[int]) -> str:
    return "".join(chr(each - 3) if each > 2 else "|" for each in ids)


def test_another_effort_begins_another_chain() -> None:
    talk = begun(Thinks())
    chat = Chat(items=[*talk.items, said("and?")], effort="none", instructions=talk.instructions)
    assert not talk.book.prompt(chat, ToolForms(Toolbox()), talk.parent, "me").continued


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (Thinks(), "\n</think>\n\n"),
        (ChatML(), "\n</think>\n\n"),
        (KnowsNoTools(), "\n</think>\n\n"),
    ],
    ids=["as it writes it", "that writes none", "that fails"],
)
def test_thoughts_are_closed_as_the_template_does(template: Template, end: str) -> None:
    assert end_of_thoughts(template, Marks()) == end


def test_a_template_that_closes_thoughts_in_its_own_way_is_followed() -> None:
    class Terse(ChatML):
        def body(self, message: Mapping[str, Any]) -> str:
            thoughts = message.get("reasoning_content")
            return (f"<think>{thoughts}</think>" if thoughts else "") + super().body(message)

    assert end_of_thoughts(Terse(), Marks()) == "</think>"
