"""The real Codex CLI against a real gateway; only the model is scripted."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.codex import Codex, Dialect
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Act, Call, Reply, Say, Stall

WEBSOCKET, WEBSOCKET_LITE = Dialect(websocket=True), Dialect(websocket=True, lite=True)
HTTP, HTTP_LITE = Dialect(websocket=False), Dialect(websocket=False, lite=True)

release = pytest.mark.release
every_dialect = pytest.mark.parametrize(
    "dialect", [WEBSOCKET, HTTP, WEBSOCKET_LITE, HTTP_LITE], ids=str
)
every_transport = pytest.mark.parametrize("dialect", [WEBSOCKET, HTTP], ids=str)
one_per_change = pytest.mark.parametrize(
    "dialect",
    [WEBSOCKET, *(pytest.param(each, marks=release) for each in (HTTP, WEBSOCKET_LITE, HTTP_LITE))],
    ids=str,
)


def command(line: str) -> Call:
    # Codex waits this long for a command before it tells the model that it still runs.
    return Call("exec_command", json.dumps({"cmd": line, "yield_time_ms": 30_000}))


class Gate:
    """A command that runs until the test lets it end."""

    def __init__(self, folder: Path, name: str) -> None:
        self._begun = folder / f"{name}.begun"
        self._open = folder / f"{name}.open"

    def command(self, ending: str) -> Call:
        begun, is_open = shlex.quote(str(self._begun)), shlex.quote(str(self._open))
        # Not for ever: it would outlive a test that fails.
        wait = f"for _ in $(seq 6000); do [ -e {is_open} ] && break; sleep 0.02; done"
        return command(f"touch {begun}; {wait}; {ending}")

    def wait(self) -> None:
        eventually(self._begun.exists)

    def open(self) -> None:
        self._open.touch()


def sockets(gateway: RunningGateway) -> float | None:
    registry = gateway.gateway.metrics.registry
    return registry.get_sample_value("vivace_websocket_connections")


STORY = Say("Once upon a time there was a story without an end.\n", times=10_000)


def story_teller(story: Act = STORY, *, port: int = 0) -> RunningGateway:
    """Tells a story slowly enough to be interrupted, and stops when told to."""
    replies = [
        # The terminal client has every conversation named, beside the first turn.
        Reply(when="^Generate a concise, single-line task title", then=(Say('{"title": "Tale"}'),)),
        Reply(when="^Tell me a story$", then=(story,)),
        Reply(when="^Make it short$", then=(Say("They lived happily ever after."),)),
    ]
    return RunningGateway(replies, config=configuration(engine={"rate": 100}), port=port)


# -- without a terminal ---------------------------------------------------------------------------


@release
@every_dialect
def test_an_answer_reaches_the_user(
    gateway: RunningGateway, dialect: Dialect, tmp_path: Path
) -> None:
    gateway.engine.play([Reply(when="^Good morning$", then=(Say("And a good day to you."),))])

    transcript = Codex(tmp_path, gateway.url, dialect).run("Good morning")

    assert transcript.answers == ["And a good day to you."]
    # Codex would fall back to HTTP without a word; that it did not shows in its warm-up.
    assert gateway.witness.events.count("response.created") == (2 if dialect.websocket else 1)


@one_per_change
def test_a_command_is_run_and_its_output_comes_back(
    gateway: RunningGateway, dialect: Dialect, tmp_path: Path
) -> None:
    # The output is nowhere in the command, so only a shell can have made it.
    gateway.engine.play(
        [
            Reply(when="^How many", then=(command("echo about $((6 * 7)) apples"),)),
            Reply(after="tool", when="about 42 apples", then=(Say("There are 42."),)),
        ]
    )

    transcript = Codex(tmp_path, gateway.url, dialect).run("How many are there?")

    outputs = [item["aggregated_output"] for item in transcript.items("command_execution")]
    assert outputs == ["about 42 apples\n"]
    assert transcript.answers == ["There are 42."]


@release
@every_dialect
def test_a_patch_changes_the_file(
    gateway: RunningGateway, dialect: Dialect, tmp_path: Path
) -> None:
    patch = """\
*** Begin Patch
*** Update File: greeting.txt
@@
 Dear reader,
-goodbye.
+welcome.
*** End Patch
"""
    gateway.engine.play(
        [
            Reply(when="^Be polite$", then=(Call("apply_patch", patch, custom=True),)),
            Reply(after="tool", when="M greeting.txt", then=(Say("It is polite now."),)),
        ]
    )
    codex = Codex(tmp_path, gateway.url, dialect)
    greeting = codex.workspace / "greeting.txt"
    greeting.write_text("Dear reader,\ngoodbye.\n")

    transcript = codex.run("Be polite")

    assert greeting.read_text() == "Dear reader,\nwelcome.\n"
    assert transcript.answers == ["It is polite now."]


# -- a gateway that goes and comes back -----------------------------------------------------------


@release
@every_dialect
def test_a_restart_between_two_turns_goes_unnoticed(dialect: Dialect, tmp_path: Path) -> None:
    first, second = Gate(tmp_path, "first"), Gate(tmp_path, "second")
    with ExitStack() as stack:
        with RunningGateway(
            [Reply(when="^Work$", then=(first.command("echo is $((1 + 1))"),))]
        ) as old:
            port = old.port
            codex = Codex(tmp_path, old.url, dialect)
            run = stack.enter_context(codex.running("Work"))
            first.wait()
        # It knows nothing of the call that this output answers, and would refuse the output
        # alone: Codex has to tell it everything again.
        replies = [
            Reply(after="tool", when="is 2", then=(second.command("echo is $((1 + 2))"),)),
            Reply(after="tool", when="is 3", then=(Say("Finished."),)),
        ]
        with RunningGateway(replies, port=port) as new:
            first.open()
            second.wait()
            assert sockets(new) == dialect.websocket
            second.open()
            transcript = run.finish()
    assert transcript.answers == ["Finished."]


@release
@every_transport
def test_an_answer_cut_off_by_a_restart_is_asked_for_again(
    dialect: Dialect, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        with story_teller() as old:
            port = old.port
            codex = Codex(tmp_path, old.url, dialect)
            run = stack.enter_context(codex.running("Tell me a story"))
            eventually(lambda: "response.output_text.delta" in old.witness.events)
        with story_teller(Say("The end."), port=port):
            transcript = run.finish()
    assert transcript.answers == ["The end."]


# -- in a terminal --------------------------------------------------------------------------------


@release
@pytest.mark.parametrize("dialect", [WEBSOCKET, HTTP, WEBSOCKET_LITE], ids=str)
def test_escape_frees_the_engine_and_the_conversation_goes_on(
    dialect: Dialect, tmp_path: Path
) -> None:
    with story_teller() as gateway:
        codex = Codex(tmp_path, gateway.url, dialect)
        with codex.terminal("Tell me a story") as terminal:
            terminal.shows("Once upon a time")
            assert gateway.engine.running() > 0

            terminal.press("Escape")

            eventually(lambda: gateway.engine.running() == 0)
            terminal.shows("Conversation interrupted")
            assert gateway.http.get("/readyz").status_code == 200
            terminal.enter("Make it short")
            terminal.shows("They lived happily ever after.")


@release
@pytest.mark.parametrize("dialect", [HTTP, WEBSOCKET_LITE], ids=str)
def test_a_message_interrupts_the_answer(dialect: Dialect, tmp_path: Path) -> None:
    with story_teller() as gateway:
        codex = Codex(tmp_path, gateway.url, dialect)
        with codex.terminal("Tell me a story") as terminal:
            terminal.shows("Once upon a time")
            # The title has its own connection, but the witness hears both; so let it end first.
            # It is the only one that can, for the story goes on.
            eventually(lambda: "response.output_text.done" in gateway.witness.events)
            terminal.enter("Make it short")
            terminal.shows("They lived happily ever after.")
            eventually(lambda: gateway.engine.running() == 0)
        # Over HTTP there is nothing to ask for: Codex hangs up and sends a new request.
        events = gateway.witness.events
        assert ("response.interrupt.accepted" in events) == dialect.lite
        if dialect.lite:
            end = events[events.index("response.interrupt.accepted") :]
            assert end[:5] == [
                "response.interrupt.accepted",
                "response.output_item.interrupted",
                "response.incomplete",
                "codex.response.metadata",  # what it shows, told before each response
                "response.created",
            ]


@release
def test_a_message_that_waits_for_the_answer_is_sent_at_once_by_escape(tmp_path: Path) -> None:
    with story_teller() as gateway:
        codex = Codex(tmp_path, gateway.url, WEBSOCKET)
        with codex.terminal("Tell me a story") as terminal:
            terminal.shows("Once upon a time")
            terminal.enter("Make it short")
            terminal.shows("press esc to interrupt and send immediately")
            assert gateway.engine.running() > 0

            terminal.press("Escape")

            terminal.shows("They lived happily ever after.")
            eventually(lambda: gateway.engine.running() == 0)


@release
def test_an_editor_steers_a_turn_through_the_app_server(tmp_path: Path) -> None:
    with story_teller() as gateway:
        codex = Codex(tmp_path, gateway.url, WEBSOCKET_LITE)
        with codex.app_server() as server:
            thread = server.ask("thread/start")["thread"]["id"]
            words = [{"type": "text", "text": "Tell me a story"}]
            turn = server.ask("turn/start", threadId=thread, input=words)["turn"]["id"]
            server.until("item/agentMessage/delta", "Once")
            words = [{"type": "text", "text": "Make it short"}]
            steered = server.ask("turn/steer", threadId=thread, input=words, expectedTurnId=turn)
            assert steered["turnId"] == turn
            server.until("item/completed", "They lived happily ever after.")
            ended = server.until("turn/completed")["params"]["turn"]
            assert (ended["id"], ended["status"]) == (turn, "completed")
        assert "response.interrupt.accepted" in gateway.witness.events
        eventually(lambda: gateway.engine.running() == 0)


# -- limits and queues ----------------------------------------------------------------------------


@release
@every_transport
def test_codex_waits_in_the_queue(dialect: Dialect, tmp_path: Path) -> None:
    replies = [Reply(when="^busy$", then=(Say("word"), Stall(3600))), Reply(then=(Say("Hello."),))]
    config = configuration(engine={"slots": 1})
    with RunningGateway(replies, config=config) as gateway, Socket(gateway.url) as socket:
        socket.create("busy")
        socket.until("response.output_text.delta")
        with Codex(tmp_path, gateway.url, dialect).running("Say hello") as run:
            eventually(lambda: "response.queued" in gateway.witness.events)
            gateway.go_on()
            assert run.finish().answers == ["Hello."]


@release
@every_transport
def test_codex_tries_again_when_a_limit_is_reached(dialect: Dialect, tmp_path: Path) -> None:
    tier = {"name": MODEL, "engines": ["scripted"], "limits": {"concurrency": 1}}
    config = configuration(tiers=[tier], engine={"model": "other"})
    replies = [Reply(when="^busy$", then=(Say("word"), Stall(3600))), Reply(then=(Say("Hello."),))]
    with RunningGateway(replies, config=config) as gateway, Socket(gateway.url) as socket:
        socket.create("busy")
        socket.until("response.output_text.delta")
        refused = 'vivace_requests_refused_total{code="rate_limit_exceeded"}'
        with Codex(tmp_path, gateway.url, dialect).running("Say hello") as run:
            with gateway.http as http:
                eventually(lambda: refused in http.get("/metrics").text)
            gateway.go_on()
            assert run.finish().answers == ["Hello."]
