"""Limits of the machine: memory is planned within the limits of the system."""

import pathlib
import re
import resource
import subprocess

import pytest
from conftest import binary, serving, small_model


def test_ulimit_v_gives_a_smaller_cache():
    """Regression: the cache was planned from the machine's memory and could not be reserved."""
    free = int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) << 10
    if free < 4 << 30:
        pytest.skip("the machine has less free memory than the limit to test with")
    launcher = ("prlimit", f"--as={1 << 30}", "--")
    with serving(small_model(), launcher=launcher) as server:
        assert server.metric("num_requests_running") == 0


def test_what_does_not_fit_is_told():
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run(
        [binary(), "serve", str(small_model()), "--port", "0", "--kv-cache-memory-bytes", "3GiB"],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit,
    )
    assert done.returncode == 2
    assert "needs 3072.0 MiB, but only" in done.stderr
