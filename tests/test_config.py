"""What may stand in ``vivace.toml``, and what is said when it is wrong."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.addresses import host_name, is_loopback
from vivace.config import (
    Config,
    FleetConfig,
    LimitsConfig,
    NodeConfig,
    ScriptedConfig,
    ServerConfig,
    StoreConfig,
    check_node,
    load,
    stand_ins,
)
from vivace.errors import ConfigError
from vivace.fleet_config import NodeAddress, fleet_key, node_address

ENGINE = '[[engines]]\nname = "demo"\nkind = "scripted"\nmodel = "local-model"\n'
KEY = f'[[keys]]\nname = "me"\nsha256 = "{"a" * 64}"\n'
SMALL = "version = 1\n" + ENGINE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vivace.toml"


def read(path: Path, content: str, **environment: str) -> Config:
    path.write_text(content, encoding="utf-8")
    return load(path, environment)


def complaint(path: Path, content: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(path, content, **environment)
    return str(caught.value)


# -- what is right --------------------------------------------------------------------------------


def test_a_small_file_is_enough(path: Path) -> None:
    config = read(path, SMALL)
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8765)
    assert [engine.model for engine in config.engines] == ["local-model"]
    assert config.keys == ()


def test_everything_may_be_set(path: Path) -> None:
    config = read(
        path,
        'version = 1\n[server]\nhost = "::1"\nport = 1\nallowed_origins = ["https://a"]\n'
        "[limits]\nlanes = 2\nslow_reader_seconds = 0.5\n"
        '[store]\npath = ":memory:"\nmax_age_days = 0.5\n' + ENGINE + "rate = 5\n" + KEY,
    )
    assert config.server.allowed_origins == ("https://a",)
    assert (config.limits.lanes, config.limits.slow_reader_seconds) == (2, 0.5)
    assert config.store.path == ":memory:"
    (engine,) = config.engines
    assert isinstance(engine, ScriptedConfig)
    assert engine.rate == 5
    assert config.keys[0].name == "me"


def test_the_environment_wins_over_the_file(path: Path) -> None:
    content = SMALL + "[server]\nport = 1\n"
    config = read(path, content, VIVACE_PORT="2", VIVACE_HOST="localhost")
    assert (config.server.port, config.server.host) == (2, "localhost")


# -- what is wrong --------------------------------------------------------------------------------


UNKNOWN_KEYS = [
    (SMALL + "[server]\nprot = 1\n", "server: unknown key 'prot'; did you mean 'port'?"),
    (SMALL + "[limits]\nlane = 1\n", "limits: unknown key 'lane'; did you mean 'lanes'?"),
    (SMALL + "[store]\nfile = ''\n", "store: unknown key 'file'"),
    (SMALL + "contxt = 1\n", "unknown key 'contxt'; did you mean 'context'?"),
    (SMALL + KEY + "sha265 = ''\n", "unknown key 'sha265'; did you mean 'sha256'?"),
    (SMALL + "[severs]\n", "unknown key 'severs'; did you mean 'server'?"),
]


@pytest.mark.parametrize(("content", "said"), UNKNOWN_KEYS)
def test_an_unknown_key_is_answered_with_the_nearest_right_one(
    path: Path, content: str, said: str
) -> None:
    assert said in complaint(path, content)


def test_a_key_like_no_other_is_answered_with_those_there_are(path: Path) -> None:
    said = complaint(path, SMALL + "[server]\nzzz = 1\n")
    assert "known here: allowed_hosts, allowed_origins, host, port, trusted_proxies" in said


WRONG_VALUES = [
    (SMALL + '[server]\nport = "http"\n', "server.port"),
    (SMALL + "[server]\nport = 65536\n", "server.port"),
    (SMALL + "[server]\nport = 1979-05-27\n", "server.port"),
    ("version = 1\nserver = 5\n" + ENGINE, "server"),
    (SMALL + "[limits]\nlanes = 0\n", "limits.lanes"),
    (SMALL + "[limits]\ndrain_seconds = -1\n", "limits.drain_seconds"),
    (SMALL + "[limits]\ndrain_seconds = inf\n", "limits.drain_seconds"),
    (SMALL + "[limits]\nconnection_minutes = inf\n", "limits.connection_minutes"),
    (SMALL + "[store]\nmax_age_days = inf\n", "store.max_age_days"),
    (SMALL + "context = 0\n", "engines[0].context"),
    (SMALL + "[[keys]]\nname = 'me'\nsha256 = 'secret'\n", "keys[0].sha256"),
    ("version = 2\n" + ENGINE, "version"),
    (SMALL.replace('"scripted"', '"magic"'), "engines[0].kind"),
    (SMALL.replace('"demo"', '"a b"'), "engines[0].name"),
]


@pytest.mark.parametrize(("content", "place"), WRONG_VALUES)
def test_a_wrong_value_is_answered_with_its_place(path: Path, content: str, place: str) -> None:
    assert f"{path}: {place}: " in complaint(path, content)


def test_a_proxy_that_is_no_network_is_answered_with_its_place(path: Path) -> None:
    said = complaint(path, SMALL + "[server]\ntrusted_proxies = ['10.0.0.1/8']\n")
    assert f"{path}: server.trusted_proxies: " in said


@pytest.mark.parametrize("setting", ["body_megabytes = 300", "memory_megabytes = 15"])
def test_a_body_larger_than_the_memory_for_it_is_refused(path: Path, setting: str) -> None:
    assert "could never be taken" in complaint(path, f"{SMALL}[limits]\n{setting}\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (ENGINE, "version = 1"),
        ("version = 1\nengines = []\n", "at least one [[engines]]"),
        (SMALL + ENGINE.replace("local-model", "other"), "two engines are named 'demo'"),
        (SMALL + ENGINE.replace("demo", "other"), "the model 'local-model'"),
        (SMALL + KEY + KEY, "two keys are named 'me'"),
        (SMALL + KEY + KEY.replace('"me"', '"you"'), "'me' and 'you' have the same sha256"),
        (SMALL + KEY.replace('"me"', '"local"'), "a key cannot be named 'local'"),
        ("= broken", "is not valid TOML"),
    ],
)
def test_what_cannot_be_served_is_explained(path: Path, content: str, said: str) -> None:
    assert said in complaint(path, content)


def test_a_missing_field_is_named(path: Path) -> None:
    assert "model" in complaint(path, SMALL.replace('model = "local-model"\n', ""))


def test_a_missing_file_is_answered_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--config"):
        load(tmp_path / "none.toml", {})


@pytest.mark.parametrize("port", ["", "http", "-1", "1.5", " 80", "99999"])
def test_a_port_in_the_environment_must_be_one(path: Path, port: str) -> None:
    assert "port" in complaint(path, SMALL, VIVACE_PORT=port).lower()


def test_a_server_others_can_reach_needs_a_key(path: Path) -> None:
    open_to_all = SMALL + '[server]\nhost = "0.0.0.0"\n'
    assert "vivace keys create" in complaint(path, open_to_all)
    assert "vivace keys create" in complaint(path, SMALL, VIVACE_HOST="192.168.0.1")
    assert read(path, open_to_all + KEY).server.host == "0.0.0.0"


def test_a_key_made_by_the_command_is_as_good_as_one_in_the_file(path: Path) -> None:
    path.with_name("keys.json").write_text("{}")
    assert read(path, SMALL + '[server]\nhost = "0.0.0.0"\n').server.host == "0.0.0.0"


@pytest.mark.parametrize("host", ["https://a.example", "a.example:80", "a/b", "", "*", "::1", "ä"])
def test_a_name_that_no_browser_would_send_is_not_allowed(path: Path, host: str) -> None:
    said = complaint(path, SMALL + f'[server]\nallowed_hosts = ["a.example", "{host}"]\n')
    assert f"server.allowed_hosts: {host!r} is not the name of a host" in said


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("LocalHost:8765", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:80", "[::1]"),
        ("a.example:", "a.example"),
        ("", ""),
        (":80", ""),
        ("::1", None),
        ("a.example:80:90", None),
        ("a.example:http", None),
        ("user@localhost", None),
        ("localhost/x", None),
        ("localhost\n", None),
        ("localhost, evil.example", None),
        ("localhost evil.example", None),
        ("[::1", None),
        ("[localhost]", None),
        ("loca\u017fhost", None),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str | None) -> None:
    assert host_name(header) == name


@given(st.text() | st.from_regex(r"[a-z\[\]:.0-9%@/ ]*"))
def test_a_host_header_is_a_name_and_a_port_or_nothing(header: str) -> None:
    name = host_name(header)
    if name is not None:
        rest = header.lower().removeprefix(name)
        assert rest in ("", ":") or rest.startswith(":")
        assert rest[1:] == "" or rest[1:].isdecimal()
        assert not set(name) & set("/@ \n%")


def test_keys_count_beside_the_file_itself_and_not_beside_a_link_to_it(path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "vivace.toml"
    link.symlink_to(path)
    open_to_all = SMALL + '[server]\nhost = "0.0.0.0"\n'
    (elsewhere / "keys.json").write_text("{}")  # no server looks here
    assert "vivace keys create" in complaint(link, open_to_all)
    path.with_name("keys.json").write_text("{}")
    assert read(link, open_to_all).server.host == "0.0.0.0"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("localhost.example.com", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@settings(deadline=None, max_examples=200)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_a_file_of_any_content_is_refused_politely(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        load(path, {})


toml_values = st.sampled_from(
    ["1", "-1", "1.5", "true", '"x"', "[]", "{}", "1979-05-27", "[1]", '{a = "b"}', "nan", "inf"]
)
TABLES = {
    "server": ServerConfig,
    "limits": LimitsConfig,
    "store": StoreConfig,
    "fleet": FleetConfig,
    "node": NodeConfig,
}
KEYS = [f"{table}.{name}" for table, kind in TABLES.items() for name in kind.__struct_fields__]


@settings(deadline=None, max_examples=200)
@given(key=st.sampled_from(["keys", "server", *KEYS]), value=toml_values)
def test_any_value_at_any_key_is_taken_or_refused_politely(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "value.toml"
    path.write_text(f"version = 1\n{key} = {value}\n{ENGINE}")
    with contextlib.suppress(ConfigError):
        load(path, {})


# -- a store that is shared -----------------------------------------------------------------------


def test_a_store_in_a_database_of_this_machine_needs_no_more_than_its_url(path: Path) -> None:
    url = "postgresql://ada:secret@127.0.0.1/vivace"
    config = read(path, SMALL + f'[store]\nurl = "{url}"\n')
    assert config.store.url == url
    assert config.store.place == "PostgreSQL vivace on 127.0.0.1"


def test_a_store_on_another_machine_must_be_meant(path: Path) -> None:
    store = '[store]\nurl = "postgresql://ada:secret@127.0.0.1,db.example.com/vivace"\n'
    with pytest.raises(ConfigError, match="so prompts and code would leave") as said:
        read(path, SMALL + store)
    assert "secret" not in str(said.value)
    assert "store is on db.example.com" in str(said.value)
    assert "allow_remote = true" in str(said.value)
    assert read(path, SMALL + store + "allow_remote = true\n").store.allow_remote


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ('url = "mysql://ada:secret@127.0.0.1/x"', "store.url"),
        ('url = "postgresql://ada:secret@[127.0.0.1/x"', "cannot be read"),
        ('path = "turns.db"\nurl = "postgresql:///x"', "a path and a url"),
    ],
)
def test_a_store_that_cannot_be_meant_is_refused(path: Path, store: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read(path, SMALL + f"[store]\n{store}\n")
    assert "secret" not in str(caught.value)


# -- a fleet --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "redis://ada:secret@localhost",
        "rediss://[::1]:6380/2?ssl_ca_certs=ca.pem",
        "unix:///run/valkey.sock?db=1",
    ],
)
def test_a_valkey_of_this_machine_needs_no_more_than_its_url(path: Path, url: str) -> None:
    assert read(path, SMALL + f'[fleet]\nvalkey = "{url}"\n').fleet.valkey == url


def test_a_valkey_on_another_machine_must_be_meant(path: Path) -> None:
    fleet = '[fleet]\nvalkey = "rediss://ada:secret@counters.example.com/0"\n'
    with pytest.raises(ConfigError, match=r"fleet.valkey is on counters.example.com") as said:
        read(path, SMALL + fleet)
    assert "secret" not in str(said.value)
    assert "allow_remote = true" in str(said.value)
    assert read(path, SMALL + fleet + "allow_remote = true\n").fleet.allow_remote


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:6379",
        "redis://",
        "redis://?host=counters.example.com",
        "redis://ada:secret@127.0.0.1:many/0",
        "redis://ada:secret@127.0.0.1/first",
        "redis://ada:secret@127.0.0.1/0?host=counters.example.com",
        "rediss://ada:secret@127.0.0.1/0?ssl_cert_reqs=none",
        "unix://counters.example.com/valkey.sock",
        "unix:valkey.sock",
    ],
)
def test_a_valkey_that_cannot_be_meant_is_refused(path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"fleet\.valkey") as caught:
        read(path, SMALL + f'[fleet]\nvalkey = "{url}"\n')
    assert "secret" not in str(caught.value)


def test_a_mistaken_key_of_the_fleet_is_named(path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'valkey'"):
        read(path, SMALL + '[fleet]\nvalky = "redis://127.0.0.1"\n')


# -- names of other makers' models ----------------------------------------------------------------

TIERS = '[[tiers]]\nname = "fast"\nengines = ["demo"]\n'


def test_a_word_in_a_name_may_mean_a_tier_or_a_model(path: Path) -> None:
    models = '[models]\nsonnet = "fast"\ngpt = "auto"\n'
    config = read(path, SMALL + TIERS + models)
    assert list(stand_ins(config).items()) == [
        ("sonnet", "fast"),
        ("gpt", "auto"),
        ("haiku", "fast"),
        ("opus", "deep"),
    ]
    assert read(path, SMALL + '[models]\nopus = "local-model"\n').models == {"opus": "local-model"}


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ('sonnet = "fasst"', "models.sonnet is 'fasst', which is not there; did you mean 'fast'?"),
        ('sonnet = "xyz"', "there are: fast, auto."),
        ("sonnet = 1", "models"),
        ('"" = "fast"', "a word cannot be empty"),
    ],
)
def test_a_word_that_means_nothing_is_named(path: Path, models: str, said: str) -> None:
    assert said in complaint(path, f"{SMALL}{TIERS}[models]\n{models}\n")


def test_auto_means_nothing_without_tiers(path: Path) -> None:
    assert "'auto', which is not there" in complaint(path, SMALL + '[models]\nopus = "auto"\n')


def test_whoever_has_no_file_is_told_what_needs_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vivace up, which needs none"):
        load(tmp_path / "vivace.toml")


# -- a fleet --------------------------------------------------------------------------------------

NODES = 'version = 1\n[fleet]\nengines = ["ws://127.0.0.1:8770"]\n'
TIER = '[[tiers]]\nname = "fast"\nengines = ["coder"]\n'


def test_with_engine_nodes_a_gateway_needs_no_engine_of_its_own(path: Path) -> None:
    config = read(path, NODES)
    assert config.engines == ()
    assert config.fleet.engines == ("ws://127.0.0.1:8770",)
    assert config.fleet.key_env == "VIVACE_FLEET_KEY"
    assert "fleet.engines" in complaint(path, "version = 1\n")


def test_a_tier_may_name_engines_that_only_nodes_have(path: Path) -> None:
    assert read(path, NODES + TIER).tiers[0].engines == ("coder",)
    assert "there are: demo" in complaint(path, SMALL + TIER)


def test_other_names_may_mean_what_only_nodes_offer(path: Path) -> None:
    models = '[models]\nhaiku = "coder-7b"\n'
    assert read(path, NODES + models).models == {"haiku": "coder-7b"}
    assert "models.haiku" in complaint(path, SMALL + models)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ws://127.0.0.1:8770", NodeAddress("127.0.0.1", 8770, False, False)),
        ("wss://gpu.example.com:1", NodeAddress("gpu.example.com", 1, True, False)),
        ("wss://[fd00::1]:8770", NodeAddress("fd00::1", 8770, True, False)),
        ("dns://nodes:8770", NodeAddress("nodes", 8770, False, True)),
        ("dns+wss://nodes:8770/", NodeAddress("nodes", 8770, True, True)),
    ],
)
def test_where_nodes_are_can_be_said_in_four_ways(url: str, address: NodeAddress) -> None:
    assert node_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nodes",
        "nodes:8770",
        "http://nodes:8770",
        "wss://nodes",
        "wss://nodes:0",
        "wss://nodes:99999",
        "wss://:8770",
        "wss://nodes:8770/link",
        "wss://nodes:8770?key=secret",
        "wss://me:secret@nodes:8770",
        "wss://[fd00::1:8770",
    ],
)
def test_an_address_that_is_none_is_answered_with_the_form_of_one(path: Path, url: str) -> None:
    said = complaint(path, f'version = 1\n[fleet]\nallow_remote = true\nengines = ["{url}"]\n')
    assert "'wss://HOST:PORT'" in said
    assert "secret" not in said


def test_a_node_that_is_named_twice_is_named(path: Path) -> None:
    said = complaint(
        path, 'version = 1\n[fleet]\nengines = ["ws://[::1]:1", "ws://[::1]:2", "ws://[::1]:1"]\n'
    )
    assert "ws://[::1]:1 twice" in said


def test_a_node_on_another_machine_must_be_meant_and_encrypted(path: Path) -> None:
    plain = 'version = 1\n[fleet]\nengines = ["dns://nodes:8770"]\n'
    assert "set fleet.allow_remote = true" in complaint(path, plain)
    plain += "allow_remote = true\n"
    said = complaint(path, plain)
    assert "'dns+wss://'" in said
    assert "fleet.allow_plain = true" in said
    assert read(path, plain + "allow_plain = true\n").fleet.allow_plain
    safe = plain.replace("dns://", "dns+wss://")
    assert read(path, safe).fleet.engines == ("dns+wss://nodes:8770",)
    assert "allow_remote" in complaint(path, safe.replace("allow_remote = true\n", ""))


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ('host = "0.0.0.0"', "node.certificate"),
        ('certificate = "node.pem"', "node.private_key"),
        ('private_key = "node-key.pem"', "node.certificate"),
        ('name = "a@b"', "node.name"),
    ],
)
def test_a_node_that_others_could_listen_to_is_refused(path: Path, node: str, said: str) -> None:
    assert said in complaint(path, f"{SMALL}[node]\n{node}\n")


@pytest.mark.parametrize(
    "node",
    [
        'host = "::1"',
        'host = "0.0.0.0"\nallow_plain = true',
        'host = "0.0.0.0"\ncertificate = "node.pem"\nprivate_key = "node-key.pem"',
    ],
)
def test_a_node_may_listen_where_nobody_can_listen_in(path: Path, node: str) -> None:
    config = read(path, f"{SMALL}[node]\n{node}\n")
    check_node(config, {"VIVACE_FLEET_KEY": "k" * 32})


def test_a_node_never_runs_without_a_key(path: Path) -> None:
    config = read(path, SMALL)
    for key in ({}, {"VIVACE_FLEET_KEY": ""}, {"VIVACE_FLEET_KEY": "too short"}):
        with pytest.raises(ConfigError, match="openssl rand") as said:
            check_node(config, key)
        assert "$VIVACE_FLEET_KEY" in str(said.value)
        assert "too short" not in str(said.value)
    other = FleetConfig(key_env="OTHER")
    assert fleet_key(other, {"OTHER": "k" * 32 + "\n"}) == "k" * 32


def test_a_node_without_engines_is_told_what_it_lacks(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[\[engines\]\]"):
        check_node(read(path, NODES), {"VIVACE_FLEET_KEY": "k" * 32})
