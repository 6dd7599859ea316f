"""An engine releases its memory and allocates it again; the answers stay the same."""

import sys

from vllm import LLM, SamplingParams

llm = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20, enable_sleep_mode=True)
params = SamplingParams(temperature=0.0, max_tokens=6)
before = llm.generate("once upon a time", params, use_tqdm=False)[0].outputs[0].text
for level in (0, 1, 2):
    llm.sleep(level=level)
    try:
        llm.generate("once", params, use_tqdm=False)
        raise AssertionError("it works while it sleeps")
    except RuntimeError as error:
        assert "wake_up" in str(error)
    llm.wake_up()
    assert llm.generate("once upon a time", params, use_tqdm=False)[0].outputs[0].text == before
llm.sleep(1)
llm.wake_up(tags=["weights"])
llm.wake_up(tags=["kv_cache", "scheduling"])
assert llm.generate("once upon a time", params, use_tqdm=False)[0].outputs[0].text == before
for wrong in (lambda: llm.sleep(3), lambda: llm.sleep(1, mode="never"), lambda: llm.wake_up(tags=["all"])):
    try:
        wrong()
        raise AssertionError("taken")
    except ValueError as error:
        print(error)
