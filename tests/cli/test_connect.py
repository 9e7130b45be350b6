"""``vivace connect``: what each client is told, and what becomes of the person's files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.files import ROOT
from tests.support.http import key, keys
from tests.support.server import MODEL, RunningGateway, configuration
from vivace.cli.agents import AGENTS
from vivace.cli.clients import CLIENTS as PLAIN_CLIENTS
from vivace.cli.connect import connect
from vivace.cli.panels import PANELS
from vivace.cli.settings_files import CannotEdit, TomlTable
from vivace.engines.scripted import Fail, Reply, Say
from vivace.errors import ConfigError

CLIENTS = {
    name: client
    for name, client in {**PLAIN_CLIENTS, **AGENTS, **PANELS}.items()
    if client.needs_model
}
FILLER = "qwen2.5-coder-1.5b"
CODEX = ROOT / "tests/clients/node_modules/.bin/codex"

# What a person may have in the file that a client's change touches.
EXISTING = {
    "codex": (
        "config.toml",
        '# Mine.\nmodel = "gpt-5"   # the usual\n\n[tui]\nanimations = false\n',
    ),
    "continue": ("models/vivace.yaml", "name: Written by hand\n"),
    "zed": ("zed/settings.json", '{"theme": "One Dark", "vim_mode": true}\n'),
    "claude": ("vivace.json", '{"model": "sonnet"}\n'),
    "opencode": ("opencode/opencode.json", '{"theme": "tokyonight"}\n'),
    "neovim": ("nvim/site/plugin/vivace.lua", "-- Mine.\n"),
    "emacs": (".emacs.d/vivace.el", ";; Mine.\n"),
    "helix": ("helix/languages.toml", '# Mine.\n[[language]]\nname = "rust"\n'),
}

with_files = pytest.mark.parametrize("client", EXISTING)
with_a_model = pytest.mark.parametrize("client", [name for name in EXISTING if name in CLIENTS])


class Desk:
    """A person with a home of their own, at a machine where a server may run."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url
        self.environment: dict[str, str | None] = {
            "HOME": str(home),
            "CODEX_HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home),
            "CONTINUE_GLOBAL_DIR": str(home),
            "XDG_CONFIG_HOME": str(home),
            "XDG_DATA_HOME": str(home),
            "NVIM_APPNAME": None,
            "APPDATA": str(home),
            "VIVACE_KEY": None,
        }

    def run(self, *arguments: str, answer: str = "", url: str | None = None) -> Result:
        runner = CliRunner(env=self.environment)
        return runner.invoke(connect, [*arguments, "--url", url or self.url], input=answer)

    def does(self, *arguments: str, answer: str = "", url: str | None = None) -> str:
        done = self.run(*arguments, answer=answer, url=url)
        assert done.exception is None, (done.exception, done.output)
        return done.output

    def complaint(self, *arguments: str, url: str | None = None) -> str:
        done = self.run(*arguments, url=url)
        assert isinstance(done.exception, ConfigError), done.output
        return str(done.exception)

    def has(self, client: str) -> Path:
        name, text = EXISTING[client]
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.home.rglob("*") if path.is_file())
        return {str(path.relative_to(self.home)): path.read_bytes() for path in found}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def desk(home: Path, gateway: RunningGateway) -> Desk:
    return Desk(home, gateway.url)


@pytest.fixture
def filling(home: Path) -> Iterator[Desk]:
    """The server's model is one that fills in the middle."""
    with RunningGateway(config=configuration(engine={"model": FILLER})) as gateway:
        yield Desk(home, gateway.url)


@pytest.fixture
def alone(home: Path) -> Desk:
    """Nobody answers: the port is free again before anyone asks."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return Desk(home, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")


# -- showing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_showing_writes_nothing_and_names_its_source(desk: Desk, client: str) -> None:
    shown = desk.does(client)
    assert desk.files() == {}
    assert "checked 2026-11-1" in shown
    assert MODEL in shown
    assert desk.url.removesuffix("/v1") in shown


@with_files
def test_showing_says_where_it_belongs_and_how_to_have_it_written(desk: Desk, client: str) -> None:
    path = desk.has(client)
    shown = desk.does(client)
    assert f"-- {path} (add to what is there)" in shown
    assert f"vivace connect {client} --write" in shown


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_and_option_explains_itself(client: str) -> None:
    command = connect.commands[client]
    assert command.help
    assert all(getattr(option, "help", None) for option in command.params)
    assert client in CliRunner().invoke(connect, ["--help"]).output


@pytest.mark.parametrize("client", ["sdk", "curl", *PANELS])
def test_what_is_only_printed_cannot_be_written(desk: Desk, client: str) -> None:
    assert desk.run(client, "--write").exit_code == 2


# -- the server -----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_server_a_placeholder_is_shown(alone: Desk, client: str) -> None:
    shown = alone.does(client)
    assert f"No server answers at {alone.url}" in shown
    assert "MODEL" in shown


@with_a_model
def test_without_a_server_nothing_is_written_until_the_model_is_named(
    alone: Desk, client: str
) -> None:
    assert "--model NAME" in alone.complaint(client, "--write", "--yes")
    assert alone.files() == {}
    alone.does(client, "--write", "--yes", "--model", FILLER)
    assert any(FILLER.encode() in text for text in alone.files().values())


def test_a_model_that_the_server_does_not_have_is_answered_with_those_it_has(desk: Desk) -> None:
    said = desk.complaint("sdk", "--model", "other")
    assert "'other'" in said
    assert MODEL in said


def test_an_address_without_a_path_is_completed(desk: Desk) -> None:
    assert f"{desk.url}/responses" in desk.does("curl", url=desk.url.removesuffix("/v1"))


def test_the_address_may_stand_in_the_environment_as_for_other_commands(desk: Desk) -> None:
    runner = CliRunner(env={**desk.environment, "VIVACE_URL": desk.url})
    assert f"{desk.url}/responses" in runner.invoke(connect, ["curl"]).output


def test_an_address_that_is_none_is_refused(desk: Desk) -> None:
    refused = desk.run("curl", url="127.0.0.1:8765")
    assert refused.exit_code == 2
    assert "http://" in refused.output


def test_a_server_that_is_not_ours_is_noticed(desk: Desk) -> None:
    assert "up to and including /v1" in desk.complaint("curl", url=f"{desk.url}/elsewhere")


def test_a_key_itself_is_not_taken_for_a_variable(desk: Desk) -> None:
    refused = desk.run("curl", "--key-env", "sk-12345")
    assert refused.exit_code == 2
    assert "not the key itself" in refused.output


def test_a_server_that_asks_for_a_key(home: Path) -> None:
    with RunningGateway(config=configuration(keys=keys("ada"))) as gateway:
        desk = Desk(home, gateway.url)
        assert "--key-env" in desk.complaint("codex")
        assert "$VIVACE_KEY is not set" in desk.complaint("codex", "--key-env", "VIVACE_KEY")
        desk.environment["VIVACE_KEY"] = "wrong"
        assert "does not know the key" in desk.complaint("codex", "--key-env", "VIVACE_KEY")
        secret = key("ada")
        desk.environment["VIVACE_KEY"] = secret
        for client in CLIENTS:
            shown = desk.does(client, "--key-env", "VIVACE_KEY")
            assert secret not in shown
            assert "KEY" in shown


# -- writing and undoing --------------------------------------------------------------------------


@with_files
def test_a_change_is_shown_kept_and_undone_to_the_byte(desk: Desk, client: str) -> None:
    path = desk.has(client)
    before = desk.files()

    said = desk.does(client, "--write", "--yes")

    assert f"+++ {path}" in said
    assert f"vivace connect {client} --undo" in said
    backup = path.with_name(f"{path.name}.vivace-backup")
    assert backup.read_text() == EXISTING[client][1]
    assert path.read_text() != EXISTING[client][1]
    desk.does(client, "--undo", "--yes")
    assert desk.files() == before


@with_files
def test_a_file_that_was_not_there_is_gone_again(desk: Desk, client: str) -> None:
    desk.does(client, "--write", "--yes")
    assert desk.files()
    desk.does(client, "--undo", "--yes")
    assert desk.files() == {}


@with_files
def test_the_second_time_changes_nothing(desk: Desk, client: str) -> None:
    desk.has(client)
    desk.does(client, "--write", "--yes")
    first = desk.files()
    assert "nothing was changed" in desk.does(client, "--write", "--yes")
    assert desk.files() == first


@with_a_model
def test_a_later_version_leaves_the_backup_alone(filling: Desk, client: str) -> None:
    filling.has(client)
    before = filling.files()
    with RunningGateway(config=configuration(engine={"model": "old-model"})) as old:
        filling.does(client, "--write", "--yes", url=old.url)
    filling.does(client, "--write", "--yes")
    written = b"".join(filling.files().values()).decode()
    assert FILLER in written
    assert "old-model" not in written
    filling.does(client, "--undo", "--yes")
    assert filling.files() == before


@with_files
def test_no_is_an_answer(desk: Desk, client: str) -> None:
    desk.has(client)
    before = desk.files()
    assert "Nothing was changed." in desk.does(client, "--write", answer="n\n")
    assert desk.files() == before
    desk.does(client, "--write", answer="y\n")
    written = desk.files()
    assert written != before
    desk.does(client, "--undo", answer="n\n")
    assert desk.files() == written


@with_files
def test_nothing_to_undo_is_said(desk: Desk, client: str) -> None:
    desk.has(client)
    assert "nothing to undo" in desk.does(client, "--undo", "--yes")


@with_a_model
def test_undoing_asks_no_server(alone: Desk, client: str) -> None:
    alone.does(client, "--write", "--yes", "--model", MODEL)
    alone.does(client, "--undo", "--yes")
    assert alone.files() == {}


def test_writing_and_undoing_do_not_go_together(desk: Desk) -> None:
    assert desk.run("codex", "--write", "--undo").exit_code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and permissions of Unix")
def test_a_link_stays_a_link_and_permissions_stay(desk: Desk, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(EXISTING["codex"][1])
    real.chmod(0o640)
    link = desk.home / "config.toml"
    link.symlink_to(real)
    desk.does("codex", "--write", "--yes")
    assert link.is_symlink()
    assert "model_providers.vivace" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_none_is_named(desk: Desk) -> None:
    (desk.home / "file").write_text("")
    desk.environment["CODEX_HOME"] = str(desk.home / "file")
    assert str(desk.home / "file/config.toml") in desk.complaint("codex", "--write", "--yes")


def test_a_disk_that_is_full_leaves_the_file_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.has("codex")
    before = desk.files()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = desk.complaint("codex", "--write", "--yes")
    assert str(path) in said
    assert "No space left" in said
    assert desk.files() == before


# -- Claude Code ----------------------------------------------------------------------------------


def claude_settings(desk: Desk, *options: str) -> dict[str, Any]:
    desk.does("claude", "--write", "--yes", *options)
    settings: dict[str, Any] = json.loads((desk.home / "vivace.json").read_text())
    return settings


def test_claude_code_gets_a_settings_file_of_its_own(desk: Desk) -> None:
    settings = claude_settings(desk)
    assert settings["env"] == {
        "ANTHROPIC_BASE_URL": desk.url.removesuffix("/v1"),
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "131072",
    }
    assert f"claude --settings {desk.home / 'vivace.json'}" in desk.does("claude")


def test_claude_code_takes_a_key_from_the_environment_only_when_told(desk: Desk) -> None:
    settings = claude_settings(desk, "--key-env", "VIVACE_KEY")
    assert settings["apiKeyHelper"] == "printenv VIVACE_KEY"
    assert "ANTHROPIC_AUTH_TOKEN" not in settings["env"]


def test_claude_codes_names_mean_tiers_and_the_narrowest_context_counts(home: Path) -> None:
    engines = [
        {"name": name, "kind": "scripted", "model": f"{name}-model", "context": context}
        for name, context in (("small", 16_000), ("large", 64_000))
    ]
    tiers = [{"name": "deep", "engines": ["large"]}, {"name": "fast", "engines": ["small"]}]
    with RunningGateway(config=configuration(engines=engines, tiers=tiers)) as gateway:
        desk = Desk(home, gateway.url)
        environment = claude_settings(desk)["env"]
        names = [f"ANTHROPIC_DEFAULT_{name}_MODEL" for name in ("HAIKU", "SONNET", "OPUS")]
        assert [environment[name] for name in names] == ["fast", "auto", "deep"]
        assert environment["ANTHROPIC_MODEL"] == "deep"
        assert environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "16000"
        assert environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "4000"
        assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW" not in environment
        assert "context of 16000" in desk.does("claude", "--model", "fast")


# -- Codex ----------------------------------------------------------------------------------------


def test_codex_gets_a_provider_a_profile_and_a_catalogue(desk: Desk) -> None:
    desk.has("codex")
    desk.does("codex", "--write", "--yes")
    config = tomllib.loads((desk.home / "config.toml").read_text())
    assert config["model"] == "gpt-5"
    assert config["model_providers"]["vivace"] == {
        "name": "Vivace",
        "base_url": desk.url,
        "wire_api": "responses",
        "supports_websockets": True,
    }
    profile = tomllib.loads((desk.home / "vivace.config.toml").read_text())
    assert profile["model"] == MODEL
    assert profile["model_provider"] == "vivace"
    catalogue = json.loads((desk.home / profile["model_catalog_json"]).read_text())
    [card] = catalogue["models"]
    assert card["slug"] == MODEL
    assert card["context_window"] == 131_072
    assert card["apply_patch_tool_type"] == "freeform"


def test_codex_is_told_of_the_same_tiers_as_by_the_server_itself(home: Path) -> None:
    tiers = [{"name": name, "engines": ["scripted"]} for name in ("fast", "deep")]
    with RunningGateway(config=configuration(tiers=tiers, engine={"model": "other"})) as gateway:
        Desk(home, gateway.url).does("codex", "--write", "--yes")
        version, codex = {"client_version": "0.166.0"}, {"originator": "codex-tui"}
        listed = gateway.http.get("/v1/models", params=version, headers=codex).json()["models"]
    written = json.loads((home / "vivace.models.json").read_text())["models"]
    assert written == listed
    assert [tier["name"] for tier in written[0]["service_tiers"]] == ["fast", "deep"]


def test_codex_gets_the_levels_of_thinking_that_the_model_has(home: Path) -> None:
    with RunningGateway(config=configuration(engine={"model": "gpt-oss-20b"})) as gateway:
        Desk(home, gateway.url).does("codex", "--write", "--yes")
    [card] = json.loads((home / "vivace.models.json").read_text())["models"]
    assert [level["effort"] for level in card["supported_reasoning_levels"]] == [
        "low",
        "medium",
        "high",
    ]
    assert card["default_reasoning_level"] == "medium"


def test_codex_takes_a_key_from_the_environment_only_when_told(desk: Desk) -> None:
    desk.does("codex", "--write", "--yes", "--key-env", "VIVACE_KEY")
    config = tomllib.loads((desk.home / "config.toml").read_text())
    assert config["model_providers"]["vivace"]["env_key"] == "VIVACE_KEY"


def test_a_context_too_narrow_for_codex_is_said(home: Path) -> None:
    with RunningGateway(config=configuration(engine={"context": 8192})) as gateway:
        assert "context of 8192" in Desk(home, gateway.url).does("codex")


TABLE = TomlTable(Path("config.toml"), "model_providers.vivace", 'name = "Vivace"\n')


@pytest.mark.parametrize(
    "before",
    ["", "a = 1", "a = 1\n", "a = 1\n\n\n", "a = 1\r\n[b]\r\nc = 2\r\n", "[x]\n# last word\n"],
)
def test_a_table_goes_in_and_out(before: str) -> None:
    after = TABLE.apply(before)
    assert after.startswith(before.rstrip())
    assert tomllib.loads(after)["model_providers"]["vivace"] == {"name": "Vivace"}
    assert TABLE.apply(after) == after
    assert (TABLE.without(after) or "").rstrip() == before.rstrip()


def test_a_table_that_others_put_between_our_marks_is_theirs() -> None:
    # As Codex does: it keeps a comment at the end of the file at the end.
    ours = TABLE.apply("a = 1\n")
    crowded = ours.replace("# <<<", '\n[projects."/x"]\ntrust_level = "trusted"\n# <<<')
    theirs = {"a": 1, "projects": {"/x": {"trust_level": "trusted"}}}
    assert tomllib.loads(TABLE.without(crowded) or "") == theirs
    again = TABLE.apply(crowded)
    assert tomllib.loads(again) == theirs | {"model_providers": {"vivace": {"name": "Vivace"}}}


def test_a_provider_of_the_same_name_is_not_overwritten(desk: Desk) -> None:
    path = desk.home / "config.toml"
    path.write_text('[model_providers.vivace]\nname = "My own"\n')
    assert "of its own" in desk.complaint("codex", "--write", "--yes")
    assert desk.files() == {"config.toml": b'[model_providers.vivace]\nname = "My own"\n'}


def test_a_broken_file_is_not_touched() -> None:
    with pytest.raises(CannotEdit, match="not valid TOML"):
        TABLE.apply("a = = 1\n")


@pytest.fixture
def codex(desk: Desk, tmp_path: Path) -> Callable[..., str]:
    if not CODEX.exists():
        pytest.skip("needs the Codex CLI: run scripts/install codex")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environment |= {"HOME": str(tmp_path), "CODEX_HOME": str(desk.home)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(CODEX), *arguments],
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_the_real_codex_configured_by_this_and_nothing_else_gets_an_answer(
    desk: Desk, codex: Callable[..., str], gateway: RunningGateway
) -> None:
    gateway.engine.play([Reply(when="^Good morning$", then=(Say("And a good day to you."),))])
    desk.does("codex", "--write", "--yes")

    asked = ["--skip-git-repo-check", "--json", "--sandbox", "danger-full-access", "Good morning"]
    output = codex("exec", "--profile", "vivace", *asked)

    events = [json.loads(line) for line in output.splitlines()]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    assert [item["text"] for item in items] == ["And a good day to you."]
    # Over HTTP there would be no warm-up before the answer.
    assert gateway.witness.events.count("response.created") == 2


def test_what_the_real_codex_writes_afterwards_outlives_the_undoing(
    desk: Desk, codex: Callable[..., str]
) -> None:
    path = desk.has("codex")
    desk.does("codex", "--write", "--yes")
    codex("mcp", "add", "theirs", "--", "true")
    said = desk.does("codex", "--undo", "--yes")
    left = tomllib.loads(path.read_text())
    assert left["mcp_servers"]["theirs"]["command"] == "true"
    assert left["model"] == "gpt-5"
    assert "model_providers" not in left
    assert "# Mine." in path.read_text()
    assert "config.toml.vivace-backup" in said


# -- snippets -------------------------------------------------------------------------------------


@pytest.fixture
def greeter(home: Path) -> Iterator[Desk]:
    replies = [
        Reply(when="^Say hello.$", then=(Say("Hello, you."),)),
        Reply(when="^And once more.$", then=(Say("Hello again."),)),
    ]
    with RunningGateway(replies, config=configuration(keys=keys("ada"))) as gateway:
        desk = Desk(home, gateway.url)
        desk.environment["VIVACE_KEY"] = key("ada")
        yield desk


def output(desk: Desk, *command: str) -> str:
    given = {name: value for name, value in desk.environment.items() if value is not None}
    inherited = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        command, env=inherited | given, capture_output=True, text=True, check=True
    ).stdout


def test_the_printed_python_runs(greeter: Desk) -> None:
    snippet = greeter.does("sdk", "--key-env", "VIVACE_KEY")
    said = output(greeter, sys.executable, "-c", snippet)
    assert said.splitlines() == ["Hello, you."] * 3 + ["Hello again."]


def test_the_printed_python_runs_without_a_key(desk: Desk, gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("Hello, you."),))])
    assert "import os" not in desk.does("sdk")
    said = output(desk, sys.executable, "-c", desk.does("sdk"))
    assert said.splitlines() == ["Hello, you."] * 4


def test_the_printed_python_ends_with_the_error_of_a_turn_that_failed(
    desk: Desk, gateway: RunningGateway
) -> None:
    failing = Reply(when="^And once more.$", then=(Fail("The engine is out of memory."),))
    gateway.engine.play([failing, Reply(then=(Say("Hello, you."),))])
    with pytest.raises(subprocess.CalledProcessError) as ended:
        output(desk, sys.executable, "-c", desk.does("sdk"))
    assert "Traceback" not in ended.value.stderr
    assert json.loads(ended.value.stderr)["type"] in ("response.failed", "error")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_printed_commands_run(greeter: Desk) -> None:
    said = output(greeter, "sh", "-c", greeter.does("curl", "--key-env", "VIVACE_KEY"))
    whole, _, streamed = said.partition("event: response.created")
    assert json.loads(whole)["output"][0]["content"][0]["text"] == "Hello, you."
    assert "response.output_text.delta" in streamed
    assert streamed.rstrip().endswith("[DONE]")


# -- Continue -------------------------------------------------------------------------------------


def test_continue_gets_a_model_for_chat_and_one_for_autocomplete(filling: Desk) -> None:
    filling.does("continue", "--write", "--yes")
    assert set(filling.files()) == {"models/vivace.yaml", "models/vivace-autocomplete.yaml"}
    chat = (filling.home / "models/vivace.yaml").read_text()
    # One model a file, or Continue does not take it.
    assert chat.count("- name:") == 1
    for line in (
        "schema: v1",
        "    provider: openai",
        f'    model: "{FILLER}"',
        f'    apiBase: "{filling.url}"',
        "    roles: [chat, edit, apply]",
        "      contextLength: 131072",
    ):
        assert line in chat.splitlines()
    assert "apiKey" not in chat
    fill = (filling.home / "models/vivace-autocomplete.yaml").read_text()
    assert "    roles: [autocomplete]" in fill.splitlines()


def test_continue_is_said_to_have_ended_and_others_are_named(desk: Desk) -> None:
    said = desk.does("continue", "--write", "--yes")
    assert "no longer maintained" in said
    assert "vivace connect vscode-chat" in said


def test_continue_is_not_offered_autocomplete_by_a_model_that_cannot(desk: Desk) -> None:
    assert "autocomplete is left out" in desk.does("continue", "--write", "--yes")
    assert set(desk.files()) == {"models/vivace.yaml"}


def test_continue_reads_its_key_from_its_own_file(alone: Desk) -> None:
    shown = alone.does("continue", "--key-env", "MY_KEY")
    assert "    apiKey: ${{ secrets.MY_KEY }}" in shown.splitlines()
    assert str(alone.home / ".env") in shown


def test_what_continue_sends_for_autocomplete_is_answered(gateway: RunningGateway) -> None:
    """The body of core/llm/llms/OpenAI.ts for a raw prompt, with the template of Qwen Coder."""
    gateway.engine.play([Reply(then=(Say("1"),))])
    body = {
        "model": MODEL,
        "prompt": "<|fim_prefix|>x = <|fim_suffix|>\n<|fim_middle|>",
        "max_tokens": 256,
        "temperature": 0.01,
        "stop": ["<|endoftext|>", "<|fim_prefix|>", "/src/", "#- coding: utf-8", "```"],
        "stream": True,
    }
    answer = gateway.http.post("/v1/completions", json=body, headers={"api-key": ""})
    assert answer.status_code == 200
    chunks = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    assert "1" in "".join(json.loads(line[6:])["choices"][0]["text"] for line in chunks)


# -- Zed ------------------------------------------------------------------------------------------


def settings(desk: Desk) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((desk.home / "zed/settings.json").read_text())
    return loaded


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is another elsewhere")
class TestZed:
    def test_it_gets_a_provider_and_edit_predictions(self, filling: Desk) -> None:
        filling.has("zed")
        filling.does("zed", "--write", "--yes")
        written = settings(filling)
        assert written["theme"] == "One Dark"
        assert written["language_models"]["openai_compatible"]["vivace"] == {
            "api_url": filling.url,
            "available_models": [{"name": FILLER, "max_tokens": 131_072}],
        }
        assert written["edit_predictions"] == {
            "provider": "open_ai_compatible_api",
            "open_ai_compatible_api": {
                "api_url": f"{filling.url}/completions",
                "model": FILLER,
                "prompt_format": "qwen",
                "max_output_tokens": 128,
            },
        }

    def test_a_model_that_cannot_fill_predicts_nothing(self, desk: Desk) -> None:
        assert "edit prediction is left out" in desk.does("zed", "--write", "--yes")
        assert "edit_predictions" not in settings(desk)

    def test_a_provider_that_was_chosen_stays(self, filling: Desk) -> None:
        path = filling.has("zed")
        chosen = {"provider": "copilot", "mode": "subtle"}
        path.write_text(json.dumps({"edit_predictions": chosen}))
        filling.does("zed", "--write", "--yes")
        assert settings(filling)["edit_predictions"] == chosen

    def test_what_was_changed_since_outlives_the_undoing(self, filling: Desk) -> None:
        path = filling.has("zed")
        filling.does("zed", "--write", "--yes")
        path.write_text(json.dumps(settings(filling) | {"theme": "Ayu"}))
        filling.does("zed", "--undo", "--yes")
        assert settings(filling) == {"theme": "Ayu", "vim_mode": True}

    @pytest.mark.parametrize("text", ['// Mine.\n{"vim_mode": true}\n', '{"vim_mode": true,}\n'])
    def test_a_file_with_comments_is_left_to_its_owner(self, desk: Desk, text: str) -> None:
        path = desk.has("zed")
        path.write_text(text)
        said = desk.complaint("zed", "--write", "--yes")
        assert "by hand" in said
        assert '"openai_compatible"' in said
        assert path.read_text() == text
        assert "nothing to undo" in desk.does("zed", "--undo", "--yes")


def test_what_zed_sends_for_a_prediction_is_answered(gateway: RunningGateway) -> None:
    """The body of crates/edit_prediction/src/open_ai_compatible.rs; all fields of the answer."""
    gateway.engine.play([Reply(then=(Say("1"),))])
    stops = ["<|endoftext|>", "<|file_separator|>", "<|fim_pad|>", "<|fim_prefix|>"]
    stops += ["<|fim_middle|>", "<|fim_suffix|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"]
    stops += ["<PRE>", "<SUF>", "<MID>", "[PREFIX]", "[SUFFIX]"]
    prompt = "<|fim_prefix|>x = <|fim_suffix|>\n<|fim_middle|>"
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 128, "stop": stops}
    answer = gateway.http.post("/v1/completions", json=body).json()
    assert answer["choices"][0]["text"] == "1"
    assert {"id", "object", "created", "model", "usage"} <= answer.keys()


# -- panels that are set up by hand ---------------------------------------------------------------


def test_the_chat_of_vs_code_is_told_every_model_in_its_own_form(desk: Desk) -> None:
    shown = desk.does("vscode-chat")
    listed = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
    assert listed["vendor"] == "customendpoint"
    [model] = listed["models"]
    assert model["url"] == f"{desk.url}/responses"
    assert model["maxInputTokens"] + model["maxOutputTokens"] == 131_072
    assert "untried" in shown


def test_cline_is_told_what_stands_in_which_field(desk: Desk) -> None:
    lines = desk.does("cline").splitlines()
    assert f"  Base URL: {desk.url}" in lines
    assert f"  Model ID: {MODEL}" in lines
    assert "untried" in lines[0]


def test_an_opencode_file_with_comments_is_left_to_its_owner(desk: Desk) -> None:
    path = desk.has("opencode")
    path.write_text('// Mine.\n{"theme": "tokyonight"}\n')
    assert '"npm"' in desk.complaint("opencode", "--write", "--yes")
    assert path.read_text().startswith("// Mine.")


# -- agents ---------------------------------------------------------------------------------------


def test_agents_are_told_how_to_start_the_tools(alone: Desk) -> None:
    shown = alone.run("mcp", "--key-env", "VIVACE_KEY").stdout
    table = tomllib.loads(shown[shown.index("[mcp_servers") : shown.index("# Claude Code")])
    codex = table["mcp_servers"]["vivace"]
    assert codex["args"][:2] == ["mcp", "--url"]
    assert codex["env_vars"] == ["VIVACE_KEY"]
    cursor = shown[shown.index("# Cursor") : shown.index("# VS Code")].partition("\n")[2]
    started = json.loads(cursor)["mcpServers"]["vivace"]
    assert [started["command"], *started["args"]][-1] == "${workspaceFolder}"
    assert "claude mcp add vivace -- " in shown
