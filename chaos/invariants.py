"""What must hold of every history, whatever clients did. The one place that says so.

Each invariant is a pure function from what a history tells to what is wrong with it. The numbers
are names for talking about them:

- **I0 answered**: whatever a client says is answered exactly once, and never by a fault of ours.
- **I1 kept**: a response that was to be kept and was not deleted can be had when all is calm, and
  has ended; one that was deleted can neither be had nor continued.
- **I2 one end**: every response ends once, and everybody who sees the end sees the same one.
- **I3 one text**: a response's numbers go up by one; a number means one event, whoever reads it;
  deltas joined are the text that is told at the end, and that is the output.
- **I5 steers**: an accepted steer is applied by exactly one response or handed back exactly once,
  never both; one that was refused is applied by none.
- **I6 order**: on a lane one response runs at a time, and a successor follows the steered one.
- **I7 context**: an engine is shown the conversation: all of it, in order, once, and nothing else.
- **I8 no ghosts**: when all is calm, nothing runs, waits or holds a slot.
- **I9 limits**: in any t seconds a key gets at most limit · (1 + t/60) requests through.
- **I10 owners**: nobody sees, continues, stops or deletes what belongs to another key.

I4, of idempotency keys, waits until there are some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from chaos.contexts import Contexts, items_of, recital, word_of, words_of
from chaos.history import Called, Entry, Event, Saw, Sent
from chaos.story import ENDED, Life, Story
from chaos.texts import told_again, told_as_it_grew

__all__ = ["INVARIANTS", "Violation", "check"]

_MINUTE = 60.0
_SLACK = 1.0
"""Of a limit: what rounding may let through."""


class Violation(Struct, frozen=True):
    invariant: str
    what: str
    about: tuple[str, ...] = ()
    """Names of responses, steers and streams: an excerpt is what mentions them."""


Found = Iterator[tuple[str, tuple[str, ...]]]
"""What is wrong, and whom it is about."""


def check(history: Sequence[Entry]) -> list[Violation]:
    story = Story(history)
    return [
        Violation(name, what, about)
        for name, invariant in INVARIANTS.items()
        for what, about in invariant(story)
    ]


# -- I0 -------------------------------------------------------------------------------------------


def answered(story: Story) -> Found:
    for call in story.calls:
        if call.status is not None and call.status >= 500:
            yield f"{call.method} {call.path} answered {call.status}: {call.answer}", (call.path,)
    for life in story.lives.values():
        error = (life.end or {}).get("error") or {}
        if error.get("code") == "server_error" and "script says" not in error["message"]:
            yield f"{life.id} failed by a fault of ours: {error}", (life.id,)
    for client, said in _said(story).items():
        if story.stayed(client) and said["sent"] != said["answered"]:
            yield (
                f"{client} said {said['sent']} things and got {said['answered']} answers",
                (client,),
            )


def _said(story: Story) -> dict[str, Counter[str]]:
    """How many things each socket said, and how many answers it got to those."""
    of_http = Counter(
        (call.answer["type"], call.answer.get("response_id") or call.answer["steer"]["id"])
        for call in story.calls
        if call.status == 200 and call.path.endswith(("/steer", "/interrupt"))
    )
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in story.history:
        if isinstance(entry, Sent):
            said[entry.client]["sent"] += 1
        elif isinstance(entry, Saw) and entry.client not in story.replays:
            receipt = _receipt_of(entry.event)
            if receipt in of_http:
                of_http[receipt] -= 1
                of_http += Counter()
            elif _answers(story, entry.event):
                said[entry.client]["answered"] += 1
    return said


def _receipt_of(event: Event) -> tuple[str, str]:
    return event["type"], event.get("response_id") or (event.get("steer") or {}).get("id", "")


def _answers(story: Story, event: Event) -> bool:
    match event["type"]:
        case "error" | "response.interrupt.accepted" | "response.steer.accepted":
            return True
        case "response.created":
            return not story.lives[event["response"]["id"]].succeeds
        case "response.steer.failed":
            refused = "id" not in event["steer"]
            return refused and story.steers[event["steer"]["input"]].client is not None
    return False


# -- I1 to I3 -------------------------------------------------------------------------------------


def kept(story: Story) -> Found:
    deleted = _deletions(story)
    for life in story.lives.values():
        gone = deleted.get(life.id)
        if gone is None:
            yield from _still_there(story, life)
        elif gone.end is not None:
            yield from _really_gone(story, life, gone.end)


def _deletions(story: Story) -> dict[str, Called]:
    return {
        call.path.rpartition("/")[2]: call
        for call in story.calls
        if call.method == "DELETE" and call.status in (200, None)
    }


def _still_there(story: Story, life: Life) -> Found:
    if not life.stored or story.calm is None:
        return
    for call in story.asked("GET", life.id):
        if call.owner != life.owner or call.begin < story.calm.at or call.status is None:
            continue
        if call.status != 200:
            yield f"{life.id} was to be kept, and GET answers {call.status}", (life.id,)
        elif call.answer["status"] not in ENDED:
            yield f"{life.id} is {call.answer['status']} though all is calm", (life.id,)


def _really_gone(story: Story, life: Life, since: float) -> Found:
    for call in story.asked("GET", life.id):
        if call.begin > since and call.status == 200:
            yield f"{life.id} was deleted and is still there", (life.id,)
    for child in story.lives.values():
        asked = story.creates.get(child.tag or "")
        if child.parent == life.id and not child.succeeds and asked and asked[0] > since:
            yield f"{life.id} was deleted and {child.id} continues it", (life.id, child.id)


def one_end(story: Story) -> Found:
    for life in story.lives.values():
        if life.end is None and story.stayed(life.client) and story.calm is not None:
            yield f"{life.id} never ended for {life.client}", (life.id,)
    for name, ends in story.ends.items():
        first = ends[0].response
        for other in ends[1:]:
            for field in ("status", "output", "usage"):
                if other.response[field] != first[field]:
                    yield f"{name} ended in two ways: another {field} was seen later", (name,)
        for call in story.asked("GET", name):
            late = call.begin > min(end.at for end in ends) and call.status == 200
            if late and call.answer["status"] not in ENDED:
                yield f"{name} had ended, and GET says {call.answer['status']}", (name,)


def one_text(story: Story) -> Found:
    for life in story.lives.values():
        numbers = [event["sequence_number"] for event in life.events]
        if numbers != list(range(len(numbers))):
            wrong = next(i for i, number in enumerate(numbers) if i != number)
            yield f"{life.id}: event {wrong} has number {numbers[wrong]}", (life.id,)
        yield from told_as_it_grew(life)
    for client, seen in story.replays.items():
        yield from told_again(story.lives.get(story.joined[client].replays or ""), client, seen)


# -- I5 to I7 -------------------------------------------------------------------------------------


def steers(story: Story) -> Found:
    contexts = Contexts(story)
    applied = contexts.applied()
    for receipt in story.receipts.values():
        if receipt.accepted > 1 or receipt.returned > 1:
            times = f"accepted {receipt.accepted} times, handed back {receipt.returned} times"
            yield f"steer {receipt.id} was {times}", (receipt.id,)
    for text, steer in story.steers.items():
        fates = applied[text] + steer.returned + steer.refused
        if fates > 1:
            fate = f"applied {applied[text]} times, handed back {steer.returned + steer.refused}"
            yield f"steer {text!r} was {fate}", (text, steer.target)
    yield from _lost(story, contexts, applied)


def _lost(story: Story, contexts: Contexts, applied: Counter[str]) -> Found:
    """Steers that were taken and never heard of again. Some wait for outputs that never came:
    receipts say how many of a response, not which."""
    unclear = {story.lives[name].client for name, words in contexts.inputs.items() if words is None}
    lost: dict[tuple[str, str], list[str]] = defaultdict(list)
    for text, steer in story.steers.items():
        told = steer.client or (steer.receipt and _stream_of(story, steer.receipt))
        open_ = not (applied[text] or steer.returned or steer.refused)
        if told and open_ and story.stayed(told) and told not in unclear:
            lost[told, steer.target].append(text)
    for (client, target), texts in lost.items():
        waiting = [r for r in story.receipts.values() if (r.client, r.target) == (client, target)]
        if len(texts) > sum(r.pending > r.returned for r in waiting):
            yield f"{client}: steers of {target} are lost: {', '.join(texts)}", (*texts, target)


def _stream_of(story: Story, receipt: str) -> str | None:
    known = story.receipts.get(receipt)
    return known.client if known else None


def order(story: Story) -> Found:
    for name, what in story.disorder:
        yield f"{name or 'an event'}: {what}", (name,) if name else ()
    for life in story.lives.values():
        if life.succeeds and life.before is not None and life.parent != life.before.id:
            yield f"{life.id} succeeds {life.before.id} and follows {life.parent}", (life.id,)
        if life.succeeds and life.before is not None and life.before.end is None:
            yield f"{life.id} began before {life.before.id} ended", (life.id, life.before.id)


def context(story: Story) -> Found:
    contexts = Contexts(story)
    told = {word_of("user", text) for text in story.steers}
    for life in story.lives.values():
        past, own = contexts.past_of(life), contexts.inputs[life.id]
        shown, whole = recital(life)
        if past is None or own is None:
            continue
        expected = (*past, *own)
        if shown != (expected if whole else expected[: len(shown)]):
            yield f"{life.id} was shown {shown}, and the conversation is {expected}", (life.id,)
        asked = () if life.succeeds else _asked_for(story, life)
        if asked is None:
            continue
        steered, rest = own[: len(own) - len(asked)], own[len(own) - len(asked) :]
        if rest != asked or not told.issuperset(steered):
            yield f"{life.id} has the input {own}, and was asked {asked}", (life.id,)


def _asked_for(story: Story, life: Life) -> tuple[str, ...] | None:
    asked = story.creates.get(life.tag or "")
    return words_of(items_of(asked[1].get("input"))) if asked else None


# -- I8 to I10 ------------------------------------------------------------------------------------


def no_ghosts(story: Story) -> Found:
    for name, value in story.calm.figures.items() if story.calm else ():
        if value:
            yield f"{name} is {value:g} though all is calm", ()


def limits(story: Story) -> Found:
    """A turn is charged between its request and its ``created``: those whose both lie in a span
    of time were all charged in it."""
    passed: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for life in story.lives.values():
        asked = story.creates.get(life.tag or "")
        if asked and asked[1].get("model") in story.started.limits and not life.succeeds:
            passed[life.owner, asked[1]["model"]].append((asked[0], life.at))
    for (owner, model), spans in passed.items():
        limit = story.started.limits[model]
        for begin, _ in spans:
            inside = sorted(end for start, end in spans if start >= begin)
            for count, end in enumerate(inside, 1):
                if count > limit * (1 + (end - begin) / _MINUTE) + _SLACK:
                    seconds = f"{end - begin:.1f} seconds"
                    yield f"{owner} got {count} turns of {model} through in {seconds}", (owner,)
                    return


def owners(story: Story) -> Found:
    for life in story.lives.values():
        parent = story.lives.get(life.parent or "")
        if parent is not None and parent.owner != life.owner:
            yield f"{life.owner} continued {parent.id} of {parent.owner}", (life.id, parent.id)
    for call in story.calls:
        for name in call.path.split("/"):
            whose = story.lives[name].owner if name in story.lives else call.owner
            if whose != call.owner and call.status not in (404, None):
                what = f"{call.method} {call.path} and got {call.status}"
                yield f"{call.owner} said {what}, of {whose}", (name,)
    for entry in story.history:
        if isinstance(entry, Saw) and (name := _named(entry.event)) in story.lives:
            owner = story.joined[entry.client].owner
            if story.lives[name].owner != owner:
                yield f"{owner} saw {entry.event['type']} of {name}", (name,)


def _named(event: Event) -> str:
    return (event.get("response") or {}).get("id") or event.get("response_id") or ""


INVARIANTS: dict[str, Callable[[Story], Found]] = {
    "I0 answered": answered,
    "I1 kept": kept,
    "I2 one end": one_end,
    "I3 one text": one_text,
    "I5 steers": steers,
    "I6 order": order,
    "I7 context": context,
    "I8 no ghosts": no_ghosts,
    "I9 limits": limits,
    "I10 owners": owners,
}
