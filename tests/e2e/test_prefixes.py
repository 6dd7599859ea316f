"""Shared prefixes (§4.4 of the paper) through --prefix-file and /admin/prefixes."""

import json
import subprocess

import httpx
import pytest
from conftest import binary, serving, small_model

RULES = [5 + i % 200 for i in range(37)]  # two blocks of 16, and 5 tokens


def complete(http, **body):
    answer = http.post(
        "/v1/completions",
        json={"temperature": 0, "max_tokens": 8, "ignore_eos": True, "return_token_ids": True, **body},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("prefixes") / "prefixes.json"
    path.write_text(json.dumps([{"name": "rules", "token_ids": RULES}, {"name": "story", "text": "Once upon a time"}]))
    # Without the prefix cache, so that every hit comes from a shared prefix.
    with serving(small_model(), "--prefix-file", path, "--no-enable-prefix-caching", "--block-size", "16") as server:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            yield server, http


def test_the_files_prefixes_are_there_from_the_start(prefixed):
    _, http = prefixed
    listed = http.get("/admin/prefixes").json()
    assert listed["object"] == "list"
    assert [(p["name"], p["num_blocks"]) for p in listed["data"]] == [("rules", 3), ("story", 1)]
    assert listed["data"][0]["num_tokens"] == 37
    assert cached(complete(http, prompt="Once upon a time there was")) == listed["data"][1]["num_tokens"]


def test_requests_map_onto_it_and_copy_the_last_block_on_write(prefixed):
    server, http = prefixed
    plain = complete(http, prompt=[9] + RULES)  # has a different beginning
    assert cached(plain) == 0
    copies = server.metric("kv_blocks_copied_total")
    first = complete(http, prompt=RULES + [7, 8])
    assert cached(first) == 37
    assert server.metric("kv_blocks_copied_total") == copies + 1, "the half-full block, for the first to write"
    second = complete(http, prompt=RULES + [7, 8], cache_salt="someone's own")
    assert cached(second) == 37 and server.metric("kv_blocks_copied_total") == copies + 2
    assert first["choices"][0]["token_ids"] == second["choices"][0]["token_ids"]
    many = complete(http, prompt=RULES + [7], n=4, temperature=1, seed=1)
    assert cached(many) == 37
    beams = complete(http, prompt=RULES + [7], use_beam_search=True, beam_width=4)
    assert cached(beams) == 37
    held = http.get("/debug/kv").json()
    assert held["blocks_in_use"] == 4 and not held["requests"], "what is pinned, and nothing else"
    # Bit-identical to the answer without the shared prefix.
    assert http.delete("/admin/prefixes/rules").status_code == 200
    alone = complete(http, prompt=RULES + [7, 8])
    assert cached(alone) == 0 and alone["choices"][0]["token_ids"] == first["choices"][0]["token_ids"]
    assert http.get("/debug/kv").json()["blocks_in_use"] == 1, "dropping it has freed its blocks"
    assert http.post("/admin/prefixes", json={"name": "rules", "token_ids": RULES}).status_code == 200


def test_adding_and_dropping_while_serving(prefixed):
    _, http = prefixed
    before = http.get("/debug/kv").json()["num_free_blocks"]
    added = http.post("/admin/prefixes", json={"name": "a b/ü", "prompt": list(range(20, 40))})
    assert added.status_code == 200, added.text
    assert added.json() == {"object": "prefix", "name": "a b/ü", "num_tokens": 20, "num_blocks": 2}
    assert http.get("/debug/kv").json()["num_free_blocks"] == before - 2
    assert cached(complete(http, prompt=list(range(20, 45)))) == 20
    assert http.delete("/admin/prefixes/a%20b%2F%C3%BC").json() == {
        "object": "prefix.deleted",
        "name": "a b/ü",
        "deleted": True,
    }
    assert http.get("/debug/kv").json()["num_free_blocks"] == before
    assert cached(complete(http, prompt=list(range(20, 45)))) == 0


@pytest.mark.parametrize(
    "body, status, param",
    [
        ({"name": "rules", "token_ids": [1]}, 409, "name"),
        ({"token_ids": [1]}, 400, "name"),
        ({"name": "x"}, 400, "text"),
        ({"name": "x", "text": "a", "token_ids": [1]}, 400, "token_ids"),
        ({"name": "x", "token_ids": [1, 10**6]}, 400, "token_ids.1"),
        ({"name": "x", "text": ""}, 400, "text"),
        ({"name": "x", "text": "a " * 5000}, 400, "text"),
        ({"name": "x" * 300, "text": "a"}, 400, "name"),
        ({"name": "x", "messages": []}, 400, "messages"),
    ],
)
def test_errors_name_the_field(prefixed, body, status, param):
    _, http = prefixed
    answer = http.post("/admin/prefixes", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text
    assert [p["name"] for p in http.get("/admin/prefixes").json()["data"]].count("x") == 0


def test_dropping_what_is_not_there(prefixed):
    _, http = prefixed
    answer = http.delete("/admin/prefixes/none")
    assert answer.status_code == 404 and answer.json()["error"]["param"] == "name"
    assert http.get("/admin/prefixes/rules").status_code == 405


@pytest.mark.parametrize(
    "text, flags, part",
    [
        ("[", [], "--prefix-file"),
        ('[{"name":"a","text":"b"},{"name":"a","text":"c"}]', [], "1.name"),
        ('[{"name":"a"}]', [], "0.text"),
        (
            '[{{"name":"a","token_ids":[{}]}}]'.format(",".join(["5"] * 400)),
            ["--kv-cache-memory-bytes", "64KiB"],
            '"a"',
        ),
        ("[]", ["--scheduler", "orca"], "--prefix-file"),
        (None, [], "--prefix-file"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(tmp_path, text, flags, part):
    path = tmp_path / "prefixes.json"
    if text is not None:
        path.write_text(text)
    ended = subprocess.run(
        [binary(), "serve", small_model(), "--port", "0", "--prefix-file", path, *flags],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    lines = [line for line in ended.stderr.splitlines() if line.startswith("pagoda: ")]
    assert len(lines) == 1 and part in lines[0], ended.stderr
