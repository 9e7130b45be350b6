"""vLLM's ``AsyncLLM`` with nothing around it, in a process of its own.

Reads one JSON request a line ({"messages": …, "max_tokens": …, "copies": …}) and answers one line
of figures, measured inside. Runs in an environment that has vLLM.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

SETTINGS: dict[str, Any] = {
    "dtype": "bfloat16",
    "enforce_eager": True,
    "max_num_seqs": 8,
    "block_size": 32,
    "enable_prefix_caching": True,
    "disable_log_stats": False,
    "max_model_len": 16384,
}


async def answer(engine: Any, request: dict[str, Any], number: int) -> dict[str, float]:
    from vllm.renderers import ChatParams
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    kwargs = {"add_generation_prompt": True, "tokenize": False}
    _, [prompt] = await engine.renderer.render_chat_async(
        [request["messages"]], ChatParams(chat_template_kwargs=kwargs)
    )
    sampling = SamplingParams(
        temperature=0,
        max_tokens=request["max_tokens"],
        ignore_eos=request.get("ignore_eos", False),
        output_kind=RequestOutputKind.DELTA,
    )

    async def one(copy: int) -> tuple[float, float, int, str]:
        started = time.perf_counter()
        first, tokens, text = 0.0, 0, ""
        async for output in engine.generate(prompt, sampling, f"r{number}-{copy}"):
            first = first or time.perf_counter() - started
            tokens += len(output.outputs[0].token_ids)
            text += output.outputs[0].text
        return first, time.perf_counter() - started, tokens, text

    started = time.perf_counter()
    answers = await asyncio.gather(*(one(copy) for copy in range(request.get("copies", 1))))
    return {
        "first": answers[0][0],
        "wall": time.perf_counter() - started,
        "tokens": sum(each[2] for each in answers),
        "text": answers[0][3],  # type: ignore[dict-item]
    }


async def main() -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=sys.argv[1], **SETTINGS))
    print("ready", flush=True)
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        print(json.dumps(await answer(engine, json.loads(line), number)), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
