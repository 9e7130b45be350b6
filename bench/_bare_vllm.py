"""vLLM's ``AsyncLLM`` with nothing around it, in a process of its own.

Reads one JSON request a line, ``{"turns": [{"conversation", "text"}, …], "max_tokens": …}``, does
the turns at once and answers one line of figures. Rendering and tokenising happen before its clock
starts, text is made after it: what is measured is ``generate`` from token ids to token ids. Runs in
an environment that has vLLM.
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
    "max_num_seqs": 8,
    "block_size": 32,
    "enable_prefix_caching": True,
    "disable_log_stats": False,
    "max_model_len": 16384,
}


class Bare:
    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._conversations: dict[str, list[dict[str, str]]] = {}
        self._number = 0

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        turns = request["turns"]
        prompts = [self._prompt(turn) for turn in turns]
        before = _engine_times()
        started, used = time.perf_counter(), time.process_time()
        answers = await asyncio.gather(*(self._one(ids, request["max_tokens"]) for ids in prompts))
        wall, used = time.perf_counter() - started, time.process_time() - used
        while (now := _engine_times())["inference_count"] < before["inference_count"] + len(turns):
            await asyncio.sleep(0.002)
        for turn, (_, ids) in zip(turns, answers, strict=True):
            text = self._engine.renderer.tokenizer.decode(ids, skip_special_tokens=True)
            said = {"role": "assistant", "content": text}
            self._conversations[turn["conversation"]].append(said)
        return {
            "first": answers[0][0],
            "wall": wall,
            "tokens": sum(len(ids) for _, ids in answers),
            "engine": {name: now[name] - before[name] for name in now} | {"cpu": used},
        }

    def _prompt(self, turn: dict[str, str]) -> list[int]:
        messages = self._conversations.setdefault(turn["conversation"], [])
        messages.append({"role": "user", "content": turn["text"]})
        tokenizer = self._engine.renderer.tokenizer
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids: list[int] = tokenizer.encode(text)
        return ids

    async def _one(self, prompt: list[int], max_tokens: int) -> tuple[float, list[int]]:
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        self._number += 1
        sampling = SamplingParams(
            temperature=0,
            max_tokens=max_tokens,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        started = time.perf_counter()
        first, ids = 0.0, []
        asked = TokensPrompt(prompt_token_ids=prompt)
        async for output in self._engine.generate(asked, sampling, f"r{self._number}"):
            first = first or time.perf_counter() - started
            ids += output.outputs[0].token_ids
        return first, ids


def _engine_times() -> dict[str, float]:
    from prometheus_client import REGISTRY

    times = {}
    for name in ("queue", "prefill", "decode", "inference"):
        for kind in ("sum", "count"):
            metric = f"vllm:request_{name}_time_seconds_{kind}"
            times[f"{name}_{kind}"] = sum(
                sample.value
                for family in REGISTRY.collect()
                for sample in family.samples
                if sample.name == metric
            )
    return times


async def main() -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    model, settings = sys.argv[1], json.loads(sys.argv[2])
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=model, **settings))
    bare = Bare(engine)
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(await bare.answer(json.loads(line))), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    import uvloop  # as the servers it is compared with

    uvloop.run(main())
