"""Loaded by vLLM in its own processes beside the tiny model: what it is to say.

Its answer to a request with a ``prediction`` is that text with every hundredth token another, and
then the end; to any other request, the same sentence again and again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench._force import force
from vivace.engines.old_code import OLD

CHANGED_EVERY = 100
_SENTENCE = "The next step is to read the module that the last line names, and then to test it. "
_TIMES = 100


def _wanted(runner: Any, request: Any) -> Sequence[int]:
    sentence, changed, end = _words(runner.model_config.model)
    foretold = (request.sampling_params.extra_args or {}).get(OLD)
    if not foretold:
        return sentence
    known: list[int] | None = getattr(request, "bench_wanted", None)
    if known is None:
        known = request.bench_wanted = [*foretold, end]
        for place in range(CHANGED_EVERY, len(foretold), CHANGED_EVERY):
            known[place] = changed
    return known


@functools.cache
def _words(model: str) -> tuple[list[int], int, int]:
    """The sentence often enough, a word that is changed to, and the end of an answer."""
    tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
    (changed,) = tokenizer.encode(" changed").ids
    (end,) = tokenizer.encode("<|im_end|>").ids
    return tokenizer.encode(_SENTENCE * _TIMES).ids, changed, end


force(_wanted)


class Extension:
    """Nothing: naming it is what makes vLLM load this module."""
