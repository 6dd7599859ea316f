"""`--device emulated`, end to end: served answers equal the goldens and those of the CPU, in every mode of decoding,
with swaps and recomputation, for any order of the device's streams. A lost device ends the server with an error for its
clients. Features that devices do not support are refused in one line.

The device runs in software and is slow, so models and answers are small. They use float32, so that the tokens equal the
CPU's.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import time

import httpx
import pytest
from conftest import Server, binary, serving, small_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/fixtures/tiny_models"
# Answers are compared as ids, so any tokenizer works.
FLAGS = [
    "--tokenizer",
    str(small_model()),
    "--dtype",
    "float32",
    "--max-num-seqs",
    "8",
    "--max-num-batched-tokens",
    "64",
    "--block-size",
    "4",
    "--kv-cache-memory-bytes",
    "64KiB",
]
# The emulated device, or a GPU (bench/gpu/run).
DEVICE = os.environ.get("PAGODA_TEST_DEVICE", "emulated")
EMULATED = ["--device", DEVICE, "--emulated-device", "memory=16MiB,seed=3"]
# A page of 4 KiB contains 16 tokens of all layers.
VIRTUAL = [
    "--device",
    DEVICE,
    "--emulated-device",
    "memory=16MiB,granule=4KiB,seed=7",
    "--kv-manager",
    "virtual",
    *(["--kv-cache-memory-bytes", "64MiB"] if DEVICE == "cuda" else []),
]  # for GPUs, whose pages have 2 MiB
PROMPTS = [[(7 * i + 5 * at) % 60 + 3 for at in range(5 + 3 * i)] for i in range(4)]
MODES = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": 5, "n": 2},
    "penalties": {
        "temperature": 0.7,
        "min_p": 0.02,
        "seed": 6,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.2,
        "logit_bias": {"9": 2.0},
    },
    "log-probabilities": {"temperature": 0.7, "seed": 8, "logprobs": 3},
    "best_of": {"temperature": 0.9, "seed": 9, "best_of": 3, "n": 1},
    "beams": {"use_beam_search": True, "n": 2, "beam_width": 3, "temperature": 0},
}


def ask(server, prompt, **how):
    body = {"prompt": prompt, "max_tokens": 8, "ignore_eos": True, "return_token_ids": True, **how}
    answer = httpx.post(server.url + "/v1/completions", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def expect_refusal(flags, said):
    """Checks that a server with these flags does not start and states the reason in its last line."""
    done = subprocess.run(
        [binary(), "serve", TINY / "qwen3", *FLAGS, "--device", "emulated", "--port", "0", *flags],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


def ids(choices):
    return [choice["token_ids"] for choice in choices]


@pytest.fixture(scope="module")
def cpu():
    with serving(TINY / "qwen3", *FLAGS) as server:
        yield server


@pytest.fixture(scope="module")
def emulated():
    with serving(TINY / "qwen3", *FLAGS, *EMULATED) as server:
        yield server


@pytest.fixture(scope="module")
def virtual():
    with serving(TINY / "qwen3", *FLAGS, *VIRTUAL) as server:
        yield server


@pytest.mark.parametrize("model", ["llama", "qwen3"])
def test_a_served_model_gives_its_goldens(model, request):
    lines = [json.loads(line) for line in (TINY / model / "golden.jsonl").read_text().splitlines()]

    def check(server):
        for line in lines[:2]:
            wanted = line["greedy_ids"]
            assert ids(ask(server, line["prompt_ids"], temperature=0, max_tokens=len(wanted))) == [wanted]

    if model == "qwen3":
        return check(request.getfixturevalue("emulated"))
    with serving(TINY / model, *FLAGS, *EMULATED) as server:
        check(server)
    assert DEVICE == "cuda" or any("an emulated device with 16 MiB" in line for line in server.log)


@pytest.mark.parametrize("mode", MODES)
def test_tokens_are_those_of_the_cpu(cpu, emulated, mode):
    prompt = PROMPTS[2]
    there, here = ask(emulated, prompt, **MODES[mode]), ask(cpu, prompt, **MODES[mode])
    assert ids(there) == ids(here)
    if mode == "log-probabilities":
        for a, b in zip(there[0]["logprobs"]["token_logprobs"], here[0]["logprobs"]["token_logprobs"]):
            assert a == pytest.approx(b, abs=1e-3)


@pytest.mark.parametrize("mode", MODES)
def test_virtual_memory_changes_no_token(emulated, virtual, mode):
    answers = [ask(server, prompt, **MODES[mode]) for server in (emulated, virtual) for prompt in PROMPTS[1:3]]
    assert [ids(answer) for answer in answers[:2]] == [ids(answer) for answer in answers[2:]]
    if mode == "log-probabilities":  # bit-identical
        assert [answer[0]["logprobs"] for answer in answers[:2]] == [answer[0]["logprobs"] for answer in answers[2:]]
    assert virtual.metric("kv_mapped_pages_total") > 0


def test_a_tensor_for_each_layer_changes_no_token(emulated):
    how = {"temperature": 0.8, "max_tokens": 30}
    with (
        serving(TINY / "qwen3", *FLAGS, *VIRTUAL, "--no-kv-slicing") as server,
        concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool,
    ):
        together = list(pool.map(lambda at: ids(ask(server, PROMPTS[at], seed=at, **how)), range(len(PROMPTS))))
    assert together == [ids(ask(emulated, prompt, seed=at, **how)) for at, prompt in enumerate(PROMPTS)]


@pytest.mark.parametrize("memory", [EMULATED, VIRTUAL], ids=["paged", "virtual"])
def test_windows_are_kv_groups_of_their_own(memory):
    """Rows outside a window are freed while requests run, as on the CPU."""
    how = {"temperature": 0, "max_tokens": 30}
    prompts = PROMPTS[1:]
    with serving(TINY / "gemma3", *FLAGS) as server:
        wanted = [ids(ask(server, prompt, **how)) for prompt in prompts]
    with (
        serving(TINY / "gemma3", *FLAGS, *memory) as server,
        concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool,
    ):
        assert list(pool.map(lambda prompt: ids(ask(server, prompt, **how)), prompts)) == wanted
        assert any("the last 7 tokens" in line for line in server.log), server.log


@pytest.mark.parametrize("memory", [["9KiB", *EMULATED], ["12KiB", *VIRTUAL]], ids=["paged", "virtual"])
@pytest.mark.parametrize(
    "way",
    [["--preemption-mode", "recompute"], ["--preemption-mode", "swap", "--swap-space", "64KiB"]],
    ids=["recompute", "swap"],
)
def test_preempted_answers_are_what_they_are_alone(emulated, way, memory):
    """Concurrent requests in a cache that is too small for them."""
    if DEVICE == "cuda" and "virtual" in memory:
        pytest.skip("a page holds more than these requests")
    how = {"temperature": 0.8, "max_tokens": 14}
    alone = [ids(ask(emulated, prompt, seed=at, **how)) for at, prompt in enumerate(PROMPTS)]
    flags = [*FLAGS[:-1], *memory, "--max-model-len", "32", "--no-enable-prefix-caching"]
    with serving(TINY / "qwen3", *flags, *way) as server, concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        seen = "swapped_in_blocks_total" if "swap" in way else "num_preemptions_total"
        for _ in range(20):  # repeated, since a GPU may finish a request before the next arrives
            together = list(pool.map(lambda at: ids(ask(server, PROMPTS[at], seed=at, **how)), range(len(PROMPTS))))
            assert together == alone
            if server.metric(seen) > 0:
                break
        assert server.metric(seen) > 0


@pytest.mark.parametrize("memory", [EMULATED, VIRTUAL], ids=["paged", "virtual"])
def test_it_sleeps_and_wakes(memory):
    with serving(TINY / "qwen3", *FLAGS, *memory, "--enable-sleep-mode") as server:
        for level in (0, 1, 2):
            wanted = ids(ask(server, PROMPTS[2], temperature=0))
            for path in (f"/sleep?level={level}", "/wake_up"):
                assert httpx.post(server.url + path, timeout=300).status_code == 200
            assert ids(ask(server, PROMPTS[2], temperature=0)) == wanted


def test_vectors_are_those_of_the_cpu():
    def vectors(*flags):
        with serving(TINY / "qwen3", *FLAGS, "--runner", "pooling", *flags) as server:
            body = {"input": PROMPTS, "model": "qwen3"}
            answer = httpx.post(server.url + "/v1/embeddings", json=body, timeout=300)
            assert answer.status_code == 200, answer.text
            return [item["embedding"] for item in answer.json()["data"]]

    for there, here in zip(vectors(*EMULATED), vectors(), strict=True):
        assert there == pytest.approx(here, abs=1e-4)


def test_drafts_and_shared_prefixes_change_no_token(emulated):
    prompt = [5, 6, 7, 8] * 5
    wanted = ids(ask(emulated, prompt, temperature=0))
    assert ids(ask(emulated, prompt, temperature=0)) == wanted
    assert emulated.metric("prefix_cache_hits_total") > 0
    with serving(
        TINY / "qwen3", *FLAGS, *EMULATED, "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'
    ) as server:
        assert ids(ask(server, prompt, temperature=0)) == wanted


def test_tiles_and_8_bit_caches_give_the_same_answers_paged_virtual_alone_and_together():
    """Tiled attention uses bfloat16; 8-bit caches use the plain kernels. Chunks have 16 tokens."""
    for how in (["--dtype", "bfloat16", "--device-attention", "tiles"], ["--kv-cache-dtype", "int8"]):
        answers = []
        for memory in (EMULATED, VIRTUAL):
            with serving(TINY / "qwen3", *FLAGS, *memory, *how, "--max-num-batched-tokens", "16") as server:

                def draw(at, server=server):
                    return ids(ask(server, PROMPTS[at], temperature=0.8, seed=at))

                answers.append([draw(at) for at in range(len(PROMPTS))])
                with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
                    answers.append(list(pool.map(draw, range(len(PROMPTS)))))
        assert all(answer == answers[0] for answer in answers), how


def test_replayed_steps_give_what_eager_ones_give_and_are_counted():
    answers = []
    for flags in (["--enforce-eager"], ["--device-graphs", "check"]):
        server = Server(TINY / "qwen3", *FLAGS, *EMULATED, *flags)
        try:
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                futures = [pool.submit(ask, server, prompt, temperature=0, logprobs=2) for prompt in PROMPTS[:3]]
                answers.append([(ids(future.result()), future.result()[0]["logprobs"]) for future in futures])
        finally:
            server.stop()
        counted = [line for line in server.log if "decode steps replayed" in line]
        assert len(counted) == (0 if flags == ["--enforce-eager"] else 1), server.log
    assert answers[0] == answers[1]


@pytest.mark.skipif(DEVICE != "emulated", reason="a library that may not be there")
def test_products_by_the_devices_library():
    with serving(TINY / "qwen3", *FLAGS, *EMULATED, "--dtype", "bfloat16", "--device-products", "cublaslt") as server:
        assert len(ids(ask(server, PROMPTS[2], temperature=0))[0]) == 8


@pytest.mark.skipif(DEVICE != "emulated", reason="a library that may not be there")
def test_the_fastest_kernels_say_that_bits_depend_on_the_batch():
    flags = [*FLAGS, *EMULATED, "--dtype", "bfloat16"]
    answers = []
    for kernels in ([], ["--device-kernels", "fastest"]):
        with serving(TINY / "qwen3", *flags, *kernels) as server:
            answers.append(ids(ask(server, PROMPTS[2], temperature=0)))
            assert server.metric("bits_depend_on_batch") == len(kernels) // 2
        said = "".join(server.log)
        assert bool(kernels) == ("; bits depend on the batch" in said), said
        assert bool(kernels) == ("bfloat16 matrices by cuBLASLt from 257 rows on" in said), said
        assert "decode steps replayed" in said  # they have fewer rows
    assert answers[0] == answers[1]  # and so have these


def test_a_lost_device_ends_the_server_and_tells_its_client():
    with serving(
        TINY / "qwen3", *FLAGS, "--device", "emulated", "--emulated-device", "memory=16MiB,lost-launch=60"
    ) as server:
        body = {"prompt": PROMPTS[0], "max_tokens": 30, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=120) as answer:
            seen = "".join(answer.iter_text())
        assert "The engine has stopped." in seen
        assert server.process.wait(60) != 0
    assert any("the emulated device is lost, as asked, in launch 60" in line for line in server.log)


def test_a_device_lost_while_nothing_runs_turns_health_red():
    flags = ("--device", "emulated", "--emulated-device", "memory=16MiB,lost-look=3")
    with serving(TINY / "qwen3", *FLAGS, *flags) as server:
        end = time.monotonic() + 60
        while (answer := httpx.get(server.url + "/health")).status_code == 200 and time.monotonic() < end:
            time.sleep(0.1)
        assert answer.status_code == 503
        message = answer.json()["error"]["message"]
        assert message == "The engine has stopped: the emulated device is lost, as asked, in look 3"
        assert server.process.wait(60) == 2


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--kv-manager", "virtual", "--kv-page-size", "64KiB"], "--device emulated maps multiples of 2097152 bytes"),
        (["--emulated-device", "granule=5KiB"], "granule must be a power of two"),
        (["--dtype", "int8"], "--dtype int8: the device runner has"),
        (["--emulated-device", "memory=1MiB", "--kv-cache-memory-bytes", "2MiB"], "are available"),
        (["--emulated-device", "refused-allocation=9"], "refuses"),
        (["--kv-cache-dtype", "float16"], "--kv-cache-dtype float16: the device runner has"),
        (["--device-attention", "tiles"], "--device-attention tiles needs keys and values in bfloat16"),
        (["--device-products", "cublaslt"], "--device-products cublaslt needs --dtype bfloat16"),
        (["--device-kernels", "fastest"], "--device-kernels fastest needs --dtype bfloat16"),
        (
            ["--device-kernels", "fastest", "--device-products", "tiles"],
            "--device-kernels fastest chooses the products: leave out --device-products tiles",
        ),
        (["--device-products", "tiles", "--dtype", "float32"], "--device-products tiles needs --dtype bfloat16"),
        (["--emulated-device", "speed=3"], "'speed' is not one of"),
        (["--device", "cuda:x"], "'cuda:x' is not one of auto, cpu, cuda, cuda:N, cuda:N,N, emulated"),
        (["--cpu-offload-gb", "4"], "--device emulated: --cpu-offload-gb: all weights stay on the device"),
        (["--num-gpu-blocks-override", "1000000"], "--num-gpu-blocks-override needs"),
    ],
)
def test_what_a_device_has_not_is_refused(flags, said):
    expect_refusal(flags, said)


@pytest.mark.skipif(DEVICE == "cuda", reason="there is a GPU")
def test_a_gpu_that_is_not_here_is_one_line():
    done = subprocess.run(
        [binary(), "serve", TINY / "qwen3", "--device", "cuda:7", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode == 2:  # nothing else ends it
        assert done.stderr.startswith("pagoda: --device cuda:7: ") and done.stderr.count("\n") == 1


def test_vllms_names_of_a_devices_memory():
    flags = [flag for flag in FLAGS if flag not in ("--kv-cache-memory-bytes", "64KiB")]
    with serving(TINY / "qwen3", *flags, *EMULATED, "--num-gpu-blocks-override", "24") as server:
        assert any("KV cache size: 96 tokens" in line for line in server.log)
    with serving(
        TINY / "qwen3", *flags, "--gpu-memory-utilization", "0.9", "--kv-cache-memory-bytes", "1MiB"
    ) as server:
        assert any("no effect here: --gpu-memory-utilization" in line for line in server.log)


def test_bench_runs_on_it():
    done = subprocess.run(
        [
            binary(),
            "bench",
            "latency",
            TINY / "qwen3",
            *FLAGS,
            *EMULATED,
            "--input-len",
            "8",
            "--output-len",
            "4",
            "--batch-size",
            "2",
            "--num-iters",
            "1",
            "--num-iters-warmup",
            "0",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "decode, all running" in done.stdout
