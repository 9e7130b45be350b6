"""``vivace up`` as a new user meets it: a clean home and a hub of ours on loopback.

The hub can break off, spoil a file or go away. llama.cpp is played, so that what the command does
around it costs no model; with ``--all`` the same tests run with a real llama.cpp and a real model.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pexpect
import psutil
import pytest

from tests.support.commands import run_command
from tests.support.disk import small_disk_at
from tests.support.gguf_split import split
from tests.support.hub import CleanHome, Hub
from tests.support.ports import free_port
from tests.support.socket import Event, Socket
from tests.support.up import LOADING_S, MODEL, SAID_ALL, Up, play_llama_server, real_model
from tests.support.waiting import PATIENCE_S, eventually
from vivace import models

ROW = models.find(MODEL)
assert ROW is not None
assert ROW.gguf is not None
assert ROW.gguf.file is not None
WEIGHTS, FILE = ROW.gguf, ROW.gguf.file
SMALL = ("--context", "1024", "--slots", "1", "--drafts")
MEGABYTE = 1 << 20
REPO = "someone/A-Model-GGUF"

# llama.cpp's threads wait for each other by turning; where others use the cores, that is slow.
REAL = (pytest.mark.alone, pytest.mark.timeout(1800))


def only_at_a_release(test: Any) -> Any:
    """Mark a test that runs a real model."""
    for mark in (*REAL, pytest.mark.release):
        test = mark(test)
    return test


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, hub: Hub) -> Iterator[CleanHome]:
    home = CleanHome(tmp_path, hub.url)
    try:
        yield home
    finally:
        home.clear()


class Local(NamedTuple):
    """A model on this machine, and a home with what runs it."""

    home: CleanHome
    model: Path

    def up(self, *options: str) -> Up:
        return Up(self.home, "--model", str(self.model), *(options or SMALL))

    @contextmanager
    def in_terminal(self, port: int) -> Iterator[pexpect.spawn[str]]:
        """Run it in a terminal until the block ends, which begins when it has said all."""
        command = ("up", "--model", str(self.model), "--port", str(port), *SMALL)
        with terminal(self.home, *command) as child:
            child.expect_exact(SAID_ALL, timeout=LOADING_S)
            yield child


@pytest.fixture(params=["played", pytest.param("real", marks=[*REAL, pytest.mark.release])])
def local(request: pytest.FixtureRequest, home: CleanHome) -> Local:
    if request.param == "real":
        return Local(home, real_model())
    play_llama_server(home)
    return Local(home, small_model(home))


@pytest.fixture
def small(home: CleanHome, hub: Hub) -> Path:
    """A small model in ``REPO`` on the hub, for the played llama-server."""
    play_llama_server(home)
    path = small_model(home)
    hub.hold(REPO, path, sha256=sha256_of(path))
    return path


@pytest.fixture
def weights(hub: Hub) -> Path:
    """The real model in its place on the hub."""
    path = real_model()
    hub.hold(WEIGHTS.repo, path, sha256=WEIGHTS.sha256)
    return path


def small_model(home: CleanHome) -> Path:
    """Make a file that only the played llama-server would load."""
    path = home.folder / "small.Q4_K_M.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 12_000)
    return path


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(home: CleanHome, model: Path) -> Path:
    """Return where the file of ``REPO`` goes."""
    return home.cache / "models" / REPO.replace("/", "--") / model.name


def part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def terminal(home: CleanHome, *arguments: str) -> Iterator[pexpect.spawn[str]]:
    program, *rest = home.command(*arguments)
    environment: Any = home.environment | {"TERM": "xterm"}
    child = pexpect.spawn(program, rest, env=environment, encoding="utf-8", timeout=PATIENCE_S)
    try:
        yield child
    finally:
        child.close(force=True)


def complaint(home: CleanHome, *arguments: str) -> str:
    """Return what a person reads when it cannot be done: no traceback, and a last word for them."""
    port = ("--port", str(free_port())) if "--port" not in arguments else ()
    ran = subprocess.run(
        home.command("up", *port, *arguments),
        cwd=home.folder,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return _message(ran)


def refusal(home: CleanHome, *arguments: str) -> str:
    """Return the same of a command in this process, for what is refused before anything starts."""
    command = ("up", "--port", str(free_port()), *arguments)
    return _message(run_command(*command, folder=home.folder, environment=home.environment))


def _message(ran: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == 1, ran.stdout + ran.stderr
    before, found, message = ran.stderr.partition("vivace: ")
    assert found, ran.stderr
    assert before == ""
    return message


# -- from nothing to an answer --------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.timeout(1800)
def test_up_with_a_real_model_answers_until_it_is_interrupted(home: CleanHome, hub: Hub) -> None:
    with Up(home, "--model", str(real_model()), *SMALL) as up:
        up.says(SAID_ALL)
        engine = up.engine()
        up.answers()
        assert up.interrupt() == 0
        assert not engine.is_running()
    assert f"{MODEL}: it is your file" in up.said
    assert "the first question failed" not in up.said
    assert "Traceback" not in up.said
    assert hub.asked == []
    assert not home.cache.exists()


@only_at_a_release
def test_up_with_a_real_model_brings_it_once(
    home: CleanHome, hub: Hub, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for times in ("from nothing", "with a warm cache"):
        with Up(home, "--model", MODEL, *SMALL) as up:
            up.says(SAID_ALL)
            up.answers()
            assert up.interrupt() == 0
        ready, first = up.seconds("ready"), up.seconds("first")
        with capsys.disabled():
            sys.stdout.write(
                f"\nvivace up {times}: ready in {ready} s, first token after {first}\n"
            )
    assert len(hub.downloads) == 1
    assert "already here" in up.said
    assert f"{MODEL}: you asked for it" in up.said


def test_up_brings_a_model_from_the_hub_once(home: CleanHome, hub: Hub, small: Path) -> None:
    for _ in range(2):
        with Up(home, "--model", REPO, *SMALL) as up:
            up.says(SAID_ALL)
            up.answers()
            assert up.interrupt() == 0
    assert "the model is called a-model." in up.said
    assert [sent.size for sent in hub.sent] == [small.stat().st_size]


def test_up_says_what_it_found_chose_and_measured_and_what_to_type_next(
    home: CleanHome, small: Path
) -> None:
    with Up(home, "--model", REPO, *SMALL) as up:
        up.says(SAID_ALL)
        up.interrupt()
    lines = {line.split()[0]: line for line in up.said.splitlines() if line[:1] == " "}
    assert re.search(r"\d+ cores, \d+ GiB of memory|with \d+ GiB", lines["machine"])
    assert "a-model: you asked for it" in lines["model"]
    assert small.name in lines["file"]
    assert "llama.cpp" in lines["engine"]
    assert re.search(r"after \d+\.\d s", lines["ready"])
    assert re.search(r"first after \d+\.\d+ s · \d+(\.\d)? tokens/s", lines["speed"])
    assert f"vivace ask --url {up.url} " in up.said
    assert f"vivace connect codex --url {up.url} " in up.said


def test_up_measures_once_whether_drafts_pay(local: Local) -> None:
    with local.up("--context", "1024") as up:
        up.says("times as fast with drafts")
        up.interrupt()
    gain = re.search(r"copied code comes (\d+\.\d) times", up.said)
    assert gain is not None
    if float(gain[1]) > 1.2:  # how much it is depends on the machine, and on who else uses it
        assert "stay off" not in up.said
    if float(gain[1]) < 0.9:
        assert "they stay off from the next start on" in up.said
    with local.up("--context", "1024") as again:
        again.says(SAID_ALL)
        again.answers()
        again.interrupt()
    assert "with drafts" not in again.said


def test_up_names_an_ask_command_that_works(local: Local) -> None:
    home = local.home
    with local.up() as up:
        up.says(SAID_ALL)
        command = ("ask", "--url", up.url, "--max-tokens", "16", "Say hello.")
        asked = run_command(*command, folder=home.folder, environment=home.environment)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.strip()
    assert "tokens" in asked.stderr


def _hold_in_pieces(hub: Hub, pieces: Sequence[Path]) -> None:
    """Put a model in pieces on the hub, for one whose terms were accepted."""
    for piece in pieces:
        name = f"Q4_K_M/small-Q4_K_M{piece.stem[-15:]}.gguf"
        hub.hold("someone/Small-GGUF", piece, sha256=sha256_of(piece), name=name)
    hub.gated["someone/Small-GGUF"] = "hf_mine"


def _log_in(home: CleanHome) -> None:
    """Leave what ``hf auth login`` leaves."""
    login = home.folder / ".cache/huggingface"
    login.mkdir(parents=True)
    (login / "token").write_text("hf_mine\n")


@pytest.mark.parametrize(
    "kind", ["played", pytest.param("real", marks=[*REAL, pytest.mark.release])]
)
def test_up_brings_a_model_in_pieces_behind_terms(home: CleanHome, hub: Hub, kind: str) -> None:
    home.cache.mkdir()  # what is kept there is cleared
    if kind == "real":
        pieces = split(real_model(), home.cache, 3)
    else:
        play_llama_server(home)
        pieces = [home.cache / f"piece-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
        for piece in pieces:
            piece.write_text(piece.name)
    _hold_in_pieces(hub, pieces)
    assert "accept its terms" in refusal(home, "--model", "someone/Small-GGUF")
    _log_in(home)
    with Up(home, "--model", "someone/Small-GGUF", *SMALL) as up:
        up.says(SAID_ALL)
    assert [sent.file[-20:] for sent in hub.sent] == [
        f"-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]


def test_up_asks_no_proxy_for_the_world_about_this_machine(local: Local) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    local.home.environment |= {"http_proxy": nowhere, "https_proxy": nowhere, "all_proxy": nowhere}
    with local.up() as up:
        up.says(SAID_ALL)
    assert "the first question failed" not in up.said


def test_up_in_a_terminal_shows_how_far_the_download_is(
    home: CleanHome, hub: Hub, small: Path
) -> None:
    hub.holds_after = MEGABYTE
    with terminal(home, "up", "--model", REPO, "--port", str(free_port()), *SMALL) as child:
        child.expect(r"\d+%  \d+\.\d MB of 3\.1 MB")
    hub.holds_after = None


# -- what can be in the way -----------------------------------------------------------------------


def test_up_says_that_a_port_is_taken_before_a_long_download(home: CleanHome, hub: Hub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = complaint(home, "--model", MODEL, "--port", port, *SMALL)
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use. Stop" in said
    assert "--port" in said
    assert hub.asked == []


def test_up_says_that_llama_cpp_is_missing_before_a_long_download(
    home: CleanHome, hub: Hub
) -> None:
    without = home.folder / "without"
    without.mkdir()
    (without / "sitecustomize.py").write_text("import sys; sys.modules['xllamacpp'] = None\n")
    came_with = os.environ.get("PYTHONPATH", "")
    home.environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(without), came_with))),
        "PATH": "/usr/bin:/bin",
    }
    said = complaint(home, "--model", MODEL, *SMALL)
    assert "llama.cpp is not installed" in said
    assert "pip install" in said
    assert hub.asked == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "small", "64m") as folder:
        yield folder


def test_up_with_a_full_disk_leads_to_another_place_or_a_smaller_model(
    home: CleanHome, hub: Hub, small_disk: Path
) -> None:
    play_llama_server(home)
    large = home.folder / FILE
    with large.open("wb") as file:
        file.truncate(WEIGHTS.size)  # it takes no room
    hub.hold(WEIGHTS.repo, large, sha256=WEIGHTS.sha256)
    home.environment["VIVACE_CACHE"] = str(small_disk)
    said = refusal(home, "--model", MODEL, *SMALL)
    assert "491.4 MB are needed" in said
    assert str(small_disk) in said
    assert "VIVACE_CACHE" in said
    assert "smaller model" in said
    assert hub.downloads == []


def test_up_resumes_a_download_that_is_cut(home: CleanHome, hub: Hub, small: Path) -> None:
    hub.cuts.extend([2 * MEGABYTE, MEGABYTE // 2])
    with Up(home, "--model", REPO, *SMALL) as up:
        up.says(SAID_ALL)
    assert [sent.start for sent in hub.sent] == [0, 2 * MEGABYTE, 2 * MEGABYTE + MEGABYTE // 2]


def test_up_says_that_the_hub_went_away_and_the_next_run_resumes(
    home: CleanHome, hub: Hub, small: Path
) -> None:
    hub.cuts.append(2_000_000)
    hub.leaves_after_cut = True
    said = refusal(home, "--model", REPO, *SMALL)
    assert "cannot be reached" in said
    assert "run again" in said
    assert "2.0 MB are kept" in said
    hub.arrive()
    with Up(home, "--model", REPO, *SMALL) as up:
        up.says(SAID_ALL)
    assert [sent.start for sent in hub.sent] == [0, 2_000_000]


def test_up_refuses_a_spoilt_file_from_the_hub_and_keeps_none_of_it(
    home: CleanHome, hub: Hub, small: Path
) -> None:
    hub.spoils = 1_234_567
    said = refusal(home, "--model", REPO, *SMALL)
    assert "refused" in said
    assert "Run again" in said
    assert "--model PATH" in said
    assert len(hub.downloads) == 1
    assert not cached(home, small).exists()
    assert not part_of(cached(home, small)).exists()


@only_at_a_release
def test_up_fetches_a_spoilt_file_in_the_cache_again(
    home: CleanHome, hub: Hub, weights: Path
) -> None:
    path = home.cache / "models" / FILE
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(WEIGHTS.size)
    (path.parent / f"{FILE}.ok").write_text(f"{WEIGHTS.sha256} {WEIGHTS.size} 1\n")
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says(SAID_ALL)
        up.answers()
    assert "not the expected one" in up.said
    assert len(hub.downloads) == 1


def test_up_names_a_file_that_cannot_be_loaded_with_what_to_do(home: CleanHome) -> None:
    fails = "import sys\n'--help' in sys.argv or sys.exit('0.00.123.456 E error: no GGUF')"
    play_llama_server(home, first=fails)
    said = complaint(home, "--model", str(own := small_model(home)), *SMALL)
    assert f"{own}: error: no GGUF. If the file is spoilt, delete it" in said
    assert "--model" in said


@only_at_a_release
@pytest.mark.parametrize("kind", ["junk", "cut short", "empty"])
def test_up_names_a_file_that_a_real_llama_cpp_cannot_load(home: CleanHome, kind: str) -> None:
    own = home.folder / "own.gguf"
    with real_model().open("rb") as file:
        start = file.read(50_000_000)
    own.write_bytes({"junk": b"no model" * 1000, "cut short": start, "empty": b""}[kind])
    said = complaint(home, "--model", str(own), *SMALL)
    own.unlink()
    assert str(own) in said
    assert "--model" in said
    assert not re.search(r"\d\.\d\d\.\d\d\d\.\d\d\d [A-Z] ", said)  # llama.cpp's own log


def test_up_with_too_little_memory_leads_to_a_smaller_context(home: CleanHome, hub: Hub) -> None:
    said = refusal(home, "--model", MODEL, "--context", "50000000")
    assert re.search(r"needs \d+\.\d GiB, and \d+\.\d GiB are free", said)
    assert "smaller --context" in said
    assert hub.asked == []


@pytest.mark.parametrize(
    ("option", "number"),
    [("--context", "0"), ("--slots", "0"), ("--slots", "-1"), ("--port", "65536")],
)
def test_up_with_a_number_that_makes_no_sense_is_an_error_of_use(
    home: CleanHome, option: str, number: str
) -> None:
    command = ("up", "--model", MODEL, option, number)
    ran = run_command(*command, folder=home.folder, environment=home.environment)
    assert ran.returncode == 2
    assert option in ran.stderr


def test_up_with_a_name_nearly_right_leads_to_the_right_one(home: CleanHome) -> None:
    said = refusal(home, "--model", "qwen2.5-coder-05b")
    assert f"Did you mean '{MODEL}'?" in said


def test_up_with_a_repository_without_gguf_files_leads_to_one_that_has_some(
    home: CleanHome, hub: Hub
) -> None:
    readme = home.folder / "README.md"
    readme.touch()
    hub.hold("someone/a-model", readme)
    said = refusal(home, "--model", "someone/a-model")
    assert "'someone/a-model' has no Q4_K_M GGUF file" in said
    assert "-GGUF" in said
    assert "--model PATH" in said


def test_up_with_a_repository_that_the_hub_does_not_know_leads_to_the_spelling(
    home: CleanHome,
) -> None:
    said = refusal(home, "--model", "noone/nothing")
    assert "noone/nothing" in said
    assert "Check the spelling" in said


# -- the end --------------------------------------------------------------------------------------


def test_interrupt_ends_up_and_llama_cpp_with_it(local: Local) -> None:
    with local.up() as up:
        up.says(SAID_ALL)
        engine = up.engine()
        assert up.interrupt() == 0
        assert not engine.is_running()
    assert "Traceback" not in up.said


def test_ctrl_c_in_a_terminal_ends_up_without_an_alarm(local: Local) -> None:
    """A terminal sends the signal to llama.cpp too, which must not look like a crash."""
    with local.in_terminal(free_port()) as child:
        assert child.pid is not None
        engines = psutil.Process(child.pid).children(recursive=True)
        child.sendcontrol("c")
        child.expect(pexpect.EOF)
        child.wait()
        last_words = child.before or ""
        assert child.exitstatus == 0
        assert engines
        assert not any(engine.is_running() for engine in engines)
        assert "died" not in last_words
        assert "Traceback" not in last_words


def test_ctrl_c_finishes_an_answer_that_is_being_written_without_an_alarm(local: Local) -> None:
    """llama.cpp has the time here to die of the signal before we end it ourselves."""
    port = free_port()
    with local.in_terminal(port) as child:
        with Socket(f"http://127.0.0.1:{port}/v1") as client:
            client.create("Count from one to a hundred.", max_output_tokens=48, store=False)
            client.until("response.output_text.delta", PATIENCE_S)
            child.sendcontrol("c")
            end = client.until_end(PATIENCE_S)[-1]
        child.expect(pexpect.EOF)
        assert end["type"] in ("response.completed", "response.incomplete"), end
        assert "died" not in (child.before or "")


def test_ctrl_c_in_the_middle_of_a_download_keeps_what_came(
    home: CleanHome, hub: Hub, small: Path
) -> None:
    hub.holds_after = 2 * MEGABYTE
    part = part_of(cached(home, small))
    with Up(home, "--model", REPO, *SMALL) as up:
        eventually(lambda: part.exists() and part.stat().st_size > 0)
        assert up.interrupt() != 0
        assert "Traceback" not in up.said
    have = part.stat().st_size
    hub.holds_after = None
    with Up(home, "--model", REPO, *SMALL) as up:
        up.says(SAID_ALL)
    assert have in [sent.start for sent in hub.sent]
    assert not part.exists()


def test_llama_cpp_does_not_outlive_a_gateway_that_was_killed(local: Local) -> None:
    with local.up() as up:
        up.says(SAID_ALL)
        engine = up.engine()
        up.process.kill()
        up.process.wait()
        eventually(lambda: not engine.is_running())


# -- llama.cpp dies -------------------------------------------------------------------------------


def test_killed_llama_cpp_comes_back_and_answers_again(local: Local) -> None:
    with local.up() as up:
        up.says(SAID_ALL)
        first = up.engine()
        first.send_signal(signal.SIGKILL)
        up.says("starting it again")
        eventually(up.ready)
        assert up.engine().pid != first.pid
        up.answers()


def test_answer_that_llama_cpp_takes_with_it_fails_clearly_and_the_next_one_works(
    local: Local,
) -> None:
    with local.up("--drafts") as up:
        up.says(SAID_ALL)
        with Socket(up.url) as client:
            client.create("Write a very long story.", max_output_tokens=2000, store=False)
            client.until("response.output_text.delta", PATIENCE_S)
            up.engine().send_signal(signal.SIGKILL)
            failed: Event = client.until_end(PATIENCE_S)[-1]
            assert failed["type"] == "response.failed"
            assert failed["response"]["error"]["code"] == "engine_died"
            assert "llama.cpp" in failed["response"]["error"]["message"]
            up.says("starting it again")  # until then it may count as ready
            eventually(up.ready)
            client.create("Say hello.", max_output_tokens=8, store=False)
            again = client.until_end(PATIENCE_S)[-1]
            assert again["type"] in ("response.completed", "response.incomplete")


def test_question_while_llama_cpp_comes_back_is_answered_or_refused(local: Local) -> None:
    with local.up() as up:
        up.says(SAID_ALL)
        up.engine().send_signal(signal.SIGKILL)
        with Socket(up.url) as client:
            client.create("Say hello.", max_output_tokens=8, store=False)
            end = client.until_end(PATIENCE_S)[-1]
        if end["type"] == "error":
            assert end["error"]["message"]
        elif end["type"] == "response.failed":
            assert end["response"]["error"]["message"]
        up.says("starting it again")
        eventually(up.ready)
        up.answers()
