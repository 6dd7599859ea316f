"""Completes a list of prompts, with arguments from the command line and the script's own defaults."""

from vllm import LLM, EngineArgs, RequestOutput, SamplingParams
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = FlexibleArgumentParser(description="completions")
EngineArgs.add_cli_args(parser.add_argument_group("Engine arguments"))
parser.set_defaults(model="nowhere/none", enforce_eager=True)
own = parser.add_argument_group("Sampling parameters")
own.add_argument("--temperature", type=float)
own.add_argument("--top-k", type=int)
args: dict = vars(parser.parse_args())
temperature, top_k = args.pop("temperature"), args.pop("top_k")

llm = LLM(**args)
params: SamplingParams = llm.get_default_sampling_params()
params.max_tokens = 8
if temperature is not None:
    params.temperature = temperature
if top_k is not None:
    params.top_k = top_k
prompts = ["the cat sat", "once upon a", "a"]
outputs: list[RequestOutput] = llm.generate(prompts, params)
for output in outputs:
    print(f"Prompt: {output.prompt!r}, Generated text: {output.outputs[0].text!r}")
    assert (
        output.finished
        and output.outputs[0].finish_reason in ("length", "stop")
        and len(output.outputs[0].token_ids) <= 8
    )
assert [output.prompt for output in outputs] == prompts and [output.request_id for output in outputs] == ["0", "1", "2"]
assert repr(outputs[0]).startswith("RequestOutput(request_id='0', prompt='the cat sat', prompt_token_ids=[")
assert "outputs=[CompletionOutput(index=0, text=" in repr(outputs[0])
for name in ("encoder_prompt", "encoder_prompt_token_ids", "lora_request", "metrics", "kv_transfer_params"):
    assert getattr(outputs[0], name) is None
assert llm.llm_engine.model_config.max_model_len >= 64

# By keywords, as tokens, one prompt alone, each with parameters of its own.
ids = llm.get_tokenizer().encode(prompts[0])
(by_ids,) = llm.generate(
    prompts={"prompt_token_ids": ids}, sampling_params=SamplingParams(temperature=0.0, max_tokens=4), use_tqdm=False
)
(alone,) = llm.generate(
    prompts[0], SamplingParams.from_optional(temperature=0.0, max_tokens=4, top_p=None), use_tqdm=False
)
assert by_ids.outputs[0].token_ids == alone.outputs[0].token_ids and alone.prompt_token_ids == ids
short, long = llm.generate(
    prompts[:2],
    [SamplingParams(max_tokens=2, ignore_eos=True), SamplingParams(max_tokens=5, ignore_eos=True)],
    use_tqdm=False,
)
assert (len(short.outputs[0].token_ids), len(long.outputs[0].token_ids)) == (2, 5)
