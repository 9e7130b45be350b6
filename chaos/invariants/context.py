"""I7: an engine is shown the conversation, all of it, in order, once; and goes on where it was."""

from __future__ import annotations

from collections import Counter

from chaos.contexts import Contexts, items_of, recital, word_of, words_of
from chaos.invariants.found import Found
from chaos.invariants.texts import gapless
from chaos.lives import Life
from chaos.marks import broken_off
from chaos.story import Story

__all__ = ["context"]


def context(story: Story) -> Found:
    contexts = Contexts(story)
    told = {word_of("user", text) for text in story.steers}
    for life in story.lives.values():
        if (where := broken_off(_text(story, life)[0])) is not None:
            yield f"{life.id}: {where}", (life.id,)
        past, own = contexts.past_of(life), contexts.inputs[life.id]
        if past is None or own is None:
            continue
        shown, whole = recital(life)
        expected = (*past, *own)
        if shown != (expected if whole else expected[: len(shown)]):
            yield f"{life.id} was shown {shown}, and the conversation is {expected}", (life.id,)
        asked = () if life.succeeds else _asked_for(story, life)
        if asked is None:
            continue
        steered, rest = own[: len(own) - len(asked)], own[len(own) - len(asked) :]
        if rest != asked or not told.issuperset(steered):
            yield f"{life.id} has the input {own}, and was asked {asked}", (life.id,)
    yield from _told_by_engines(story, contexts)


def _asked_for(story: Story, life: Life) -> tuple[str, ...] | None:
    asked = story.creates.get(life.tag or "")
    return words_of(items_of(asked.body.get("input"))) if asked else None


def _text(story: Story, life: Life) -> tuple[str, bool]:
    """What it said, as far as that is known without a gap, and whether that is all of it."""
    ends = [life.end] if life.end is not None else [e.response for e in story.ends.get(life.id, ())]
    for end in ends[:1]:
        parts = (
            part.get("text", "")
            for item in end["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
        return "".join(parts), True
    if life.jumped or not gapless(life.events):
        return "", False
    texts = (e["delta"] for e in life.events if e["type"] == "response.output_text.delta")
    return "".join(texts), False


def _told_by_engines(story: Story, contexts: Contexts) -> Found:
    anew: Counter[str] = Counter()
    for work in story.work:
        if work.what == "began" and not work.said:
            anew[work.response] = max(anew[work.response], work.attempt)
    for work in story.work:
        life = story.lives.get(work.response)
        if life is None or work.what != "began":
            continue
        past, own = contexts.past_of(life), contexts.inputs[life.id]
        if past is not None and own is not None and work.shown != (*past, *own):
            what = f"{life.id} was shown {work.shown} on attempt {work.attempt}"
            yield f"{what}, and the conversation is {(*past, *own)}", (life.id,)
        if work.attempt < anew[life.id]:  # what it said was lost, and it ran again
            continue
        text, whole = _text(story, life)
        more = not whole and work.said.startswith(text)  # than anybody has seen
        if text and not text.startswith(work.said) and not more:
            what = f"{life.id} went on from words that were never said"
            yield f"{what} (attempt {work.attempt})", (life.id,)
