"""Clients that send the whole conversation each time go on from the turn that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from tests.support.http import bearer, keys
from tests.support.server import RunningGateway, configuration
from vivace.engines.base import Chat, Work
from vivace.engines.scripted import Call, Reply, Say
from vivace.engines.token_chain import ChainBook, Messages
from vivace.engines.tool_forms import ToolForms
from vivace.gateway.runner import Runner

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Asked:
    """What the engine was asked, in its own terms."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.works: list[Work] = []
        answer = gateway.engine.generate

        def noted(work: Work) -> Any:
            self.works.append(work)
            return answer(work)

        gateway.engine.generate = noted  # type: ignore[method-assign]

    @property
    def parents(self) -> list[str | None]:
        return [work.parent_id for work in self.works]

    @property
    def ids(self) -> list[str]:
        return [work.id for work in self.works]


def counted(gateway: RunningGateway, known: str) -> float:
    registry = gateway.gateway.metrics.registry
    value = registry.get_sample_value("vivace_resent_conversations_total", {"known": known})
    return value or 0


def chat(http: httpx.Client, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    answer = http.post(CHAT, json={"messages": messages, "tools": TOOLS, **more})
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def test_a_tool_loop_over_chat_completions_is_one_chain(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [
            Reply(after="tool", then=(Say("It is done."),)),
            Reply(when="^Go$", then=(Say("I call."), Call("f", '{"a":  1}'))),
        ]
    )
    asked = Asked(gateway)
    said: list[dict[str, Any]] = [{"role": "user", "content": "Go"}]
    with gateway.http as http:
        first = chat(http, said)
        call = first["tool_calls"][0]
        call["function"]["arguments"] = '{"a":1}'  # as a client writes it that has read it
        said += [first, {"role": "tool", "tool_call_id": call["id"], "content": "ok"}]
        second = chat(http, said)
        said += [second, {"role": "user", "content": "Thanks"}]
        chat(http, said)

    assert asked.parents == [None, *asked.ids[:2]]
    assert (counted(gateway, "yes"), counted(gateway, "no")) == (2, 0)
    prompt = asked.works[2].prompt
    assert isinstance(prompt, Chat)
    assert len(prompt.items) == 6, "everything was said once"


class Plain:
    """A template that counts what it tokenises: a token a character."""

    def __init__(self) -> None:
        self.encoded = 0

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        said = "".join(f"<{each['role']}>{each['content']}</>" for each in messages)
        return said + ("<assistant>" if opens else "")

    def told(self, arguments: Mapping[str, Any]) -> Plain:
        return self

    def encode(self, text: str) -> list[int]:
        self.encoded += len(text)
        return [*map(ord, text)]


def tokenised(works: list[Work], answer: str) -> int:
    """As an engine does it that keeps its conversations as tokens."""
    template = Plain()
    book = ChainBook(template, "append_only")
    template.encoded = 0
    for work in works:
        assert isinstance(work.prompt, Chat)
        forms = ToolForms(work.prompt.toolbox)
        prompt = book.prompt(work.prompt, forms, work.parent_id, work.owner)
        book.keep(work.id, prompt, [*map(ord, answer)], said=1)
    return template.encoded


def test_twenty_resent_turns_are_tokenised_as_little_as_twenty_continued_ones(
    gateway: RunningGateway,
) -> None:
    answer = "Yes. " * 100
    gateway.engine.play([Reply(then=(Say(answer),))])
    resent, continued = Asked(gateway), Asked(gateway)
    questions = [f"Question {number}: {'why? ' * 200}" for number in range(20)]
    said: list[dict[str, Any]] = []
    with gateway.http as http:
        for question in questions:
            said.append({"role": "user", "content": question})
            said.append(chat(http, said))
        of_resent = list(resent.works)
        continued.works.clear()
        last = None
        for question in questions:
            body = {"input": question, "previous_response_id": last}
            last = http.post("/v1/responses", json=body).json()["id"]
    assert sum(map(len, questions)) + 20 * len(answer) > 30_000
    assert tokenised(of_resent, answer) <= 1.2 * tokenised(continued.works, answer)


def test_the_answer_names_no_parent_that_the_client_never_heard_of(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(then=(Say("Yes."),))])
    items: list[dict[str, Any]] = [{"role": "user", "content": "Really?"}]
    with gateway.http as http:
        first = http.post("/v1/responses", json={"input": items, "store": False}).json()
        items += [*first["output"], {"role": "user", "content": "Sure?"}]
        second = http.post("/v1/responses", json={"input": items, "store": False}).json()
    assert counted(gateway, "yes") == 1
    assert second["previous_response_id"] is None


def test_what_is_to_be_stored_is_stored_whole(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("Yes."),))])
    items: list[dict[str, Any]] = [{"role": "user", "content": "Really?"}]
    with gateway.http as http:
        first = http.post("/v1/responses", json={"input": items, "store": False}).json()
        items += [*first["output"], {"role": "user", "content": "Sure?"}]
        second = http.post("/v1/responses", json={"input": items}).json()
        kept = http.get(f"/v1/responses/{second['id']}/input_items").json()
    assert len(kept["data"]) == 3


def test_nobody_goes_on_from_what_another_said() -> None:
    config = configuration(keys=keys("ada", "ben"))
    with (
        RunningGateway([Reply(then=(Say("Yes."),))], config=config) as gateway,
        gateway.http as http,
    ):
        asked = Asked(gateway)
        said: list[dict[str, Any]] = [{"role": "user", "content": "Really?"}]
        first = http.post(CHAT, json={"messages": said}, headers=bearer("ada")).json()
        said += [first["choices"][0]["message"], {"role": "user", "content": "Sure?"}]
        for owner in ("ada", "ben"):
            http.post(CHAT, json={"messages": said}, headers=bearer(owner)).raise_for_status()
    assert asked.parents == [None, asked.ids[0], None]


def test_a_deleted_turn_takes_with_it_what_was_remembered(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("Yes."),))])
    asked = Asked(gateway)
    said: list[dict[str, Any]] = [{"role": "user", "content": "Really?"}]
    with gateway.http as http:
        stored = http.post("/v1/responses", json={"input": "Hi"}).json()
        said += [chat(http, said), {"role": "user", "content": "Sure?"}]
        http.delete(f"/v1/responses/{stored['id']}").raise_for_status()
        chat(http, said)
    assert asked.parents == [None, None, None]


def test_a_revoked_key_takes_with_it_what_was_remembered() -> None:
    async def revoke(runner: Runner) -> tuple[int, int]:
        before = runner.memory.kinds()["links"]
        runner.revoke("ada")
        return before, runner.memory.kinds()["links"]

    config = configuration(keys=keys("ada", "ben"))
    said: list[dict[str, Any]] = [{"role": "user", "content": "Really?"}]
    with RunningGateway([Reply(then=(Say("Yes."),))], config=config) as gateway:
        with gateway.http as http:
            for owner in ("ada", "ben"):
                http.post(CHAT, json={"messages": said}, headers=bearer(owner)).raise_for_status()
        before, after = gateway.run(revoke(gateway.gateway.runner))
    assert 0 < after < before


def test_what_is_wrong_is_named_by_its_place_in_what_was_sent(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("Yes."),))])
    said: list[dict[str, Any]] = [{"role": "user", "content": "Really?"}]
    with gateway.http as http:
        said += [chat(http, said), {"role": "tool", "tool_call_id": "none", "content": "?"}]
        refused = http.post(CHAT, json={"messages": said})
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
        said[2] = {"role": "user", "content": [image]}
        unseen = http.post(CHAT, json={"messages": said})
    assert refused.status_code == unseen.status_code == 400
    assert refused.json()["error"]["param"] == "messages[2].tool_call_id"
    assert unseen.json()["error"]["param"] == "messages[2].content[0]"
    assert counted(gateway, "yes") == 2
