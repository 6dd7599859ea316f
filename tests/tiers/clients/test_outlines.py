"""outlines as a client of a vLLM-like server: types, choices, expressions, grammars."""

import re
from typing import Literal

import openai
import outlines
import pydantic


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)


def model(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)
    return outlines.from_vllm(client, "smol")


def test_a_pydantic_model(server):
    text = model(server)("Alice is 30 years old.", Person, max_tokens=200, temperature=0)
    assert Person.model_validate_json(text)


def test_a_choice(server):
    assert model(server)("Is the sky blue?", Literal["yes", "no"], max_tokens=10, temperature=0) in ("yes", "no")


def test_an_expression(server):
    text = model(server)("A date, please.", outlines.types.Regex(r"\d{4}-\d{2}-\d{2}"), max_tokens=20, temperature=0)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", text)
