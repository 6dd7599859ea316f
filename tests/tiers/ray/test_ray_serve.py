"""deploy/ray/serve.yaml on one machine: two replicas, one killed under load; scaled by hand and by load."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
import yaml
from conftest import ROOT, binary, small_model
from wheel_package import package, unpacked_wheel


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    return unpacked_wheel(package("wheel", "PAGODA_WHEEL", folder), folder)


def config_file(folder, port, replicas):
    """Writes the published file with a small model. `replicas` is a number, or "auto": one or two depending on the
    load, without the file's delays of minutes."""
    config = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())
    config["http_options"]["port"] = port
    (application,) = config["applications"]
    application["args"] = {
        "model": str(small_model()),
        "program": str(binary()),
        "flags": {"kv_cache_memory_bytes": "8MiB", "threads": 1, "served-model-name": "small"},
    }
    (deployment,) = application["deployments"]
    if replicas == "auto":
        deployment["autoscaling_config"] |= {
            "max_replicas": 2,
            "target_ongoing_requests": 2,
            "upscale_delay_s": 1,
            "downscale_delay_s": 5,
            "metrics_interval_s": 1,
            "look_back_period_s": 3,
        }
    else:
        del deployment["autoscaling_config"]
        deployment["num_replicas"] = replicas
    deployment["ray_actor_options"] = {"num_cpus": 0.1}
    path = folder / "serve.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


class Ray:
    def __init__(self, site, folder):
        self.folder, self.port = folder, free_port()
        self.env = {
            **os.environ,
            "PYTHONPATH": str(site),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": "/tmp",
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self.url = f"http://127.0.0.1:{self.port}"
        self.dashboard = f"http://127.0.0.1:{(dashboard := free_port())}"
        # In the foreground, so that Ray ends with this process and no other Ray is affected.
        self.log = open(folder / "ray.log", "wb")
        self.head = subprocess.Popen(
            [
                "ray",
                "start",
                "--head",
                "--block",
                "--num-cpus=2",
                "--include-dashboard=true",
                f"--dashboard-port={dashboard}",
                "--dashboard-host=127.0.0.1",
                f"--port={free_port()}",
                "--object-store-memory=100000000",
                "--disable-usage-stats",
            ],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        self.until(self.dashboard_answers, "Ray's dashboard")

    def dashboard_answers(self):
        assert self.head.poll() is None, (self.folder / "ray.log").read_text()[-2000:]
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.dashboard + "/api/serve/applications/", timeout=5).status_code == 200
        return False

    def takes(self, config):
        """Returns false if the configuration is refused, as while Serve starts."""
        done = subprocess.run(
            ["serve", "deploy", config, "--address", self.dashboard],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.said = done.stdout[-1000:] + done.stderr[-2000:]
        return done.returncode == 0

    def deploy(self, replicas):
        config = config_file(self.folder, self.port, replicas)
        self.until(lambda: self.takes(config), lambda: self.said)
        wanted = 1 if replicas == "auto" else replicas
        self.until(lambda: len(self.replicas()) == wanted and self.answers(), f"{wanted} replicas")

    def replicas(self):
        """Returns the process ids of the servers."""
        listed = subprocess.run(["pgrep", "-f", f"serve {small_model()} --uds"], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def answers(self):
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.url + "/v1/models", timeout=5).status_code == 200
        return False

    @staticmethod
    def until(condition, what, timeout_s=300):  # a slow, loaded machine
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, what() if callable(what) else what
            time.sleep(0.2)

    def stop(self):
        self.head.terminate()
        try:
            self.head.wait(60)
        except subprocess.TimeoutExpired:
            self.head.kill()
            self.head.wait()
        self.log.close()


@pytest.fixture(scope="module")
def ray(site, tmp_path_factory):
    running = Ray(site, tmp_path_factory.mktemp("ray"))
    try:
        yield running
    finally:
        running.stop()


BODY = {"model": "small", "prompt": "once upon a time", "max_tokens": 60, "temperature": 0, "ignore_eos": True}


def streamed(url, **fields):
    """Returns the text that the reader of a stream received, and how the stream ended."""
    try:
        with httpx.stream(
            "POST", url + "/v1/completions", json={**BODY, "stream": True, **fields}, timeout=60
        ) as answer:
            if answer.status_code != 200:
                return "", "error"
            text, end = "", "cut off"
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    end = "done"
                elif line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    if "error" in event:
                        return text, "error"
                    text += event["choices"][0]["text"]
            return text, end
    except httpx.HTTPError:
        return "", "cut off"


def test_replicas_come_are_killed_and_come_again(ray):
    ray.deploy(2)
    whole = httpx.post(ray.url + "/v1/completions", json=BODY, timeout=60).json()["choices"][0]["text"]
    assert streamed(ray.url) == (whole, "done")
    refused = httpx.post(ray.url + "/v1/completions", json={**BODY, "max_tokens": "x"}, timeout=60)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "max_tokens"
    first, second = ray.replicas()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(streamed, ray.url) for _ in range(120)]
        while sum(future.done() for future in asked) < 20:
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        answers = [future.result(300) for future in asked]
    # Complete, or with an error: never truncated but reported as done.
    assert all(text == whole for text, end in answers if end == "done")
    assert all(end in ("done", "error", "cut off") for _, end in answers)
    done = sum(end == "done" for _, end in answers)
    print(
        f"{done} of {len(answers)} whole, {sum(end == 'error' for _, end in answers)} with an error event or status, "
        f"{sum(end == 'cut off' for _, end in answers)} cut off"
    )
    assert done >= 100  # 8 at once; some were on the replica that died
    ray.until(
        lambda: len(ray.replicas()) == 2 and first not in ray.replicas() and ray.answers(), "another in its place"
    )
    assert streamed(ray.url) == (whole, "done")


def test_scaled_to_one_nothing_is_lost(ray):
    ray.deploy(2)
    whole = streamed(ray.url)[0]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        stop = threading.Event()

        def ask_on():
            seen = []
            while not stop.is_set():
                seen.append(streamed(ray.url))
            return seen

        asked = [pool.submit(ask_on) for _ in range(4)]
        ray.deploy(1)
        stop.set()
        answers = [answer for future in asked for answer in future.result(300)]
    assert answers and all(answer == (whole, "done") for answer in answers), [a for a in answers if a[1] != "done"][:3]
    ray.deploy(2)
    assert streamed(ray.url) == (whole, "done")


def test_scaled_by_load_from_one_to_two_and_back(ray):
    ray.deploy("auto")
    whole = streamed(ray.url)[0]
    stop = threading.Event()

    def ask_on():
        seen = []
        while not stop.is_set():
            seen.append(streamed(ray.url, max_tokens=300))
        return seen

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask_on) for _ in range(12)]
        try:
            ray.until(lambda: len(ray.replicas()) == 2, "a second replica for the load")
            pids = set(ray.replicas())
        finally:
            stop.set()
        answers = [answer for future in asked for answer in future.result(300)]
    assert answers and all(end == "done" and text.startswith(whole) for text, end in answers)
    ray.until(lambda: len(ray.replicas()) == 1, "one replica when the load has gone")
    assert set(ray.replicas()) < pids
    assert streamed(ray.url) == (whole, "done")
