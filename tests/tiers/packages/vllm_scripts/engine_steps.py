"""Adds requests to an engine between its steps."""

from vllm import EngineArgs, LLMEngine, RequestOutput, SamplingParams
from vllm.utils import FlexibleArgumentParser

parser = EngineArgs.add_cli_args(FlexibleArgumentParser(description="steps"))
engine = LLMEngine.from_engine_args(EngineArgs.from_cli_args(parser.parse_args()))
prompts = [
    ("a", SamplingParams(temperature=0.0, logprobs=1, prompt_logprobs=1, max_tokens=5)),
    ("the cat sat", SamplingParams(temperature=0.8, top_k=5, presence_penalty=0.2, max_tokens=7, ignore_eos=True)),
    ("once upon", SamplingParams(n=2, best_of=5, temperature=0.8, top_p=0.95, frequency_penalty=0.1, max_tokens=4)),
    ("the dog", SamplingParams(n=2, temperature=0.8, seed=3, max_tokens=4, ignore_eos=True)),
]
finished: dict[str, RequestOutput] = {}
grown: list[int] = []
added = 0
while added < len(prompts) or engine.has_unfinished_requests():
    if added < len(prompts):
        prompt, params = prompts[added]
        engine.add_request(str(added), prompt, params)
        added += 1
    for output in engine.step():
        if output.request_id == "1":
            grown.append(len(output.outputs[0].token_ids))
        if output.finished:
            print(output)
            finished[output.request_id] = output
assert sorted(finished) == ["0", "1", "2", "3"] and engine.get_num_unfinished_requests() == 0
assert [len(finished[name].outputs) for name in "0123"] == [1, 1, 2, 2]
assert grown == sorted(grown) and grown[-1] == 7 and finished["0"].outputs[0].logprobs and finished["0"].prompt_logprobs

engine.add_request("long", "the cat", SamplingParams(max_tokens=400, ignore_eos=True))
engine.add_request("short", "the cat", SamplingParams(max_tokens=3, ignore_eos=True, temperature=0.0))
engine.abort_request(["long", "unknown"])
names = set()
while engine.has_unfinished_requests():
    names |= {output.request_id for output in engine.step()}
assert names == {"short"} and engine.step() == []
try:
    engine.add_request("wrong", "a", SamplingParams(top_p=7.0))
except ValueError as error:
    assert "top_p" in str(error)
else:
    raise AssertionError("taken")
assert not engine.has_unfinished_requests()
