"""Binding of processes to cores and memory, as reported by the kernel: --cpu-list, and one rank per NUMA node. A
machine with several nodes is simulated by a folder mounted over sysfs in a separate mount namespace."""

import os
import pathlib
import re
import subprocess

import httpx
import pytest
from conftest import Server, binary, serving, small_model

CORES = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core only")


def allowed(pid):
    """Returns the set of CPU lists on which the threads of a process may run."""
    lists = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        lists.add(re.search(r"Cpus_allowed_list:\t(\S+)", (task / "status").read_text())[1])
    return lists


def policies(pid):
    """Returns the memory policies of the mappings; None if the kernel does not report them."""
    try:
        return {line.split()[1] for line in pathlib.Path(f"/proc/{pid}/numa_maps").read_text().splitlines()}
    except OSError:
        return None


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_answer(server):
    answer = httpx.post(
        server.url + "/v1/completions", timeout=120, json={"prompt": [300] * 20, "max_tokens": 4, "ignore_eos": True}
    )
    assert answer.status_code == 200, answer.text


@two_cores
def test_every_thread_is_bound_and_the_memory_near():
    core = str(CORES[-1])
    with serving(small_model(), "--cpu-list", core) as server:
        wait_answer(server)
        assert allowed(server.process.pid) == {core}
        log = "".join(server.log)
        said = re.search(rf"cores {core}, memory (of node (\d+)|where it is first touched.*)", log)
        assert said, log
        if said[2] and policies(server.process.pid) is not None:
            assert f"prefer:{said[2]}" in policies(server.process.pid)
        assert "1 thread" in log, log


@two_cores
def test_each_rank_has_its_list():
    first, last = str(CORES[0]), str(CORES[-1])
    with serving(small_model(), "--tensor-parallel-size", "2", "--cpu-list", f"{last}|{first}") as server:
        wait_answer(server)
        (child,) = children(server.process.pid)
        assert allowed(server.process.pid) == {last} and allowed(child) == {first}
        log = "".join(server.log)
        assert f"rank 0: cores {last}, memory " in log and f"rank 1: cores {first}, memory " in log, log


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--cpu-list", "3-1"], "--cpu-list: '3-1' is not a list of cores such as 0-3,8"),
        (["--cpu-list", ""], "is not a list of cores"),
        (["--cpu-list", "0|"], "is not a list of cores"),
        (["--cpu-list", "8000"], "--cpu-list: this process may not use 8000, only "),
        (["--cpu-list", f"{CORES[0]}|{CORES[0]}"], "--cpu-list: 2 lists of cores, but 1 rank runs here"),
        (["--tp", "2", "--cpu-list", str(CORES[0])], "--cpu-list: 1 list of cores, but 2 ranks run here"),
    ],
)
def test_wrong_lists_are_refused_in_one_line(flags, said):
    done = subprocess.run(
        [binary(), "generate", small_model(), "text", *flags], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, (
        done.returncode,
        done.stderr,
    )


@pytest.fixture
def two_nodes(tmp_path):
    """A launcher whose process sees a machine with two nodes, each with half of the cores."""
    half = len(CORES) // 2
    (tmp_path / "online").write_text("0-1\n")
    for node, cores in enumerate((CORES[:half], CORES[half:])):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}/cpulist").write_text(",".join(map(str, cores)) + "\n")
    launcher = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount --bind "{tmp_path}" /sys/devices/system/node && exec "$@"',
        "sh",
    ]
    if subprocess.run([*launcher, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    return launcher


@two_cores
@pytest.mark.parametrize("flags, bound", [([], True), (["--cpu-list", "none"], False)])
def test_one_rank_a_node(two_nodes, flags, bound):
    half = len(CORES) // 2
    server = Server(small_model(), "--tensor-parallel-size", "2", *flags, launcher=two_nodes)
    try:
        wait_answer(server)
        (child,) = children(server.process.pid)
        one, other = (
            {
                int(c)
                for text in allowed(pid)
                for part in text.split(",")
                for c in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
            }
            for pid in (server.process.pid, child)
        )
        log = "".join(server.log)
        if not bound:
            assert one == other == set(CORES) and "cores" not in re.findall(r"rank \d: (\w+)", log)
            return
        assert one == set(CORES[:half]) and other == set(CORES[half:])
        assert re.search(r"rank 0: cores \S+, memory ", log), log
        # The second node does not exist: the kernel's refusal is logged, and the rank still runs.
        assert re.search(
            r"rank 1: cores \S+, memory (of node 1|where it is first touched, for the kernel does not let it choose"
            r" node 1)",
            log,
        ), log
    finally:
        server.stop()
