"""embed, score, classify and encode, with the calls of vLLM's own examples."""

import math

import pytest
import vector_models

PLAIN = dict(dtype="float32", max_num_seqs=8)


@pytest.fixture(scope="module")
def bert(pagoda, tmp_path_factory):
    folder, model = vector_models.write("bert", tmp_path_factory.mktemp("bert") / "m", pooling="mean")
    return pagoda.LLM(str(folder), runner="pooling", **PLAIN), model


@pytest.fixture(scope="module")
def cross(pagoda, tmp_path_factory):
    folder, model = vector_models.write("bert_cross", tmp_path_factory.mktemp("cross") / "m")
    return pagoda.LLM(str(folder), runner="pooling", **PLAIN), model


def near(vector, golden, tolerance=1e-4):
    return len(vector) == len(golden) and all(abs(a - b) < tolerance for a, b in zip(vector, golden))


def test_embed_gives_what_transformers_gives(pagoda, bert):
    llm, model = bert
    goldens = [golden for golden in model["goldens"] if not golden["second"]]
    outputs = llm.embed([{"prompt_token_ids": golden["ids"]} for golden in goldens], use_tqdm=False)
    assert all(near(output.outputs.embedding, golden["mean"]) for output, golden in zip(outputs, goldens))
    assert [output.prompt_token_ids for output in outputs] == [golden["ids"] for golden in goldens]
    assert outputs[0].finished and isinstance(outputs[0], pagoda.EmbeddingRequestOutput)
    whole = outputs[0].outputs.embedding
    (short,) = llm.embed([goldens[0]["ids"]], use_tqdm=False, pooling_params=pagoda.PoolingParams(dimensions=16))
    length = math.sqrt(sum(v * v for v in whole[:16]))
    assert short.outputs.hidden_size == 16 and near(short.outputs.embedding, [v / length for v in whole[:16]], 1e-6)
    (raw,) = llm.encode(
        goldens[0]["ids"], pagoda.PoolingParams(use_activation=False), pooling_task="embed", use_tqdm=False
    )
    length = math.sqrt(sum(v * v for v in raw.outputs.data))
    assert near([v / length for v in raw.outputs.data], whole, 1e-6)


def test_texts_in_order_and_more_than_may_wait(pagoda, tmp_path):
    folder, _ = vector_models.write("bert", tmp_path / "m", pooling="mean")
    llm = pagoda.LLM(str(folder), runner="pooling", max_queue=4, **PLAIN)
    texts = ["abc"[i % 3] * (i % 7 + 1) for i in range(60)]
    outputs = llm.embed(texts, use_tqdm=False)
    alone = {text: llm.embed(text, use_tqdm=False)[0].outputs.embedding for text in set(texts)}
    assert [output.outputs.embedding for output in outputs] == [alone[text] for text in texts]


def test_score_and_classify_as_a_cross_encoder_does(cross):
    llm, model = cross
    documents = ["good dog", "bad cat", "a", "good dog"] * 20
    scores = [output.outputs.score for output in llm.score("dog", documents, use_tqdm=False)]
    assert (
        len(scores) == 80
        and scores[:4] * 20 == scores
        and len(set(scores)) == 3
        and all(0 <= score <= 1 for score in scores)
    )
    pairs = llm.score(["dog"] * 4, documents[:4], use_tqdm=False)
    assert [output.outputs.score for output in pairs] == scores[:4]
    with pytest.raises(ValueError, match="as many"):
        llm.score(["a", "b"], documents, use_tqdm=False)
    rows = [golden for golden in model["goldens"] if not golden["second"]]
    for output, row in zip(llm.classify([row["ids"] for row in rows], use_tqdm=False), rows):
        assert (
            output.outputs.num_classes == 1
            and abs(output.outputs.probs[0] - 1 / (1 + math.exp(-row["logits"][0]))) < 1e-4
        )


def test_a_language_model_embeds_by_its_last_token(pagoda, model):
    llm = pagoda.LLM(model, runner="pooling", kv_cache_memory_bytes="16M")
    one, other = llm.embed(["the tale", "stone"], use_tqdm=False)
    assert abs(sum(v * v for v in one.outputs.embedding) - 1) < 1e-5
    like = llm.score("the tale", ["the tale", "stone"], use_tqdm=False)
    assert abs(like[0].outputs.score - 1) < 1e-5
    assert (
        abs(like[1].outputs.score - sum(a * b for a, b in zip(one.outputs.embedding, other.outputs.embedding))) < 1e-5
    )
    long = "the tale of a stone " * 20
    assert (
        llm.embed(long, use_tqdm=False)[0].num_cached_tokens == 0 < llm.embed(long, use_tqdm=False)[0].num_cached_tokens
    )
    with pytest.raises(ValueError, match="pooling|vectors"):
        llm.generate("x", use_tqdm=False)
