"""LlamaIndex's clients for OpenAI-compatible servers: chat, completions, tools, typed answers, embeddings."""

import asyncio

import pydantic
import pytest
import vector_models
from conftest import serving
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

QUESTION = [ChatMessage(role="user", content="What is the capital of France?")]


class Person(pydantic.BaseModel):
    """A person."""

    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)


def model(server, **more):
    return OpenAILike(
        **{
            "model": "smol",
            "api_base": server.url + "/v1",
            "api_key": "none",
            "temperature": 0,
            "max_tokens": 16,
            "context_window": 2048,
            "is_chat_model": True,
            "max_retries": 0,
            "timeout": 120,
            **more,
        }
    )


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completions"])
def test_a_stream_gives_the_text_of_the_whole_answer(server, chat):
    llm = model(server, is_chat_model=chat)
    whole = llm.complete("The capital of France is")
    pieces = list(llm.stream_complete("The capital of France is"))
    assert whole.text and pieces[-1].text == whole.text == "".join(piece.delta for piece in pieces)


def test_many_at_once_say_what_one_says(server):
    async def ask():
        return [
            answer.message.content
            for answer in await asyncio.gather(*(model(server).achat(QUESTION) for _ in range(4)))
        ]

    assert asyncio.run(ask()) == [model(server).chat(QUESTION).message.content] * 4


def test_a_tool_that_must_be_called_is_called(server):
    called = []

    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        called.append((a, b))
        return a + b

    llm = model(server, is_function_calling_model=True, max_tokens=100)
    answer = llm.predict_and_call(
        [FunctionTool.from_defaults(add)], "What is 2 + 3?", tool_required=True, allow_parallel_tool_calls=False
    )
    assert called and str(answer) == str(sum(called[0]))


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "json"])
def test_a_typed_answer(server, tools):
    llm = model(server, is_function_calling_model=tools, should_use_structured_outputs=not tools, max_tokens=200)
    answer = llm.as_structured_llm(Person).chat([ChatMessage(role="user", content="Alice is 30 years old.")])
    assert isinstance(answer.raw, Person)


def test_an_index_finds_a_text_by_its_vector(tmp_path_factory):
    folder, _ = vector_models.write("bert", tmp_path_factory.mktemp("bert") / "m", pooling="mean")
    with serving(folder, "--served-model-name", "bert") as running:
        embed = OpenAILikeEmbedding(model_name="bert", api_base=running.url + "/v1", api_key="none", max_retries=0)
        texts = ["ab", "xyz", "cd e"]
        one, many = embed.get_text_embedding("ab"), embed.get_text_embedding_batch(texts)
        assert len(many) == 3 and sum((a - b) ** 2 for a, b in zip(one, many[0])) < 1e-8
        index = VectorStoreIndex.from_documents([Document(text=text) for text in texts], embed_model=embed)
        for text in texts:
            [best] = index.as_retriever(similarity_top_k=1).retrieve(text)
            assert best.text == text and best.score > 0.999
