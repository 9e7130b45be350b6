"""One vLLM engine that drafts in one way, in a process of its own.

Reads one JSON line of requests, answers them at once, and writes one line of figures. A request is
``{"ask" or "raw", "answer", "old", "oracle", "start", "tokens", "stop", "logprobs"}``: ``answer``
forces the text of the answer, ``start`` (0 to 1) begins it in its middle. Runs where vLLM is
installed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from vivace.engines.vllm_precision import bfloat16_is_slow, processor_flags

SETTINGS: dict[str, Any] = {
    "dtype": "float32" if bfloat16_is_slow(processor_flags()) else "bfloat16",
    "enforce_eager": True,
    "max_num_seqs": 16,
    "block_size": 32,
    "enable_prefix_caching": True,
    "disable_log_stats": True,
    "max_model_len": 8192,
    "worker_extension_cls": "bench._forced_text.Extension",
}


def speculation(way: str, ngram: str) -> dict[str, Any]:
    from vivace.engines import vllm_edits

    if way == "plain":
        return {}
    if way in ("edits", "exact"):
        arguments = vllm_edits.engine_arguments("exact" if way == "exact" else "edits")
        return {**arguments, "scheduler_cls": "bench._forced_text.BenchScheduler"}
    config: dict[str, Any] = {"method": way, "num_speculative_tokens": 64}
    if way == "ngram":
        length, least, most = map(int, ngram.split(","))
        config["num_speculative_tokens"] = length
        config |= {"prompt_lookup_min": least, "prompt_lookup_max": most}
    return {"speculative_config": config, "per_request_spec_decode_metrics": "summary"}


class DraftingEngine:
    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._tokenizer = engine.renderer.tokenizer
        self._number = 0

    async def answer(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return await asyncio.gather(*map(self._one, requests))

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _prompt(self, ask: str) -> list[int]:
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": ask}], tokenize=False, add_generation_prompt=True
        )
        return self._ids(text)

    async def _one(self, request: dict[str, Any]) -> dict[str, Any]:
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        from bench._forced_text import FORCED, ORACLE
        from vivace.engines.old_code import OLD

        prompt = self._prompt(request["ask"]) if "ask" in request else self._ids(request["raw"])
        extra: dict[str, Any] = {}
        limit, forced = request.get("tokens"), self._ids(request.get("answer") or "")
        if forced:
            start = int(request.get("start", 0.0) * (len(forced) - limit)) if limit else 0
            prompt += forced[:start]
            forced = forced[start : start + limit if limit else None]
            extra[FORCED], limit = forced, len(forced)
        if request.get("old"):
            extra[OLD] = self._ids(request["old"])
            extra[ORACLE] = bool(request.get("oracle"))
        sampling = SamplingParams(
            temperature=0,
            max_tokens=limit,
            ignore_eos=bool(forced),
            stop=request.get("stop"),
            extra_args=extra or None,
            logprobs=2 if request.get("logprobs") else None,
            output_kind=RequestOutputKind.DELTA,
        )
        self._number += 1
        asked = TokensPrompt(prompt_token_ids=prompt)
        started = time.perf_counter()
        times: list[float] = []
        counts: list[int] = []
        ids: list[int] = []
        text = ""
        gaps: list[float] = []
        last: Any = None
        async for last in self._engine.generate(asked, sampling, f"r{self._number}"):
            times.append(time.perf_counter() - started)
            counts.append(len(last.outputs[0].token_ids))
            ids += last.outputs[0].token_ids
            text += last.outputs[0].text
            for each in last.outputs[0].logprobs or ():
                best = sorted((value.logprob for value in each.values()), reverse=True)
                gaps.append(best[0] - best[1])
        if forced and ids != forced:
            raise RuntimeError("the forced answer did not come")
        counted = last.outputs[0].spec_decode_metrics
        return {
            "prompt": len(prompt),
            "first": times[0],
            "decode": times[-1] - times[0],
            "wall": times[-1],
            "tokens": sum(counts),
            "decoded": sum(counts[1:]),
            "steps": len(counts) - 1,
            "drafted": counted.num_draft_tokens if counted else 0,
            "ids": ids,
            "gaps": gaps,
            "text": text,
        }


async def main() -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    model, way, ngram = sys.argv[1:]
    arguments = AsyncEngineArgs(model=model, **SETTINGS, **speculation(way, ngram))
    engine = AsyncLLM.from_engine_args(arguments)
    ours = DraftingEngine(engine)
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(await ours.answer(json.loads(line))), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
