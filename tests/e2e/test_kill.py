"""kill -9 at any moment: a restarted server needs no cleanup and gives the same answers."""

import os
import pathlib
import random
import signal
import ssl
import subprocess
import threading
import time

import httpx
from conftest import binary, small_model
from secure_server import SecureServer, certificate

KILLS = int(os.environ.get("PAGODA_KILLS", "8"))  # 100: PAGODA_KILLS=100 script/test --only e2e test_kill.py
KEYS = (
    "keys:\n"
    + "".join(f"- {{name: user{i}, key: key-{i}}}\n" for i in range(4))
    + "- {name: ops, key: key-ops, role: admin}\n"
)
BODY = {"prompt": "Once upon a time", "max_tokens": 64, "temperature": 0, "ignore_eos": True}


def shared_memory():
    return {path.name for path in pathlib.Path("/dev/shm").glob("*pagoda*")}


def client(base, trust, number, stop):
    """Sends requests of every kind until the server has ended."""
    dice = random.Random(number)
    with httpx.Client(
        base_url=base, verify=trust, headers={"Authorization": f"Bearer key-{number % 4}"}, timeout=30
    ) as http:
        while not stop.is_set():
            body = {**BODY, "max_tokens": dice.randrange(1, 200), "prompt": "word " * dice.randrange(1, 300)}
            try:
                if dice.random() < 0.5:
                    http.post("/v1/completions", json=body)
                else:
                    with http.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
                        for _ in answer.iter_lines():
                            pass
            except (httpx.HTTPError, OSError):
                time.sleep(0.01)


def test_whatever_it_was_doing(tmp_path):
    made, key = certificate(tmp_path, "server")
    trust = ssl.create_default_context(cafile=str(made))
    keys = tmp_path / "keys.yaml"
    keys.write_text(KEYS)
    flags = (
        "--ssl-certfile",
        str(made),
        "--ssl-keyfile",
        str(key),
        "--api-key-file",
        str(keys),
        "--admin-socket",
        str(tmp_path / "admin.sock"),
        "--poison-record",
        str(tmp_path / "poison"),
    )
    before, files = shared_memory(), None
    dice, ready, expected = random.Random(38), [], None
    for kill in range(KILLS):
        begin = time.monotonic()
        server = SecureServer(small_model(), *flags)
        ready.append(time.monotonic() - begin)
        base = f"https://127.0.0.1:{server.port}"
        try:
            with httpx.Client(
                base_url=base, verify=trust, headers={"Authorization": "Bearer key-0"}, timeout=60
            ) as http:
                answer = http.post("/v1/completions", json=BODY)
            assert answer.status_code == 200, answer.text
            expected = expected or answer.json()["choices"][0]["text"]
            assert answer.json()["choices"][0]["text"] == expected
            left = sorted(os.listdir(tmp_path))
            files = files or left
            assert left == files, "files pile up"
            stop = threading.Event()
            threads = [threading.Thread(target=client, args=(base, trust, number, stop)) for number in range(6)]
            for thread in threads:
                thread.start()
            time.sleep(dice.expovariate(1 / 0.2))  # while it loads, prefills or decodes
            if kill % 4 == 3:  # or while it drains
                server.process.send_signal(signal.SIGTERM)
                time.sleep(dice.random() * 0.2)
            server.process.kill()
            server.process.wait()
            stop.set()
            for thread in threads:
                thread.join()
        finally:
            server.stop()
    assert shared_memory() <= before
    print(f"{KILLS} kills; ready again after {sorted(ready)[len(ready) // 2]:.2f} s, at most {max(ready):.2f} s")


def test_while_it_starts(tmp_path):
    made, key = certificate(tmp_path, "server")
    dice = random.Random(7)
    flags = ("--ssl-certfile", str(made), "--ssl-keyfile", str(key), "--uds", str(tmp_path / "main.sock"))
    server = SecureServer(small_model(), *flags)
    server.process.kill()
    server.process.wait()
    for _ in range(max(KILLS // 4, 2)):
        process = subprocess.Popen(
            [binary(), "serve", str(small_model()), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(dice.random() * 0.2)
        process.kill()
        process.wait()
    server = SecureServer(small_model(), *flags)
    try:
        with httpx.Client(
            transport=httpx.HTTPTransport(
                uds=str(tmp_path / "main.sock"), verify=ssl.create_default_context(cafile=str(made))
            )
        ) as http:
            assert http.get("https://localhost/health").status_code == 200
    finally:
        server.stop()
