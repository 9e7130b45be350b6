"""The codes of errors, as ``vivace explain`` explains them."""

from __future__ import annotations

from scripts.references.tables import page
from vivace.cli.explain import explanations

__all__ = ["text"]

_INTRODUCTION = """
An error of the server has a `code`, which programs go by and which stays what it is; its `message`
is for people, and changes. `vivace explain CODE` says here and at a terminal why it happens and
what to do.

Over HTTP the code is `error.code` of the body, over the WebSocket that of the `error` event; a
response that fails while it is written has it in `response.error.code`. Anthropic's API has types
instead of codes: there it is only in the server's log. With `retry-after`, in a header or in
`error.headers`, the same request may go through after so many seconds.
"""


def text() -> str:
    found = explanations()
    sections = (
        f"## {code}\n\n{each.cause}\n\n**What to do:** {each.cure}" for code, each in found.items()
    )
    return page("Errors", _INTRODUCTION, *sections)
