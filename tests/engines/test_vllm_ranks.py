"""What a data-parallel vLLM is told of where a conversation goes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vivace.engines.base import Chat, Work
from vivace.engines.vllm_ranks import Ranks, ranks_of
from vivace.scheduling.placement import rank


def work(conversation: str) -> Work:
    return Work(id="resp_1", model="m", prompt=Chat(items=()), conversation=conversation)


def test_a_conversation_has_a_rank_and_keeps_it() -> None:
    ranks = Ranks(4, 8)
    told = []
    for _ in range(3):
        with ranks.chosen(work("ada/1")) as chosen:
            told.append(chosen)
    assert told == [{"data_parallel_rank": rank("ada/1", [0] * 4, 8)}] * 3


def test_what_runs_counts_until_it_has_ended() -> None:
    ranks = Ranks(2, 1)
    with ranks.chosen(work("ada/1")) as first, ranks.chosen(work("ada/1")) as second:
        assert first != second  # its home is full
    with pytest.raises(RuntimeError), ranks.chosen(work("ada/1")):
        raise RuntimeError
    with ranks.chosen(work("ada/1")) as again:
        assert again == first


def test_vllm_chooses_where_nobody_knows_better() -> None:
    with Ranks(2, 8).chosen(work("")) as chosen:
        assert chosen == {}
    with Ranks(1, 8).chosen(work("ada/1")) as chosen:
        assert chosen == {}


@pytest.mark.parametrize(
    ("size", "local", "only_local", "count"),
    [(1, 1, False, 1), (4, 4, False, 4), (4, 2, False, 4), (4, 2, True, 2), (4, 1, True, 1)],
)
def test_ranks_are_those_that_this_process_speaks_to(
    size: int, local: int, only_local: bool, count: int
) -> None:
    parallel = SimpleNamespace(
        data_parallel_size=size, data_parallel_size_local=local, local_engines_only=only_local
    )
    config = SimpleNamespace(
        parallel_config=parallel, scheduler_config=SimpleNamespace(max_num_seqs=8)
    )
    assert len(ranks_of(config)._running) == count
