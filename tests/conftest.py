"""Fixtures that start the program under test and create clients."""

import atexit
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import httpx
import openai
import pytest
from openapi import Validator
from private_cache import private_cache
from small_model import write_small_model

ROOT = pathlib.Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 120  # sanitizer builds are slow
# Shell scripts start background jobs with SIGINT ignored, which the programs under test would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def own_cache():
    """A cache folder for weights that the tests' servers pack, deleted after the tests; models stay where they are."""
    home = pathlib.Path(os.environ.get("PAGODA_CACHE", pathlib.Path.home() / ".cache/pagoda"))
    os.environ["PAGODA_CACHE"] = str(private_cache(home))


own_cache()


def shared_data():
    for path in (os.environ.get("PAGODA_SHARED_DATA"), ROOT.parent / "shared/data", ROOT.parents[1] / "shared/data"):
        if path and pathlib.Path(path).is_dir():
            return pathlib.Path(path)
    return None


def binary():
    path = pathlib.Path(os.environ.get("PAGODA_BINARY", ROOT / "build/pagoda"))
    if not path.exists():
        pytest.skip(f"no program at {path}: build it, or set PAGODA_BINARY")
    return path


def default_model():
    home = pathlib.Path(os.environ.get("PAGODA_CACHE", pathlib.Path.home() / ".cache/pagoda"))
    path = pathlib.Path(os.environ.get("PAGODA_MODEL", home / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    if not path.exists():
        pytest.skip("the default model is not in the cache: run script/model")
    return path


@functools.cache
def small_model():
    """A model so small that load tests measure the server."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pagoda-e2e-")) / "small.gguf"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    write_small_model(path)
    return path


class Server:
    """A `pagoda serve` process. Its log is read continuously, so that it never blocks on a full pipe."""

    def __init__(self, model, *flags, launcher=(), env=None):
        self.log = []
        self.process = subprocess.Popen(
            [*launcher, binary(), "serve", str(model), "--host", "127.0.0.1", "--port", "0", *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=env,
        )
        self._port = None
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._known.wait(START_TIMEOUT_S) or self._port is None:
            self.process.kill()
            pytest.fail("the server did not start:\n" + "".join(self.log[-30:]))
        self.url = f"http://127.0.0.1:{self._port}"
        self.port = self._port

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self._port = int(found[1])
            if "Application startup complete." in line:
                self._known.set()
        self._known.set()

    def metrics(self):
        """Returns {'name{labels}': value} of every sample."""
        samples = {}
        for line in httpx.get(self.url + "/metrics").text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def metric(self, name):
        """Returns the sum of a metric over all label sets, by its name without prefix."""
        found = [v for k, v in self.metrics().items() if re.match(rf"(\w+:)?{name}(\{{|$)", k)]
        assert found, f"no metric {name}"
        return sum(found)

    def wait_until_idle(self, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.metric("num_requests_running") == 0 and self.metric("num_requests_waiting") == 0:
                return True
            time.sleep(0.05)
        return False

    def stop(self, number=signal.SIGTERM, timeout_s=60):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._reader.join(5)


@contextlib.contextmanager
def serving(model, *flags, **how):
    server = Server(model, *flags, **how)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def server():
    """A server with the default model, shared by all tests that do not change its state."""
    with serving(default_model(), "--max-model-len", "2048", "--served-model-name", "smol") as running:
        yield running


@pytest.fixture(scope="session")
def small_server():
    with serving(small_model(), "--served-model-name", "small") as running:
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as made:
        yield made


@pytest.fixture(scope="session")
def valid():
    """valid(name, object) checks that the object conforms to that schema of OpenAI's OpenAPI file."""
    data = shared_data()
    if data is None:
        pytest.skip("OpenAI's OpenAPI file is not here (PAGODA_SHARED_DATA): answers are not validated")
    return Validator(data / "conformance/openai_openapi_core.json")
