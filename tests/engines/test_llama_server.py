"""llama.cpp's process, socket and restarts, on a ``llama-server`` that is played."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from tests.engines.llama import all_end, family_of, kill, new_engine, on_loop, start_parent
from tests.engines.suite import until
from tests.support import llama_server
from tests.support.waiting import PATIENCE_S
from vivace.engines.base import Card
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.errors import EngineDied
from vivace.supervisor import Supervisor


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """PATH with a ``llama-server`` that is healthy and no more."""
    llama_server.put_into(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return os.environ["PATH"]


def assert_starts(model: Path) -> None:
    """Start an engine with this model, and stop it again."""

    async def check() -> None:
        engine = new_engine(model)
        try:
            await asyncio.wait_for(engine.start(), PATIENCE_S)
            assert engine.healthy()
        finally:
            await engine.stop()

    on_loop(check)


def test_a_server_on_path_is_preferred_and_ends_with_the_engine(
    on_path: str, tmp_path: Path
) -> None:
    async def check() -> list[psutil.Process]:
        engine = new_engine(tmp_path / "model.gguf")
        await engine.start()
        family = family_of(engine)
        assert any("llama-server" in " ".join(each.cmdline()) for each in family)
        await engine.stop()
        return family

    assert all_end(on_loop(check))


def test_how_much_is_read_and_kept_can_be_set(on_path: str, tmp_path: Path) -> None:
    async def check() -> None:
        path = tmp_path / "model.gguf"
        engine = LlamaCppEngine("e", Card("m", 512), path, batch_size=64, prompt_cache_mib=100)
        await engine.start()
        try:
            server = family_of(engine)[-1]
            assert "--batch-size 64" in " ".join(server.cmdline())
            assert server.environ()["LLAMA_ARG_CACHE_RAM"] == "100"
        finally:
            await engine.stop()

    on_loop(check)


def test_a_key_that_the_person_uses_elsewhere_does_not_shut_us_out(
    on_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "of-another-server")

    assert_starts(tmp_path / "model.gguf")


def test_stopping_leaves_no_socket(on_path: str, tmp_path: Path) -> None:
    async def check() -> Path:
        engine = new_engine(tmp_path / "model.gguf")
        await engine.start()
        assert engine.socket.is_socket()
        await engine.stop()
        return engine.socket.parent

    assert not on_loop(check).exists()


def test_a_long_name_for_temporary_files_is_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address of a socket has a hundred characters, and people's folders have more."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 20)))
    assert len(str(new_engine(tmp_path / "model.gguf").socket)) < 104


def test_a_server_on_path_does_not_outlive_a_parent_that_was_killed(
    on_path: str, tmp_path: Path
) -> None:
    parent, family = start_parent(tmp_path / "model.gguf", PATH=on_path)
    parent.kill()
    parent.wait()
    assert all_end(family)


def test_a_server_on_path_that_dies_comes_back(on_path: str, tmp_path: Path) -> None:
    async def check() -> list[psutil.Process]:
        engine = new_engine(tmp_path / "model.gguf")
        await engine.start()
        family = family_of(engine)
        family[-1].kill()
        await until(lambda: not engine.healthy())
        await until(engine.healthy)
        family += family_of(engine)
        await engine.stop()
        return family

    assert all_end(on_loop(check))


def test_killing_what_the_engine_calls_its_process_leaves_nothing_behind(
    on_path: str, tmp_path: Path
) -> None:
    """A server that is left behind would keep all the memory of a model."""

    async def check() -> list[psutil.Process]:
        engine = new_engine(tmp_path / "model.gguf")
        await engine.start()
        family = family_of(engine)
        kill(engine)
        await until(lambda: not engine.healthy())
        await engine.stop()
        return family

    assert all_end(on_loop(check))


# -- the watch over it ----------------------------------------------------------------------------


async def no_process(*_: Any, **__: Any) -> Any:
    raise OSError(24, "Too many open files")


async def no_answer(*_: Any, **__: Any) -> Any:
    raise RuntimeError("what nobody foresaw, while the child lives")


@pytest.mark.parametrize(
    ("where", "failure"),
    [
        ("asyncio.create_subprocess_exec", no_process),
        ("vivace.engines.llamacpp.LlamaCppEngine._answers", no_answer),
    ],
    ids=["no process", "no answer"],
)
def test_whatever_goes_wrong_while_it_comes_back_it_is_tried_again(
    on_path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    failure: Callable[..., Coroutine[Any, Any, Any]],
) -> None:
    async def check() -> list[psutil.Process]:
        supervisor = Supervisor(first=0.01)
        engine = new_engine(tmp_path / "model.gguf", supervisor)
        await engine.start()
        family = family_of(engine)
        with monkeypatch.context() as broken:
            broken.setattr(where, failure)
            kill(engine)
            await until(lambda: supervisor.watched["engine-llama"].restarts > 1)
            assert not engine.healthy()
        await until(engine.healthy)
        family += family_of(engine)
        await engine.stop()
        return family

    assert all_end(on_loop(check))


def test_a_first_start_without_a_process_says_why(
    on_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = new_engine(tmp_path / "model.gguf")
    monkeypatch.setattr("asyncio.create_subprocess_exec", no_process)
    with pytest.raises(EngineDied, match="Too many open files"):
        asyncio.run(engine.start())
    asyncio.run(engine.stop())


def test_a_line_of_any_length_does_not_stop_it(on_path: str, tmp_path: Path) -> None:
    """A log that nobody reads blocks its writer once the pipe is full."""
    llama_server.put_into(tmp_path, first="print('x' * 1_000_000, flush=True)")

    assert_starts(tmp_path / "model.gguf")


# -- its socket ---------------------------------------------------------------------------------


def test_a_folder_that_another_made_at_its_place_is_not_used(tmp_path: Path) -> None:
    """Another user could replace the socket in such a folder, and would get the prompts."""
    engine = new_engine(tmp_path / "model.gguf")
    (engine.socket.parent).mkdir()
    with (
        mock.patch("shutil.rmtree"),  # as where it is not ours to remove
        pytest.raises(EngineDied, match="File exists"),
    ):
        asyncio.run(engine.start())
    engine.socket.parent.rmdir()


def test_a_start_takes_away_what_killed_gateways_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as lives:
        paths = {name: Path(folder, f"vivace-{name}", "llama.sock") for name in ("a", "b", "c")}
        for path in paths.values():
            path.parent.mkdir()
        for name in ("b", "c"):  # bound, and never closed by itself: so a killed one leaves it
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(paths[name]))
        lives.bind(str(paths["a"]))
        lives.listen()
        for name in ("a", "b"):  # and "c" may be about to listen
            os.utime(paths[name], (0, 0))
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr(asyncio, "create_subprocess_exec", mock.Mock(side_effect=OSError))
        engine = new_engine(Path(folder, "model.gguf"))
        with pytest.raises(EngineDied):
            asyncio.run(engine.start())
        asyncio.run(engine.stop())
        assert [name for name, path in paths.items() if path.parent.exists()] == ["a", "c"]
