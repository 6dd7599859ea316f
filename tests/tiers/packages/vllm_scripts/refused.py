"""Unsupported features are refused by name."""

import sys

from vllm import LLM, SamplingParams


def refused(name, call):
    try:
        call()
    except (ValueError, NotImplementedError) as error:
        assert name in str(error), (name, str(error))
        print(error)
    else:
        raise AssertionError(f"{name} was taken")


refused("logits_processors", lambda: SamplingParams(logits_processors=[lambda ids, logits: logits]))
refused("logits", lambda: LLM(model=sys.argv[1], logits_processors=["module:Class"]))
llm = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20)
refused("lora_request", lambda: llm.generate("a", lora_request=object()))
refused("pooling", lambda: llm.embed("a"))
refused("prompt", lambda: llm.generate({"prompt_embeds": [0.0]}))
refused("max_tokens", lambda: llm.generate("a", SamplingParams(max_tokens=-1), use_tqdm=False))
assert llm.generate("a", SamplingParams(max_tokens=2, ignore_eos=True), use_tqdm=False)[0].finished
