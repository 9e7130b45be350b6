"""Inside vLLM's worker: old tokens that the scheduler prefers are given their nats before the best
token of each row is taken.

vLLM's own ways to change logits do not work beside drafts, so two methods of its model runner are
wrapped here, for the version named in ``vllm.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

__all__ = ["PREFERRED", "Preferred", "install"]

PREFERRED = "vivace_preferred"
"""Under this name a scheduler's output carries what is preferred, by request."""

Preferred = tuple[float, Sequence[int | None]]
"""How many nats, and which token at each drafted place and behind the draft."""


def install() -> None:
    """Have the model runners of this process heed it."""
    if hasattr(GPUModelRunner, PREFERRED):
        return
    execute, sample = GPUModelRunner.execute_model, GPUModelRunner._sample  # noqa: SLF001

    @functools.wraps(execute)
    def execute_model(self: Any, scheduler_output: Any, *arguments: Any, **more: Any) -> Any:
        setattr(self, PREFERRED, getattr(scheduler_output, PREFERRED, None))
        return execute(self, scheduler_output, *arguments, **more)

    @functools.wraps(sample)
    def sample_leniently(self: Any, logits: Any, metadata: Any) -> Any:
        preferred = getattr(self, PREFERRED)
        if preferred and logits is not None:
            drafted = metadata.num_draft_tokens if metadata is not None else None
            _lift(logits, self.input_batch.req_ids, drafted, preferred)
        return sample(self, logits, metadata)

    setattr(GPUModelRunner, PREFERRED, None)
    GPUModelRunner.execute_model = execute_model
    GPUModelRunner._sample = sample_leniently  # noqa: SLF001


def _lift(
    logits: Any,
    names: Sequence[str],
    drafted: Sequence[int] | None,
    preferred: Mapping[str, Preferred],
) -> None:
    """Put the preferred token of a row above all others, if its nats bring it there.

    Each request has a row for every drafted token, in their order, and one behind them. The sum is
    only compared, in float32: in bfloat16 it would be rounded by as much as decides, and a copy of
    all logits in float32 costs several times as much.
    """
    rows, tokens, nats = _places(names, drafted, preferred)
    own = logits[rows, tokens].to(torch.float32)
    best = logits.amax(dim=-1)[rows].to(torch.float32)
    wins = own + torch.tensor(nats, device=logits.device) >= best
    logits[rows, tokens] = torch.where(wins, best + 1, own).to(logits.dtype)


def _places(
    names: Sequence[str], drafted: Sequence[int] | None, preferred: Mapping[str, Preferred]
) -> tuple[list[int], list[int], list[float]]:
    """Rows, the token that is preferred in each, and by how much."""
    rows: list[int] = []
    tokens: list[int] = []
    given: list[float] = []
    first = 0
    for place, name in enumerate(names):
        count = 1 + (drafted[place] if drafted is not None else 0)
        nats, wanted = preferred.get(name, (0.0, ()))
        for offset, token in enumerate(wanted[:count]):
            if token is not None:
                rows.append(first + offset)
                tokens.append(token)
                given.append(nats)
        first += count
    return rows, tokens, given
