"""Mixed, disconnecting and hostile clients for PAGODA_SOAK_MINUTES (default 10) on the small model, with TLS, keys and
fair shares. Caches and pools fill in the first fifth of the time; after that, nothing may grow, and at the end every
client's tokens are accounted for."""

import json
import os
import pathlib
import random
import socket
import ssl
import threading
import time

import httpx
from conftest import small_model
from secure_server import SecureServer, certificate

MINUTES = float(os.environ.get("PAGODA_SOAK_MINUTES", "10"))
MEBIBYTE = 1 << 20
USERS = 8
KV_CACHE = "16MiB"  # full after the first fifth, including kept prefixes: later growth is a leak


def resident(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def threads_of(process):
    return len(os.listdir(f"/proc/{process.pid}/task"))


class User:
    """Counts the tokens that the server reports to a user. `cut_least` and `cut_most`: the fewest and the most
    tokens that abandoned streams may have counted."""

    def __init__(self, number):
        self.name, self.key, self.dice = f"user{number}", f"key-{number}", random.Random(number)
        self.prompt = self.completion = self.requests = self.cut_least = self.cut_most = self.cut_prompt = 0
        self.failure = None

    def run(self, base, trust, until):
        with httpx.Client(
            base_url=base, verify=trust, timeout=120, headers={"Authorization": f"Bearer {self.key}"}
        ) as http:
            while time.monotonic() < until and not self.failure:
                try:
                    self.ask(http)
                except AssertionError as failure:
                    self.failure = f"{self.name}: {failure}"
                except httpx.HTTPError as failure:
                    self.failure = f"{self.name}: {failure!r}"

    def ask(self, http):
        dice = self.dice
        length, n = dice.randrange(1, 200), dice.choice([1, 1, 1, 3])
        body = {
            "prompt": [dice.randrange(3, 200) for _ in range(length)],
            "max_tokens": dice.randrange(1, 64),
            "n": n,
            "temperature": dice.choice([0, 1]),
            "ignore_eos": True,
        }
        kind = dice.random()
        if kind < 0.1:
            status = http.post("/v1/completions", content=json.dumps(body)[: dice.randrange(40)]).status_code
            assert status == 400, status
            self.requests += 1
        elif kind < 0.5:  # a stream, some left early
            leave_at = dice.randrange(1, 60) if dice.random() < 0.7 else None
            told = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "stream": True}
            seen, done = {}, False
            with http.stream("POST", "/v1/completions", json={**body, **told}) as answer:
                self.requests += 1
                if answer.status_code == 429:
                    answer.read()
                    return
                assert answer.status_code == 200, answer.status_code
                for number, line in enumerate(answer.iter_lines()):
                    done = done or line == "data: [DONE]"
                    if line.startswith("data: {"):
                        chunk = json.loads(line[6:])
                        assert "error" not in chunk, chunk
                        for choice in chunk["choices"]:
                            seen[choice["index"]] = chunk["usage"]["completion_tokens"]
                    if leave_at is not None and number >= leave_at:
                        break
            if done:
                self.prompt += length
                self.completion += sum(seen.values())
                assert sum(seen.values()) == n * body["max_tokens"], (seen, body["max_tokens"])
            else:
                self.cut_prompt += length
                self.cut_least += sum(seen.values())
                self.cut_most += n * body["max_tokens"]
        else:
            answer = http.post("/v1/completions", json=body)
            self.requests += 1
            if answer.status_code == 429:
                return
            assert answer.status_code == 200, answer.text
            usage = answer.json()["usage"]
            assert usage["prompt_tokens"] == length and usage["completion_tokens"] == n * body["max_tokens"]
            self.prompt += length
            self.completion += usage["completion_tokens"]


def hostile(port, trust, number, until):
    """A client without a key that misbehaves: broken handshakes, bytes that are not HTTP, headers and bodies that
    never end, wrong keys."""
    dice = random.Random(1000 + number)
    while time.monotonic() < until:
        try:
            plain = socket.create_connection(("127.0.0.1", port), timeout=10)
            kind = dice.randrange(5)
            if kind == 0:
                plain.sendall(dice.randbytes(dice.randrange(1, 400)))
            elif kind == 1:
                plain.sendall(
                    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(100)
                )  # half of a ClientHello
                time.sleep(dice.random() * 0.2)
            else:
                secure = trust.wrap_socket(plain, server_hostname="localhost")
                head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                if kind == 2:
                    secure.sendall(
                        head
                        + b"Authorization: Bearer key-%d\r\nContent-Length: 1000000\r\n\r\n{" % dice.randrange(USERS)
                    )
                    time.sleep(dice.random() * 0.2)
                elif kind == 3:
                    secure.sendall(head + b"Authorization: Bearer wrong\r\nContent-Length: 2\r\n\r\n{}")
                    secure.recv(1000)
                else:
                    secure.sendall(bytes(dice.choice(b"GET /\r\n:a\x00\xff 1") for _ in range(dice.randrange(1, 3000))))
                    secure.recv(1000)
                secure.close()
            plain.close()
        except OSError:
            pass
        time.sleep(0.02)


def test_nothing_grows_and_nothing_is_lost(tmp_path):
    made, key = certificate(tmp_path, "server")
    trust = ssl.create_default_context(cafile=str(made))
    keys = tmp_path / "keys.yaml"
    keys.write_text(
        "keys:\n"
        + "".join(f"- {{name: user{i}, key: key-{i}, weight: {1 + i % 3}}}\n" for i in range(USERS))
        + "- {name: ops, key: key-ops, role: admin}\n"
    )
    server = SecureServer(
        small_model(),
        "--ssl-certfile",
        str(made),
        "--ssl-keyfile",
        str(key),
        "--api-key-file",
        str(keys),
        "--scheduling-policy",
        "fair",
        "--kv-cache-memory-bytes",
        KV_CACHE,
    )
    base = f"https://127.0.0.1:{server.port}"
    admin = httpx.Client(base_url=base, verify=trust, timeout=60, headers={"Authorization": "Bearer key-ops"})
    try:
        until = time.monotonic() + 60 * MINUTES
        users = [User(number) for number in range(USERS)]
        threads = [threading.Thread(target=user.run, args=(base, trust, until)) for user in users]
        threads += [threading.Thread(target=hostile, args=(server.port, trust, number, until)) for number in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(60 * MINUTES / 5)
        early, early_threads = resident(server.process), threads_of(server.process)
        while any(thread.is_alive() for thread in threads):
            told = admin.get("/debug/memory").json()
            assert told["used"] <= told["limit"]
            time.sleep(1)
        assert not [user.failure for user in users if user.failure]

        def idle():
            told = {account["name"]: account["used"] for account in admin.get("/debug/memory").json()["accounts"]}
            return (
                told["answers"] == told["bodies"] == told["texts"] == 0
                and admin.get("/debug/kv").json()["blocks_in_use"] == 0
            )

        deadline = time.monotonic() + 60
        while not idle():
            assert time.monotonic() < deadline, admin.get("/debug/memory").text
            time.sleep(0.1)
        late = resident(server.process)
        usage = admin.get("/admin/usage").json()
        requests = sum(user.requests for user in users)
        print(
            f"{requests} requests; resident {early >> 20} MiB after a fifth, {late >> 20} MiB at the end;"
            f" {sum(user.completion for user in users)} tokens of whole answers,"
            f" {sum(user.cut_least for user in users)} seen before hanging up"
        )
        for user in users:
            account = usage[user.name]
            # A hostile client never sends a whole request with a user's key, and counts no tokens.
            assert user.prompt <= account["prompt_tokens"] <= user.prompt + user.cut_prompt, (user.name, account)
            left = account["completion_tokens"] - user.completion
            assert user.cut_least <= left <= user.cut_most, (
                user.name,
                account,
                user.completion,
                user.cut_least,
                user.cut_most,
            )
        assert late < early + 64 * MEBIBYTE
        assert threads_of(server.process) <= early_threads
        assert descriptors(server.process) < 48
    finally:
        admin.close()
        assert server.stop() == 0
