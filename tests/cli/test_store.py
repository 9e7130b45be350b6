"""``vivace store migrate``, and a server that says to type it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.test_main import RIGHT, complaint, vivace
from tests.support.postgres import Postgres
from vivace.store.migrating import migrations


def configured(tmp_path: Path, store: str) -> Path:
    (tmp_path / "vivace.toml").write_text(RIGHT.replace('path = ":memory:"', store))
    return tmp_path


def test_a_server_says_what_to_type_and_that_makes_the_tables(
    tmp_path: Path, postgres: Postgres
) -> None:
    folder = configured(tmp_path, f'url = "{postgres.database(migrated=False)}"')
    assert "vivace store migrate" in vivace("serve", cwd=folder).stderr
    first = vivace("store", "migrate", cwd=folder)
    assert (first.returncode, first.stderr) == (0, "")
    *applied, ready = first.stdout.splitlines()
    assert applied[0] == "applied 0001 turns"
    assert applied == [f"applied {each.version:04} {each.name}" for each in migrations()]
    assert re.fullmatch(r"PostgreSQL store_\d+ on 127\.0\.0\.1 is ready\.", ready)
    again = vivace("store", "migrate", cwd=folder)
    assert again.stdout.endswith("on 127.0.0.1 is up to date.\n")


def test_a_store_in_a_file_needs_none(tmp_path: Path) -> None:
    told = vivace("store", "migrate", cwd=configured(tmp_path, 'path = "turns.db"'))
    assert told.stdout == (
        "turns.db is a file, which the server brings up to date when it starts.\n"
    )
    assert not (tmp_path / "turns.db").exists()


def test_a_password_is_never_told(tmp_path: Path) -> None:
    folder = configured(tmp_path, 'url = "postgresql://ada:secret-word@127.0.0.1:1/vivace"')
    told = complaint(vivace("store", "migrate", cwd=folder))
    assert "does not answer" in told
    assert "secret-word" not in told
    assert "secret-word" not in vivace("config", "check", cwd=folder).stdout
