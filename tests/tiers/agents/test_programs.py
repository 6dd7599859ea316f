"""Real programs, unmodified and as installed, do a task under the templates of five families. The file is written, no
request is refused, the instructions reach the model complete, and the second turn is read from the cache."""

import json
import re

import families
import pytest
import run_log
from conftest import Server
from logging_proxy import LoggingProxy
from programs import MODEL, PROGRAMS, TASK, TEXT, Place, environment_bin, run
from tokenizers import Tokenizer

BLOCK = 16  # tokens in a block of the prefix cache


def texts(content):
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if part.get("text")]


def instructions(body):
    """Returns the system and developer texts of a request, in any protocol."""
    found = texts(body.get("instructions")) + texts(body.get("system"))
    for message in [*body.get("messages", []), *(item for item in body.get("input", []) if isinstance(item, dict))]:
        if message.get("role") in ("system", "developer"):
            found += texts(message.get("content"))
    return [text for text in found if not text.startswith("x-anthropic-billing-header")]


def generations(exchanges):
    """Yields the requests that are the agent's own turns, with their bodies."""
    for exchange in exchanges:
        if exchange.method == "POST" and re.search(r"/(chat/completions|responses|messages)(\?|$)", exchange.path):
            yield exchange, json.loads(exchange.request)


def missing_lines(body, prompts):
    """Returns the lines of the instructions that are missing from the prompt that contains most of them."""
    lines = {line.strip() for text in instructions(body) for line in text.splitlines() if line.strip()}
    return min(([line for line in lines if line not in prompt] for prompt in prompts), key=len)


def cached_tokens(answer):
    """Returns the number of prompt tokens read from the cache according to the answer's usage; None if it has none."""
    told = [int(number) for number in re.findall(rb'"(?:cached_tokens|cache_read_input_tokens)":(\d+)', answer)]
    return max(told) if told else None


@pytest.mark.parametrize(
    "name, family", [(name, family) for name, program in PROGRAMS.items() for family in program.families]
)
def test_a_program_does_its_task(name, family, tmp_path):
    program = PROGRAMS[name]
    folder = environment_bin(program.environment)
    if folder is None:
        pytest.skip(f"{name} could not be installed")
    for sub in ("home", "work"):
        (tmp_path / sub).mkdir()
    place = Place("", tmp_path / "home", tmp_path / "work", folder)
    flags = families.build(tmp_path / "model", family, program.tool, program.arguments(place), program.text)
    server = Server(
        tmp_path / "model", "--served-model-name", MODEL, "--dtype", "float32", "--record", tmp_path / "record", *flags
    )
    try:
        with LoggingProxy(server.port) as proxy:
            place.url = proxy.url
            done = run(program, place)
        exchanges, hits = proxy.exchanges, server.metric("prefix_cache_hits_total")
    finally:
        server.stop()
    said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    refused = [
        (exchange.path, exchange.status, exchange.answer[:500]) for exchange in exchanges if exchange.status >= 400
    ]
    assert not refused, said
    assert (place.work / "hello.txt").exists() and (place.work / "hello.txt").read_text().strip() == TEXT.strip(), said
    assert done.returncode == 0, said

    tokenizer = Tokenizer.from_file(str(tmp_path / "model/tokenizer.json"))
    logged = run_log.prompts(tmp_path / "record")
    prompts = [tokenizer.decode(tokens, skip_special_tokens=False) for tokens in logged]
    turns = list(generations(exchanges))
    assert any(TASK in prompt for prompt in prompts)
    for exchange, body in turns:
        missing = missing_lines(body, prompts)
        assert not missing, (
            f"{len(missing)} lines of {exchange.path}'s instructions are in no prompt, as: {missing[0][:300]}"
        )

    if program.tool:
        assert len(turns) >= 2
        told = cached_tokens(turns[-1][0].answer)
        cached, before = hits if told is None else told, len(logged[-2])
        assert cached + 2 * BLOCK >= 0.95 * before, (
            f"of the {before} tokens of the turn before, {cached:.0f} came from the cache"
        )
