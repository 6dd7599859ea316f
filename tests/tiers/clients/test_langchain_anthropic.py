"""LangChain's Anthropic chat model, with a tool as its agents bind it."""
import langchain_anthropic
from langchain_core.tools import tool


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return "rain in " + city


def model(server):
    return langchain_anthropic.ChatAnthropic(base_url=server.url, api_key="none", model="smol", temperature=0,
                                             max_tokens=16, max_retries=0)


def test_a_stream_gives_the_text_and_usage_of_the_whole_answer(server):
    whole = model(server).invoke("What is the capital of France?")
    pieces = list(model(server).stream("What is the capital of France?"))
    text = "".join(p if isinstance(p, str) else "".join(b.get("text", "") for b in p)
                   for p in (piece.content for piece in pieces))
    assert whole.content and text == whole.content
    assert whole.usage_metadata["output_tokens"] == sum(
        piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata)


def test_bound_tools_reach_the_prompt(server):
    bare = model(server).invoke("Weather in Oslo?").usage_metadata["input_tokens"]
    assert model(server).bind_tools([weather]).invoke("Weather in Oslo?").usage_metadata["input_tokens"] >= bare
