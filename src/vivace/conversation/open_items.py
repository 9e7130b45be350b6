"""Items in the making: what a client sees of one while its text grows.

::

    message, reasoning   added, part added, delta …, text done, part done, item done
    call                 added,             delta …, done,                 item done
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from hashlib import blake2b
from typing import TypedDict

from msgspec import UNSET, UnsetType

from vivace.conversation.deltas import CallOpened
from vivace.conversation.states import ItemKind
from vivace.protocol.events import (
    ContentPartAdded,
    ContentPartDone,
    CustomInputDelta,
    CustomInputDone,
    FunctionArgumentsDelta,
    FunctionArgumentsDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    ResponseEvent,
)
from vivace.protocol.items import (
    CustomToolCall,
    FunctionCall,
    Item,
    ItemStatus,
    Message,
    OutputText,
    Part,
    Reasoning,
    ReasoningText,
)

__all__ = [
    "Numbering",
    "OpenCustomCall",
    "OpenFunctionCall",
    "OpenItem",
    "OpenMessage",
    "OpenReasoning",
]


class _Stamp(TypedDict):
    sequence_number: int
    stream_id: str | UnsetType


class _Place(_Stamp):
    item_id: str
    output_index: int


_JUMP = 1_000_000


class Numbering:
    """Numbers the events of one response, and names its items: by nothing but their order."""

    __slots__ = ("_named", "_response_id", "next", "stream_id")

    def __init__(self, response_id: str, stream_id: str | UnsetType) -> None:
        self.next = 0
        self.stream_id = stream_id
        self._response_id = response_id
        self._named = 0

    def stamp(self) -> _Stamp:
        number = self.next
        self.next = number + 1
        return {"sequence_number": number, "stream_id": self.stream_id}

    def new_id(self, prefix: str) -> str:
        named = f"{self._response_id} {self._named}".encode()
        self._named += 1
        return f"{prefix}_{blake2b(named, digest_size=16).hexdigest()}"

    def jump(self) -> None:
        """Beyond all numbers and names that may have been given and were lost."""
        self.next = self._named = (self.next // _JUMP + 1) * _JUMP


class OpenItem(ABC):
    kind: ItemKind
    prefix: str
    delta: (
        type[OutputTextDelta]
        | type[ReasoningTextDelta]
        | type[FunctionArgumentsDelta]
        | type[CustomInputDelta]
    )

    def __init__(self, numbering: Numbering, index: int) -> None:
        self.id = numbering.new_id(self.prefix)
        self.index = index
        self.pieces: list[str] = []
        self.numbering = numbering

    def opened(self) -> list[ResponseEvent]:
        item = self.item("in_progress", "")
        return [OutputItemAdded(**self.numbering.stamp(), output_index=self.index, item=item)]

    def closed(self, status: ItemStatus) -> tuple[Item, list[ResponseEvent]]:
        text = "".join(self.pieces)
        item = self.item(status, text)
        events = self.done(text)
        events.append(OutputItemDone(**self.numbering.stamp(), output_index=self.index, item=item))
        return item, events

    def place(self) -> _Place:
        return {**self.numbering.stamp(), "item_id": self.id, "output_index": self.index}

    def grow(self, text: str) -> ResponseEvent:
        """Every token comes through here, so it is put together without a detour."""
        self.pieces.append(text)
        numbering = self.numbering
        number = numbering.next
        numbering.next = number + 1
        return self.delta(
            sequence_number=number,
            stream_id=numbering.stream_id,
            item_id=self.id,
            output_index=self.index,
            delta=text,
        )

    @abstractmethod
    def done(self, text: str) -> list[ResponseEvent]: ...

    @abstractmethod
    def item(self, status: ItemStatus, text: str) -> Item: ...


class _OpenText(OpenItem):
    """An item whose text stands in a content part of its own."""

    @abstractmethod
    def part(self, text: str) -> OutputText | ReasoningText: ...

    @abstractmethod
    def text_done(self, text: str) -> ResponseEvent: ...

    def opened(self) -> list[ResponseEvent]:
        return [*super().opened(), ContentPartAdded(**self.place(), part=self.part(""))]

    def done(self, text: str) -> list[ResponseEvent]:
        return [self.text_done(text), ContentPartDone(**self.place(), part=self.part(text))]

    def parts(self, status: ItemStatus, text: str) -> list[Part]:
        return [] if status == "in_progress" else [self.part(text)]


class OpenMessage(_OpenText):
    kind: ItemKind = "message"
    prefix = "msg"
    delta = OutputTextDelta

    def part(self, text: str) -> OutputText:
        return OutputText(text)

    def text_done(self, text: str) -> ResponseEvent:
        return OutputTextDone(**self.place(), text=text)

    def item(self, status: ItemStatus, text: str) -> Item:
        parts = self.parts(status, text)
        return Message(id=self.id, role="assistant", status=status, content=parts)


class OpenReasoning(_OpenText):
    kind: ItemKind = "reasoning"
    prefix = "rs"
    delta = ReasoningTextDelta

    def part(self, text: str) -> ReasoningText:
        return ReasoningText(text)

    def text_done(self, text: str) -> ResponseEvent:
        return ReasoningTextDone(**self.place(), text=text)

    def item(self, status: ItemStatus, text: str) -> Item:
        parts = self.parts(status, text)
        return Reasoning(id=self.id, summary=[], content=parts, status=status)


class _OpenCall(OpenItem):
    kind: ItemKind = "call"

    def __init__(self, numbering: Numbering, index: int, opening: CallOpened) -> None:
        super().__init__(numbering, index)
        self.call_id = opening.call_id or self.id.replace(self.prefix, "call", 1)
        self.name = opening.name
        self.namespace: str | UnsetType = opening.namespace or UNSET


class OpenFunctionCall(_OpenCall):
    prefix = "fc"
    delta = FunctionArgumentsDelta

    def done(self, text: str) -> list[ResponseEvent]:
        return [FunctionArgumentsDone(**self.place(), name=self.name, arguments=text)]

    def item(self, status: ItemStatus, text: str) -> Item:
        return FunctionCall(
            id=self.id,
            call_id=self.call_id,
            name=self.name,
            namespace=self.namespace,
            arguments=text,
            status=status,
        )


class OpenCustomCall(_OpenCall):
    prefix = "ctc"
    delta = CustomInputDelta

    def done(self, text: str) -> list[ResponseEvent]:
        return [CustomInputDone(**self.place(), input=text)]

    def item(self, status: ItemStatus, text: str) -> Item:
        return CustomToolCall(
            id=self.id,
            call_id=self.call_id,
            name=self.name,
            namespace=self.namespace,
            input=text,
            status=status,
        )
