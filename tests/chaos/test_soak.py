"""What counts as growth when all is calm again."""

from __future__ import annotations

from chaos.soak import Held, grown
from msgspec.structs import replace

BEFORE = Held(resident=50_000_000, descriptors=23, tasks=5, database=1_000_000)


def test_a_tenth_more_is_no_growth_and_less_is_none_either() -> None:
    after = Held(resident=54_000_000, descriptors=20, tasks=5, database=1_100_000)
    assert grown(BEFORE, after) == []


def test_each_figure_that_grew_is_named() -> None:
    for name in Held.__struct_fields__:
        after = replace(BEFORE, **{name: getattr(BEFORE, name) * 2})
        [words] = grown(BEFORE, after)
        assert words.startswith(name)


def test_one_task_more_is_no_growth_though_there_were_few() -> None:
    assert grown(BEFORE, replace(BEFORE, tasks=6)) == []
    assert grown(BEFORE, replace(BEFORE, tasks=9)) != []
