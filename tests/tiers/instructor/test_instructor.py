"""instructor: answers as Pydantic models, in each of its modes that enforces them."""

import instructor
import openai
import pytest
from pydantic import BaseModel, Field


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON", "JSON_SCHEMA"])
def test_every_mode_gives_the_model(server, mode):
    client = instructor.from_openai(
        openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120),
        mode=instructor.Mode[mode],
    )
    ask = dict(
        model="smol", messages=[{"role": "user", "content": "Alice is 30 years old."}], temperature=0, max_tokens=200
    )
    if mode == "JSON":  # any object: a small model does not follow a schema that is only in the prompt
        with pytest.raises(Exception):  # noqa: B017 - its class is the version's own affair
            client.create(response_model=Person, max_retries=0, **ask)
        return
    person = client.create(response_model=Person, max_retries=0, **ask)
    assert isinstance(person, Person)
