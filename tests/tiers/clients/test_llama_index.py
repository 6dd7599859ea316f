"""LlamaIndex: an OpenAI-like model whole and streamed, structured answers by a call, embeddings, and an index over texts that
asks both."""
import pydantic
import pytest
from llama_index.core import Document, PromptTemplate, VectorStoreIndex
from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

import vector_models
from conftest import serving


class Person(pydantic.BaseModel):
    """Who it is."""
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)


def model(server, **more):
    return OpenAILike(model="smol", api_base=server.url + "/v1", api_key="none", is_chat_model=True, is_function_calling_model=True,
                      context_window=2048, temperature=0, max_retries=0, **{"max_tokens": 16, **more})


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    folder, _ = vector_models.write("bert", tmp_path_factory.mktemp("bert") / "m", pooling="mean")
    with serving(folder, "--served-model-name", "bert") as server:
        yield OpenAILikeEmbedding(model_name="bert", api_base=server.url + "/v1", api_key="none", max_retries=0)


def test_a_stream_gives_the_text_of_the_whole_answer(server):
    asked = [ChatMessage(role="user", content="What is the capital of France?")]
    whole = model(server).chat(asked).message.content
    *_, last = model(server).stream_chat(asked)
    assert whole and last.message.content == whole
    assert model(server, is_chat_model=False).complete("The capital of France is").text


def test_a_structured_answer_is_the_model(server):
    person = model(server, max_tokens=200).structured_predict(Person, PromptTemplate("{text}"), text="Alice is 30 years old.")
    assert isinstance(person, Person)


def test_embeddings_one_and_many_are_the_same(embedding):
    one, many = embedding.get_text_embedding("ab"), embedding.get_text_embedding_batch(["ab", "cd"])
    assert len(one) == 64 and one == many[0] != many[1]


def test_an_index_finds_and_asks(server, embedding):
    index = VectorStoreIndex.from_documents([Document(text=text) for text in ("zzz qqq", "alice bakes bread", "xx yy")], embed_model=embedding)
    answer = index.as_query_engine(llm=model(server), similarity_top_k=1).query("alice bakes bread")
    assert [node.text for node in answer.source_nodes] == ["alice bakes bread"] and str(answer)
