"""A real PostgreSQL with a folder of its own, to be used, killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.support.ports import free_port
from tests.support.waiting import eventually
from vivace.store.migrating import migrate

_BIN = Path("/usr/lib/postgresql")
_FIRST = "vivace"
"""The user and the database of this name are made with the server."""
_TEMPLATE = "template_vivace"


def programs() -> Path:
    """Where the newest server's programs are. In CI one that is missing is a failure."""
    found = sorted(_BIN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    if os.environ.get("CI"):
        pytest.fail("PostgreSQL's server is not installed: apt-get install postgresql")
    pytest.skip("PostgreSQL's server is not installed")


class Postgres:
    """The server refuses to be run by root, so root runs it as its own user."""

    def __init__(self, of: Postgres | None = None) -> None:
        """As a standby of another one, if that is given."""
        self._programs = programs()
        # Not in pytest's own folder, which every pytest closes to other users when it begins.
        self._folder = folder = Path(tempfile.mkdtemp(prefix="vivace-postgres-"))
        self._as_user: list[str] = []
        if os.getuid() == 0:
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
            shutil.chown(folder, "postgres")
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._again: str | None = None
        self.port = free_port()
        if of is not None:
            self._follow(of)
            return
        options = ("-A", "trust", "-U", _FIRST, "--locale=C.UTF-8", "--no-sync")
        self._run(self._programs / "initdb", "-D", folder / "data", *options)
        self.start()
        asyncio.run(self._make_template())

    def _follow(self, first: Postgres) -> None:
        """Whatever the first one confirms from now on, this one has, too."""
        source = ("-h", "127.0.0.1", "-p", str(first.port), "-U", _FIRST)
        copied = ("-D", self._folder / "data", "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self._run(self._programs / "pg_basebackup", *source, *copied)
        # What the first one was told about standbys of its own is no matter of this one.
        (self._folder / "data" / "postgresql.auto.conf").write_text(
            f"primary_conninfo = 'host=127.0.0.1 port={first.port} user={_FIRST}'\n"
            "wal_retrieve_retry_interval = '100ms'\n"
        )
        self._again, self._databases = first._again, first._databases
        self.start()
        asyncio.run(first._execute("ALTER SYSTEM SET synchronous_standby_names = '*'"))
        asyncio.run(first._execute("SELECT pg_reload_conf()"))

    def promote(self) -> None:
        """From a standby to one that takes writes; returns when it does."""
        asyncio.run(self._execute("SELECT pg_promote()"))

    def _run(self, *command: str | Path) -> None:
        subprocess.run([*self._as_user, *command], check=True, stdout=subprocess.DEVNULL)

    @property
    def database_name(self) -> str:
        """Of the one that ``emptied`` gives."""
        assert self._again is not None
        return self._again.rpartition("/")[2]

    def url(self, database: str, port: int | None = None) -> str:
        return f"postgresql://{_FIRST}@127.0.0.1:{port or self.port}/{database}"

    # -- the process ------------------------------------------------------------------------------

    def start(self) -> None:
        """After a kill it says for a moment that another one runs: its children do."""

        def is_ready() -> bool:
            if self._process is None or self._process.poll() is not None:
                self._process = self._begin()
            return self._is_ready()

        eventually(is_ready, 120, lambda: (self._folder / "log").read_text()[-2000:])

    def _begin(self) -> subprocess.Popen[bytes]:
        settings = (
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            f"unix_socket_directories={self._folder}",
            "fsync=off",  # what a killed process wrote is kept by the system all the same
            "synchronous_commit=on",
            "max_connections=200",
        )
        options = [word for each in settings for word in ("-c", each)]
        server: list[str | Path] = [self._programs / "postgres", "-D", self._folder / "data"]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen([*self._as_user, *server, *options], stdout=log, stderr=log)

    def _is_ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            return False

        async def ask() -> None:
            connection = await asyncpg.connect(self.url("postgres"), timeout=2)
            await connection.close()

        try:
            asyncio.run(ask())
        except (OSError, asyncpg.PostgresError, TimeoutError):
            return False
        return True

    def kill(self) -> None:
        """As if its machine had lost its power, but for what the disk still writes."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.wait()

    def freeze(self) -> None:
        """All of it, the process first that would make others."""
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for process in reversed(self._all()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def _all(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def stop(self) -> None:
        """For good."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- databases --------------------------------------------------------------------------------

    async def _make_template(self) -> None:
        await self._execute(f"CREATE DATABASE {_TEMPLATE}")
        await migrate(self.url(_TEMPLATE))

    async def _execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    def emptied(self) -> str:
        """The url of one that is used again and again; to make a new one takes a second."""
        if self._again is None:
            self._again = self.database()
        url = self.url(self.database_name)
        asyncio.run(self._empty(url))
        return url

    async def _empty(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            for table in ("turns", "orders", "once", "gateways", "access_keys"):
                await connection.execute(f"DELETE FROM {table}")
            await connection.execute("UPDATE access_keys_now SET ever = false")
        finally:
            await connection.close()

    def database(self, *, migrated: bool = True) -> str:
        """The url of a new one."""
        self._databases += 1
        name = f"store_{self._databases}"
        template = _TEMPLATE if migrated else "template0"
        asyncio.run(self._execute(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return self.url(name)
