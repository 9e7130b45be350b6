"""Which engines can go on from what another has said."""

from __future__ import annotations

from vivace.engines.base import Chat, Continues, Work
from vivace.engines.tool_forms import ToolForms
from vivace.protocol.requests import PlainFormat, Toolbox

__all__ = ["can_continue"]


def can_continue(how: Continues, work: Work) -> bool:
    """Whether an engine that continues like this can do this work.

    A grammar is followed from its first token: where an answer is held to a form, none of our
    engines can begin in the middle. Text alone does not say how a model wrote its calls.
    """
    said = work.said
    if said is None or not said.deltas:
        return True
    if how == "no" or _has_a_form(work):
        return False
    if how == "ids":
        return said.ids is not None
    return not _tools(work).declarations() and not said.calls


def _has_a_form(work: Work) -> bool:
    if not isinstance(work.prompt, Chat):
        return bool(work.prompt.starts_with)
    tools = _tools(work)
    forced = tools.mode == "required" and bool(tools.declarations())
    return forced or not isinstance(work.prompt.format, PlainFormat)


def _tools(work: Work) -> ToolForms:
    if not isinstance(work.prompt, Chat):
        return ToolForms(Toolbox())
    return ToolForms(work.prompt.toolbox, work.prompt.tool_choice)
