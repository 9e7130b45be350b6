"""vLLM's best n-gram setting for these edits, found with vLLM's own rule and a model of step times.

Reads one JSON line of ``[prompt, answer]`` texts; writes ``length,least,most`` and what each would
give. Runs where vLLM is installed.
"""

from __future__ import annotations

import json
import statistics
import sys

import numpy as np

LENGTHS = (16, 32, 63)
WINDOWS = ((2, 4), (3, 5), (4, 8))
LONGEST = 8192


def seconds(tokens: int) -> float:
    """Of a step on two cores, between the points measured (docs/how/draft-figures.md)."""
    return float(np.interp(tokens, (1, 17, 33, 65), (0.104, 0.124, 0.141, 0.206)))


def replay(prompt: list[int], answer: list[int], length: int, least: int, most: int) -> float:
    """Tokens a second."""
    from vllm.v1.spec_decode import ngram_proposer

    propose = ngram_proposer._find_longest_matched_ngram_and_propose_tokens  # noqa: SLF001
    ids = np.array(prompt + answer, dtype=np.int32)
    done, spent = 1, 0.0
    while done < len(answer):
        draft = propose(ids[: len(prompt) + done], least, most, LONGEST, length)
        rest = answer[done : done + len(draft)]
        same = 0
        while same < len(rest) and draft[same] == rest[same]:
            same += 1
        spent += seconds(len(draft) + 1)
        done += same + 1
    return len(answer) / spent


def main() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    edits = [[tokenizer.encode(text) for text in pair] for pair in json.loads(sys.stdin.readline())]
    found = {}
    for length in LENGTHS:
        for least, most in WINDOWS:
            speeds = [replay(prompt, answer, length, least, most) for prompt, answer in edits]
            found[f"{length},{least},{most}"] = statistics.median(speeds)
    print(json.dumps({"best": max(found, key=found.__getitem__), "speeds": found}))


if __name__ == "__main__":
    main()
