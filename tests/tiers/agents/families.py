"""How five model families write a call and an answer, with templates written for these tests that follow the families'
rules."""

import json
import pathlib

import scripted_model

TEMPLATES = pathlib.Path(__file__).parent / "templates"
THOUGHT, CONTENT, DONE = "I shall write the file.", "Now I write it.", "The file is written."


def as_json(name, arguments):
    return json.dumps({"name": name, "arguments": arguments})


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


def chatml_json(name, arguments):
    first = [
        "<think>",
        f"\n{THOUGHT}\n",
        "</think>",
        f"\n\n{CONTENT}\n",
        "<tool_call>",
        f"\n{as_json(name, arguments)}\n",
        "</tool_call>",
    ]
    return {
        "template": "chatml_json",
        "special": ["<|im_start|>", "<|im_end|>"],
        "begins": ["\n"],
        "marker": "<tool_response>",
        "first": first,
        "second": [DONE],
        "parsers": ("hermes", "qwen3"),
    }


def chatml_tags(name, arguments):
    tags = "".join(f"<parameter={key}>\n{as_text(value)}\n</parameter>\n" for key, value in arguments.items())
    first = [
        f"{THOUGHT}\n",
        "</think>",
        f"\n\n{CONTENT}\n",
        "<tool_call>",
        f"\n<function={name}>\n{tags}</function>\n",
        "</tool_call>",
    ]
    return {
        "template": "chatml_tags",
        "special": ["<|im_start|>", "<|im_end|>"],
        "begins": ["<think>\n", "\n"],
        "marker": "<tool_response>",
        "first": first,
        "second": ["It is there.\n", "</think>", f"\n\n{DONE}"],
        "parsers": ("qwen3_coder", "qwen3"),
    }


def glm(name, arguments):
    tags = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{as_text(value)}</arg_value>\n" for key, value in arguments.items()
    )
    first = ["<think>", THOUGHT, "</think>", f"\n{CONTENT}\n", "<tool_call>", f"{name}\n{tags}", "</tool_call>"]
    return {
        "template": "glm",
        "special": ["[gMASK]", "<sop>", "<|system|>", "<|assistant|>", "<|observation|>", "<|user|>"],
        "begins": ["<|assistant|>"],
        "marker": "<|observation|>",
        "first": first,
        "second": [DONE],
        "parsers": ("glm45", "glm45"),
    }


def harmony(name, arguments):
    first = [
        "<|channel|>",
        f"commentary to=functions.{name} ",
        "<|constrain|>",
        "json",
        "<|message|>",
        json.dumps(arguments),
    ]
    return {
        "template": "harmony",
        "special": ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"],
        "begins": ["<|start|>assistant"],
        "marker": " to=assistant",
        "first": first,
        "second": ["<|channel|>", "final", "<|message|>", DONE],
        "parsers": ("openai", "openai_gptoss"),
    }


def mistral(name, arguments):
    first = ["[TOOL_CALLS]", name, "[ARGS]", json.dumps(arguments)]
    return {
        "template": "mistral",
        "special": [
            "<s>",
            "[INST]",
            "[/INST]",
            "[SYSTEM_PROMPT]",
            "[/SYSTEM_PROMPT]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_CALLS]",
            "[ARGS]",
            "[TOOL_RESULTS]",
            "[/TOOL_RESULTS]",
            "</s>",
        ],
        "begins": ["[/INST]", "[/TOOL_RESULTS]"],
        "marker": "[TOOL_RESULTS]",
        "first": first,
        "second": [DONE],
        "parsers": ("mistral", "none"),
    }


FAMILIES = {"qwen3": chatml_json, "qwen35": chatml_tags, "glm46": glm, "gptoss": harmony, "devstral": mistral}


def build(folder, family, name, arguments, text=""):
    """Builds a model of the family that calls the tool, and reports that it is done once it has the result; with
    `text`, the model answers only that text. Returns the flags for serving it."""
    made = FAMILIES[family](name, arguments)
    if text:
        made["first"] = [*made["second"][:-1], made["second"][-1].replace(DONE, text)]
    tools, reasoning = made.pop("parsers")
    template = (TEMPLATES / f"{made.pop('template')}.jinja").read_text()
    scripted_model.build(folder, template, **made)
    return ["--tool-call-parser", tools, "--reasoning-parser", reasoning]
