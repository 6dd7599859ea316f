"""embed and encode; score and classify with a cross-encoder."""

import sys

from vllm import LLM, ClassificationRequestOutput, EmbeddingRequestOutput, PoolingParams, ScoringRequestOutput
from vllm.outputs import PoolingRequestOutput

llm = LLM(model=sys.argv[1], runner="pooling", dtype="float32", max_num_seqs=8, enforce_eager=True)
prompts = ["dog", "good cat", "a b"]
outputs = llm.embed(prompts)
for prompt, output in zip(prompts, outputs):
    assert isinstance(output, EmbeddingRequestOutput)
    embeds = output.outputs.embedding
    print(f"Prompt: {prompt!r} Embeddings: {embeds[:4]} (size={len(embeds)})")
    assert abs(sum(value * value for value in embeds) - 1) < 1e-3 and output.outputs.hidden_size == len(embeds)
(short,) = llm.embed(prompts[0], pooling_params=PoolingParams(dimensions=8), use_tqdm=False)
assert len(short.outputs.embedding) == 8
(raw,) = llm.encode(prompts[0], pooling_task="embed", use_tqdm=False)
assert isinstance(raw, PoolingRequestOutput) and len(raw.outputs.data) == outputs[0].outputs.hidden_size

cross = LLM(model=sys.argv[2], runner="pooling", dtype="float32", max_num_seqs=8)
for query, documents, count in (
    ("dog", ["good dog", "bad cat"], 2),
    ("dog", "good dog", 1),
    (["dog", "a"], ["good dog", "b"], 2),
):
    scored = cross.score(query, documents, use_tqdm=False)
    assert len(scored) == count and all(
        isinstance(one, ScoringRequestOutput) and 0 <= one.outputs.score <= 1 for one in scored
    )
classes = cross.classify(["good dog", "bad"], use_tqdm=False)
for one in classes:
    assert isinstance(one, ClassificationRequestOutput) and len(one.outputs.probs) == one.outputs.num_classes
