"""Streams the new tokens of several concurrent requests."""

import asyncio
import sys

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.async_llm import AsyncLLM


async def stream(engine: AsyncLLM, prompt: str, request_id: str) -> str:
    params = SamplingParams(
        max_tokens=20, temperature=0.8, top_p=0.95, seed=42, ignore_eos=True, output_kind=RequestOutputKind.DELTA
    )
    text, pieces, ids = "", 0, 0
    async for output in engine.generate(request_id=request_id, prompt=prompt, sampling_params=params):
        for completion in output.outputs:
            text += completion.text
            ids += len(completion.token_ids)
            pieces += bool(completion.token_ids)
        if output.finished:
            break
    assert ids == 20 and pieces >= 1 and output.request_id == request_id
    return text


async def main() -> None:
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(model=sys.argv[1], enforce_eager=True, kv_cache_memory_bytes=16 << 20)
    )
    try:
        prompts = ["the cat", "once upon", "the cat"]
        texts = await asyncio.gather(*(stream(engine, prompt, f"stream-{i}") for i, prompt in enumerate(prompts)))
        assert texts[0] == texts[2] == await stream(engine, prompts[0], "alone")
        print(texts)
    finally:
        engine.shutdown()


asyncio.run(main())
