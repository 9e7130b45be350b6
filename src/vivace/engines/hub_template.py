"""A tokenizer of the hub's library, as conversations need it: its chat template, its tokens.

Its calls may come from any thread, and long ones should come from another than the event loop's:
the tokenizer in Rust lets the others run while it works, if it is given a batch. A single text it
would encode with all of Python waiting.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from vivace.engines.token_chain import Messages
from vivace.engines.token_text import TokenText

__all__ = ["HubTemplate"]


class HubTemplate:
    def __init__(
        self,
        tokenizer: Any,
        *,
        chat_template: str | None = None,
        thoughts_as: str = "reasoning_content",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """``chat_template``: one instead of the tokenizer's own. ``thoughts_as``: what it calls the
        thoughts of a message. ``arguments`` are its own variables."""
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._thoughts_as = thoughts_as
        self._arguments = arguments or {}
        self._core = getattr(tokenizer, "backend_tokenizer", None)
        """The tokenizer in Rust, where there is one: what stands around it costs a quarter."""

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [self._with_thoughts(_with_objects(message)) for message in messages],
            tools=tools or None,
            tokenize=False,
            add_generation_prompt=opens,
            **self._arguments,
            **({"chat_template": self._chat_template} if self._chat_template else {}),
        )
        return text

    def told(self, arguments: Mapping[str, Any]) -> HubTemplate:
        return HubTemplate(
            self._tokenizer,
            chat_template=self._chat_template,
            thoughts_as=self._thoughts_as,
            arguments=arguments,
        )

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these, with the marks in it."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def _with_thoughts(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Templates call them by several names; vLLM's server gives two of them."""
        thoughts = message.get("reasoning_content")
        if not thoughts:
            return message
        if self._thoughts_as == "reasoning_content":
            return {**message, "reasoning": thoughts}
        if message["content"] and "tool_calls" in message:
            return message  # the template of gpt-oss refuses to have both before a call
        return {**message, self._thoughts_as: thoughts}

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """``special`` adds the marks that a text begins and ends with, where the model has any."""
        ids: list[int]
        if self._core is None:
            ids = self._tokenizer.encode(text, add_special_tokens=special)
        else:
            ids = self._core.encode_batch_fast([text], add_special_tokens=special)[0].ids
        return ids

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """A text that is tokenised part by part, behind the mark that texts begin with."""
        if self._core is None:
            each = [self.encode(part) for part in parts]
        else:
            coded = self._core.encode_batch_fast(parts, add_special_tokens=False)
            each = [part.ids for part in coded]
        return [*self.encode("", special=True), *itertools.chain.from_iterable(each)]

    def words_after(self, prompt: Sequence[int], *, special: bool) -> TokenText | None:
        """How the tokens of an answer to it are read; None without the tokenizer in Rust."""
        return TokenText(self._core, prompt, special=special) if self._core is not None else None

    def count(self, texts: Sequence[str]) -> int:
        """How many tokens all of these are."""
        if self._core is None:
            return sum(len(self.encode(text)) for text in texts)
        return sum(map(len, self._core.encode_batch_fast(texts, add_special_tokens=False)))


def _with_objects(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Templates write a call's arguments as JSON themselves; what is no JSON stays a string."""
    if "tool_calls" not in message:
        return message
    calls = []
    for call in message["tool_calls"]:
        with contextlib.suppress(ValueError):
            arguments = json.loads(call["function"]["arguments"] or "{}")
            call = {**call, "function": {**call["function"], "arguments": arguments}}
        calls.append(call)
    return {**message, "tool_calls": calls}
