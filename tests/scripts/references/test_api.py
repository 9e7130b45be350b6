"""docs/reference/api.md: every field is listed, and is what it is said to be when it is sent."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anthropic.types.beta.message_create_params as beta_messages
import anthropic.types.message_create_params as messages
import openai.types.chat.completion_create_params as chat
import openai.types.completion_create_params as completions
import openai.types.responses.response_create_params as responses
import pytest
from httpx import Response
from msgspec import UNSET
from msgspec.structs import replace

from scripts.references.api import READ, Field, apis
from tests.support.server import RunningGateway
from vivace.conversation.deltas import Delta
from vivace.engines.base import Tally, Work

APIS = apis()
CLIENTS: dict[str, tuple[type, ...]] = {
    "responses": (responses.ResponseCreateParamsBase,),
    "chat": (chat.CompletionCreateParamsBase,),
    "completions": (completions.CompletionCreateParamsBase,),
    "messages": (messages.MessageCreateParamsBase, beta_messages.MessageCreateParamsBase),
}
"""What the makers' own clients can send."""
FIELDS = [(name, field) for name, api in APIS.items() for field in api.fields]
TRIED = [(name, field) for name, field in FIELDS if APIS[name].fields[field].value is not UNSET]
ROOT = Path(__file__).parents[3]


def sent_by_clients(name: str) -> set[str]:
    return {"stream", *(field for kind in CLIENTS[name] for field in kind.__annotations__)}


# -- all are listed -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", APIS)
def test_every_field_that_is_read_or_can_be_sent_is_listed(name: str) -> None:
    listed = set(APIS[name].fields)
    assert set(READ[name].__struct_fields__) <= listed
    assert sent_by_clients(name) <= listed


@pytest.mark.parametrize("name", APIS)
def test_what_is_ours_no_client_of_the_maker_sends(name: str) -> None:
    ours = {field for field, each in APIS[name].fields.items() if each.ours}
    assert not ours & sent_by_clients(name)
    assert ours <= set(READ[name].__struct_fields__)


@pytest.mark.parametrize("name", APIS)
def test_what_is_not_read_is_said_to_be_ignored(name: str) -> None:
    unread = set(APIS[name].fields) - set(READ[name].__struct_fields__)
    assert {APIS[name].fields[field].treatment for field in unread} == {"ignored"}


@pytest.mark.parametrize(("name", "field"), [each for each in FIELDS if each not in TRIED])
def test_what_a_request_alone_cannot_show_is_shown_by_a_test(name: str, field: str) -> None:
    seen_in = APIS[name].fields[field].seen_in
    assert seen_in is not UNSET
    assert field in (ROOT / seen_in).read_text("utf-8")


# -- each is tried --------------------------------------------------------------------------------


class Asked:
    """A gateway, and what its engine was asked."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._http = gateway.http
        self._works: list[Work] = []
        generate = gateway.engine.generate

        def noted(work: Work) -> AsyncGenerator[Delta, None]:
            self._works.append(work)
            return generate(work)

        gateway.engine.generate = noted  # type: ignore[method-assign]

    def send(self, name: str, body: dict[str, Any]) -> tuple[Response, str]:
        """The answer, and what the engine was asked, without what differs each time."""
        self._works.clear()
        answer = self._http.post(APIS[name].path, json=body)
        works = repr([replace(work, id="", tally=Tally(), on_record=None) for work in self._works])
        return answer, _EACH_TIME.sub("", works)


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with RunningGateway() as gateway:
        yield Asked(gateway)


_EACH_TIME = re.compile(
    r'"(?:\w*_at|created)":\d+|\b(?:resp|msg|chatcmpl|cmpl|req)[-_]\w+|"cached_tokens":\d+'
    r'|"cache_\w+":\d+|"input_tokens":\d+'
)


def same(answer: Response, beside: str = "") -> str:
    """What was answered beside that field, without what differs each time."""
    said = answer.text
    if beside and said.startswith("{"):
        said = json.dumps({**json.loads(said), beside: None}, separators=(",", ":"))
    return _EACH_TIME.sub("", said)


def requests(name: str, field: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One without the field and one with it."""
    entry: Field = APIS[name].fields[field]
    without = APIS[name].base | entry.beside
    given = {key: value for key, value in without.items() if key not in entry.without}
    return without, given | {field: entry.value}


@pytest.mark.parametrize(("name", "field"), TRIED)
def test_a_field_is_what_it_is_said_to_be(asked: Asked, name: str, field: str) -> None:
    without, with_it = requests(name, field)
    usual, work = asked.send(name, without)
    answer, its_work = asked.send(name, with_it)
    assert usual.status_code == 200, usual.text
    match APIS[name].fields[field].treatment:
        case "refused":
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == field
        case "ignored":
            assert (same(answer), its_work) == (same(usual), work)
        case "echoed":
            assert its_work == work
            assert answer.json()[field] == with_it[field] != usual.json()[field]
        case "honoured":
            assert answer.status_code == 200, answer.text
            assert its_work != work or same(answer, field) != same(usual, field)


@pytest.mark.parametrize("name", APIS)
def test_a_field_that_nobody_knows_is_ignored(asked: Asked, name: str) -> None:
    usual, work = asked.send(name, APIS[name].base)
    answer, its_work = asked.send(name, APIS[name].base | {"no_such_field": [1]})
    assert (answer.status_code, same(answer), its_work) == (200, same(usual), work)
