"""I5: an accepted steer is applied by exactly one response, or handed back exactly once."""

from __future__ import annotations

from collections import Counter, defaultdict

from chaos.contexts import Contexts
from chaos.invariants.found import Found
from chaos.story import Story

__all__ = ["steers"]

_APPLIED, _RETURNED = "applied", "returned"
_OPEN = frozenset({"accepted"})


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
    if "turns" in story.tables:
        yield from _lost_on_record(story, applied)
    else:
        yield from _lost(story, contexts, applied)
    yield from _orders(story)


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


def _lost_on_record(story: Story, applied: Counter[str]) -> Found:
    """Where the inputs of all kept responses are known, also those of clients that were cut off
    are accounted for. One whose acceptance nobody saw may have been lost on its way."""
    sent: dict[tuple[str, str], list[str]] = defaultdict(list)
    for text, steer in story.steers.items():
        if _is_kept(story, steer.target) and not steer.refused:
            sent[steer.client or "", steer.target].append(text)
    for (client, target), texts in sent.items():
        gone = [t for t in texts if not applied[t] and not story.steers[t].returned]
        receipts = [
            receipt
            for receipt in story.receipts.values()
            if receipt.target == target and (receipt.client == client or not client)
        ]
        accepted = sum(r.accepted > 0 for r in receipts) if client else _by_http(story, texts)
        waiting = sum(r.pending > r.returned for r in receipts)
        doubtful = len(texts) - min(len(texts), accepted)
        if len(gone) > waiting + doubtful + _accounted(story, target):
            yield (
                f"steers of {target} were accepted and are lost: {', '.join(gone)}",
                (
                    *gone,
                    target,
                ),
            )


def _by_http(story: Story, texts: list[str]) -> int:
    return sum(story.steers[text].receipt is not None for text in texts)


def _is_kept(story: Story, target: str) -> bool:
    life = story.lives.get(target)
    return life is not None and life.stored and target not in story.deletions


def _accounted(story: Story, target: str) -> int:
    """Steers of it that the record says were handed back or wait for outputs, or that went with a
    successor that was deleted."""
    table = story.tables.get("orders")
    states = [row["state"] for row in table.rows if row["turn_id"] == target] if table else []
    heirs = [life for life in story.lives.values() if life.parent == target]
    return sum(state in (_RETURNED, "pending") for state in states) + sum(
        heir.id in story.deletions for heir in heirs
    )


def _orders(story: Story) -> Found:
    table = story.tables.get("orders")
    for row in table.rows if table else ():
        name, target = row["id"], row["turn_id"]
        receipt = story.receipts.get(name)
        if row["state"] in _OPEN and row.get("kind", "steer") == "steer":
            yield f"steer {name} of {target} is open though all is calm", (name, target)
        if row["state"] == _APPLIED and receipt is not None and receipt.returned:
            yield f"steer {name} was handed back, and is on record as applied", (name, target)
        heir = row.get("applied_by")
        if row["state"] == _APPLIED and heir not in story.rows.keys() | story.deletions.keys():
            yield f"steer {name} was applied by {heir}, which is not on record", (name, target)
