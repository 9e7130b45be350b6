"""``vivace ask`` as a person meets it, in a pipe and in a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.support.commands import run_command
from tests.support.http import key, keys
from tests.support.hub import CleanHome
from tests.support.ports import free_port
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually
from vivace.engines.scripted import Fail, Reply, Say, Stall, Think

STORY = Reply(when="story", then=(Say("Once upon a time there was a story.\n", times=10_000),))
NOWHERE = "http://127.0.0.1:9"
HOSTILE = "Look: \x1b]52;c;cm0gLXJmIC8=\x07 \x9b2J \u202eback\x1b[8mhidden \r\n"
"""Writes the clipboard, clears the screen, turns the direction around, hides what follows."""


@pytest.fixture
def home(tmp_path: Path) -> CleanHome:
    return CleanHome(tmp_path, NOWHERE)


def ask(
    home: CleanHome, url: str, *arguments: str, piped: str | bytes = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it in a pipe, in this process."""
    variables = home.environment | environment
    command = ("ask", "--url", url, *arguments)
    return run_command(*command, folder=home.folder, environment=variables, piped=piped)


def complaint(ran: subprocess.CompletedProcess[str]) -> str:
    """What a person reads when it cannot be done."""
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.startswith("vivace: ")
    return ran.stderr


def last_answer(home: CleanHome, gateway: RunningGateway) -> dict[str, Any]:
    """The stored response that ``-c`` would go on from."""
    memory = Path(home.environment["XDG_STATE_HOME"], "vivace/last-answers.json")
    identifier = json.loads(memory.read_text())[gateway.url]
    answer: dict[str, Any] = gateway.http.get(f"/v1/responses/{identifier}").json()
    return answer


# -- in a pipe ------------------------------------------------------------------------------------


@contextmanager
def asking(home: CleanHome, url: str, question: str) -> Iterator[subprocess.Popen[bytes]]:
    command = home.command("ask", "--url", url, question)
    with subprocess.Popen(
        command,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_answer_appears_while_it_is_being_written(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(then=(Say("The beginning"), Stall(3600), Say("the end.")))])
    with asking(home, gateway.url, "Begin") as process:
        assert process.stdout is not None
        shown = b""
        while shown != b"The beginning":
            piece = os.read(process.stdout.fileno(), 1000)
            assert piece, "it ended"
            shown += piece
        assert process.poll() is None


def test_the_answer_alone_is_on_standard_output_and_the_figures_are_beside_it(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(when="^How are you$", then=(Say("I am well, thank you."),))])
    ran = subprocess.run(
        home.command("ask", "--url", gateway.url, "How", "are", "you"),
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0
    assert ran.stdout == "I am well, thank you.\n"
    assert re.fullmatch(r"\d+ tokens · first after \d+\.\d\d s · \d+(\.\d)? tokens/s\n", ran.stderr)


def test_a_pipe_gets_the_answer_byte_by_byte(gateway: RunningGateway, home: CleanHome) -> None:
    gateway.engine.play([Reply(then=(Say(HOSTILE),))])
    with asking(home, gateway.url, "Show me") as process:
        said, _ = process.communicate()
    assert said == f"{HOSTILE}\n".encode()


def test_quiet_leaves_the_figures_out(gateway: RunningGateway, home: CleanHome) -> None:
    ran = ask(home, gateway.url, "-q", "Hello")
    assert ran.returncode == 0
    assert ran.stdout
    assert ran.stderr == ""


def test_an_answer_can_be_kept_short(gateway: RunningGateway, home: CleanHome) -> None:
    gateway.engine.play([STORY])
    ran = ask(home, gateway.url, "--max-tokens", "5", "A story")
    assert ran.returncode == 0
    assert ran.stderr.startswith("5 tokens")


def test_files_are_shown_before_the_question(gateway: RunningGateway, home: CleanHome) -> None:
    for name, text in (("one.txt", "red"), ("two.txt", "blue")):
        (home.folder / name).write_text(text)
    seen = r"(?s)one\.txt.*red.*two\.txt.*blue.*Which colours\?$"
    gateway.engine.play([Reply(when=seen, then=(Say("Both."),))])
    ran = ask(home, gateway.url, "-f", "one.txt", "--file", "two.txt", "Which colours?")
    assert ran.stdout == "Both.\n"


def test_what_is_piped_in_is_shown_before_the_question(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(when=r"(?s)\+1 line.*What changed\?$", then=(Say("A line."),))])
    ran = ask(home, gateway.url, "What changed?", piped="+1 line\n")
    assert ran.stdout == "A line.\n"


def test_nothing_piped_in_adds_nothing(gateway: RunningGateway, home: CleanHome) -> None:
    gateway.engine.play([Reply(when="^Hello$", then=(Say("Hello."),))])
    assert ask(home, gateway.url, "Hello", piped="\n").stdout == "Hello.\n"


@pytest.mark.parametrize("way", ["file", "pipe"])
def test_what_is_not_text_does_not_stop_the_question(
    gateway: RunningGateway, home: CleanHome, way: str
) -> None:
    binary = home.folder / "binary"
    binary.write_bytes(b"\xff\xfe\x00picture")
    gateway.engine.play([Reply(when="(?s)picture.*What is it", then=(Say("A picture."),))])
    shown = ["--file", str(binary)] if way == "file" else []
    piped = binary.read_bytes() if way == "pipe" else b""
    ran = ask(home, gateway.url, *shown, "What is it?", piped=piped)
    assert ran.stdout == "A picture.\n", ran.stderr


def test_a_file_that_is_not_there_is_an_error_of_use(home: CleanHome) -> None:
    ran = ask(home, NOWHERE, "-f", "none.txt", "Hello")
    assert ran.returncode == 2
    assert "none.txt" in ran.stderr


@pytest.mark.parametrize("name", [".env", "ignored.txt", "link.txt"])
def test_secrets_and_ignored_files_are_not_shown(
    gateway: RunningGateway, home: CleanHome, name: str
) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=home.folder, check=True)
    (home.folder / ".gitignore").write_text("ignored.txt\n")
    (home.folder / ".env").write_text("KEY=1\n")
    (home.folder / "ignored.txt").write_text("1\n")
    (home.folder / "link.txt").symlink_to(".env")
    ran = ask(home, gateway.url, "-f", name, "What is the key?")
    assert ran.returncode == 2
    assert "is not read" in ran.stderr
    assert gateway.witness.events == []


def test_a_reader_that_has_enough_stops_the_engine(
    gateway: RunningGateway, home: CleanHome
) -> None:
    """As in ``vivace ask … | head -1``."""
    gateway.engine.play([STORY])
    with asking(home, gateway.url, "A story") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait()
        assert b"Traceback" not in process.stderr.read()
    eventually(lambda: gateway.engine.running() == 0)


# -- going on -------------------------------------------------------------------------------------


def test_an_answer_can_be_gone_on_from(gateway: RunningGateway, home: CleanHome) -> None:
    assert ask(home, gateway.url, "First").returncode == 0
    first = last_answer(home, gateway)
    memory = Path(home.environment["XDG_STATE_HOME"], "vivace/last-answers.json")
    assert memory.stat().st_mode & 0o777 == 0o600
    assert ask(home, gateway.url, "-c", "Second").returncode == 0
    second = last_answer(home, gateway)
    assert second["previous_response_id"] == first["id"]
    assert ask(home, gateway.url, "Something else").returncode == 0
    assert last_answer(home, gateway)["previous_response_id"] is None


def test_without_an_earlier_answer_there_is_nothing_to_go_on_from(
    gateway: RunningGateway, home: CleanHome
) -> None:
    said = complaint(ask(home, gateway.url, "-c", "Go on"))
    assert gateway.url in said
    assert "without -c" in said


def test_a_server_that_forgot_the_answer_is_said(home: CleanHome) -> None:
    with RunningGateway() as old:
        port = old.port
        assert ask(home, old.url, "First").returncode == 0
    with RunningGateway(port=port) as new:
        said = complaint(ask(home, new.url, "-c", "Second"))
    assert "not kept on this server any more" in said
    assert "without -c" in said


def test_a_broken_memory_of_answers_is_like_none(gateway: RunningGateway, home: CleanHome) -> None:
    memory = Path(home.environment["XDG_STATE_HOME"], "vivace/last-answers.json")
    memory.parent.mkdir(parents=True)
    memory.write_text("no JSON")
    assert "without -c" in complaint(ask(home, gateway.url, "-c", "Go on"))
    assert ask(home, gateway.url, "First").returncode == 0
    assert ask(home, gateway.url, "-c", "Second").returncode == 0


# -- stopping -------------------------------------------------------------------------------------


def test_an_interrupt_stops_the_engine_too(gateway: RunningGateway, home: CleanHome) -> None:
    gateway.engine.play([STORY])
    with asking(home, gateway.url, "A story") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        assert gateway.engine.running() == 1
        process.send_signal(signal.SIGINT)
        eventually(lambda: gateway.engine.running() == 0)
        process.stdout.read()
        said = process.stderr.read().decode()
        assert process.wait() == 130
    assert said == "\nstopped\n"


def test_an_interrupt_before_the_first_word_stops_the_engine_too(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(then=(Stall(3600),))])
    with asking(home, gateway.url, "Think") as process:
        eventually(lambda: gateway.engine.running() == 1)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    eventually(lambda: gateway.engine.running() == 0)


# -- what can be in the way -----------------------------------------------------------------------


def test_without_a_server_it_says_how_to_start_one(home: CleanHome) -> None:
    said = complaint(ask(home, f"http://127.0.0.1:{free_port()}/v1", "Hello"))
    assert "vivace up" in said
    assert "--url" in said


@pytest.mark.parametrize("given", [(), ("--key", "wrong")], ids=["no key", "wrong key"])
def test_a_server_that_wants_a_key_leads_to_the_option(
    home: CleanHome, given: tuple[str, ...]
) -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        said = complaint(ask(home, gateway.url, *given, "Hello"))
        assert gateway.url in said
        assert "--key" in said
        assert "VIVACE_KEY" in said


@pytest.mark.parametrize("way", ["option", "environment"])
def test_the_right_key_opens_the_door(home: CleanHome, way: str) -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        option = ("--key", key("alice")) if way == "option" else ()
        environment = {} if way == "option" else {"VIVACE_KEY": key("alice")}
        assert ask(home, gateway.url, *option, "Hello", **environment).returncode == 0


def test_a_model_that_is_not_there_leads_to_one_that_is(
    gateway: RunningGateway, home: CleanHome
) -> None:
    said = complaint(ask(home, gateway.url, "-m", MODEL + "s", "Hello"))
    assert f"Did you mean '{MODEL}'?" in said


def test_an_engine_that_fails_in_the_middle_is_said(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(then=(Say("So far"), Fail("The engine is unwell.")))])
    ran = ask(home, gateway.url, "Hello")
    assert "The engine is unwell." in complaint(ran)
    assert ran.stdout.startswith("So far")


def test_an_address_without_its_end_is_understood(gateway: RunningGateway, home: CleanHome) -> None:
    """As ``vivace connect`` understands it."""
    ran = ask(home, gateway.url.removesuffix("/v1"), "Hello")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:8765/v1", "ftp://127.0.0.1/v1", "nonsense"])
def test_what_is_no_address_is_said_without_a_traceback(home: CleanHome, address: str) -> None:
    ran = ask(home, address, "Hello")
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode in (1, 2)
    assert "http://" in ran.stderr


def test_a_proxy_for_the_world_is_not_asked_about_this_machine(
    gateway: RunningGateway, home: CleanHome
) -> None:
    proxies = {"http_proxy": NOWHERE, "https_proxy": NOWHERE, "all_proxy": NOWHERE}
    ran = ask(home, gateway.url, "Hello", **proxies)
    assert ran.returncode == 0, ran.stderr


# -- in a terminal --------------------------------------------------------------------------------


@contextmanager
def terminal(home: CleanHome, url: str, question: str) -> Iterator[pexpect.spawn[str]]:
    program, *arguments = home.command("ask", "--url", url, question)
    plain: Any = home.environment | {"TERM": "xterm"}
    child = pexpect.spawn(program, arguments, env=plain, encoding="utf-8", timeout=PATIENCE_S)
    try:
        yield child
    finally:
        child.close(force=True)


def test_a_terminal_shows_the_answer_and_then_its_speed(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(when="^Hello$", then=(Say("A good day to you."),))])
    with terminal(home, gateway.url, "Hello") as child:
        child.expect_exact("A good day to you.\r\n")
        child.expect(r"\d+ tokens · first after \d+\.\d\d s")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


@pytest.mark.parametrize("act", [Say(HOSTILE), Fail(HOSTILE)], ids=["answer", "error"])
def test_neither_an_answer_nor_an_error_steers_the_terminal(
    gateway: RunningGateway, home: CleanHome, act: Say | Fail
) -> None:
    gateway.engine.play([Reply(then=(act,))])
    with terminal(home, gateway.url, "Show me") as child:
        child.expect(pexpect.EOF)
        shown = str(child.before)
    assert "Look: \ufffd]52;c;cm0gLXJmIC8=\ufffd \ufffd2J \ufffdback\ufffd[8mhidden" in shown
    ours = re.sub(r"\x1b\[\d*m", "", shown)  # the figures are dim
    assert not set(ours) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_terminal_shows_the_answer_while_it_is_being_written_and_ctrl_c_stops_it(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([STORY])
    with terminal(home, gateway.url, "A story") as child:
        child.expect_exact("Once upon a time")
        assert gateway.engine.running() == 1
        child.sendcontrol("c")
        child.expect_exact("stopped")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 130
    eventually(lambda: gateway.engine.running() == 0)


def test_a_line_typed_in_the_middle_redirects_the_answer(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([Reply(when="left", then=(Say("Going left."),)), STORY])
    with terminal(home, gateway.url, "A story") as child:
        child.expect_exact("Once upon a time")
        child.send("Go left")
        child.expect_exact("Go left")
        said = gateway.engine._requests[0].tally
        before = said.output
        eventually(lambda: said.output > before + 500)
        child.send("\r")
        child.expect_exact("Going left.")
        assert "Once" not in str(child.before), "the line was written over"
        child.expect(r"\d+ tokens")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    assert gateway.engine.running() == 0
    steered = last_answer(home, gateway)["previous_response_id"]
    answer = gateway.http.get(f"/v1/responses/{steered}").json()
    assert answer["incomplete_details"] == {"reason": "steered"}


def test_tab_ends_the_thinking_and_the_answer_comes(
    gateway: RunningGateway, home: CleanHome
) -> None:
    ponders = (Think("Let me see. " * 50_000), Say("A shadow."))
    gateway.engine.play([Reply(when="riddle", then=ponders)])
    with terminal(home, gateway.url, "A riddle") as child:
        child.expect_exact("thinking; Tab for the answer now")
        child.send("\t\t")
        child.expect_exact("A shadow.")
        child.expect(r"\d+ tokens")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    answer = last_answer(home, gateway)
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message"]


def test_tab_changes_nothing_for_who_does_not_think(
    gateway: RunningGateway, home: CleanHome
) -> None:
    told = (Say("A story. "), Stall(3600), Say("The end."))
    gateway.engine.play([Reply(when="short", then=told)])
    with terminal(home, gateway.url, "short story") as child:
        child.expect_exact("A story.")
        child.send("\tnothing\x1b")  # a line that is taken back: the key before it was read
        child.expect_exact("nothing")
        gateway.go_on()
        child.expect_exact("The end.")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


def test_a_line_that_is_begun_before_the_end_is_still_answered(
    gateway: RunningGateway, home: CleanHome
) -> None:
    short = Reply(when="^short", then=(Say("A short story. "), Stall(3600), Say("The end.")))
    gateway.engine.play([Reply(when="left", then=(Say("Going left."),)), short])
    with terminal(home, gateway.url, "short story") as child:
        child.expect_exact("A short story.")
        child.send("Go lefd\x7ft")
        child.expect_exact("Go lefd\b \bt")
        gateway.go_on()
        eventually(lambda: gateway.engine.running() == 0)
        child.send("\r")
        child.expect_exact("The end.")
        child.expect_exact("Going left.")
        child.expect(pexpect.EOF)


def test_a_redirected_answer_can_be_followed_by_another_line(
    gateway: RunningGateway, home: CleanHome
) -> None:
    left = Reply(when="left", then=(Say("Going left. "), Stall(3600), Say("There.")))
    gateway.engine.play([Reply(when="right", then=(Say("Going right."),)), left, STORY])
    with terminal(home, gateway.url, "A story") as child:
        child.expect_exact("Once upon a time")
        child.send("Go left\r")
        child.expect_exact("Going left.")
        child.send("Go right")
        child.expect_exact("Go right")
        gateway.go_on()
        eventually(lambda: gateway.engine.running() == 0)
        child.send("\r")
        child.expect_exact("There.")
        child.expect_exact("Going right.")
        child.expect(pexpect.EOF)


def test_escape_takes_back_a_line_and_then_stops_the_answer(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([STORY])
    with terminal(home, gateway.url, "A story") as child:
        child.expect_exact("Once upon a time")
        child.send("Go le")
        child.expect_exact("Go le")
        child.send("\x1b")
        child.expect_exact("Once upon a time")
        assert gateway.engine.running() == 1
        child.send("\x1b[A")  # an arrow is no Escape
        child.expect_exact("Once upon a time")
        assert gateway.engine.running() == 1
        child.send("\x1b[A\x1b")  # though they come as one
        child.expect_exact("stopped")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 130
    eventually(lambda: gateway.engine.running() == 0)
