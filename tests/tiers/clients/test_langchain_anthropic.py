"""LangChain's Anthropic chat model, with a tool as its agents bind it."""

import langchain_anthropic
import pydantic
from langchain_core.tools import tool


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return "rain in " + city


def model(server):
    return langchain_anthropic.ChatAnthropic(
        base_url=server.url, api_key="none", model="smol", temperature=0, max_tokens=16, max_retries=0
    )


def test_a_stream_gives_the_text_and_usage_of_the_whole_answer(server):
    whole = model(server).invoke("What is the capital of France?")
    pieces = list(model(server).stream("What is the capital of France?"))
    text = "".join(
        p if isinstance(p, str) else "".join(b.get("text", "") for b in p) for p in (piece.content for piece in pieces)
    )
    assert whole.content and text == whole.content
    assert whole.usage_metadata["output_tokens"] == sum(
        piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata
    )


def test_bound_tools_reach_the_prompt(server):
    bare = model(server).invoke("Weather in Oslo?").usage_metadata["input_tokens"]
    assert model(server).bind_tools([weather]).invoke("Weather in Oslo?").usage_metadata["input_tokens"] >= bare


def test_a_tool_that_must_be_called_is_called(server):
    [call] = (
        model(server)
        .bind_tools([weather], tool_choice="any", parallel_tool_calls=False)
        .bind(max_tokens=100)
        .invoke("Weather in Oslo?")
        .tool_calls
    )
    assert call["name"] == "weather" and isinstance(call["args"]["city"], str)


def test_structured_output_is_the_model(server):
    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)
        age: int = pydantic.Field(ge=0, le=150)

    chat = model(server)
    chat.max_tokens = 200
    assert isinstance(chat.with_structured_output(Person).invoke("Alice is 30 years old."), Person)
