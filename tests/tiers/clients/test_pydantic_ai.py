"""Pydantic AI: typed answers by a tool and by a schema, and a user-defined tool."""

import asyncio

import pydantic
import pydantic_ai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)


def agent(server, **how):
    model = OpenAIChatModel("smol", provider=OpenAIProvider(base_url=server.url + "/v1", api_key="none"))
    return pydantic_ai.Agent(model, model_settings={"temperature": 0, "max_tokens": 200}, **how)


def test_a_typed_answer_by_a_tool(server):
    assert isinstance(agent(server, output_type=Person).run_sync("Alice is 30 years old.").output, Person)


def test_a_typed_answer_by_the_schema(server):
    answer = agent(server, output_type=pydantic_ai.NativeOutput(Person)).run_sync("Alice is 30 years old.").output
    assert isinstance(answer, Person)


def test_a_stream_of_a_typed_answer_ends_as_the_whole(server):
    made = agent(server, output_type=pydantic_ai.NativeOutput(Person))

    async def streamed():
        async with made.run_stream("Alice is 30 years old.") as answer:
            parts = [part async for part in answer.stream_output(debounce_by=None)]
        return parts

    parts = asyncio.run(streamed())
    assert isinstance(parts[-1], Person) and parts[-1] == made.run_sync("Alice is 30 years old.").output


def test_a_tool_of_its_own_is_called_before_the_answer(server):
    """The model is forced to make a call: first of the user's tool, which is then removed, and then of the answer
    tool."""
    made, called = agent(server, output_type=Person), []

    async def once(context, tool):
        return None if called else tool

    @made.tool_plain(prepare=once)
    def years() -> str:
        """How old Alice is."""
        called.append(True)
        return "30"

    answer = made.run_sync("Call years, then say who she is.", usage_limits=pydantic_ai.UsageLimits(request_limit=4))
    assert isinstance(answer.output, Person)
