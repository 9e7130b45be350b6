"""``vivace up`` as a new user meets it: a clean home, a real llama.cpp, a real model.

Only the hub is ours: it stands on loopback, so that it can break off, spoil a file or go away.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import httpx
import pexpect
import psutil
import pytest

from tests.support.disk import small_disk_at
from tests.support.files import model_file
from tests.support.gguf_split import split
from tests.support.hub import CleanHome, Hub
from tests.support.ports import free_port
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from vivace import models

MODEL = "qwen2.5-coder-0.5b"
ROW = models.find(MODEL)
assert ROW is not None
assert ROW.gguf is not None
WEIGHTS = ROW.gguf
SMALL = ("--context", "1024", "--slots", "1", "--drafts")
MEGABYTE = 1_000_000
READY = "   ready  "
"""Not the word alone, which is in 'already here' too."""

# llama.cpp's threads wait for each other by turning; where others use the cores, that is slow.
pytestmark = [pytest.mark.alone, pytest.mark.timeout(400)]


@pytest.fixture(scope="session")
def weights() -> Path:
    """The real file, which tests read and link to and never write."""
    if importlib.util.find_spec("xllamacpp") is None and shutil.which("llama-server") is None:
        pytest.skip("needs llama.cpp: pip install 'vivace[llamacpp]'")
    return model_file(MODEL)


@pytest.fixture
def hub(weights: Path) -> Iterator[Hub]:
    with Hub() as running:
        running.hold(WEIGHTS.repo, weights, sha256=WEIGHTS.sha256)
        yield running


@pytest.fixture
def home(tmp_path: Path, hub: Hub) -> Iterator[CleanHome]:
    home = CleanHome(tmp_path, hub.url)
    try:
        yield home
    finally:
        home.clear()


def cached(home: CleanHome) -> Path:
    """Where the model's file goes."""
    assert WEIGHTS.file is not None
    path = home.cache / "models" / WEIGHTS.file
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def warm(home: CleanHome, weights: Path) -> None:
    """As after an earlier run, without its half gigabyte."""
    path = cached(home)
    try:
        path.hardlink_to(weights)
    except OSError:  # the cache is on another disk
        shutil.copy2(weights, path)
    stamp = f"{WEIGHTS.sha256} {WEIGHTS.size} {path.stat().st_mtime_ns}\n"
    path.with_name(path.name + ".ok").write_text(stamp)


class Up:
    """``with Up(home) as up``: a ``vivace up`` of its own; what it says is kept as it comes."""

    def __init__(self, home: CleanHome, *arguments: str) -> None:
        self.port = free_port()
        self.began = time.perf_counter()
        self.said = ""
        self.process = subprocess.Popen(
            home.command("up", "--port", str(self.port), *arguments),
            cwd=home.folder,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def age(self) -> float:
        return time.perf_counter() - self.began

    def says(self, text: str, seconds: float = 150) -> None:
        """Wait for a text to appear."""
        try:
            eventually(lambda: text in self.said or self.process.poll() is not None, seconds)
        except AssertionError:
            raise AssertionError(f"no {text!r} in:\n{self.said}") from None
        self._listening.join(0 if self.process.poll() is None else 10)
        assert text in self.said, self.said

    def answers(self, prompt: str = "Say hello.", tokens: int = 8) -> float:
        """Have a short answer; when did its first token come?"""
        with Socket(self.url) as client:
            client.create(prompt, max_output_tokens=tokens, store=False)
            client.until("response.output_text.delta", 60)
            first = self.age
            client.until_end(60)
        return first

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url[:-3]}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def engine(self) -> psutil.Process:
        """llama.cpp itself: the innermost of the processes that were started for it."""
        *_, last = psutil.Process(self.process.pid).children(recursive=True)
        assert "--host" in last.cmdline()
        return last

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self._listening.join(10)
        return code

    def __enter__(self) -> Up:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._listening.join(10)


def complaint(home: CleanHome, *arguments: str) -> str:
    """What a person reads when it cannot be done: no traceback, and a last word for them."""
    port = ("--port", str(free_port())) if "--port" not in arguments else ()
    ran = subprocess.run(
        home.command("up", *port, *arguments),
        cwd=home.folder,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == 1, ran.stdout + ran.stderr
    before, found, message = ran.stderr.partition("vivace: ")
    assert found, ran.stderr
    assert before == ""
    return message


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


# -- from nothing to an answer --------------------------------------------------------------------


def test_from_nothing_to_the_first_token_and_again_with_a_warm_cache(
    home: CleanHome, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    times = []
    for _ in range(2):
        with Up(home, "--model", MODEL, *SMALL) as up:
            up.says(READY)
            times.append((up.age, up.answers()))
            up.says("Ctrl-C ends it")
            assert up.interrupt() == 0
    assert len(hub.downloads) == 1
    assert "already here" in up.said
    (cold_ready, cold_token), (warm_ready, warm_token) = times
    for name, ready, token in (
        ("from nothing", cold_ready, cold_token),
        ("with a warm cache", warm_ready, warm_token),
    ):
        tell(capsys, f"vivace up {name}: ready in {ready:.1f} s, first token in {token:.1f} s")


def test_it_says_what_it_found_what_it_chose_how_fast_it_is_and_what_to_type_next(
    home: CleanHome, weights: Path
) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL) as up:
        up.says("Ctrl-C ends it")
        up.interrupt()
    lines = {line.split()[0]: line for line in up.said.splitlines() if line[:1] == " "}
    assert re.search(r"\d+ cores, \d+ GiB of memory|with \d+ GiB", lines["machine"])
    assert f"{MODEL}: you asked for it" in lines["model"]
    assert cached(home).name in lines["file"]
    assert "llama.cpp" in lines["engine"]
    assert re.search(r"after \d+\.\d s", lines["ready"])
    assert re.search(r"first after \d+\.\d+ s · \d+(\.\d)? tokens/s", lines["speed"])
    assert f"vivace ask --url {up.url} " in up.said
    assert f"vivace connect codex --url {up.url} " in up.said


def test_whether_drafts_pay_is_measured_once(home: CleanHome, weights: Path) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL, "--context", "1024") as up:
        up.says("times as fast with drafts")
        up.interrupt()
    gain = re.search(r"copied code comes (\d+\.\d) times", up.said)
    assert gain is not None
    if float(gain[1]) > 1.2:  # how much it is depends on the machine, and on who else uses it
        assert "stay off" not in up.said
    if float(gain[1]) < 0.9:
        assert "they stay off from the next start on" in up.said
    with Up(home, "--model", MODEL, "--context", "1024") as again:
        again.says("Ctrl-C ends it")
        again.answers()
        again.interrupt()
    assert "with drafts" not in again.said


def test_the_command_that_it_tells_to_type_next_works(home: CleanHome, weights: Path) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says("Ctrl-C ends it")
        asked = subprocess.run(
            home.command("ask", "--url", up.url, "--max-tokens", "16", "Say hello."),
            env=home.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.strip()
    assert "tokens" in asked.stderr


def test_a_file_of_ones_own_needs_no_hub(home: CleanHome, hub: Hub, weights: Path) -> None:
    with Up(home, "--model", str(weights), *SMALL) as up:
        up.says(READY)
        up.answers()
    assert hub.asked == []
    assert "it is your file" in up.said
    assert not home.cache.exists()


def test_a_hub_id_outside_of_our_table_is_downloaded_and_run(
    home: CleanHome, hub: Hub, weights: Path
) -> None:
    hub.hold("someone/A-Model-GGUF", weights, sha256=WEIGHTS.sha256)
    with Up(home, "--model", "someone/A-Model-GGUF", *SMALL) as up:
        up.says(READY)
        up.answers()
        names = httpx.get(f"{up.url}/models").json()["data"]
    assert [row["id"] for row in names] == ["a-model"]
    assert hub.sent[-1].size == WEIGHTS.size


def test_a_model_in_pieces_behind_terms_is_brought_and_run(
    home: CleanHome, hub: Hub, weights: Path
) -> None:
    home.cache.mkdir()  # what is kept there is cleared
    for piece in split(weights, home.cache, 3):
        with piece.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        name = f"Q4_K_M/small-Q4_K_M{piece.stem[-15:]}.gguf"
        hub.hold("someone/Small-GGUF", piece, sha256=sha256, name=name)
    hub.gated["someone/Small-GGUF"] = "hf_mine"
    assert "accept its terms" in complaint(home, "--model", "someone/Small-GGUF")
    login = home.folder / ".cache/huggingface"  # as hf auth login leaves it
    login.mkdir(parents=True)
    (login / "token").write_text("hf_mine\n")
    with Up(home, "--model", "someone/Small-GGUF", *SMALL) as up:
        up.says(READY)
    assert [sent.file[-20:] for sent in hub.sent] == [
        f"-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]


def test_a_proxy_for_the_world_is_not_asked_about_this_machine(
    home: CleanHome, weights: Path
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    home.environment |= {"http_proxy": nowhere, "https_proxy": nowhere, "all_proxy": nowhere}
    with Up(home, "--model", str(weights), *SMALL) as up:
        up.says("Ctrl-C ends it", 60)


def test_a_terminal_shows_how_far_the_download_is(home: CleanHome, hub: Hub) -> None:
    hub.pace = 300 * MEGABYTE
    program, *arguments = home.command("up", "--model", MODEL, "--port", str(free_port()), *SMALL)
    terminal = pexpect.spawn(program, arguments, env=environment(home), encoding="utf-8")
    try:
        terminal.expect(r"\d+%  \d+\.\d MB of 491\.4 MB", timeout=30)
    finally:
        terminal.close(force=True)


# -- what can be in the way -----------------------------------------------------------------------


def test_a_taken_port_leads_to_another_one(home: CleanHome, weights: Path) -> None:
    warm(home, weights)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = complaint(home, "--model", MODEL, "--port", port, *SMALL)
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use. Stop" in said
    assert "--port" in said


def test_a_taken_port_is_said_before_a_long_download(home: CleanHome, hub: Hub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        complaint(home, "--model", MODEL, "--port", str(taken.getsockname()[1]), *SMALL)
    assert hub.downloads == []


def test_a_missing_engine_is_said_before_a_long_download(home: CleanHome, hub: Hub) -> None:
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
    assert hub.downloads == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "small", "64m") as folder:
        yield folder


def test_a_full_disk_leads_to_another_place_or_a_smaller_model(
    home: CleanHome, hub: Hub, small_disk: Path
) -> None:
    home.environment["VIVACE_CACHE"] = str(small_disk)
    said = complaint(home, "--model", MODEL, *SMALL)
    assert "491.4 MB are needed" in said
    assert str(small_disk) in said
    assert "VIVACE_CACHE" in said
    assert "smaller model" in said
    assert hub.downloads == []


def test_a_download_that_is_cut_goes_on_by_itself(home: CleanHome, hub: Hub) -> None:
    hub.cuts.extend([200 * MEGABYTE, 100 * MEGABYTE])
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says(READY)
        up.answers()
    assert [sent.start for sent in hub.sent] == [0, 200 * MEGABYTE, 300 * MEGABYTE]


def test_a_hub_that_goes_away_is_said_and_the_next_run_goes_on_from_there(
    home: CleanHome, hub: Hub
) -> None:
    hub.cuts.append(300 * MEGABYTE)
    hub.leaves_after_cut = True
    said = complaint(home, "--model", MODEL, *SMALL)
    assert "cannot be reached" in said
    assert "run again" in said
    assert "300.0 MB are kept" in said
    hub.arrive()
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says(READY)
        up.answers()
    assert [sent.start for sent in hub.sent] == [0, 300 * MEGABYTE]


def test_a_spoilt_file_from_the_hub_is_refused_and_not_kept(home: CleanHome, hub: Hub) -> None:
    hub.spoils = 123 * MEGABYTE
    said = complaint(home, "--model", MODEL, *SMALL)
    assert "refused" in said
    assert "Run again" in said
    assert "--model PATH" in said
    assert not cached(home).exists()
    assert not cached(home).with_name(cached(home).name + ".part").exists()


def test_a_spoilt_file_in_the_cache_is_noticed_and_fetched_again(
    home: CleanHome, hub: Hub, weights: Path
) -> None:
    warm(home, weights)
    path = cached(home)
    path.unlink()  # a link to the real one
    with path.open("wb") as file:
        file.truncate(WEIGHTS.size)
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says(READY)
        up.answers()
    assert "not the expected one" in up.said
    assert len(hub.downloads) == 1


@pytest.mark.parametrize("kind", ["junk", "cut short", "empty"])
def test_a_spoilt_file_of_ones_own_is_named_with_what_to_do(
    home: CleanHome, weights: Path, kind: str
) -> None:
    own = home.folder / "own.gguf"
    with weights.open("rb") as file:
        start = file.read(50 * MEGABYTE)
    own.write_bytes({"junk": b"no model" * 1000, "cut short": start, "empty": b""}[kind])
    said = complaint(home, "--model", str(own), *SMALL)
    own.unlink()
    assert str(own) in said
    assert "--model" in said
    assert not re.search(r"\d\.\d\d\.\d\d\d\.\d\d\d [A-Z] ", said)  # llama.cpp's own log


def test_too_little_memory_leads_to_a_smaller_context(home: CleanHome, hub: Hub) -> None:
    said = complaint(home, "--model", MODEL, "--context", "50000000")
    assert re.search(r"needs \d+\.\d GiB, and \d+\.\d GiB are free", said)
    assert "smaller --context" in said
    assert hub.downloads == []


@pytest.mark.parametrize(
    ("option", "number"),
    [("--context", "0"), ("--slots", "0"), ("--slots", "-1"), ("--port", "65536")],
)
def test_a_number_that_makes_no_sense_is_an_error_of_use(
    home: CleanHome, option: str, number: str
) -> None:
    ran = subprocess.run(
        home.command("up", "--model", MODEL, option, number),
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == 2
    assert option in ran.stderr


def test_a_name_nearly_right_leads_to_the_right_one(home: CleanHome) -> None:
    said = complaint(home, "--model", "qwen2.5-coder-05b")
    assert f"Did you mean '{MODEL}'?" in said


def test_a_repository_without_gguf_files_leads_to_one_that_has_some(
    home: CleanHome, hub: Hub
) -> None:
    readme = home.folder / "README.md"
    readme.touch()
    hub.hold("someone/a-model", readme)
    said = complaint(home, "--model", "someone/a-model")
    assert "'someone/a-model' has no Q4_K_M GGUF file" in said
    assert "-GGUF" in said
    assert "--model PATH" in said


def test_a_repository_that_the_hub_does_not_know_leads_to_the_spelling(home: CleanHome) -> None:
    said = complaint(home, "--model", "noone/nothing")
    assert "noone/nothing" in said
    assert "Check the spelling" in said


# -- the end --------------------------------------------------------------------------------------


def environment(home: CleanHome) -> os._Environ[str]:
    """pexpect's types ask for more than it needs."""
    plain: dict[str, str] = home.environment | {"TERM": "xterm"}
    return plain  # type: ignore[return-value]


def test_an_interrupt_ends_it_and_llama_cpp_with_it(home: CleanHome, weights: Path) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says("Ctrl-C ends it")
        engine = up.engine()
        assert up.interrupt() == 0
        assert not engine.is_running()
    assert "Traceback" not in up.said


def test_ctrl_c_in_a_terminal_ends_it_without_an_alarm(home: CleanHome, weights: Path) -> None:
    """A terminal sends the signal to llama.cpp too, which must not look like a crash."""
    warm(home, weights)
    program, *arguments = home.command("up", "--model", MODEL, "--port", str(free_port()), *SMALL)
    terminal = pexpect.spawn(program, arguments, env=environment(home), encoding="utf-8")
    try:
        terminal.expect_exact("Ctrl-C ends it", timeout=150)
        assert terminal.pid is not None
        engines = psutil.Process(terminal.pid).children(recursive=True)
        terminal.sendcontrol("c")
        terminal.expect(pexpect.EOF, timeout=30)
        terminal.wait()
        last_words = terminal.before or ""
        assert terminal.exitstatus == 0
        assert engines
        assert not any(engine.is_running() for engine in engines)
        assert "died" not in last_words
        assert "Traceback" not in last_words
    finally:
        terminal.close(force=True)


def test_an_answer_that_is_being_written_at_ctrl_c_is_finished_without_an_alarm(
    home: CleanHome, weights: Path
) -> None:
    """Here llama.cpp has the time to die of the signal before we end it ourselves."""
    warm(home, weights)
    program, *arguments = home.command("up", "--model", MODEL, "--port", str(port := free_port()))
    terminal = pexpect.spawn(program, arguments, env=environment(home), encoding="utf-8")
    try:
        terminal.expect_exact("Ctrl-C ends it", timeout=150)
        with Socket(f"http://127.0.0.1:{port}/v1") as client:
            client.create("Count from one to a hundred.", max_output_tokens=48, store=False)
            client.until("response.output_text.delta", 30)
            terminal.sendcontrol("c")
            end = client.until_end(30)[-1]
        terminal.expect(pexpect.EOF, timeout=30)
        assert end["type"] in ("response.completed", "response.incomplete"), end
        assert "died" not in (terminal.before or "")
    finally:
        terminal.close(force=True)


def test_ctrl_c_in_the_middle_of_a_download_keeps_what_came(home: CleanHome, hub: Hub) -> None:
    hub.pace = 100 * MEGABYTE
    part = cached(home).with_name(cached(home).name + ".part")
    with Up(home, "--model", MODEL, *SMALL) as up:
        eventually(lambda: part.exists() and part.stat().st_size > 20 * MEGABYTE, 20)
        assert up.interrupt() != 0
        assert "Traceback" not in up.said
    have = part.stat().st_size
    hub.pace = 0
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says(READY)
    assert hub.sent[-1].start == have


def test_llama_cpp_does_not_outlive_a_gateway_that_was_killed(
    home: CleanHome, weights: Path
) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says("Ctrl-C ends it")
        engine = up.engine()
        up.process.kill()
        up.process.wait()
        eventually(lambda: not engine.is_running(), 10)


# -- llama.cpp dies -------------------------------------------------------------------------------


def test_a_killed_llama_cpp_comes_back_and_answers_again(home: CleanHome, weights: Path) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says("Ctrl-C ends it")
        first = up.engine()
        first.send_signal(signal.SIGKILL)
        up.says("starting it again", 10)
        eventually(up.ready, 30)
        assert up.engine().pid != first.pid
        up.answers()


def test_an_answer_that_llama_cpp_takes_with_it_fails_clearly_and_the_next_one_works(
    home: CleanHome, weights: Path
) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL) as up:
        up.says("Ctrl-C ends it")
        with Socket(up.url) as client:
            client.create("Write a very long story.", max_output_tokens=2000, store=False)
            client.until("response.output_text.delta", 30)
            up.engine().send_signal(signal.SIGKILL)
            failed: Event = client.until_end(10)[-1]
            assert failed["type"] == "response.failed"
            assert failed["response"]["error"]["code"] == "engine_died"
            assert "llama.cpp" in failed["response"]["error"]["message"]
            eventually(up.ready, 30)
            again = client.turn("Say hello.", max_output_tokens=8, store=False)
            assert again["type"] in ("response.completed", "response.incomplete")


def test_a_question_while_llama_cpp_comes_back_is_answered_or_refused_at_once(
    home: CleanHome, weights: Path
) -> None:
    warm(home, weights)
    with Up(home, "--model", MODEL, *SMALL) as up:
        up.says("Ctrl-C ends it")
        up.engine().send_signal(signal.SIGKILL)
        with Socket(up.url) as client:
            client.create("Say hello.", max_output_tokens=8, store=False)
            end = client.until_end(20)[-1]
        if end["type"] == "error":
            assert end["error"]["message"]
        elif end["type"] == "response.failed":
            assert end["response"]["error"]["message"]
        eventually(up.ready, 30)
        up.answers()
