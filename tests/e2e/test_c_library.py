"""libpagoda.so as used by C programs: the example, and through ctypes the functions that the example does not use."""

import ctypes as c
import json
import subprocess

import pytest
from conftest import binary, small_model

IDLE, TIMEOUT, INVALID, NOT_FOUND, UNIMPLEMENTED = 2, 1, -1, -2, -3


class Option(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_char_p)]


class Logprob(c.Structure):
    _fields_ = [
        ("id", c.c_int32),
        ("rank", c.c_int32),
        ("logprob", c.c_float),
        ("text", c.c_char_p),
        ("length", c.c_size_t),
    ]


class Logprobs(c.Structure):
    _fields_ = [("items", c.POINTER(Logprob)), ("count", c.c_size_t)]


class Choice(c.Structure):
    _fields_ = [
        ("index", c.c_int32),
        ("text", c.c_char_p),
        ("text_length", c.c_size_t),
        ("ids", c.POINTER(c.c_int32)),
        ("num_ids", c.c_size_t),
        ("logprobs", c.POINTER(Logprobs)),
        ("cumulative_logprob", c.c_double),
        ("finish_reason", c.c_char_p),
        ("stop_string", c.c_char_p),
        ("stop_token", c.c_int32),
    ]


class Output(c.Structure):
    _fields_ = [
        ("id", c.c_uint64),
        ("finished", c.c_int32),
        ("status", c.c_int),
        ("message", c.c_char_p),
        ("choices", c.POINTER(Choice)),
        ("num_choices", c.c_size_t),
        ("prompt_ids", c.POINTER(c.c_int32)),
        ("num_prompt_ids", c.c_size_t),
        ("prompt_logprobs", c.POINTER(Logprobs)),
        ("num_cached_tokens", c.c_int32),
        ("body", c.c_char_p),
        ("body_length", c.c_size_t),
    ]


def library_path():
    path = binary().parent / "libpagoda.so"
    if not path.exists():
        pytest.skip(f"no library at {path}")
    return path


class Library:
    def __init__(self):
        self.lib = c.CDLL(str(library_path()))
        self.lib.pagoda_last_error.restype = c.c_char_p
        self.engine, self.queue = c.c_void_p(), c.c_void_p()

    def open(self, **options):
        rows = (Option * len(options))(*[(k.encode(), v.encode()) for k, v in options.items()])
        return self.lib.pagoda_engine_create(
            str(small_model()).encode(), rows, c.c_size_t(len(options)), c.byref(self.engine)
        )

    def error(self):
        return self.lib.pagoda_last_error().decode()

    def submit(self, text, **params):
        number = c.c_uint64()
        status = self.lib.pagoda_submit_text(
            self.queue, text.encode(), c.c_size_t(len(text.encode())), json.dumps(params).encode(), c.byref(number)
        )
        return status, number.value

    def call(self, path, body):
        """Returns (status, the answer or the error message)."""
        number, out = c.c_uint64(), c.POINTER(Output)()
        status = self.lib.pagoda_submit_call(self.queue, path.encode(), json.dumps(body).encode(), c.byref(number))
        if status != 0:
            return status, self.error()
        assert self.lib.pagoda_next(self.queue, c.c_int64(-1), c.byref(out)) == 0
        output = out.contents
        assert output.id == number.value and output.finished and output.num_choices == 0
        answer = json.loads(output.body[: output.body_length]) if output.status == 0 else output.message.decode()
        status = output.status
        self.lib.pagoda_output_free(out)
        return status, answer

    def outputs(self, timeout_ms=-1):
        """Returns (id, finished, [(text, ids, finish reason, log-probabilities)]) of each output until none arrives."""
        out = c.POINTER(Output)()
        while (status := self.lib.pagoda_next(self.queue, c.c_int64(timeout_ms), c.byref(out))) == 0:
            o = out.contents
            yield (
                o.id,
                o.finished,
                [
                    (
                        ch.text.decode(),
                        ch.ids[: ch.num_ids],
                        ch.finish_reason,
                        [p.items[0].logprob for p in ch.logprobs[: ch.num_ids]] if ch.logprobs else None,
                    )
                    for ch in o.choices[: o.num_choices]
                ],
            )
            self.lib.pagoda_output_free(out)
        assert status in (IDLE, TIMEOUT), self.error()


@pytest.fixture(scope="module")
def library():
    library = Library()
    assert library.open(kv_cache_memory_bytes="16M", max_num_seqs="8") == 0, library.error()
    assert library.lib.pagoda_queue_create(library.engine, c.byref(library.queue)) == 0
    yield library
    library.lib.pagoda_queue_destroy(library.queue)
    library.lib.pagoda_engine_destroy(library.engine)


def test_the_example_streams_what_generate_answers(tmp_path):
    example = binary().parent / "examples/pagoda_example"
    if not example.exists():
        pytest.skip(f"no example at {example}")
    prompts = ["hello", "the cat sat"]
    run = subprocess.run([example, small_model(), *prompts], capture_output=True, check=True, timeout=300)
    lines = run.stdout.decode(errors="replace").rstrip("\n").split("\n")
    assert sum("(length)" in line for line in lines) == 2 and "blocks free" in lines[-1]
    (tmp_path / "in").write_text(
        "".join(json.dumps({"prompt": p, "max_tokens": 16, "temperature": 0, "logprobs": 0}) + "\n" for p in prompts)
    )
    subprocess.run(
        [
            binary(),
            "generate",
            small_model(),
            "--input",
            tmp_path / "in",
            "--output",
            tmp_path / "out",
            "--kv-cache-memory-bytes",
            "16M",
        ],
        check=True,
        timeout=300,
        capture_output=True,
    )
    for number, line in enumerate((tmp_path / "out").read_text().splitlines()):
        want = [f"[{x:.3f}]" for x in json.loads(line)["choices"][0]["logprobs"]["token_logprobs"]]
        got = [
            line.split(" [", 1)[1].split("]")[0] for line in lines if line.startswith(f"{number}: ") and " [" in line
        ]
        assert {f"[{x}]" for x in got} <= set(want) and got


def test_only_the_interface_is_exported():
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library_path()], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in symbols.splitlines()} - {"PAGODA_0"}
    assert names and all(name.startswith("pagoda_") for name in names), names


def test_whole_answers_and_pieces_are_the_same(library):
    params = {"max_tokens": 12, "temperature": 0, "logprobs": 1}
    _, whole = library.submit("once upon", **params)
    _, pieces = library.submit("once upon", stream=True, **params)
    seen = {whole: [], pieces: []}
    for number, finished, choices in library.outputs():
        seen[number].append((finished, choices[0]))
    assert len(seen[whole]) == 1 and seen[pieces]
    for part in range(2):  # text, ids
        joined = seen[pieces][0][1][part]
        for _, piece in seen[pieces][1:]:
            joined = joined + piece[part]
        assert joined == seen[whole][0][1][part]
    assert [f for f, _ in seen[pieces]] == [0] * (len(seen[pieces]) - 1) + [1]
    assert sum((p[3] for _, p in seen[pieces]), []) == seen[whole][0][1][3]


def test_a_stop_string_ends_a_whole_answer(library):
    library.submit("once upon", max_tokens=40, temperature=0)
    ((_, _, [(text, ids, reason, _)]),) = library.outputs()
    stop = text[3:5]
    library.submit("once upon", max_tokens=40, temperature=0, stop=[stop])
    ((_, finished, [(cut, fewer, reason, _)]),) = library.outputs()
    assert finished and reason == b"stop" and cut == text[: text.index(stop)] and len(fewer) < len(ids)


def test_an_aborted_request_says_nothing_more(library):
    _, number = library.submit("once", max_tokens=400, ignore_eos=True, stream=True)
    outputs = library.outputs()
    assert next(outputs)[0] == number
    assert library.lib.pagoda_abort(library.queue, c.c_uint64(number)) == 0
    assert list(outputs) == []
    assert library.lib.pagoda_abort(library.queue, c.c_uint64(number)) == NOT_FOUND


def test_nothing_runs_and_nothing_comes(library):
    assert list(library.outputs()) == []
    out = c.POINTER(Output)()
    assert library.lib.pagoda_next(library.queue, c.c_int64(20), c.byref(out)) == TIMEOUT


@pytest.mark.parametrize(
    "params, word",
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_p": 3}, "top_p"),
        ({"echo": True}, "echo"),
        ({"max_tokens": 100000}, "512"),
        ({"n": "two"}, "n"),
    ],
)
def test_a_wrong_field_is_named(library, params, word):
    status, _ = library.submit("once", **params)
    assert status == INVALID and word in library.error()


def test_params_that_are_no_object(library):
    number = c.c_uint64()
    for params in (b"[]", b"{", b"1", b'{"a":1,"a":2}'):
        assert library.lib.pagoda_submit_text(library.queue, b"x", c.c_size_t(1), params, c.byref(number)) == INVALID


@pytest.mark.parametrize(
    "options, status, word",
    [
        ({"max_modle_len": "64"}, INVALID, "max-model-len"),
        ({"max_num_seqs": "none"}, INVALID, "max-num-seqs"),
        ({"enable_prefix_caching": "maybe"}, INVALID, "true"),
        ({"tensor_parallel_size": "2"}, UNIMPLEMENTED, "serve"),
    ],
)
def test_a_wrong_option_is_named(options, status, word):
    library = Library()
    assert library.open(**options) == status and word in library.error()


def test_a_model_that_is_not_there():
    library = Library()
    assert library.lib.pagoda_engine_create(b"/nowhere/model.gguf", None, c.c_size_t(0), c.byref(library.engine)) < 0
    assert "nowhere" in library.error()


def test_a_call_by_its_path_is_answered_as_the_server_does(library):
    status, answer = library.call("/v1/completions", {"prompt": ["once", "upon"], "max_tokens": 6, "temperature": 0})
    assert status == 0 and answer["object"] == "text_completion" and answer["usage"]["completion_tokens"] == 12
    library.submit("once", max_tokens=6, temperature=0)
    ((_, _, [(text, _, _, _)]),) = library.outputs()
    assert answer["choices"][0]["text"] == text
    for path, body, wanted, word in (
        ("/v1/nothing", {}, NOT_FOUND, "/v1/nothing"),
        ("/tokenize", {"prompt": "x"}, UNIMPLEMENTED, "/tokenize"),
        ("/v1/completions", {"prompt": "x", "top_p": 3}, INVALID, "top_p"),
        ("/v1/completions", {"prompt": "x", "stream": True}, INVALID, "stream"),
        ("/v1/embeddings", {"input": "x"}, INVALID, ""),
    ):
        status, error = library.call(path, body)
        assert status == wanted and word in error, (path, status, error)
    assert list(library.outputs()) == []


def test_vectors_by_their_path():
    library = Library()
    assert library.open(kv_cache_memory_bytes="16M", runner="pooling") == 0, library.error()
    library.lib.pagoda_queue_create(library.engine, c.byref(library.queue))
    status, answer = library.call("/v1/embeddings", {"input": ["the tale", "stone", "the tale"]})
    vectors = [item["embedding"] for item in answer["data"]]
    assert status == 0 and len(vectors[0]) == 64 and vectors[0] == vectors[2] != vectors[1]
    assert library.call("/v1/completions", {"prompt": "x"})[0] == INVALID
    library.lib.pagoda_queue_destroy(library.queue)
    library.lib.pagoda_engine_destroy(library.engine)


def test_sleeping_metrics_and_tokens(library):
    lib, engine = library.lib, library.engine
    lib.pagoda_free.argtypes = [c.c_void_p]

    def text_of(call, *arguments):
        text, length = c.c_void_p(), c.c_size_t()
        assert call(engine, *arguments, c.byref(text), c.byref(length)) == 0, library.error()
        found = c.string_at(text.value, length.value).decode()
        lib.pagoda_free(text)
        return found

    sleeps = c.c_int32(-1)
    for level in (0, 1, 2):
        assert lib.pagoda_sleep(engine, c.c_int32(level), None) == 0, library.error()
        assert lib.pagoda_is_sleeping(engine, c.byref(sleeps)) == 0 and sleeps.value == 1
        assert lib.pagoda_wake_up(engine, b"weights,kv_cache" if level == 1 else None) == 0, library.error()
        if level == 1:
            assert lib.pagoda_wake_up(engine, b"scheduling") == 0, library.error()
        assert lib.pagoda_is_sleeping(engine, c.byref(sleeps)) == 0 and sleeps.value == 0
    assert lib.pagoda_sleep(engine, c.c_int32(3), None) == INVALID and "level" in library.error()
    assert lib.pagoda_sleep(engine, c.c_int32(1), b"never") == INVALID and "mode" in library.error()
    assert lib.pagoda_wake_up(engine, b"all") == INVALID and "tags" in library.error()
    assert lib.pagoda_reset_prefix_cache(engine) == 0, library.error()
    assert "vllm:num_requests_running{model_name=" in text_of(lib.pagoda_get_metrics)
    token, found = text_of(lib.pagoda_token_text, c.c_int32(5)), c.c_int32()
    assert (
        lib.pagoda_token_id(engine, token.encode(), c.c_size_t(len(token.encode())), c.byref(found)) == 0
        and found.value == 5
    )
    assert lib.pagoda_token_id(engine, b"no such token", c.c_size_t(13), c.byref(found)) == 0 and found.value == -1
    text, length = c.c_void_p(), c.c_size_t()
    assert lib.pagoda_token_text(engine, c.c_int32(10**6), c.byref(text), c.byref(length)) == NOT_FOUND


def outputs_as_json(library, timeout_ms=-1, at_most=100):
    """Returns the outputs of one call."""
    text, length = c.c_void_p(), c.c_size_t()
    status = library.lib.pagoda_next_json(
        library.queue, c.c_int64(timeout_ms), c.c_size_t(at_most), c.byref(text), c.byref(length)
    )
    if status in (IDLE, TIMEOUT):
        return []
    assert status == 0, library.error()
    outputs = json.loads(c.string_at(text.value, length.value).decode())
    library.lib.pagoda_free.argtypes = [c.c_void_p]
    library.lib.pagoda_free(text)
    return outputs


def all_as_json(library):
    while batch := outputs_as_json(library):
        yield from batch


def test_outputs_as_json_are_the_same_outputs(library):
    params = {"max_tokens": 12, "temperature": 0, "logprobs": 2, "prompt_logprobs": 1}
    library.submit("once upon", **params)
    ((_, finished, [(text, ids, reason, logprobs)]),) = library.outputs()
    _, number = library.submit("once upon", **params)
    (whole,) = all_as_json(library)
    (choice,) = whole["choices"]
    assert (whole["id"], whole["finished"], whole["status"]) == (number, True, 0) and "message" not in whole
    assert (choice["text"], choice["ids"], choice["finish_reason"]) == (text, ids, reason.decode())
    assert [c.c_float(position[0][2]).value for position in choice["logprobs"]] == logprobs
    assert [position[0][0] for position in choice["logprobs"]] == ids
    assert all(position[0][1] == 1 and len(position) == 3 for position in choice["logprobs"])
    assert abs(sum(logprobs) - choice["cumulative_logprob"]) < 1e-3
    assert len(whole["prompt_ids"]) == len(whole["prompt_logprobs"]) and whole["prompt_logprobs"][0] == []
    assert "stop_string" not in choice and "stop_token" not in choice and "body" not in whole


def test_a_stream_as_json_names_its_prompt_once(library):
    library.submit("once upon", max_tokens=12, temperature=0)
    ((_, _, [(text, ids, _, _)]),) = library.outputs()
    library.submit("once upon", max_tokens=12, temperature=0, stream=True)
    pieces = list(all_as_json(library))
    assert ["prompt_ids" in piece for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert [piece["finished"] for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    choices = [choice for piece in pieces for choice in piece["choices"]]
    assert "".join(choice["text"] for choice in choices) == text
    assert sum((choice["ids"] for choice in choices), []) == ids


def test_one_call_takes_what_is_there_up_to_a_limit(library):
    numbers = {library.submit("once", max_tokens=1)[1] for _ in range(6)}
    # Requests are served in order: once a later one has ended, the earlier ones have ended, too.
    other, out = Library(), c.POINTER(Output)()
    library.lib.pagoda_queue_create(library.engine, c.byref(other.queue))
    other.submit("once", max_tokens=2)
    assert library.lib.pagoda_next(other.queue, c.c_int64(-1), c.byref(out)) == 0
    library.lib.pagoda_output_free(out)
    library.lib.pagoda_queue_destroy(other.queue)
    first, rest = outputs_as_json(library, at_most=4), outputs_as_json(library)
    assert len(first) == 4 and {output["id"] for output in first + rest} == numbers
    assert outputs_as_json(library) == outputs_as_json(library, 0) == []


def test_json_of_a_call_and_of_what_is_missing(library):
    number = c.c_uint64()
    body = json.dumps({"prompt": "once", "max_tokens": 3, "stop": ['"']}).encode()
    assert library.lib.pagoda_submit_call(library.queue, b"/v1/completions", body, c.byref(number)) == 0
    (output,) = all_as_json(library)
    assert output["id"] == number.value and output["body"]["object"] == "text_completion" and output["choices"] == []
    text, length = c.c_void_p(), c.c_size_t()
    for queue, at_most, place in ((None, 1, text), (library.queue, 0, text), (library.queue, 1, None)):
        status = library.lib.pagoda_next_json(
            queue, c.c_int64(0), c.c_size_t(at_most), c.byref(place) if place is not None else None, c.byref(length)
        )
        assert status == INVALID


def test_a_stopped_engine_is_told_as_json():
    library = Library()
    assert library.open(kv_cache_memory_bytes="16M") == 0
    library.lib.pagoda_queue_create(library.engine, c.byref(library.queue))
    library.submit("once", max_tokens=400, ignore_eos=True)
    library.lib.pagoda_engine_destroy(library.engine)
    (output,) = outputs_as_json(library, 5000)
    assert output["finished"] and output["status"] < 0 and output["message"] and output["choices"] == []
    library.lib.pagoda_queue_destroy(library.queue)


def test_queues_outlive_their_engine():
    library = Library()
    assert library.open(kv_cache_memory_bytes="16M") == 0
    library.lib.pagoda_queue_create(library.engine, c.byref(library.queue))
    _, number = library.submit("once", max_tokens=400, ignore_eos=True)
    library.lib.pagoda_engine_destroy(library.engine)
    out = c.POINTER(Output)()
    assert library.lib.pagoda_next(library.queue, c.c_int64(5000), c.byref(out)) == 0
    assert out.contents.status < 0 and out.contents.finished and out.contents.message
    library.lib.pagoda_output_free(out)
    library.lib.pagoda_queue_destroy(library.queue)
