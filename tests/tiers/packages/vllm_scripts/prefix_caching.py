"""A prefix shared by prompts is computed once, and answers do not change."""

import sys

from vllm import LLM, SamplingParams

shared = "once upon a time the cat sat on the mat and the dog sat on the cat " * 4
prompts = [shared + end for end in ("and", "the", "a")]
params = SamplingParams(temperature=0.0, max_tokens=6)
plain = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20, enable_prefix_caching=False)
without = plain.generate(prompts, params, use_tqdm=False)
del plain
llm = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20, enable_prefix_caching=True)
llm.generate(prompts[0], params, use_tqdm=False)
cached = llm.generate(prompts, params, use_tqdm=False)
assert [output.outputs[0].text for output in cached] == [output.outputs[0].text for output in without]
assert all(output.num_cached_tokens >= 16 for output in cached) and all(
    not output.num_cached_tokens for output in without
)
print([output.num_cached_tokens for output in cached])
