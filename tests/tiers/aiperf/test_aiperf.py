"""aiperf over chat, completions, Responses and Messages: every request is answered, with the number of tokens that
aiperf counts itself."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

REQUESTS = 12


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Returns a hub cache with one tokenizer: aiperf accepts no other form, and must not access the network."""
    cache = tmp_path_factory.mktemp("hub")
    kept, commit = cache / "models--made--here", "0" * 40
    snapshot = kept / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs/main").write_text(commit)
    shutil.copy(ROOT / "tests/fixtures/tokenizers/gpt2.json", snapshot / "tokenizer.json")
    (snapshot / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (snapshot / "config.json").write_text('{"model_type": "gpt2"}')
    return cache


@pytest.mark.parametrize("endpoint", ["chat", "completions", "responses", "messages"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_every_request_is_answered(server, hub, endpoint, streamed, tmp_path):
    aiperf = pathlib.Path(sys.executable).with_name("aiperf")
    words = [
        aiperf,
        "profile",
        "--model",
        "smol",
        "--url",
        server.url,
        "--endpoint-type",
        endpoint,
        "--tokenizer",
        "made/here",
        "--request-count",
        str(REQUESTS),
        "--concurrency",
        "3",
        "--synthetic-input-tokens-mean",
        "40",
        "--output-tokens-mean",
        "16",
        "--ui",
        "simple",
        "--output-artifact-dir",
        tmp_path / "out",
        *(["--streaming"] if streamed else []),
    ]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    measured = json.loads(next((tmp_path / "out").rglob("profile_export_aiperf.json")).read_text())
    assert measured["request_count"]["avg"] == REQUESTS and not measured.get("error_request_count", {}).get("avg")
    assert measured["output_sequence_length"]["avg"] > 0
    if streamed:
        assert measured["time_to_first_token"]["avg"] > 0 and measured["inter_token_latency"]["avg"] > 0
