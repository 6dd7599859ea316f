"""LangChain's OpenAI chat model."""

import langchain_openai
import pydantic
import pytest


def model(server, **more):
    return langchain_openai.ChatOpenAI(
        base_url=server.url + "/v1", api_key="none", model="smol", max_retries=0, temperature=0, max_tokens=16, **more
    )


def test_a_stream_gives_the_text_and_usage_of_the_whole_answer(server):
    whole = model(server).invoke("What is the capital of France?")
    pieces = list(model(server, stream_usage=True).stream("What is the capital of France?"))
    assert whole.content and "".join(piece.content for piece in pieces) == whole.content
    usage = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
    assert usage[-1]["output_tokens"] == whole.usage_metadata["output_tokens"] > 0


def test_a_batch_gives_what_single_calls_give(server):
    questions = [f"What is {i} + {i}?" for i in range(4)]
    single = [model(server).invoke(question).content for question in questions]
    assert [answer.content for answer in model(server).batch(questions)] == single


def test_bound_tools_are_called_with_their_arguments(server):
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    bound = model(server).bind_tools([add], tool_choice="any", parallel_tool_calls=False).bind(max_tokens=100)
    [call] = bound.invoke("What is 2 + 3?").tool_calls
    assert call["name"] == "add" and set(call["args"]) == {"a", "b"}
    assert all(isinstance(value, int) for value in call["args"].values())


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_is_the_model(server, method):
    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)
        age: int = pydantic.Field(ge=0, le=150)

    chat = model(server)
    chat.max_tokens = 200
    assert isinstance(chat.with_structured_output(Person, method=method).invoke("Alice is 30 years old."), Person)


def test_an_agent_calls_a_tool_and_answers(server):
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware

    called = []

    def add(a: int, b: int) -> str:
        """Adds two numbers."""
        called.append((a, b))
        return str(a + b)

    class CallFirst(AgentMiddleware):
        """Forces the first call, since a small model does not call a tool on its own."""

        def wrap_model_call(self, request, handler):
            settings = {} if called else {"parallel_tool_calls": False}
            return handler(request.override(tool_choice="none" if called else "any", model_settings=settings))

    chat = model(server)
    chat.max_tokens = 100
    agent = create_agent(chat, [add], middleware=[CallFirst(), ModelCallLimitMiddleware(run_limit=4)])
    answer = agent.invoke({"messages": [{"role": "user", "content": "What is 2 + 3?"}]})
    assert called and answer["messages"][-1].type == "ai"
    assert any(message.type == "tool" for message in answer["messages"])
