"""Loaded by vLLM in its own processes: makes a request's answer the text that was chosen for it.

The model computes every step as ever; then, before a token is chosen, the wanted one is lifted
above all others. Drafts are accepted or refused against that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

_LIFT = 1e4


def force(wanted: Callable[[Any, Any], Sequence[int] | None]) -> None:
    """``wanted`` is asked with vLLM's model runner and its state of a request."""
    sample = GPUModelRunner._sample  # noqa: SLF001

    def sample_forced(self: Any, logits: Any, metadata: Any) -> Any:
        if logits is not None:
            row = 0
            for place, name in enumerate(self.input_batch.req_ids):
                drafted = metadata.num_draft_tokens[place] if metadata is not None else 0
                request = self.requests[name]
                done = len(request.output_token_ids)
                tokens = (wanted(self, request) or ())[done : done + drafted + 1]
                for offset, token in enumerate(tokens):
                    logits[row + offset, token] += _LIFT
                row += drafted + 1
        return sample(self, logits, metadata)

    GPUModelRunner._sample = sample_forced  # noqa: SLF001
