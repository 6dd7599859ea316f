"""Mixed load for PAGODA_SOAK_MINUTES (default 10) on the small model. The first fifth fills caches and pools; after
it nothing may grow."""
import json
import os
import pathlib
import random
import threading
import time

import httpx

from conftest import serving, small_model

MINUTES = float(os.environ.get("PAGODA_SOAK_MINUTES", "10"))
MEBIBYTE = 1 << 20


def resident(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def client(url, seed, until, failures):
    rng = random.Random(seed)
    with httpx.Client(base_url=url, timeout=60) as http:
        while time.monotonic() < until:
            body = {"model": "small", "prompt": "word " * rng.randrange(1, 200), "max_tokens": rng.randrange(1, 64),
                    "n": rng.choice([1, 1, 1, 3]), "temperature": rng.choice([0, 1]), "ignore_eos": True}
            try:
                if rng.random() < 0.4:  # reads some of a stream, then hangs up
                    with http.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
                        for number, _ in enumerate(answer.iter_lines()):
                            if number > rng.randrange(40):
                                break
                elif rng.random() < 0.1:
                    status = http.post("/v1/completions", content=json.dumps(body)[:rng.randrange(40)]).status_code
                    assert status == 400, status
                else:
                    answer = http.post("/v1/completions", json=body)
                    assert answer.status_code in (200, 429), answer.text
            except AssertionError as failure:
                failures.append(str(failure))
                return


def test_nothing_grows():
    with serving(small_model(), "--served-model-name", "small") as server:
        until = time.monotonic() + 60 * MINUTES
        failures = []
        threads = [threading.Thread(target=client, args=(server.url, seed, until, failures)) for seed in range(12)]
        for thread in threads:
            thread.start()
        time.sleep(60 * MINUTES / 5)
        early = resident(server.process)
        for thread in threads:
            thread.join()
        assert not failures
        assert server.wait_until_idle()
        assert resident(server.process) < early + 64 * MEBIBYTE
        assert descriptors(server.process) < 40
        debug = httpx.get(server.url + "/debug/kv").json()
        assert debug.get("blocks_in_use", 0) == 0, debug.keys()
