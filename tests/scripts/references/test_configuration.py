"""docs/reference on vivace.toml: nothing is left out, and the schema agrees with the reader."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.references import configuration
from scripts.references.docstrings import attributes
from tests.support.examples import examples
from tests.test_config import KEY, SMALL, UNKNOWN_KEYS, WRONG_VALUES
from vivace.cli.main import commands
from vivace.config import Config

SECTIONS = configuration.sections()
SCHEMA = jsonschema_rs.validator_for(configuration.schema())


EXAMPLE = re.sub(r"(?m)^#(?=\S)", "", configuration.example())


def uncommented() -> dict[str, Any]:
    return tomllib.loads(EXAMPLE)


def tables(path: str) -> list[dict[str, Any]]:
    """Those of the example with nothing commented out."""
    found: list[Any] = [uncommented()]
    for name in filter(None, path.split(".")):
        inner = [each[name] for each in found if name in each]
        found = [part for each in inner for part in (each if isinstance(each, list) else [each])]
    return found


# -- nothing is left out --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "key"),
    [(section, key) for section in SECTIONS for key in section.keys],
    ids=lambda each: getattr(each, "title", None) or each.name,
)
def test_every_key_has_a_word_about_it(
    section: configuration.Section, key: configuration.Key
) -> None:
    assert key.meaning, f"{key.name} of {section.title} needs a docstring below it"
    assert re.fullmatch(r"\d+\.\d+\.\d+", key.since)


@pytest.mark.parametrize("name", Config.__struct_fields__)
def test_every_table_is_a_section_or_a_key_of_the_top(name: str) -> None:
    keys = {key.name for key in SECTIONS[0].keys}
    assert name in keys | {section.path for section in SECTIONS}


def test_a_key_without_a_word_would_be_seen() -> None:
    class Silent(msgspec.Struct):
        loud: int = 1
        """Said."""
        silent: int = 2

    assert attributes(Silent) == {"loud": "Said."}


# -- the example ----------------------------------------------------------------------------------


def test_the_example_is_accepted_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "vivace.toml"
    path.write_text(configuration.example(), "utf-8")
    ran = CliRunner().invoke(commands, ["config", "check", "--config", str(path)])
    assert ran.exit_code == 0, ran.output
    assert f"{path} is right." in ran.output


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_the_example_has_every_key_with_its_default(section: configuration.Section) -> None:
    (table,) = (
        each for each in tables(section.path) if not section.kind or each["kind"] == section.kind
    )
    for key in section.keys:
        assert key.name in table
        if key.default not in (msgspec.NODEFAULT, None, (), {}):
            value = table[key.name]
            assert (tuple(value) if isinstance(value, list) else value) == key.default


@pytest.mark.parametrize("number", range(4))
def test_what_stands_in_the_example_may_stand_there(number: int) -> None:
    everything = uncommented()
    everything["engines"] = [everything["engines"][number]]
    msgspec.convert(everything, Config)
    SCHEMA.validate(everything)


# -- the schema -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        SMALL,
        SMALL + KEY,
        SMALL + '[server]\nhost = "::1"\nport = 1\nallowed_origins = ["https://a"]\n',
        SMALL + '[limits]\nlanes = 2\nslow_reader_seconds = 0.5\n[store]\npath = ":memory:"\n',
        SMALL + '[[tiers]]\nname = "fast"\nengines = ["demo"]\nlimits = { concurrency = 1 }\n',
        SMALL + '[models]\nsonnet = "local-model"\n',
    ],
)
def test_the_schema_accepts_what_is_right(content: str) -> None:
    SCHEMA.validate(tomllib.loads(content))


@pytest.mark.parametrize("content", [each for each, _ in (*UNKNOWN_KEYS, *WRONG_VALUES)])
def test_the_schema_refuses_what_the_reader_refuses(content: str) -> None:
    # A date is something that JSON does not have; editors hand it on as text.
    assert not SCHEMA.is_valid(tomllib.loads(content.replace("1979-05-27", '"1979-05-27"')))


_VALUES: list[Any] = [0, 1, -1, 70_000, 1.5, True, "x", "a b", "", [], ["x"], [1], {}, {"a": "b"}]
_KEYS = [
    (section, key.name) for section in SECTIONS for key in section.keys if section.path != "keys"
]


def _accepted_by_reader(raw: dict[str, Any]) -> bool:
    try:
        msgspec.convert(raw, Config)
    except msgspec.ValidationError:
        return False
    return True


@settings(max_examples=examples(200))
@given(at=st.sampled_from(_KEYS), value=st.sampled_from(_VALUES))
def test_schema_and_reader_agree_on_any_value_at_any_key(
    at: tuple[configuration.Section, str], value: object
) -> None:
    section, key = at
    raw = uncommented()
    raw["engines"] = [
        each for each in raw["engines"] if each["kind"] == (section.kind or "llamacpp")
    ]
    table: Any = raw
    for name in filter(None, section.path.split(".")):
        table = table[name][0] if isinstance(table[name], list) else table[name]
    table[key] = value
    assert SCHEMA.is_valid(raw) == _accepted_by_reader(raw)


def test_the_schema_says_what_a_key_means() -> None:
    limits = configuration.schema()["$defs"]["LimitsConfig"]
    assert limits["properties"]["drain_seconds"] == {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1e9,
        "default": 30,
        "description": "How long running turns may go on after SIGTERM.",
    }
    assert configuration.schema()["$defs"]["VllmConfig"]["properties"]["kind"] == {"enum": ["vllm"]}
