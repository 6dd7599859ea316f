"""`--tensor-parallel-size 2 --device emulated`, end to end: answers equal those of one device, with bit-identical
log-probabilities, in every mode of decoding, with swaps and recomputation, drafts, windows and virtual memory. Sleep
and wake-up work. A lost device ends the server with an error for its clients. Unsupported features are refused in one
line.
"""

import concurrent.futures
import os
import pathlib
import signal
import subprocess

import httpx
import pytest
from conftest import Server, binary, serving
from test_device import EMULATED, FLAGS, MODES, PROMPTS, TINY, VIRTUAL, ask, expect_refusal, ids

RANKS = ["--tensor-parallel-size", "2", "--rank-timeout", "60"]
FAKE_NCCL = pathlib.Path(binary()).resolve().parent / "src/libfake_nccl.so"
BY_NCCL = ["--disable-custom-all-reduce"]


@pytest.fixture(scope="module")
def one():
    with serving(TINY / "qwen3", *FLAGS, *EMULATED) as server:
        yield server


@pytest.fixture(scope="module")
def two():
    with serving(TINY / "qwen3", *FLAGS, *EMULATED, *RANKS) as server:
        yield server


@pytest.mark.parametrize("mode", MODES)
def test_answers_are_those_of_one_device(one, two, mode):
    answers = [[ask(server, prompt, **MODES[mode]) for prompt in PROMPTS[1:3]] for server in (one, two)]
    assert [ids(answer) for answer in answers[0]] == [ids(answer) for answer in answers[1]]
    assert [[c["logprobs"] for c in answer] for answer in answers[0]] == [
        [c["logprobs"] for c in answer] for answer in answers[1]
    ]
    assert any("2 ranks of an emulated device" in line for line in two.log), two.log


def by_nccl():
    if not FAKE_NCCL.exists():
        pytest.skip("a build without tests has no library with NCCL's calls")
    return ["--device", "emulated", "--emulated-device", f"memory=16MiB,nccl={FAKE_NCCL}", *BY_NCCL]


@pytest.mark.parametrize("sums", [[], ["--no-deterministic-allreduce"]], ids=["gathered", "summed"])
def test_nccl_brings_the_same(one, sums):
    with serving(TINY / "qwen3", *FLAGS, *by_nccl(), *RANKS, *sums) as server:
        for prompt in PROMPTS[1:3]:
            how = {"temperature": 0, "logprobs": 3}
            wanted, got = ask(one, prompt, **how), ask(server, prompt, **how)
            assert ids(got) == ids(wanted)
            if not sums:
                assert [c["logprobs"] for c in got] == [c["logprobs"] for c in wanted]
    assert any("decode steps replayed" in line for line in server.log), "".join(server.log)


def children(process):
    listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split()]


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["hangs", "dies"])
@pytest.mark.parametrize("nccl", [False, True], ids=["windows", "nccl"])
def test_a_lost_rank_ends_the_server_and_tells_its_client(nccl, how):
    flags = by_nccl() if nccl else EMULATED
    with serving(TINY / "qwen3", *FLAGS, *flags, "--tensor-parallel-size", "2", "--rank-timeout", "2") as server:
        (rank,) = children(server.process)
        body = {"prompt": PROMPTS[0], "max_tokens": 40, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=120) as answer:
            seen = ""
            for text in answer.iter_text():
                if not seen:
                    os.kill(rank, how)
                seen += text
        assert "The engine has stopped." in seen
        assert httpx.get(server.url + "/health", timeout=30).status_code == 503
        assert server.process.wait(60) != 0
        if how is signal.SIGSTOP:
            assert any("rank" in line and " within 2" in line for line in server.log), "".join(server.log)


@pytest.mark.parametrize("model", ["gemma3", "qwen3_moe"])
@pytest.mark.parametrize("memory", [EMULATED, VIRTUAL], ids=["paged", "virtual"])
def test_windows_mixtures_and_virtual_memory(model, memory):
    if model == "qwen3_moe" and memory is VIRTUAL:
        pytest.skip("as gemma3")
    answers = []
    for ranks in ([], RANKS):
        with (
            serving(TINY / model, *FLAGS, *memory, *ranks) as server,
            concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool,
        ):
            how = {"temperature": 0.8, "max_tokens": 20, "logprobs": 2}
            answers.append(
                [
                    [(c["token_ids"], c["logprobs"]) for c in choices]
                    for choices in pool.map(lambda at: ask(server, PROMPTS[at], seed=at, **how), range(len(PROMPTS)))
                ]
            )
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "way",
    [["--preemption-mode", "recompute"], ["--preemption-mode", "swap", "--swap-space", "64KiB"]],
    ids=["recompute", "swap"],
)
def test_preempted_answers_are_what_they_are_alone(one, way):
    how = {"temperature": 0.8, "max_tokens": 14}
    alone = [ids(ask(one, prompt, seed=at, **how)) for at, prompt in enumerate(PROMPTS)]
    flags = [*FLAGS[:-1], "9KiB", *EMULATED, *RANKS, "--max-model-len", "32", "--no-enable-prefix-caching"]
    with serving(TINY / "qwen3", *flags, *way) as server, concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        together = list(pool.map(lambda at: ids(ask(server, PROMPTS[at], seed=at, **how)), range(len(PROMPTS))))
        assert together == alone
        assert server.metric("swapped_in_blocks_total" if "swap" in way else "num_preemptions_total") > 0


@pytest.mark.parametrize(
    "graphs",
    [["--enforce-eager"], ["--device-graphs", "check", "--async-scheduling"]],
    ids=["eager", "replayed and planned ahead"],
)
def test_drafts_graphs_and_steps_planned_ahead_change_no_token(one, graphs):
    prompt = [5, 6, 7, 8] * 5
    wanted = ids(ask(one, prompt, temperature=0))
    drafts = ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}']
    server = Server(TINY / "qwen3", *FLAGS, *EMULATED, *RANKS, *graphs, *(drafts if "check" not in graphs else []))
    try:
        assert ids(ask(server, prompt, temperature=0)) == wanted
        assert ids(ask(server, prompt, temperature=0)) == wanted  # from the prefix cache
    finally:
        server.stop()
    assert ("check" in graphs) == any("decode steps replayed" in line for line in server.log), "".join(server.log)


def test_it_sleeps_and_wakes():
    with serving(TINY / "qwen3", *FLAGS, *EMULATED, *RANKS, "--enable-sleep-mode") as server:
        for level in (1, 2):
            wanted = ids(ask(server, PROMPTS[2], temperature=0))
            for path in (f"/sleep?level={level}", "/wake_up"):
                assert httpx.post(server.url + path, timeout=300).status_code == 200
            assert ids(ask(server, PROMPTS[2], temperature=0)) == wanted


def test_a_lost_device_ends_the_server_and_tells_its_client():
    flags = ["--device", "emulated", "--emulated-device", "memory=16MiB,lost-launch=200"]
    with serving(TINY / "qwen3", *FLAGS, *flags, "--tensor-parallel-size", "2", "--rank-timeout", "3") as server:
        body = {"prompt": PROMPTS[0], "max_tokens": 30, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=120) as answer:
            seen = "".join(answer.iter_text())
        assert "The engine has stopped." in seen
        assert server.process.wait(60) != 0
    # Each rank loses its device; the first rank that does names the cause.
    assert any("the emulated device is lost, as asked, in launch 200" in line for line in server.log), "".join(
        server.log
    )


def test_a_ranks_device_lost_while_nothing_runs_ends_the_server():
    flags = ["--device", "emulated", "--emulated-device", "memory=16MiB,lost-look=3"]
    with serving(TINY / "qwen3", *FLAGS, *flags, *RANKS) as server:
        assert server.process.wait(60) != 0
    assert any("the emulated device is lost, as asked, in look 3" in line for line in server.log), server.log


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--tensor-parallel-size", "9"], "it has 8 ranks at most"),
        (["--tensor-parallel-size", "2", "--device", "cuda:0,1,2"], "it names 3 GPUs, and each has one"),
        (["--tensor-parallel-size", "2", "--device", "cuda:1,1"], "names GPU 1 twice"),
        (["--tensor-parallel-size", "2", "--emulated-device", "refused-allocation=9"], "rank 1: --device emulated"),
        (["--tensor-parallel-size", "7"], "cannot split the model over 7 ranks"),
        (["--tensor-parallel-size", "2", *BY_NCCL], "--disable-custom-all-reduce: an emulated device has no NCCL"),
        (
            ["--tensor-parallel-size", "2", *BY_NCCL, "--emulated-device", "nccl=libnone.so.2"],
            "--disable-custom-all-reduce: there is no libnone.so.2 here",
        ),
    ],
)
def test_what_several_devices_have_not_is_refused(flags, said):
    expect_refusal(flags, said)
