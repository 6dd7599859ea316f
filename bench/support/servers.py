"""Servers to compare: Pagoda, llama.cpp, vLLM, and others by URL. They are started, suspended while another server is
measured, and stopped. `pagoda bench serve` sends the requests."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

from support.program import binary

HERE = pathlib.Path(__file__).resolve().parents[1] / "peers"
THREADS = len(os.sched_getaffinity(0))


def printed_by(*command):
    """Returns the path that an installer prints on its last line."""
    return pathlib.Path(subprocess.check_output([str(c) for c in command], text=True).split("\n")[-2])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def process_tree(pid):
    """Returns the process with all its descendants, and the CPU seconds that they have used."""
    parents, times = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = pathlib.Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
                parents[int(name)] = int(fields[1])
                times[int(name)] = sum(int(x) for x in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    found = {pid}
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found, sum(times.get(p, 0) for p in found)


class Server:
    """One engine with one model file. Pagoda and llama.cpp start quickly, so they start for each measurement."""

    lasting = False  # True: keeps running between measurements, suspended
    name = weights = ""
    process = None
    pid = None
    port = None
    host = "127.0.0.1"
    base = ""

    def label(self):
        return f"{self.name} {self.weights}".strip()

    def command(self, streams, tokens):
        """Returns the command for `streams` concurrent sequences of at most `tokens` tokens each."""
        raise NotImplementedError

    def environment(self):
        return None

    def start(self, streams, tokens, wait=600):
        self.port = free_port()
        self.log = tempfile.TemporaryFile()
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [str(c) for c in self.command(streams, tokens)],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=self.environment(),
        )
        self.pid = self.process.pid
        return self.first_token(wait)

    def first_token(self, wait):
        """Returns the seconds from the start until the first token for a short prompt."""
        body = json.dumps({"model": self.model_name(), "prompt": "Hello", "max_tokens": 1, "temperature": 0})
        while time.monotonic() - self.begun < wait:
            if self.process and self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"{self.label()} ended at its start:\n" + self.log.read()[-2000:].decode(errors="replace"))
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
                connection.request("POST", self.base + "/v1/completions", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    return time.monotonic() - self.begun
            time.sleep(0.002)
        sys.exit(f"{self.label()} did not answer within {wait} s")

    def model_name(self):
        return "m"

    def url(self):
        return f"http://{self.host}:{self.port}{self.base}"

    def signal(self, number):
        if self.pid:
            for process in process_tree(self.pid)[0]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)

    def suspend(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def cpu_seconds(self):
        return process_tree(self.pid)[1] if self.pid else 0.0

    def stop(self):
        if self.process is None:
            return
        self.resume()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()
        self.process = self.pid = None


class Pagoda(Server):
    """Pagoda with limited KV memory, so that several suspended instances fit beside vLLM. Keys and values have 16 bits,
    as in its peers, unless `flags` say otherwise."""

    name, lasting = "Pagoda", True

    def __init__(self, weights, file, flags=()):
        self.weights, self.file, self.flags = weights, file, list(flags)
        if "--kv-cache-dtype" not in self.flags:
            self.flags += ["--kv-cache-dtype", "bfloat16"]

    def command(self, streams, tokens):
        return [
            binary(),
            "serve",
            self.file,
            "--host",
            self.host,
            "--port",
            self.port,
            "--served-model-name",
            "m",
            "--max-queue-time",
            "0",
            "--threads",
            THREADS,
            "--kv-cache-memory-bytes",
            "1GiB",
            "--disable-log-stats",
            *self.flags,
        ]


class LlamaCpp(Server):
    name = "llama.cpp"

    def __init__(self, weights, file, *instructions):
        self.weights, self.file = weights, file
        self.programs = printed_by(HERE / "llama_cpp", *instructions)

    def command(self, streams, tokens):
        # llama.cpp divides its context evenly among its slots.
        return [
            self.programs / "llama-server",
            "-m",
            self.file,
            "--host",
            self.host,
            "--port",
            self.port,
            "-t",
            THREADS,
            "-np",
            streams,
            "-c",
            streams * ((tokens + 255) // 256 * 256),
            "-ctk",
            "f16",
            "-ctv",
            "f16",
            "--alias",
            "m",
        ]


class Vllm(Server):
    """vLLM. It compiles for minutes at start, so it is started only once."""

    name, lasting = "vLLM", True

    def __init__(self, weights, folder, flags=()):
        self.weights, self.folder, self.flags = weights, folder, list(flags)
        self.program = printed_by(HERE / "vllm_cpu")

    def environment(self):
        preload = self.program.parents[1] / "preload"
        return {
            **os.environ,
            "LD_PRELOAD": preload.read_text().strip(),
            "HF_HUB_OFFLINE": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "3",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{THREADS - 1}",
        }  # by default, vLLM leaves one core to its front end

    def command(self, streams, tokens):
        return [
            self.program,
            "serve",
            self.folder,
            "--host",
            self.host,
            "--port",
            self.port,
            "--dtype",
            "bfloat16",
            "--max-model-len",
            4096,
            "--max-num-seqs",
            64,
            "--served-model-name",
            "m",
            *self.flags,
        ]


class Given(Server):
    """A given server, NAME=URL[,PID]. If the process id is known, it is suspended while others are measured."""

    lasting = True

    def __init__(self, text):
        self.name, _, rest = text.partition("=")
        address, _, pid = rest.partition(",")
        url = urllib.parse.urlsplit(address)
        if not self.name or url.scheme != "http" or not url.hostname:
            sys.exit(f"'{text}' is not NAME=http://HOST:PORT[/PREFIX][,PID]")
        self.host, self.port, self.base = url.hostname, url.port or 80, url.path.rstrip("/")
        self.pid = int(pid) if pid else None

    def start(self, streams, tokens, wait=30):
        self.begun = time.monotonic()
        self.resume()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=wait)
        connection.request("GET", self.base + "/v1/models")
        self.served = json.loads(connection.getresponse().read())["data"][0]["id"]
        self.first_token(wait)

    def model_name(self):
        return self.served


def start_load(server, arguments, seed):
    """Starts `pagoda bench serve`; finish_load() returns its figures."""
    folder = tempfile.TemporaryDirectory()
    command = [
        binary(),
        "bench",
        "serve",
        "--base-url",
        server.url(),
        "--model",
        server.model_name(),
        "--seed",
        seed,
        "--disable-tqdm",
        "--save-result",
        "--result-dir",
        folder.name,
        "--result-filename",
        "load.json",
        *arguments,
    ]
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return folder, process


def finish_load(started):
    folder, process = started
    output = process.communicate()[0]
    with folder:
        path = pathlib.Path(folder.name) / "load.json"
        if process.returncode or not path.exists():
            raise RuntimeError("bench serve: " + output[-500:])
        figures = json.loads(path.read_text())
    if figures["failed"]:
        raise RuntimeError(f"{figures['failed']} requests failed: {output[-500:]}")
    return figures


def load(server, arguments, seed):
    return finish_load(start_load(server, arguments, seed))
