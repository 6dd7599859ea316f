"""Ranks started by mpirun: on one machine, after the loss of a rank, and in two network namespaces that simulate two
machines."""

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest
from conftest import binary, default_model, serving
from test_tensor_parallel import Stream, alive, generate, health, wait_until

ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
MPIRUN = ["mpirun", "--oversubscribe", "-n", "2"]
RANK_TIMEOUT_S = 2


NO_MPI = "no mpirun, or built without MPI: script/setup --test, then a fresh build"


def has_mpi():
    return bool(shutil.which("mpirun")) and (binary().parent / "libpagoda_mpi.so").exists()


@pytest.fixture(autouse=True)
def mpi():
    if not has_mpi():
        pytest.skip(NO_MPI)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("whole"))


def descendants(pid):
    """Returns {pid: command line} of all descendants."""
    parents, commands = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as command:
                    parents[int(entry)] = int(stat.read().rsplit(")", 1)[1].split()[1])
                    commands[int(entry)] = command.read().split("\0")
            except OSError:
                pass
    found, last = {}, {pid}
    while last:
        last = {child for child, parent in parents.items() if parent in last}
        found |= {child: commands[child] for child in last}
    return found


def rank_processes(pid):
    """Returns the pids of the program's descendant processes, by rank."""
    ranks = {}
    for child, command in descendants(pid).items():
        if command[0] == str(binary()):
            with open(f"/proc/{child}/environ") as environment:
                variables = dict(entry.split("=", 1) for entry in environment.read().split("\0") if "=" in entry)
            ranks[int(variables["OMPI_COMM_WORLD_RANK"])] = child
    return [ranks[rank] for rank in sorted(ranks)]


def test_the_answers_are_those_of_one_process(tmp_path, whole):
    assert generate(tmp_path, launcher=MPIRUN, env=ENV) == whole
    assert generate(tmp_path, "--kv-manager", "virtual", launcher=MPIRUN, env=ENV) == whole


def test_ranks_that_sum_answer_too(tmp_path, whole):
    """The last bits differ, so whether texts are equal depends on the model; only their number is checked."""
    assert len(generate(tmp_path, "--no-deterministic-allreduce", launcher=MPIRUN, env=ENV)) == len(whole)


def test_what_cannot_be_split_is_said_once():
    done = subprocess.run(
        [*MPIRUN[:-1], "16", binary(), "serve", default_model(), "--port", "0"],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr.count("over 16 ranks") == 1


def test_the_flag_must_agree_with_mpirun():
    done = subprocess.run(
        [*MPIRUN, binary(), "serve", default_model(), "--tp", "4"], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "mpirun has started 2 ranks" in done.stderr


def test_without_its_plugin_the_program_says_what_is_missing(tmp_path):
    shutil.copy2(binary(), tmp_path / "pagoda")
    done = subprocess.run(
        [*MPIRUN, tmp_path / "pagoda", "serve", default_model()], env=ENV, capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    assert "MPI cannot be used" in done.stderr and "libpagoda_mpi.so" in done.stderr


# --enable-recovery: mpirun leaves it to the ranks what to do about a death; its own exit code is then always 0.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_rank_ends_all(rank, number):
    shared_before = set(os.listdir("/dev/shm"))
    recovery = ["--enable-recovery"] if number == signal.SIGKILL else []
    with serving(
        default_model(),
        "--max-model-len",
        "2048",
        "--rank-timeout",
        str(RANK_TIMEOUT_S),
        "--kv-cache-memory-bytes",
        "64MiB",
        launcher=[*MPIRUN, *recovery],
        env=ENV,
    ) as running:
        ranks = rank_processes(running.process.pid)
        assert len(ranks) == 2
        streams = [Stream(running.url) for _ in range(2)]
        assert wait_until(lambda: all(len(s.events) > 3 for s in streams), 60)
        time.sleep(random.Random(7 * rank + number).random())
        os.kill(ranks[rank], number)
        if rank != 0:
            assert wait_until(lambda: health(running.url) == 503, RANK_TIMEOUT_S + 4)
            for stream in streams:
                stream.join(10)
                assert not stream.is_alive() and stream.error is None
                assert any('"error"' in event for event in stream.events[-2:]), stream.events[-2:]
        code = running.process.wait(40)
        assert code != 0 or recovery
        for stream in streams:
            stream.join(10)
            assert not stream.is_alive()
        assert wait_until(lambda: not any(alive(pid) for pid in ranks), 5)
    assert wait_until(lambda: set(os.listdir("/dev/shm")) <= shared_before, 10)


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture
def two_machines(tmp_path):
    """Names of two linked network namespaces, and an mpirun in the first that starts a rank in each."""
    a, b = f"pga{os.getpid()}", f"pgb{os.getpid()}"
    try:
        try:
            run("ip", "netns", "add", a)
            run("ip", "netns", "add", b)
            run("ip", "link", "add", a, "type", "veth", "peer", "name", b)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces cannot be made here: {getattr(error, 'stderr', error)}")
        for name, address in ((a, "10.77.0.1"), (b, "10.77.0.2")):
            run("ip", "link", "set", name, "netns", name)
            run("ip", "-n", name, "addr", "add", address + "/24", "dev", name)
            run("ip", "-n", name, "link", "set", name, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        agent = tmp_path / "agent"  # in place of ssh
        agent.write_text(f"""#!/bin/bash
host=$1; shift
case $host in 10.77.0.2) exec ip netns exec {b} unshare --uts bash -c "hostname {b}; $*";; *) exec bash -c "$*";; esac
""")
        agent.chmod(0o755)
        hosts = tmp_path / "hosts"
        hosts.write_text("10.77.0.1 slots=1\n10.77.0.2 slots=1\n")
        yield (
            a,
            b,
            [
                "ip",
                "netns",
                "exec",
                a,
                "mpirun",
                "--hostfile",
                str(hosts),
                "-n",
                "2",
                "--map-by",
                "node",
                "--bind-to",
                "none",
                "--mca",
                "plm_rsh_agent",
                str(agent),
                "--mca",
                "btl_tcp_if_include",
                "10.77.0.0/24",
                "--mca",
                "oob_tcp_if_include",
                "10.77.0.0/24",
            ],
        )
    finally:
        for name in (a, b):  # after a broken link, mpirun's daemon keeps waiting
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def in_namespace(name, *curl):
    return subprocess.Popen(
        ["ip", "netns", "exec", name, "curl", "-sS", "--max-time", "60", *curl],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_two_network_namespaces(tmp_path, whole, two_machines):
    assert generate(tmp_path, launcher=two_machines[2], env=ENV) == whole


def test_only_rank_zero_needs_the_address(two_machines):
    process = subprocess.Popen(
        [
            *two_machines[2],
            binary(),
            "serve",
            default_model(),
            "--host",
            "10.77.0.1",
            "--port",
            "0",
            "--max-model-len",
            "256",
            "--kv-cache-memory-bytes",
            "64MiB",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    deadline = threading.Timer(120, process.kill)
    deadline.start()
    try:
        log = []
        for line in process.stderr:
            log.append(line)
            if "Application startup complete." in line:
                break
        assert log and "Application startup complete." in log[-1], "".join(log)
    finally:
        deadline.cancel()
        process.kill()
        process.wait()


def test_a_broken_link_is_told_to_clients(two_machines):
    a, b, launcher = two_machines
    with serving(
        default_model(),
        "--max-model-len",
        "2048",
        "--rank-timeout",
        str(RANK_TIMEOUT_S),
        "--kv-cache-memory-bytes",
        "64MiB",
        launcher=launcher,
        env=ENV,
    ) as running:
        ranks = rank_processes(running.process.pid)
        there = subprocess.run(["ip", "netns", "pids", b], capture_output=True, text=True).stdout.split()
        assert str(ranks[1]) in there and str(ranks[0]) not in there
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True, "stream": True})
        stream = in_namespace(
            a, "-N", running.url + "/v1/completions", "-d", body, "-H", "Content-Type: application/json"
        )
        assert any(
            "data: " in line for line in iter(stream.stdout.readline, "")
        )  # after the comment that opens the stream
        run("ip", "-n", a, "link", "set", a, "down")
        broken = time.monotonic()
        code = ""
        while code != "503" and time.monotonic() < broken + RANK_TIMEOUT_S + 4:
            code = in_namespace(a, "-o", "/dev/null", "-w", "%{http_code}", running.url + "/health").communicate()[0]
            time.sleep(0.1)
        assert code == "503"
        assert '"error"' in stream.communicate()[0]
        # Both ranks end by themselves; mpirun waits for its daemon on the other machine, which it cannot reach.
        assert wait_until(lambda: not any(alive(pid) for pid in ranks), 30)
        running.process.kill()
