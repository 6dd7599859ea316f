"""n, best_of, seeds, log-probabilities of answers and prompts, stop strings, biases, beams."""

import sys

from vllm import LLM, SamplingParams
from vllm.sampling_params import BeamSearchParams

llm = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20)
prompt = "the cat sat"
(three,) = llm.generate(prompt, SamplingParams(n=3, temperature=0.9, seed=7, max_tokens=6), use_tqdm=False)
assert [choice.index for choice in three.outputs] == [0, 1, 2] and len({choice.text for choice in three.outputs}) > 1
(again,) = llm.generate([prompt], SamplingParams(n=3, temperature=0.9, seed=7, max_tokens=6), use_tqdm=False)
assert [choice.token_ids for choice in again.outputs] == [choice.token_ids for choice in three.outputs]

(best,) = llm.generate(
    prompt, SamplingParams(n=2, best_of=4, temperature=0.9, seed=7, max_tokens=6, logprobs=0), use_tqdm=False
)
assert len(best.outputs) == 2 and best.outputs[0].cumulative_logprob >= best.outputs[1].cumulative_logprob

(told,) = llm.generate(
    prompt, SamplingParams(temperature=0.0, max_tokens=4, logprobs=2, prompt_logprobs=1), use_tqdm=False
)
choice = told.outputs[0]
for token_id, position in zip(choice.token_ids, choice.logprobs, strict=True):
    assert (
        position[token_id].rank == 1
        and position[token_id].logprob <= 0
        and isinstance(position[token_id].decoded_token, str)
    )
assert len(told.prompt_logprobs) == len(told.prompt_token_ids) and told.prompt_logprobs[0] is None
assert (
    abs(
        sum(position[token].logprob for token, position in zip(choice.token_ids, choice.logprobs))
        - choice.cumulative_logprob
    )
    < 1e-3
)

(whole,) = llm.generate(prompt, SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True), use_tqdm=False)
mark = whole.outputs[0].token_ids[3]
(stopped,) = llm.generate(
    prompt, SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True, stop_token_ids=[mark]), use_tqdm=False
)
assert stopped.outputs[0].finish_reason == "stop" and stopped.outputs[0].stop_reason == mark
(allowed,) = llm.generate(
    prompt, SamplingParams(max_tokens=5, ignore_eos=True, allowed_token_ids=[mark]), use_tqdm=False
)
assert set(allowed.outputs[0].token_ids) == {mark}
(biased,) = llm.generate(
    prompt, SamplingParams(temperature=0.0, max_tokens=3, ignore_eos=True, logit_bias={mark: 100.0}), use_tqdm=False
)
assert set(biased.outputs[0].token_ids) == {mark}
copy = SamplingParams(temperature=0.5).clone()
assert copy == SamplingParams(temperature=0.5)

(beams,) = llm.beam_search([{"prompt": prompt}], BeamSearchParams(beam_width=3, max_tokens=5))
assert len(beams.sequences) == 3 and all(sequence.text.startswith(prompt) for sequence in beams.sequences)
assert [sequence.cum_logprob for sequence in beams.sequences] == sorted(
    (sequence.cum_logprob for sequence in beams.sequences), reverse=True
)
print(beams.sequences[0].text)
