"""``vivace demo`` as a person meets it: both ways on one screen, and a summary that stays."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.demonstration.test_sample import changed
from tests.support.hub import CleanHome
from tests.support.ports import free_port
from tests.support.server import RunningGateway
from tests.support.waiting import eventually
from vivace.cli.demonstration.sample import INSTRUCTION, PATH, REDIRECT, line_count, sample
from vivace.conversation.deltas import Delta
from vivace.edits.attempt import Task, plan
from vivace.edits.context import Context
from vivace.engines.base import Chat, Work
from vivace.engines.scripted import Fail, Reply, Say, Stall
from vivace.speculation.sources import old_text

pytestmark = pytest.mark.release  # the command is going to be removed
WHOLE_FILE = "Answer with the whole changed file"
FUNCTION = "(?s)The code to change:.*The change: Give `fetch`"
REDIRECTED = "the default must be 5"
AGAIN = "Answer again"
OUTER_SCREEN = "\x1b[?1049l"


@pytest.fixture
def home(tmp_path: Path) -> CleanHome:
    return CleanHome(tmp_path, "http://127.0.0.1:9")


def function(default: int, text: str | None = None) -> str:
    """The answer that ``vivace edit`` would want."""
    region = plan(Task(PATH, sample(), INSTRUCTION), Context(), "").region
    lines = (text or changed(default)).split("\n")[region.start : region.end]
    return "```python\n" + "".join(f"{line[4:]}\n" for line in lines) + "```"


REWRITE = Reply(when=WHOLE_FILE, then=(Say(f"```python\n{changed(10)}```\n"),))
ENDLESS = Reply(when=WHOLE_FILE, then=(Say(f"```python\n{sample()[:900]}"), Stall(3600)))
HALF = Reply(when=FUNCTION, then=(Say(function(10)[:700]), Stall(3600)))
RIGHT = Reply(when=REDIRECTED, then=(Say(function(5)),))


def run(
    home: CleanHome, url: str, *arguments: str, timeout: float = 40
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        home.command("demo", "--url", url, *arguments),
        cwd=home.folder,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def row(summary: str, name: str) -> list[str]:
    """The two cells of a row."""
    found = re.search(rf"^  {name}  +(.*)$", summary, re.MULTILINE)
    assert found is not None, summary
    return re.split(r"  +", found[1])


# -- in a pipe ------------------------------------------------------------------------------------


def test_a_pipe_gets_the_summary_of_both_ways(gateway: RunningGateway, home: CleanHome) -> None:
    gateway.engine.play([RIGHT, HALF, REWRITE])
    ran = run(home, gateway.url)
    assert ran.returncode == 0, ran.stderr
    assert "\x1b" not in ran.stdout
    assert ran.stdout.startswith(f"{PATH}, {line_count()} lines · local-model at {gateway.url}\n")
    assert INSTRUCTION in ran.stdout
    assert re.search(r"redirected  the default must be 5  .*Enter at \d+\.\d s", ran.stdout)
    for seconds in row(ran.stdout, "time"):
        assert re.fullmatch(r"\d+\.\d s", seconds)
    assert row(ran.stdout, "lines changed") == ["+2 -2", "+2 -2"]
    assert row(ran.stdout, "as asked") == ["yes, and nothing else changed"] * 2
    assert row(ran.stdout, "undo") == ["-", "the file is as it was"]


def test_the_redirect_reaches_the_running_answer(gateway: RunningGateway, home: CleanHome) -> None:
    """The first answer would never end by itself."""
    gateway.engine.play([RIGHT, HALF, REWRITE])
    ran = run(home, gateway.url)
    assert re.fullmatch(
        r"\d+, after about \d+ in answers that do not count", row(ran.stdout, "tokens")[1]
    )


def test_an_answer_that_was_quicker_than_the_typist_is_followed_up(
    gateway: RunningGateway, home: CleanHome
) -> None:
    quick = Reply(when=FUNCTION, then=(Say(function(10)),))
    gateway.engine.play([RIGHT, quick, REWRITE])
    ran = run(home, gateway.url)
    assert row(ran.stdout, "as asked")[1] == "yes, and nothing else changed"
    assert row(ran.stdout, "undo")[1] == "the file is as it was"


def test_the_plain_way_does_without_drafts_and_ours_brings_one(
    gateway: RunningGateway, home: CleanHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[str] = []
    generate = gateway.engine.generate

    def overheard(work: Work) -> AsyncGenerator[Delta, None]:
        assert isinstance(work.prompt, Chat)
        drafts.append(old_text(work.prompt.items, work.prompt.prediction))
        return generate(work)

    monkeypatch.setattr(gateway.engine, "generate", overheard)
    gateway.engine.play([RIGHT, HALF, REWRITE])
    run(home, gateway.url)
    assert drafts == [function(0, sample()), function(0, sample()), ""]


def test_a_model_that_does_not_do_it_is_not_said_to_have_done_it(
    gateway: RunningGateway, home: CleanHome
) -> None:
    wrong = changed(10, passed="30").replace("LOW = 5", "LOW = 50")
    stays = Reply(when=REDIRECTED, then=(Say(function(10)),))
    rewrite = Reply(when=WHOLE_FILE, then=(Say(f"```python\n{wrong}```\n"),))
    gateway.engine.play([stays, HALF, rewrite])
    ran = run(home, gateway.url)
    assert row(ran.stdout, "as asked") == [
        "no, and 2 other lines changed",
        "no, and nothing else changed",
    ]
    assert row(ran.stdout, "undo")[1] == "the file is as it was"


def test_an_edit_that_breaks_the_file_is_asked_for_again(
    gateway: RunningGateway, home: CleanHome
) -> None:
    broken = Reply(when=REDIRECTED, then=(Say("```python\ndef fetch(:\n```\n"),))
    mended = Reply(when="syntax error", then=(Say(function(5)),))
    gateway.engine.play([mended, broken, HALF, REWRITE])
    ran = run(home, gateway.url)
    assert row(ran.stdout, "as asked")[1] == "yes, and nothing else changed"


def test_an_edit_that_stays_broken_is_refused_and_not_applied(
    gateway: RunningGateway, home: CleanHome
) -> None:
    broken = Reply(when=AGAIN, then=(Say("```python\ndef fetch(:\n```\n"),))
    gateway.engine.play([broken, HALF, REWRITE])
    ran = run(home, gateway.url)
    assert ran.returncode == 0
    assert row(ran.stdout, "as asked")[1].startswith("refused, nothing was changed: ")
    assert row(ran.stdout, "undo") == ["-", "-"]


@pytest.mark.parametrize(("way", "most"), [((), 1), (("--together",), 2)], ids=["in turn", "both"])
def test_the_ways_run_one_after_the_other_or_together(
    gateway: RunningGateway, home: CleanHome, way: tuple[str, ...], most: int
) -> None:
    seen: list[int] = []
    rewrite = Reply(when=WHOLE_FILE, then=(Stall(2), *REWRITE.then))
    gateway.engine.play([RIGHT, HALF, rewrite])
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, home, gateway.url, *way)

        def is_over() -> bool:
            seen.append(gateway.engine.running())
            return running.done()

        eventually(is_over)
    assert max(seen) == most
    assert row(running.result().stdout, "as asked") == ["yes, and nothing else changed"] * 2


@pytest.mark.parametrize("way", [(), ("--together",)], ids=["in turn", "together"])
def test_the_time_that_is_given_ends_it(
    gateway: RunningGateway, home: CleanHome, way: tuple[str, ...]
) -> None:
    gateway.engine.play([RIGHT, HALF, ENDLESS])
    ran = run(home, gateway.url, "--seconds", "4", *way)
    assert ran.returncode == 0, ran.stderr
    left, right = row(ran.stdout, "time")
    assert re.fullmatch(r"not finished after 4\.\d s", left)
    assert re.fullmatch(r"\d\.\d s", right)
    assert re.fullmatch(rf"\d+ of {line_count()} lines written", row(ran.stdout, "as asked")[0])
    eventually(lambda: gateway.engine.running() == 0)


# -- what can be in the way -----------------------------------------------------------------------


def test_without_a_server_it_says_how_to_start_one(home: CleanHome) -> None:
    ran = run(home, f"http://127.0.0.1:{free_port()}/v1")
    assert ran.returncode == 1
    assert ran.stderr.startswith("vivace: ")
    assert "vivace up" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("side", [WHOLE_FILE, FUNCTION], ids=["plain", "edit"])
def test_an_engine_that_fails_is_said(gateway: RunningGateway, home: CleanHome, side: str) -> None:
    fails = Reply(when=side, then=(Say("So far"), Fail("The engine is unwell.")))
    gateway.engine.play([fails, HALF, ENDLESS])
    ran = run(home, gateway.url)
    assert ran.returncode == 1
    assert "The engine is unwell." in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_model_that_is_not_there_is_said(gateway: RunningGateway, home: CleanHome) -> None:
    ran = run(home, gateway.url, "-m", "local-modle")
    assert ran.returncode == 1
    assert "Did you mean 'local-model'?" in ran.stderr


# -- in a terminal --------------------------------------------------------------------------------


@contextmanager
def terminal(home: CleanHome, url: str, *arguments: str) -> Iterator[pexpect.spawn[str]]:
    program, *rest = home.command("demo", "--url", url, *arguments)
    plain: Any = home.environment | {"TERM": "xterm", "TMPDIR": str(home.folder)}
    child = pexpect.spawn(
        program, rest, env=plain, encoding="utf-8", timeout=30, dimensions=(40, 130)
    )
    try:
        yield child
    finally:
        child.close(force=True)


def copies(home: CleanHome) -> list[str]:
    """The temporary files, while they are there."""
    found = home.folder.glob(f"vivace-demo-*/work/{PATH}")
    return [each.read_text() for each in found]


def test_both_panes_are_seen_and_the_redirect_is_typed_before_their_eyes(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([RIGHT, HALF, ENDLESS])
    with terminal(home, gateway.url) as child:
        child.expect_exact("the plain way")
        child.expect_exact("vivace edit")
        child.expect_exact("comes next")
        child.expect_exact("+    def fetch(")
        child.expect_exact("timeout: float = 10")
        child.expect(r"> the[^▌>]{1,15}▌")  # half a line, with the cursor
        child.expect_exact(f"> {REDIRECT}")
        child.expect_exact("+    def fetch(")
        child.expect_exact("timeout: float = 5)")
        child.expect_exact("applied")
        assert copies(home) == [changed(5)]
        child.expect_exact("class WarehouseError")  # the plain way writes
        child.send("q")
        child.expect_exact(OUTER_SCREEN)
        child.expect_exact("as asked")
        child.expect_exact("yes, and nothing else changed")
        child.expect_exact("the file is as it was")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    assert copies(home) == []
    eventually(lambda: gateway.engine.running() == 0)


def test_at_the_end_the_edit_is_undone_and_the_summary_stays(
    gateway: RunningGateway, home: CleanHome
) -> None:
    gateway.engine.play([RIGHT, HALF, REWRITE])
    with terminal(home, gateway.url) as child:
        child.expect_exact("applied, and undone")
        assert copies(home) == [sample()]
        child.expect_exact(OUTER_SCREEN)
        child.expect_exact("the file is as it was")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


@pytest.mark.parametrize("end", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_it_can_be_ended_before_anything_came(
    gateway: RunningGateway, home: CleanHome, end: str
) -> None:
    gateway.engine.play([Reply(then=(Stall(3600),))])
    with terminal(home, gateway.url) as child:
        child.expect_exact("reads · 0 of")
        child.send(end)
        child.expect_exact(OUTER_SCREEN)
        child.expect_exact("not finished")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    eventually(lambda: gateway.engine.running() == 0)


def test_once_prints_only_the_summary(gateway: RunningGateway, home: CleanHome) -> None:
    gateway.engine.play([RIGHT, HALF, REWRITE])
    with terminal(home, gateway.url, "--once") as child:
        child.expect(pexpect.EOF)
        assert "\x1b" not in (child.before or "")
        assert "as asked" in (child.before or "")


def test_what_a_model_says_does_not_steer_the_terminal(
    gateway: RunningGateway, home: CleanHome
) -> None:
    evil = Reply(when=WHOLE_FILE, then=(Say("\x1b]0;owned\x07 and so on\n"), Stall(3600)))
    gateway.engine.play([RIGHT, HALF, evil])
    with terminal(home, gateway.url) as child:
        child.expect_exact("applied")
        child.send("q")
        child.expect(pexpect.EOF)
        assert "\x1b]0;" not in (child.before or "")
