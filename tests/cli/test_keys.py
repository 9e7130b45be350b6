"""``vivace keys``: made once, shown once, kept as a hash, and taken back."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.keyring import Keyring, SharedKeyring
from tests.support.postgres import Postgres
from vivace.cli.main import commands
from vivace.errors import ConfigError, StoreError


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """One that others can reach, and that is wrong until it has a key."""
    path = tmp_path / "vivace.toml"
    path.write_text('version = 1\n[server]\nhost = "0.0.0.0"\n')
    return path


@pytest.fixture
def keyring(config: Path) -> Keyring:
    return Keyring(config.parent)


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(commands, ["keys", *arguments, "-c", str(config)])


def done(config: Path, *arguments: str) -> Result:
    ran = run(config, *arguments)
    assert ran.exit_code == 0, ran.output
    return ran


def complaint(config: Path, *arguments: str) -> str:
    error = run(config, *arguments).exception
    assert isinstance(error, ConfigError)
    return str(error)


# -- making ---------------------------------------------------------------------------------------


def test_a_key_is_shown_once_alone_on_standard_output_with_what_to_do_beside_it(
    config: Path,
) -> None:
    made = done(config, "create", "anna")
    assert re.fullmatch(r"viv_[A-Za-z0-9_-]{43}\n", made.stdout)
    for part in ("'anna'", "not shown again", "--key-env VIVACE_KEY", "Bearer", "revoke anna"):
        assert part in made.stderr
    assert made.stdout.strip() not in made.stderr
    assert made.stdout.strip() not in done(config, "list").output


def test_only_the_hash_is_kept_and_for_its_owner_only(config: Path, keyring: Keyring) -> None:
    key = done(config, "create", "anna").stdout.strip()
    text = keyring.path.read_text()
    assert key.removeprefix("viv_") not in text
    (entry,) = json.loads(text)["keys"]
    assert re.fullmatch("key_[0-9a-f]{24}", entry.pop("id"))
    assert [entry] == [
        {
            "name": "anna",
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "created_at": datetime.now(UTC).date().isoformat(),
        }
    ]
    assert stat.S_IMODE(keyring.path.stat().st_mode) == 0o600
    assert sorted(path.name for path in config.parent.iterdir()) == ["keys.json", "vivace.toml"]


def test_a_name_is_given_once_and_is_free_again_after_it_was_revoked(config: Path) -> None:
    first = done(config, "create", "anna").stdout
    said = complaint(config, "create", "anna")
    assert "a key 'anna' already" in said
    assert "vivace keys revoke anna" in said
    done(config, "revoke", "anna")
    assert done(config, "create", "anna").stdout != first


def test_a_name_of_the_configuration_cannot_be_taken(config: Path, keyring: Keyring) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    config.write_text(config.read_text() + f'[[keys]]\nname = "root"\nsha256 = "{digest}"\n')
    said = complaint(config, "create", "root")
    assert f"a key 'root' already, in {config}" in said
    assert not keyring.path.exists()
    assert f"'root' stands in {config}. Take it out there" in complaint(config, "revoke", "root")
    done(config, "create", "anna")


def test_no_key_is_made_beside_a_configuration_that_cannot_be_read(config: Path) -> None:
    config.write_text("= broken")
    assert "not valid TOML" in complaint(config, "create", "anna")
    config.write_text('version = 1\n[[keys]]\nname = "root"\n')
    assert "keys[0]" in complaint(config, "create", "anna")


@pytest.mark.parametrize("name", ["", "two words", "ä", "a\tb"])
def test_a_name_that_could_not_stand_in_the_configuration_is_refused(
    config: Path, keyring: Keyring, name: str
) -> None:
    assert "letters, digits" in complaint(config, "create", name)
    assert not keyring.path.exists()


# -- listing and revoking -------------------------------------------------------------------------


def test_the_list_has_names_and_days(config: Path) -> None:
    today = datetime.now(UTC).date().isoformat()
    done(config, "create", "anna")
    done(config, "create", "continuous-integration")
    lines = done(config, "list").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["anna", today],
        ["continuous-integration", today],
    ]


def test_an_empty_list_says_how_to_begin(config: Path) -> None:
    shown = done(config, "list")
    assert shown.stdout == ""
    assert "vivace keys create NAME" in shown.stderr


def test_revoking_takes_this_key_and_no_other(config: Path, keyring: Keyring) -> None:
    for name in ("anna", "bert", "carl"):
        done(config, "create", name)
    assert "'bert'" in done(config, "revoke", "bert").stdout
    assert [entry.name for entry in keyring.entries()] == ["anna", "carl"]


def test_an_unknown_name_is_answered_with_the_known_ones(config: Path) -> None:
    assert "Known: none." in complaint(config, "revoke", "anna")
    done(config, "create", "anna")
    said = complaint(config, "revoke", "ana")
    assert "no key 'ana'" in said
    assert "Known: anna." in said


@pytest.mark.parametrize("arguments", [["create", "anna"], ["list"], ["revoke", "anna"]])
def test_keys_are_not_put_where_no_server_would_look(tmp_path: Path, arguments: list[str]) -> None:
    said = complaint(tmp_path / "vivace.toml", *arguments)
    assert "--config" in said
    assert list(tmp_path.iterdir()) == []


def test_a_linked_configuration_has_its_keys_where_the_server_looks(
    config: Path, keyring: Keyring
) -> None:
    (config.parent / "elsewhere").mkdir()
    link = config.parent / "elsewhere" / "vivace.toml"
    link.symlink_to(config)
    done(link, "create", "anna")
    assert [entry.name for entry in keyring.entries()] == ["anna"]


# -- in a database, for all gateways that share it ------------------------------------------------


@pytest.fixture
def shared(config: Path, postgres: Postgres) -> SharedKeyring:
    """The configuration names a database."""
    ring = SharedKeyring(postgres.emptied())
    config.write_text(config.read_text() + f'[store]\nurl = "{ring.store["url"]}"\n')
    return ring


def test_with_a_database_keys_are_made_listed_and_revoked_there(
    config: Path, keyring: Keyring, shared: SharedKeyring
) -> None:
    made = done(config, "create", "anna")
    assert re.fullmatch(r"viv_[A-Za-z0-9_-]{43}\n", made.stdout)
    assert "only its hash is kept, in PostgreSQL store_" in made.stderr
    (entry,) = shared.entries()
    assert entry.sha256 == hashlib.sha256(made.stdout.strip().encode()).hexdigest()
    assert not keyring.path.exists()
    assert done(config, "list").stdout.split() == ["anna", entry.created_at.isoformat()]
    assert "a key 'anna' already" in complaint(config, "create", "anna")
    assert "'anna'" in done(config, "revoke", "anna").stdout
    assert shared.entries() == []
    said = complaint(config, "revoke", "anna")
    assert "no key 'anna' in PostgreSQL store_" in said
    assert "Known: none." in said


def test_keys_of_the_file_are_listed_beside_them_and_their_names_taken(
    config: Path, keyring: Keyring, shared: SharedKeyring
) -> None:
    keyring.create("anna")
    shared.create("bert")
    shown = done(config, "list")
    first, second = shown.stdout.splitlines()
    assert first.split()[0] == "bert"
    assert second.endswith("in keys.json, on this machine only")
    assert "vivace keys import" in shown.stderr
    assert "a key 'anna' already" in complaint(config, "create", "anna")
    assert [entry.name for entry in shared.entries()] == ["bert"]


def test_a_key_is_revoked_wherever_it_is(
    config: Path, keyring: Keyring, shared: SharedKeyring
) -> None:
    for name in ("anna", "bert"):
        keyring.create(name)
    shared.create("anna")
    done(config, "revoke", "anna")
    done(config, "revoke", "bert")
    assert keyring.entries() == shared.entries() == []


def test_imported_keys_stay_the_same_keys(
    config: Path, keyring: Keyring, shared: SharedKeyring
) -> None:
    for name in ("anna", "bert"):
        keyring.create(name)
    before = keyring.entries()
    assert "2 keys moved from" in done(config, "import").stdout
    assert sorted(shared.entries(), key=lambda each: each.name) == before
    assert json.loads(keyring.path.read_text()) == {"version": 2, "keys": []}
    assert "0 keys moved" in done(config, "import").stdout


def test_an_import_that_was_cut_off_is_done_again(
    config: Path, keyring: Keyring, shared: SharedKeyring
) -> None:
    """They were in the database, and not out of the file; another machine has the same file."""
    keyring.create("anna")
    before = keyring.path.read_bytes()
    for _ in range(2):
        keyring.path.write_bytes(before)
        assert "1 key moved" in done(config, "import").stdout
    assert [entry.name for entry in shared.entries()] == ["anna"]
    assert keyring.entries() == []


def test_what_cannot_be_imported_stays_and_is_named(
    config: Path, keyring: Keyring, shared: SharedKeyring
) -> None:
    for name in ("anna", "bert"):
        keyring.create(name)
    theirs = shared.create("anna")
    ran = run(config, "import")
    assert "1 key moved" in ran.stdout
    assert isinstance(ran.exception, ConfigError)
    assert "name or id: anna." in str(ran.exception)
    assert [entry.name for entry in keyring.entries()] == ["anna"]
    digests = {entry.name: entry.sha256 for entry in shared.entries()}
    assert digests["anna"] == hashlib.sha256(theirs.encode()).hexdigest()
    assert digests.keys() == {"anna", "bert"}


def test_without_a_database_there_is_nothing_to_import_to(config: Path, keyring: Keyring) -> None:
    keyring.create("anna")
    assert "names no database" in complaint(config, "import")
    assert [entry.name for entry in keyring.entries()] == ["anna"]


def test_a_database_without_the_tables_says_what_to_type(config: Path, postgres: Postgres) -> None:
    url = postgres.database(migrated=False)
    config.write_text(config.read_text() + f'[store]\nurl = "{url}"\n')
    for arguments in (["create", "anna"], ["list"], ["revoke", "anna"]):
        error = run(config, *arguments).exception
        assert isinstance(error, StoreError)
        assert "vivace store migrate" in str(error)


def test_a_database_that_is_away_is_said_and_what_is_here_is_revoked_all_the_same(
    config: Path, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.store.connections._PATIENCE", 0.2)
    keyring.create("anna")
    url = "postgresql://ada:secret-word@127.0.0.1:1/vivace"
    config.write_text(config.read_text() + f'[store]\nurl = "{url}"\n')
    ran = run(config, "revoke", "anna")
    assert isinstance(ran.exception, StoreError)
    assert "does not answer" in str(ran.exception)
    assert "revoked on this machine" in ran.output
    assert "secret-word" not in ran.output + str(ran.exception)
    assert keyring.entries() == []


def test_keys_do_not_leave_the_machine_unless_that_is_allowed(config: Path) -> None:
    config.write_text(config.read_text() + '[store]\nurl = "postgresql://db.example/vivace"\n')
    assert "allow_remote = true" in complaint(config, "create", "anna")
