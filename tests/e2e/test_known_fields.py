"""Every field of OpenAI's own schemas is used, refused by name, or known to have no effect here; none is silently
ignored."""

import json

import httpx
import pytest
from conftest import serving, shared_data, small_model

# Fields for OpenAI's services around the model, or for its own models; answers here are the same with and without them.
MEANS_NOTHING = {
    "/v1/chat/completions": {
        "metadata",
        "store",
        "service_tier",
        "prediction",
        "verbosity",
        "prompt_cache_options",
        "safety_identifier",
    },
    "/v1/completions": set(),
    "/v1/responses": {
        "service_tier",
        "stream_options",
        "max_tool_calls",
        "prompt_cache_options",
        "safety_identifier",
        "user",
        "include",
    },  # each known value is included, or has no effect
}
SCHEMAS = {
    "/v1/chat/completions": (
        "openai_openapi_core.json",
        "CreateChatCompletionRequest",
        {"messages": [{"role": "user", "content": "x"}]},
    ),
    "/v1/completions": ("openai_openapi_core.json", "CreateCompletionRequest", {"prompt": "x"}),
    "/v1/responses": ("openai_openapi_responses.json", "CreateResponse", {"input": "x"}),
}


def fields_of(document, schema):
    if "$ref" in schema:
        return fields_of(document, document["components"]["schemas"][schema["$ref"].split("/")[-1]])
    return set(schema.get("properties", {})).union(*(fields_of(document, part) for part in schema.get("allOf", [])))


@pytest.mark.parametrize("path", SCHEMAS)
def test_every_field_of_the_schema_is_known(tmp_path, path):
    data = shared_data()
    if data is None:
        pytest.skip("OpenAI's OpenAPI files are not here (PAGODA_SHARED_DATA)")
    file, name, least = SCHEMAS[path]
    document = json.loads((data / "conformance" / file).read_text())
    (tmp_path / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    silent = set()
    with (
        serving(
            small_model(), "--served-model-name", "small", "--chat-template", str(tmp_path / "plain.jinja")
        ) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        for field in sorted(fields_of(document, document["components"]["schemas"][name]) - set(least) - {"model"}):
            # No field accepts an object with this content, except maps of arbitrary names.
            answer = http.post(path, json={**least, field: [{"no such thing": [None]}]})
            if answer.status_code == 200:
                silent.add(field)
                continue
            error = answer.json()["error"]
            assert answer.status_code in (400, 501) and (error["param"] or "").split(".")[0] == field, (
                field,
                answer.text,
            )
    assert silent == MEANS_NOTHING[path] & fields_of(document, document["components"]["schemas"][name]), (
        silent ^ MEANS_NOTHING[path]
    )


MEDIA = [
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}
            ]
        },
        "image_url",
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]}
            ]
        },
        "input_audio",
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "x"}], "modalities": ["text", "audio"]},
        "modalities",
    ),
    (
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]},
        "input_image",
    ),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input_file"),
    (
        "/v1/messages",
        {
            "model": "small",
            "max_tokens": 1,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
                    ],
                }
            ],
        },
        "image",
    ),
    (
        "/v1/messages",
        {
            "model": "small",
            "max_tokens": 1,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
                        }
                    ],
                }
            ],
        },
        "document",
    ),
    ("/api/chat", {"model": "small", "messages": [{"role": "user", "content": "x", "images": ["AA=="]}]}, "images"),
    ("/api/generate", {"model": "small", "prompt": "x", "images": ["AA=="]}, "images"),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "file:///etc/passwd"}}]}
            ]
        },
        "video_url",
    ),
]


def test_what_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    with (
        serving(
            small_model(), "--served-model-name", "small", "--chat-template", str(tmp_path / "plain.jinja")
        ) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        for path, body, name in MEDIA:
            answer = http.post(path, json=body)
            assert answer.status_code in (400, 501) and name in answer.text, (path, name, answer.text)
