"""Reads the engine's metrics through their classes, and empties the prefix cache in between."""

import sys

from vllm import LLM, SamplingParams
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.v1.metrics.reader import Counter, Gauge, Histogram, Vector

llm = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20, disable_log_stats=False)
prompt = "once upon a time the cat sat on the mat and the dog sat on the cat " * 4
params = SamplingParams(temperature=0.0, max_tokens=5, ignore_eos=True)


def cached():
    return llm.generate(prompt, params, use_tqdm=False)[0].num_cached_tokens


cached()
assert cached() > 0
assert llm.reset_prefix_cache() and not cached()
found = {}
for metric in llm.get_metrics():
    found[metric.name] = metric
    if isinstance(metric, Gauge):
        print(f"{metric.name} (gauge) = {metric.value}")
    elif isinstance(metric, Counter):
        print(f"{metric.name} (counter) = {metric.value}")
    elif isinstance(metric, Vector):
        print(f"{metric.name} (vector) = {metric.values}")
    elif isinstance(metric, Histogram):
        print(f"{metric.name} (histogram) sum = {metric.sum} count = {metric.count}")
        assert list(metric.buckets.values())[-1] == metric.count
assert found["vllm:generation_tokens"].value == 15 and found["vllm:num_requests_running"].value == 0
assert found["vllm:prefix_cache_hits"].value > 0 and isinstance(found["vllm:time_to_first_token_seconds"], Histogram)
assert found["vllm:generation_tokens"].labels["model_name"]
del llm
cleanup_dist_env_and_memory()
