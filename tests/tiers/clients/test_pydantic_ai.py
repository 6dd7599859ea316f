"""Pydantic AI: typed answers by a tool and by a schema, and a tool of one's own."""
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
