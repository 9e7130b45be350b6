"""What can be done to a gateway: each fault has a name of its own, and is found by it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chaos.__main__ import _plan, _sample
from chaos.faults import FAULTS, GROUPS, chosen
from chaos.points import Armed, Met, arm, armed_in, disarm, met_in, tell_met
from chaos.stage import BOTH, POSTGRES, SQLITE

from tests.support.proxy import Proxy


def test_a_group_names_all_of_its_faults_and_a_name_one() -> None:
    assert [fault.name for fault in chosen(["store"])] == ["kill-postgres", "freeze-postgres"]
    assert chosen(["kill-gateway"]) == [FAULTS["kill-gateway"]]
    with pytest.raises(KeyError):
        chosen(["kill-everything"])


def test_gateways_die_on_both_sides_of_every_barrier() -> None:
    names = {fault.name for fault in chosen(["barriers"])}
    before = {name for name in names if name.startswith("die-before-")}
    assert names - before == {name.replace("before", "after") for name in before}
    assert len(names) >= 24


def test_a_fault_is_tried_on_the_stores_it_can_be() -> None:
    plan = list(_plan(["kill-gateway", "kill-postgres"], BOTH))
    assert [(fault.name, store) for fault, store in plan if fault] == [
        ("kill-gateway", SQLITE),
        ("kill-gateway", POSTGRES),
        ("kill-postgres", POSTGRES),
    ]
    assert list(_plan(["kill-postgres"], [SQLITE])) == []


def test_a_sample_has_one_of_each_group_and_both_sides_of_a_barrier() -> None:
    plan = list(_plan(list(GROUPS), BOTH))
    sample = [fault for fault, _ in _sample(plan, random.Random(1)) if fault]
    assert {fault.group for fault in sample} == set(GROUPS)
    sides = {fault.name.split("-")[1] for fault in sample if fault.group == "barriers"}
    assert sides == {"before", "after"}
    assert len(sample) == len(GROUPS) + 1


def test_who_has_met_its_point_is_in_danger_no_more(tmp_path: Path) -> None:
    assert armed_in(tmp_path) is None
    arm(tmp_path, Armed("end", "before"))
    assert armed_in(tmp_path) == Armed("end", "before")
    assert met_in(tmp_path) is None
    tell_met(tmp_path, Met(1.5, "resp_1"))
    assert (armed_in(tmp_path), met_in(tmp_path)) == (None, Met(1.5, "resp_1"))
    arm(tmp_path, Armed("end", "after"))
    assert met_in(tmp_path) is None
    disarm(tmp_path)
    assert armed_in(tmp_path) is None


# -- the engine that can be killed ----------------------------------------------------------------


async def _texts(chunks: AsyncIterator[bytes]) -> str:
    events = [chunk[6:] async for chunk in chunks if b"[DONE]" not in chunk]
    choices = [json.loads(event)["choices"][0] for event in events]
    return "".join(each.get("text") or each["delta"].get("content", "") for each in choices)


def test_another_engine_goes_on_with_the_next_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOS_POINTS", str(tmp_path))
    from chaos.marks import MARK, broken_off

    from chaos import llama_server

    monkeypatch.setattr(llama_server, "_RATE", 10**6)
    monkeypatch.setattr(llama_server, "_working", tmp_path / "working-1")
    messages = [{"role": "user", "content": "CALL alice.1"}]
    chat = ({"delta": each} for each in llama_server._deltas(messages))
    whole = asyncio.run(_texts(llama_server._stream(chat, None)))
    assert len(MARK.findall(whole)) == 40
    said = "".join(f" {mark[0]}" for mark in list(MARK.finditer(whole))[:7])
    prompt = json.dumps(messages) + llama_server._ANSWER + said
    rest = ({"text": each} for each in llama_server._rest(prompt))
    told = said + asyncio.run(_texts(llama_server._stream(rest, None)))
    assert len(MARK.findall(told)) == 40
    assert broken_off(told) is None


# -- the proxy that loses answers -----------------------------------------------------------------


class _Echo:
    """Answers whatever it is asked."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data[:1].lower())
            await writer.drain()
        writer.close()


def _message(kind: bytes, *words: bytes) -> bytes:
    body = b"".join(word + b"\0" for word in words)
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def test_only_the_answer_to_the_statement_that_is_meant_is_lost() -> None:
    async def ask() -> list[bytes]:
        server = await asyncio.start_server(_Echo().serve, "127.0.0.1", 0)
        answers: list[bytes] = []
        async with server, Proxy(server.sockets[0].getsockname()[1]) as proxy:
            proxy.of, proxy.lose = b"end_turn(", 1
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            for message in (
                _message(b"P", b"one", b"SELECT 1"),
                _message(b"P", b"two", b"SELECT end_turn($1)"),
                _message(b"B", b"", b"one"),
                _message(b"B", b"", b"two"),
            ):
                writer.write(message)
                answers.append(await reader.read(1))
            writer.close()
            assert proxy.lost == 1
        return answers

    assert asyncio.run(ask()) == [b"p", b"p", b"b", b""]
