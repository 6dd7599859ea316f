"""A running `pagoda serve` for the benches, used over loopback with only the standard library."""

import asyncio
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary():
    path = pathlib.Path(os.environ.get("PAGODA_BINARY", ROOT / "build/pagoda"))
    if not path.exists():
        sys.exit(f"no program at {path}: build it, or set PAGODA_BINARY")
    return path


def default_model():
    home = pathlib.Path(os.environ.get("PAGODA_CACHE", pathlib.Path.home() / ".cache/pagoda"))
    return pathlib.Path(os.environ.get("PAGODA_MODEL", home / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))


def shared_data():
    for folder in (os.environ.get("PAGODA_SHARED_DATA"), ROOT.parent / "shared/data", ROOT.parents[1] / "shared/data"):
        path = pathlib.Path(folder or "/nonexistent")
        if (path / "workloads").exists():
            return path
    sys.exit("no traces: set PAGODA_SHARED_DATA")


def workload(name):
    """Returns the rows of a trace of the shared data."""
    with open(shared_data() / "workloads" / name) as lines:
        return [json.loads(line) for line in lines]


def busy_ticks():
    """Returns the CPU seconds used by the whole machine, without idle time."""
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Program:
    """One server process. `others()` returns the share of the machine used by other processes meanwhile."""

    def __init__(self, *flags, model=None):
        self.log = []
        command = [
            str(binary()),
            "serve",
            str(model or default_model()),
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--max-queue-time",
            "0",
            "--disable-log-stats",
            *[str(flag) for flag in flags],
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self.port, known = None, threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                    self.port = int(found[1])
                if "Application startup complete." in line:
                    known.set()
            known.set()

        threading.Thread(target=read, daemon=True).start()
        if not known.wait(120) or self.port is None:
            self.process.kill()
            sys.exit("the server did not start:\n" + "".join(self.log[-10:]))
        self.restart_clock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def restart_clock(self):
        self._begin = (busy_ticks(), self._own(), time.monotonic())

    def _own(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(os.times()[:4])

    def others(self):
        busy, own, begin = self._begin
        capacity = (time.monotonic() - begin) * os.cpu_count()
        return max(0.0, busy_ticks() - busy - (self._own() - own)) / capacity

    def metric(self, name):
        """Returns the sum of a metric over its labels."""
        lines = self.ask("GET", "/metrics", raw=True).splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match(re.escape(name) + r"[ {]", line))

    def ask(self, method, path, body=None, or_busy=False, raw=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(
            method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status == 503 and or_busy:
            return None
        if answer.status != 200:
            sys.exit(f"{method} {path}: {answer.status} {text[:500]}")
        return text.decode() if raw else json.loads(text)

    def complete(self, **body):
        return self.ask("POST", "/v1/completions", body)

    def kv(self):
        for _ in range(20):  # an engine in a long step answers 503
            found = self.ask("GET", "/debug/kv", or_busy=True)
            if found:
                return found
        sys.exit("the engine is stuck in one step")

    def totals(self):
        return self.kv()["totals"]

    async def complete_async(self, body):
        """Returns (seconds, HTTP status, body) of one completion. Closes the connection if cancelled."""
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            data = json.dumps(body).encode()
            writer.write(
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data
            )
            await writer.drain()
            answer = await reader.read()
        finally:
            writer.close()
        head, _, text = answer.partition(b"\r\n\r\n")
        return time.monotonic() - begin, int(head.split()[1]), text


def account(before, after):
    """Returns the differences between two totals as the shares of all slots (Fig. 2), the waste among allocated slots,
    and the saved blocks (Fig. 15)."""
    slots = {name: after["slots"][name] - before["slots"][name] for name in after["slots"]}
    total = max(1, slots["total"])
    wasted = slots["reserved"] + slots["internal_fragmentation"] + slots["external_fragmentation"]
    alone = after["blocks_without_sharing"] - before["blocks_without_sharing"]
    used = after["blocks_in_use"] - before["blocks_in_use"]
    return {
        **{name: slots[name] / total for name in slots if name != "total"},
        "waste": wasted / max(1, wasted + slots["token"]),
        "saved": (alone - used) / alone if alone else 0.0,
        "copied": after["blocks_copied"] - before["blocks_copied"],
        "preemptions": after["preemptions"] - before["preemptions"],
        "steps": after["steps"] - before["steps"],
        "running": (after["running_requests"] - before["running_requests"]) / max(1, after["steps"] - before["steps"]),
    }


def write_section(page, name, text):
    """Replaces the text between the markers of `name` in docs/`page`."""
    path = ROOT / "docs" / page
    content = path.read_text()
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    if begin not in content or end not in content:
        sys.exit(f"{path} has no section {name}")
    head, rest = content.split(begin)
    _, tail = rest.split(end)
    path.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}")
    print(f"written into docs/{page}", file=sys.stderr)
