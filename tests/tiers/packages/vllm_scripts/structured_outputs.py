"""Answers constrained by a choice, a regular expression, a schema and a grammar."""

import enum
import json
import re
import sys

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams


class Colour(enum.Enum):
    red = "red"
    blue = "blue"


SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": [one.value for one in Colour]}, "doors": {"enum": [3, 5]}},
    "required": ["colour", "doors"],
    "additionalProperties": False,
}
llm = LLM(model=sys.argv[1], kv_cache_memory_bytes=16 << 20)


def ask(form):
    (output,) = llm.generate(
        "the car is",
        sampling_params=SamplingParams(max_tokens=400, temperature=0.0, logit_bias=SPACE, structured_outputs=form),
        use_tqdm=False,
    )
    print(output.outputs[0].text)
    return output.outputs[0].text


# A random model would write all the white space that JSON allows.
SPACE = {
    token: -100.0
    for text in (" ", "\n", "\t", "\r")
    for token in llm.get_tokenizer().encode(text, add_special_tokens=False)
}
assert ask(StructuredOutputsParams(choice=["Positive", "Negative"])) in ("Positive", "Negative")
assert re.fullmatch(r"[a-c]{3}@x\.de", ask(StructuredOutputsParams(regex=r"[a-c]{3}@x\.de")))
car = json.loads(ask(StructuredOutputsParams(json=SCHEMA)))
assert Colour(car["colour"]) and car["doors"] in (3, 5)
assert json.loads(ask(StructuredOutputsParams(json=json.dumps(SCHEMA)))).keys() == {"colour", "doors"}
assert ask(StructuredOutputsParams(grammar='root ::= "SELECT " ("a" | "b") " FROM t"')).startswith("SELECT ")
