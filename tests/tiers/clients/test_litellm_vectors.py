"""LiteLLM's embeddings and rerank, against small models that make vectors."""

import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its list of prices from the package, not from the network
import litellm  # noqa: E402
import vector_models  # noqa: E402
from conftest import serving  # noqa: E402


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder, _ = vector_models.write("bert", tmp_path_factory.mktemp("bert") / "m", pooling="mean")
    with serving(folder, "--served-model-name", "bert") as server:
        yield server


def test_embeddings_by_two_providers_are_the_same(bert):
    answers = [
        litellm.embedding(
            model=f"{provider}/bert",
            api_base=bert.url + "/v1",
            api_key="none",
            input=["ab", "cd e"],
            encoding_format="float",
        )
        for provider in ("openai", "hosted_vllm")
    ]
    assert answers[0].data[0]["embedding"] == answers[1].data[0]["embedding"]
    assert len(answers[0].data) == 2 and answers[0].usage.prompt_tokens == 9


def test_rerank(bert):
    answer = litellm.rerank(
        model="hosted_vllm/bert",
        api_base=bert.url + "/v1",
        api_key="none",
        query="ab",
        documents=["xyz", "ab", "q"],
        top_n=2,
    )
    assert [entry["index"] for entry in answer.results][0] == 1 and len(answer.results) == 2
    assert abs(answer.results[0]["relevance_score"] - 1) < 1e-2
