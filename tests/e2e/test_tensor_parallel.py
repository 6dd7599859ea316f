"""A model split over processes: the same answers, and no rank outlives another."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time

import httpx
import pytest
from conftest import binary, default_model, serving

PROMPTS = ["The capital of France is", "Once upon a time", "1, 2, 3, 4,"]
RANK_TIMEOUT_S = 2


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, timeout_s):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def generate(tmp_path, *flags, beams=True, launcher=(), env=None, program=None):
    source = tmp_path / "prompts.jsonl"
    bodies = [{"prompt": p, "max_tokens": 24, "temperature": 0} for p in PROMPTS]
    if beams:
        bodies.append(
            {"prompt": PROMPTS[1], "max_tokens": 12, "n": 2, "best_of": 2, "use_beam_search": True, "temperature": 0}
        )
        bodies.append(
            {
                "prompt": PROMPTS[2],
                "max_tokens": 10,
                "n": 2,
                "best_of": 4,
                "use_beam_search": True,
                "temperature": 0,
                "num_beam_groups": 2,
                "diversity_penalty": 0.5,
            }
        )
    bodies.append({"prompt": PROMPTS[0], "max_tokens": 12, "n": 2, "best_of": 3, "seed": 8})
    bodies.append({"prompt": PROMPTS[1], "max_tokens": 16, "n": 3, "seed": 5, "temperature": 0.8})
    source.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    done = subprocess.run(
        [*launcher, program or binary(), "generate", default_model(), "-i", source, "-o", "-", *flags],
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return [[choice["text"] for choice in json.loads(line)["choices"]] for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize(
    "flags", [["-tp", "2"], ["--tensor-parallel-size", "4"], ["--tp", "3", "--kv-manager", "virtual"]]
)
def test_the_answers_are_those_of_one_process(tmp_path, whole, flags):
    assert generate(tmp_path, *flags) == whole


def test_so_they_are_under_a_scheduler_without_beams(tmp_path):
    flags = ["--scheduler", "orca", "--max-model-len", "512"]
    assert generate(tmp_path, *flags, "--tp", "2", beams=False) == generate(tmp_path, *flags, beams=False)


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--tp", "16"], ["over 16 ranks", "3 for keys and values"]),
        (["--tensor-parallel-size", "0"], ["--tensor-parallel-size: 0 is not between 1 and 64"]),
        (["--tensor-parallel-size", "65"], ["--tensor-parallel-size: 65 is not between 1 and 64"]),
        (["--tensor-parallel-size", "2.5"], ["--tensor-parallel-size: '2.5' is not a whole number"]),
        (["--tp", "2", "--rank-timeout", "-1"], ["--rank-timeout: -1 is not between"]),
        (["--tp", "2", "--max-model-len", "9999999"], ["9999999"]),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(flags, words):
    done = subprocess.run(
        [binary(), "serve", default_model(), "--port", "0", *flags], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if " INFO " not in line and not line.startswith("INFO")]
    assert len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines


def test_ranks_on_one_machine_need_no_mpi(tmp_path, whole):
    alone = tmp_path / "bin" / "pagoda"
    alone.parent.mkdir()
    shutil.copy2(binary(), alone)
    libraries = subprocess.run(["ldd", alone], capture_output=True, text=True).stdout
    assert "libmpi" not in libraries and "libopen-rte" not in libraries
    assert generate(tmp_path, "--tp", "2", program=alone) == whole


class Stream(threading.Thread):
    """A streamed completion that does not end by itself."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.events, self.error = url, [], None
        self.start()

    def run(self):
        body = {"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True, "stream": True}
        try:
            with httpx.stream("POST", self.url + "/v1/completions", json=body, timeout=60) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        self.events.append(line[6:])
        except httpx.HTTPError as error:
            self.error = error


def health(url):
    try:
        return httpx.get(url + "/health", timeout=2).status_code
    except httpx.HTTPError:
        return None


def shared_memory():
    """Returns Pagoda's shared memory files: other tests run concurrently, and MPI has files of its own."""
    return {name for name in os.listdir("/dev/shm") if "pagoda" in name}


def lose(rank, number, seed):
    """Serves on 3 ranks, sends signal `number` to a rank during a stream, and checks the consequences."""
    shared_before = shared_memory()
    with serving(
        default_model(),
        "--tp",
        "3",
        "--max-model-len",
        "2048",
        "--rank-timeout",
        str(RANK_TIMEOUT_S),
        "--kv-cache-memory-bytes",
        "64MiB",
    ) as running:
        front = running.process.pid
        ranks = [front, *children(front)]
        assert len(ranks) == 3
        streams = [Stream(running.url) for _ in range(3)]
        assert wait_until(lambda: all(len(s.events) > 3 for s in streams), 60)
        time.sleep(random.Random(seed).random())
        os.kill(ranks[rank], number)
        # The slices of a wait, rank 0's own limit, and twice that until the other ranks notice the end of rank 0.
        limit = 4 * RANK_TIMEOUT_S + 6
        if rank != 0:
            assert wait_until(lambda: health(running.url) == 503, RANK_TIMEOUT_S + 4)
            for stream in streams:
                stream.join(10)
                assert not stream.is_alive() and stream.error is None
                assert any('"error"' in event for event in stream.events[-2:]), stream.events[-2:]
            running.process.wait(20)
            assert running.process.returncode != 0
        else:
            running.process.wait(limit)
            for stream in streams:
                stream.join(10)
                assert not stream.is_alive()
        assert wait_until(lambda: not any(alive(pid) for pid in ranks[1:]), 5)
    assert shared_memory() <= shared_before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_lost_rank_ends_all_and_every_client_is_told(rank, number):
    lose(rank, number, seed=10 * rank + number)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_killed_at_start_ends_all(rank):
    process = subprocess.Popen(
        [binary(), "serve", default_model(), "--port", "0", "--tp", "3"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_until(lambda: len(children(process.pid)) == 2, 30)
        ranks = [process.pid, *children(process.pid)]
        time.sleep(random.Random(rank).random() * 0.3)
        os.kill(ranks[rank], signal.SIGKILL)
        assert process.wait(30) != 0
        assert wait_until(lambda: not any(alive(pid) for pid in ranks), 5)
    finally:
        process.kill()
        process.wait()


def test_a_rank_lost_while_idle_is_noticed():
    with serving(
        default_model(), "--tp", "2", "--max-model-len", "256", "--rank-timeout", str(RANK_TIMEOUT_S)
    ) as running:
        (child,) = children(running.process.pid)
        time.sleep(1.5)
        assert health(running.url) == 200
        os.kill(child, signal.SIGSTOP)
        assert wait_until(lambda: health(running.url) == 503, RANK_TIMEOUT_S + 4)
        assert running.process.wait(20) != 0
        assert wait_until(lambda: not alive(child), 5)


def test_generate_fails_when_a_rank_dies(tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    body = {"prompt": "Once upon a time", "max_tokens": 32, "ignore_eos": True, "return_token_ids": True}
    num_lines = 400
    source.write_text((json.dumps(body) + "\n") * num_lines)
    process = subprocess.Popen(
        [
            binary(),
            "generate",
            default_model(),
            "-i",
            source,
            "-o",
            output,
            "--tp",
            "2",
            "--max-num-seqs",
            "4",
            "--max-model-len",
            "256",
            "--rank-timeout",
            str(RANK_TIMEOUT_S),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert wait_until(lambda: output.exists() and output.stat().st_size > 0, 60)
        (child,) = children(process.pid)
        os.kill(child, signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2, errors
        assert "the engine has stopped" in errors
        answers = [json.loads(line) for line in output.read_text().splitlines()]
        assert len(answers) == num_lines
        assert "choices" in answers[0] and "error" in answers[-1]
    finally:
        process.kill()
        process.wait()


def test_idle_ranks_use_no_cpu_and_sigterm_ends_all():
    shared_before = shared_memory()
    with serving(default_model(), "--tp", "2", "--max-model-len", "256") as running:
        ranks = [running.process.pid, *children(running.process.pid)]
        httpx.post(running.url + "/v1/completions", json={"prompt": "a", "max_tokens": 4}, timeout=60)
        time.sleep(1)
        before = [cpu_ticks(pid) for pid in ranks]
        time.sleep(5)
        used = [cpu_ticks(pid) - b for pid, b in zip(ranks, before)]
        assert max(used) <= 3, used  # in hundredths of a second, of 5 s
        assert running.stop() == 0
        assert wait_until(lambda: not any(alive(pid) for pid in ranks), 5)
    assert shared_memory() <= shared_before
