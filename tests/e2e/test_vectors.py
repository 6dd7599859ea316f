"""Embedding, scoring and classification models: official clients, comparison with transformers, and refusals."""

import asyncio
import base64
import json
import math
import struct
import subprocess

import httpx
import ollama
import openai
import pytest
import vector_models
from conftest import binary, serving, small_model


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder, model = vector_models.write("bert", tmp_path_factory.mktemp("bert") / "m", pooling="mean")
    with serving(folder, "--dtype", "float32", "--served-model-name", "bert") as server:
        yield server, model


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    folder, model = vector_models.write("bert_cross", tmp_path_factory.mktemp("cross") / "m")
    with serving(folder, "--dtype", "float32", "--served-model-name", "cross") as server:
        yield server, model


@pytest.fixture(scope="module")
def decoder():
    with serving(small_model(), "--runner", "pooling", "--served-model-name", "small") as server:
        yield server


def near(vector, golden, tolerance=1e-4):
    return len(vector) == len(golden) and all(abs(a - b) < tolerance for a, b in zip(vector, golden))


def test_openais_client_gets_what_transformers_gives(bert):
    server, model = bert
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    rows = [golden["ids"] for golden in model["goldens"] if not golden["second"]]
    answer = client.embeddings.create(model="bert", input=rows)  # as base64, which the client requests
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, rows))
    goldens = [golden["mean"] for golden in model["goldens"] if not golden["second"]]
    assert [entry.index for entry in answer.data] == list(range(len(rows)))
    assert all(near(entry.embedding, golden) for entry, golden in zip(answer.data, goldens))
    written = client.embeddings.create(model="bert", input=rows, encoding_format="float")
    assert all(near(a.embedding, b.embedding, 1e-7) for a, b in zip(written.data, answer.data))
    short = client.embeddings.create(model="bert", input=rows[0], dimensions=16).data[0].embedding
    whole = answer.data[0].embedding
    length = math.sqrt(sum(v * v for v in whole[:16]))
    assert near(short, [v / length for v in whole[:16]], 1e-6)


def test_special_tokens_are_counted_and_truncation_keeps_them(bert):
    server, _ = bert
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    assert client.embeddings.create(model="bert", input="ab").usage.prompt_tokens == 4
    cut = client.embeddings.create(model="bert", input="a b c d e f", extra_body={"truncate_prompt_tokens": 5})
    same = client.embeddings.create(model="bert", input="a b c")
    assert cut.usage.prompt_tokens == 5 and cut.data[0].embedding == same.data[0].embedding
    with pytest.raises(openai.BadRequestError, match="maximum context length") as error:
        client.embeddings.create(model="bert", input=["ok", "a " * 400])
    assert error.value.param == "input.1" and error.value.code == "context_length_exceeded"


def test_many_at_once_have_the_bits_of_one_alone(bert):
    server, _ = bert
    texts = [" ".join("abcdefghij"[(i * k) % 10] for k in range(1, 2 + i * 7 % 60)) for i in range(40)]

    async def all_of_them():
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none")
        one = [client.embeddings.create(model="bert", input=text) for text in texts]
        together, *alone = await asyncio.gather(client.embeddings.create(model="bert", input=texts), *one)
        return [entry.embedding for entry in together.data], [answer.data[0].embedding for answer in alone]

    together, alone = asyncio.run(all_of_them())
    assert together == alone
    server.wait_until_idle()


def test_ollamas_client(bert):
    server, _ = bert
    client = ollama.Client(host=server.url, timeout=60)
    answer = client.embed(model="bert", input=["ab", "cd"])
    vectors = httpx.post(server.url + "/v1/embeddings", json={"model": "bert", "input": ["ab", "cd"]}).json()["data"]
    assert answer.prompt_eval_count == 8
    assert all(near(a, b["embedding"], 1e-6) for a, b in zip(answer.embeddings, vectors))
    older = client.embeddings(model="bert", prompt="ab").embedding
    length = math.sqrt(sum(v * v for v in older))
    assert near([v / length for v in older], answer.embeddings[0], 1e-5)
    assert len(client.embed(model="bert", input="a " * 900).embeddings) == 1  # cut to the context
    assert "embedding" in client.show("bert").capabilities


def test_forms_of_text_embeddings_inference_and_cohere(bert):
    server, _ = bert
    http = httpx.Client(base_url=server.url)
    vectors = [entry["embedding"] for entry in http.post("/v1/embeddings", json={"input": ["ab", "cd"]}).json()["data"]]
    assert http.post("/embed", json={"inputs": ["ab", "cd"], "normalize": True}).json() == vectors
    assert http.post("/embed", json={"inputs": "ab"}).json() == vectors[:1]
    assert http.post("/embed", json={"inputs": "a " * 900}).status_code == 400
    assert len(http.post("/embed", json={"inputs": "a " * 900, "truncate": True}).json()) == 1
    body = {"model": "bert", "texts": ["ab", "cd"], "input_type": "search_query", "embedding_types": ["float"]}
    typed = http.post("/v2/embed", json=body).json()
    assert typed["response_type"] == "embeddings_by_type" and typed["embeddings"] == {"float": vectors}
    assert typed["meta"]["billed_units"]["input_tokens"] == 8


def test_scores_of_a_cross_encoder(cross):
    server, _ = cross
    http = httpx.Client(base_url=server.url)
    documents = ["good dog", "bad cat", "a", "good dog"]
    score = http.post("/score", json={"model": "cross", "text_1": "dog", "text_2": documents}).json()
    scores = [entry["score"] for entry in score["data"]]
    assert all(0 <= value <= 1 for value in scores) and scores[0] == scores[3] and len(set(scores)) == 3
    assert http.post("/v1/score", json={"queries": "dog", "documents": documents}).json()["data"] == score["data"]
    ranked = http.post("/rerank", json={"model": "cross", "query": "dog", "documents": documents, "top_n": 3}).json()
    assert [entry["relevance_score"] for entry in ranked["results"]] == sorted(scores, reverse=True)[:3]
    for entry in ranked["results"]:
        assert entry["document"]["text"] == documents[entry["index"]]
        assert entry["relevance_score"] == scores[entry["index"]]
    assert ranked["usage"]["total_tokens"] == score["usage"]["total_tokens"]
    for path in "/v1/rerank", "/v2/rerank", "/reranking":
        again = http.post(
            path,
            json={
                "query": "dog",
                "documents": [{"text": text} for text in documents],
                "top_n": 3,
                "return_documents": False,
            },
        ).json()
        assert [entry["index"] for entry in again["results"]] == [entry["index"] for entry in ranked["results"]]
        assert "document" not in again["results"][0]
    # The token types matter: exchanging the texts gives another score.
    turned = http.post("/score", json={"text_1": documents[:3], "text_2": ["dog"] * 3}).json()["data"]
    assert [entry["score"] for entry in turned] != scores[:3]


def test_classes(cross):
    server, model = cross
    rows = [golden for golden in model["goldens"] if not golden["second"]]
    answer = httpx.post(server.url + "/classify", json={"input": [row["ids"] for row in rows]}).json()
    for entry, row in zip(answer["data"], rows):
        assert entry["label"] == "LABEL_0" and entry["num_classes"] == 1
        assert abs(entry["probs"][0] - 1 / (1 + math.exp(-row["logits"][0]))) < 1e-4
    refused = httpx.post(server.url + "/v1/embeddings", json={"input": "a"})
    assert refused.status_code == 400 and "no embeddings" in refused.json()["error"]["message"]


def test_a_language_model_pools_its_last_token(decoder):
    http = httpx.Client(base_url=decoder.url)
    one = http.post("/v1/embeddings", json={"input": "the tale", "encoding_format": "base64"}).json()["data"][0]
    vector = struct.unpack("<64f", base64.b64decode(one["embedding"]))
    assert abs(sum(v * v for v in vector) - 1) < 1e-5
    long = "the tale of a stone " * 20
    first = http.post("/v1/embeddings", json={"input": long}).json()
    second = http.post("/v1/embeddings", json={"input": long}).json()
    assert first["data"] == second["data"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    pooled = http.post("/pooling", json={"input": "the tale"}).json()
    assert pooled["data"][0]["object"] == "pooling" and near(pooled["data"][0]["data"], vector, 1e-6)
    likeness = http.post("/score", json={"text_1": "the tale", "text_2": ["the tale", "stone"]}).json()["data"]
    assert abs(likeness[0]["score"] - 1) < 1e-5 > likeness[1]["score"] - 1


def test_each_kind_of_server_refuses_the_others_calls(decoder, small_server):
    http = httpx.Client(base_url=decoder.url)
    for path, body in (
        ("/v1/completions", {"prompt": "a"}),
        ("/completion", {"prompt": "a"}),
        ("/api/generate", {"model": "small", "prompt": "a"}),
        ("/classify", {"input": "a"}),
    ):
        assert http.post(path, json=body).status_code == 400, path
    http = httpx.Client(base_url=small_server.url)
    name = http.get("/v1/models").json()["data"][0]["id"]
    for path, body in (
        ("/v1/embeddings", {"input": "a"}),
        ("/pooling", {"input": "a"}),
        ("/classify", {"input": "a"}),
        ("/score", {"text_1": "a", "text_2": "b"}),
        ("/rerank", {"query": "a", "documents": ["b"]}),
        ("/api/embed", {"model": name, "input": "a"}),
    ):
        answer = http.post(path, json=body)
        assert answer.status_code == 400 and "pooling" in str(answer.json()), path


@pytest.mark.parametrize(
    "body, param",
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": 5}, "input"),
        ({"input": [[]]}, "input.0"),
        ({"input": ["a", 7]}, "input.1"),
        ({"input": [[1, -2]]}, "input.0.1"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 65}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
        ({"input": "a", "model": "nothing"}, "model"),
    ],
)
def test_what_is_wrong_is_named(decoder, body, param):
    answer = httpx.post(decoder.url + "/v1/embeddings", json=body)
    assert answer.status_code in (400, 404, 501) and answer.json()["error"]["param"] == param


def test_a_batch_of_embeddings_and_the_flags(tmp_path):
    lines = [
        {"custom_id": str(i), "method": "POST", "url": "/v1/embeddings", "body": {"input": text}}
        for i, text in enumerate(["the tale", "a stone", "the tale"])
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [binary(), "run-batch", small_model(), "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl"]
    done = subprocess.run(
        [*command, "--runner", "pooling", "--pooler-config", '{"pooling_type": "MEAN"}'],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers = sorted(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()), key=lambda a: a["custom_id"])
    vectors = [answer["response"]["body"]["data"][0]["embedding"] for answer in answers]
    assert vectors[0] == vectors[2] != vectors[1]
    for flags, said in (
        (["--pooler-config", '{"pooling_type": "MAX"}'], "LAST, CLS or MEAN"),
        (["--hf-overrides", '{"num_layers": 3}'], "config.json"),  # a GGUF file has none
        (["--hf-overrides", '{"classifier_from_token": ["no"]}'], "two tokens"),
        (["--runner", "pooling", "--prefix-file", "x"], "--prefix-file"),
    ):
        refused = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=120)
        assert refused.returncode != 0 and said in refused.stderr, flags


def test_an_encoder_is_refused_what_it_cannot_do(tmp_path):
    folder, _ = vector_models.write("bert", tmp_path / "m")
    for flags, said in (
        (["--runner", "generate"], "--runner pooling"),
        (["--kv-manager", "virtual"], "has no KV cache"),
        (["--scheduler", "orca"], "has no KV cache"),
        (["--tensor-parallel-size", "2"], "one rank"),
    ):
        refused = subprocess.run(
            [binary(), "serve", folder, "--port", "0", *flags], capture_output=True, text=True, timeout=120
        )
        assert refused.returncode != 0 and said in refused.stdout + refused.stderr, (flags, refused.stderr)


def test_a_mean_over_many_steps_has_the_bits_of_one_step():
    text = "the tale of a stone and a king " * 12
    vectors = []
    for flags in ([], ["--max-num-batched-tokens", "16", "--max-num-seqs", "8"]):
        with serving(
            small_model(), "--runner", "pooling", "--pooler-config", '{"pooling_type": "MEAN"}', *flags
        ) as server:
            answer = httpx.post(server.url + "/v1/embeddings", json={"input": [text, "a stone", text]}).json()
            vectors.append([entry["embedding"] for entry in answer["data"]])
    assert vectors[0] == vectors[1] and vectors[0][0] == vectors[0][2] != vectors[0][1]
