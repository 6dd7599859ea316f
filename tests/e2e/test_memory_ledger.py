"""The memory ledger: planned memory is available, and excess demand is refused, also with little memory."""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time

import httpx
from conftest import default_model, serving

LIMIT = 600 << 20


@contextlib.contextmanager
def limited(limit):
    """Returns (launcher, out_of_memory()). The launcher limits a program to `limit` bytes: by a cgroup, or by a limit
    on address space if no cgroup can be created."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    name = f"pagoda-test-{os.getpid()}-{time.monotonic_ns()}"
    group = None
    try:
        if (v1 / "memory.limit_in_bytes").exists():
            (v1 / name).mkdir()
            group = v1 / name
            (group / "memory.limit_in_bytes").write_text(str(limit))
        elif "memory" in (v2 / "cgroup.subtree_control").read_text():
            (v2 / name).mkdir()
            group = v2 / name
            (group / "memory.max").write_text(str(limit))
            with contextlib.suppress(OSError):
                (group / "memory.swap.max").write_text("0")
    except OSError:
        if group is not None:
            group.rmdir()
        group = None
    if group is None:
        yield ("prlimit", f"--as={limit}", "--"), lambda: False
        return

    def out_of_memory():
        for file in ("memory.oom_control", "memory.events"):
            if (group / file).exists():
                counts = dict(line.split() for line in (group / file).read_text().splitlines())
                return int(counts.get("oom_kill", 0)) > 0
        return False

    try:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"), out_of_memory
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def ledger(server):
    return httpx.get(server.url + "/debug/memory", timeout=30).json()


def check(told):
    assert sum(account["used"] for account in told["accounts"]) == told["used"] <= told["limit"]
    assert sum(max(account["used"], account["promised"]) for account in told["accounts"]) <= told["limit"]
    assert all(account["used"] <= account["limit"] for account in told["accounts"])


def send(port, body, path="/v1/completions"):
    """Returns a client that does not read. status_of() reads its status later."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.settimeout(120)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length:"
        f" {len(body)}\r\n\r\n"
    )
    with contextlib.suppress(OSError):
        client.sendall(head.encode() + body)
    return client


def status_of(client):
    with contextlib.suppress(OSError):
        if head := client.recv(64, socket.MSG_PEEK):
            return int(head[9:12])
    return 0


def test_the_ledger_adds_up(server):
    told = ledger(server)
    check(told)
    names = {account["name"] for account in told["accounts"]}
    assert {"weights", "KV cache", "activations", "program", "answers", "bodies", "texts", "connections"} <= names
    used = {account["name"]: account["used"] for account in told["accounts"]}
    assert used["weights"] > 50 << 20 and used["KV cache"] > 0 and used["connections"] > 0
    unfinished = b'{"prompt":"' + b"a" * (1 << 20)
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2000000\r\n\r\n" + unfinished
    )
    deadline = time.monotonic() + 30
    while {a["name"]: a["used"] for a in ledger(server)["accounts"]}["bodies"] < 1 << 20:
        assert time.monotonic() < deadline
    client.close()
    while {a["name"]: a["used"] for a in ledger(server)["accounts"]}["bodies"] > 0:
        assert time.monotonic() < deadline


def test_attacks_in_600_MiB_end_with_refusals():
    # Regression: the KV cache was planned from the machine's memory, and the kernel killed the server.
    with limited(LIMIT) as (launcher, out_of_memory), serving(default_model(), launcher=launcher) as server:
        told = ledger(server)
        assert told["limit"] <= LIMIT
        stop = threading.Event()
        seen = []

        def look():
            while not stop.is_set():
                seen.append(ledger(server))
                assert httpx.get(server.url + "/health", timeout=30).status_code == 200
                time.sleep(0.05)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            statuses = []
            # Answers of hundreds of megabytes.
            answers = json.dumps({"prompt": [[7] * 100] * 900, "max_tokens": 1, "prompt_logprobs": 20}).encode()
            smaller = json.dumps({"prompt": [[7] * 100] * 60, "max_tokens": 1, "prompt_logprobs": 20}).encode()
            clients = [send(server.port, answers) for _ in range(4)] + [send(server.port, smaller) for _ in range(4)]
            statuses += [status_of(client) for client in clients]
            # Bodies that never end, with many values, and with long strings.
            clients += [send(server.port, b'{"prompt":"' + b"a" * (16 << 20)) for _ in range(8)]
            bombs = [
                send(server.port, body, path)
                for path in ("/v1/completions", "/tokenize")
                for body in [
                    b'{"prompt":[' + b"1," * 4_000_000 + b"1]}",
                    b'{"prompt":[' + b"[]," * 1_000_000 + b"[]]}",
                    b'{"prompt":"' + b"a b" * 1_000_000 + b'"}',
                ]
                * 2
            ]
            statuses += [status_of(client) for client in bombs]
            for client in clients + bombs:
                client.close()
            assert 429 in statuses, statuses
            # More requests than the KV cache can hold.
            with httpx.Client(base_url=server.url, timeout=600, limits=httpx.Limits(max_connections=None)) as http:
                done = []

                def fill(number):
                    body = {"prompt": [1 + number] + [7] * 900, "max_tokens": 16, "ignore_eos": True}
                    done.append(http.post("/v1/completions", json=body).status_code)

                threads = [threading.Thread(target=fill, args=(number,)) for number in range(24)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert 200 in done and set(done) <= {200, 429}, done
        finally:
            stop.set()
            watcher.join()
        for told in seen:
            check(told)
        assert len(seen) > 3
        print(
            f"resident at most {max(told['resident'] for told in seen) >> 20} MiB, used by the ledger at most"
            f" {max(told['used'] for told in seen) >> 20} of {told['limit'] >> 20} MiB; statuses"
            f" {sorted(set(statuses))}, {sorted(set(done))}"
        )
        assert not out_of_memory() and server.process.poll() is None
        assert (
            httpx.post(server.url + "/v1/completions", json={"prompt": "Hi", "max_tokens": 4}, timeout=60).status_code
            == 200
        )
