"""Chats with one and several conversations, and by applying the template."""

import sys

from vllm import LLM, SamplingParams

llm = LLM(sys.argv[1], chat_template=sys.argv[2], kv_cache_memory_bytes=16 << 20)
params = SamplingParams(temperature=0.0, max_tokens=6)
conversation = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "the cat"},
]
outputs = llm.chat(conversation, params, use_tqdm=False)
for output in outputs:
    print(f"Prompt: {output.prompt!r}, Generated text: {output.outputs[0].text!r}")
many = llm.chat([conversation for _ in range(4)], params, use_tqdm=True)
assert len(many) == 4 and {output.outputs[0].text for output in many} == {outputs[0].outputs[0].text}
with open(sys.argv[2]) as file:
    template = file.read()
(given,) = llm.chat(
    conversation,
    params,
    chat_template=template,
    chat_template_content_format="auto",
    add_generation_prompt=True,
    use_tqdm=False,
)
assert given.prompt_token_ids == outputs[0].prompt_token_ids
tokenizer = llm.get_tokenizer()
text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
assert text == outputs[0].prompt
