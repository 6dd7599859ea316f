"""Runs the commands of the README and of docs/ as written, page by page, each page in a folder of its own. MODEL is
replaced by the default model, the hub by one on loopback, ports by free ones, `…` by nothing, and large numbers of
requests by small ones."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import vector_models
from conftest import ROOT, Server, binary, default_model, small_model
from secure_server import SecureServer, certificate
from test_docs import OTHERS, PAGES, PROGRAMS, shown_commands
from test_pull import REPO, Hub
from test_ranks_over_mpi import ENV as MPI_ENV
from test_ranks_over_mpi import NO_MPI, has_mpi

# Commands that other tests run. All other commands of a page run here.
RUN_BY = {
    "script/server": "CI and every user",
    "script/build": "script/server",
    "script/test": "CI, and a person for the tiers",
    "script/model": "script/test",
    "script/package": "script/test --tier packages",
    "script/cuda": "script/test --tier cuda",
    "script/gpu": "script/test --tier cuda",
    "tools/check": "script/test",
    "tools/format": "a person: clang-format is not among the packages",
    "bench/": "a person: minutes, on a machine with nothing else to do",
    "pip": "script/test --tier packages, --tier routers, --tier ray",
    "apt": "script/test --tier packages",
    "tar": "script/test --tier packages",
    "systemctl": "an operator",
    "podman": "an operator; script/test --tier deploy runs what is in the image",
    "kubectl": "an operator; script/test --tier deploy holds the manifests against Kubernetes' schemas",
    "cmake": "script/build, script/test --tier cuda and who runs bench/",
}
RUN_HERE = (*PROGRAMS, "curl", "mpirun")
NEEDS_A_GPU = "--device cuda"
# Replacements for names that pages shorten, and for commands that take minutes.
STANDS_FOR = {
    "pagoda perplexity MODEL": "pagoda perplexity MODEL -f text.txt",
    "pagoda bench": "pagoda bench --help",
    "pagoda quantize MODEL": "pagoda quantize small.gguf --type Q8_0",
    "pagoda quantize MODEL.gguf --type Q4_K": "pagoda quantize small.gguf --type Q4_K",
    "pagoda quantize FOLDER --type w8a8": "pagoda quantize --help",  # test_quantize.py has folders
    "pagoda kv clear PATH": "pagoda kv clear --help",  # the page's server has the folder
    "pagoda serve Qwen/Qwen3-0.6B --enable-lora --lora-modules sql=/adapters/sql math=org/math-lora": (
        "pagoda serve --enable-lora --served-model-name sql"  # test_lora.py has adapters
    ),
    "pagoda simulate, plan": "pagoda simulate --help",
    "pagoda tokenize, render": "pagoda tokenize --help",
    "pagoda parse": "pagoda parse --help",
    "pagoda bench calibrate --output cost.json": (
        "pagoda bench calibrate small.gguf --output cost.json --max-batch 4 --max-context 64"
    ),
    "pagoda bench calibrate MODEL --served -o cost.json": (
        "pagoda bench calibrate small.gguf --served --seconds 4 --max-batch 4 --max-context 64 --kv-cache-memory-bytes"
        " 4MiB -o cost.json"
    ),
    "pagoda plan --cost-model cost.json --workload alpaca --ttft-p99 1000 --tpot-p99 100": (
        "pagoda plan --cost-model cost.json --kv-cache-memory-bytes 4MiB --workload uniform:input=20,output=40"
        " --max-num-seqs 4 --seeds 4 --ttft-p99 1000 --tpot-p99 1000"
    ),
    "pagoda plan --cost-model cost.json --workload trace:mine.jsonl --rate 20 --ttft-p99 1000 --tpot-p99 100": (
        "pagoda plan --cost-model cost.json --kv-cache-memory-bytes 4MiB --workload uniform:input=20,output=40"
        " --max-num-seqs 4 --rate 20 --seeds 4 --ttft-p99 1000 --tpot-p99 1000"
    ),
    "pagoda pull ORG/NAME:mmproj-F16": "pagoda pull ORG/NAME:Q8_0",  # the hub of the test has no vision part
    "pagoda simulate --cost-model cost.json --workload": (
        "pagoda simulate --cost-model cost.json --workload alpaca:requests=5"
    ),
}


class Page:
    def __init__(self, folder, hub):
        self.folder, self.server = folder, None
        self.left_out = ""  # the reason why some lines could not run
        shutil.copy(small_model(), folder / "small.gguf")
        self.env = {
            **os.environ,
            "HF_ENDPOINT": hub.endpoint,
            "HF_HUB_CACHE": str(folder / "hub"),
            "HF_TOKEN": "",
            "HF_HUB_OFFLINE": "",
        }
        (folder / "hosts").write_text("localhost slots=2\n")
        (folder / "text.txt").write_text("a few words of a text " * 20)
        (folder / "outputs.jsonl").write_text(json.dumps({"text": "<think>so</think>an answer"}) + "\n")
        (folder / "qwen3_reranker.jinja").write_text("{{ messages[0].content }} {{ messages[-1].content }}")
        made, key = certificate(folder, "server")
        shutil.copy(made, folder / "chain.pem")
        shutil.copy(key, folder / "key.pem")
        shutil.copy(ROOT / "deploy/debian/pagoda.yaml", folder / "pagoda.yaml")

    def words(self, line):
        line = STANDS_FOR.get(re.sub(r"\s*…", "", line).strip(), line)
        line = re.sub(r"\s*…", "", line).replace("[MODEL]", "MODEL").replace("ORG/NAME[:TAG]", "ORG/NAME")
        line = (
            line.replace("ORG/NAME", REPO)
            .replace("/etc/pagoda/", "")
            .replace("requests=2000", "requests=50")
            .replace("--max-model-len 64k", "--max-model-len 8k")
        )
        line = line.replace('["no", "yes"]', '["n", "y"]')  # the small model knows letters only
        words = shlex.split(line.removesuffix("&").strip())
        return [str(binary()), *(str(default_model()) if word == "MODEL" else self.vectors(word) for word in words[1:])]

    def vectors(self, word):
        """Replaces the names of embedding models by small models of the same kind."""
        kind = {
            "BAAI/bge-small-en-v1.5": "bert",
            "Qwen/Qwen3-Embedding-0.6B": "qwen3",
            "Qwen/Qwen3-Reranker-0.6B": "qwen3",
        }.get(word)
        if not kind:
            return word
        folder = self.folder / word.replace("/", "-")
        vector_models.write(kind, folder, pooling="cls" if kind == "bert" else "lasttoken")
        return str(folder)

    def run(self, line):
        if line.startswith("curl "):
            return self.ask(line)
        if line.startswith("mpirun "):
            return self.serve_ranks(line)
        words = self.words(line)
        if words[1] == "serve" and "--help" not in words:
            return self.serve(words[2:])
        if words[1:3] == ["bench", "serve"]:
            words += ["--base-url", self.server.url]
        if words[1] == "launch":  # the programs are not installed, so the command is only printed
            words = [*words[:3], "--print", "--url", self.server.url]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=300,
        )
        assert done.returncode == 0, f"{line}\n{shlex.join(words)}\n{done.stdout[-3000:]}"

    def ask(self, line):
        if not self.server:
            self.server = Server(default_model(), env=self.env)
        line, places = re.subn(r"(http://)?(127\.0\.0\.1|localhost):8000", self.server.url, line)
        assert places == 1, line
        done = subprocess.run(
            ["bash", "-c", line + " --fail-with-body --silent --show-error"],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0 and json.loads(done.stdout)["choices"], f"{line}\n{done.stdout}{done.stderr}"

    def serve_ranks(self, line):
        if not has_mpi():
            self.left_out = NO_MPI
            return
        self.stop()
        launcher = shlex.split(line.split(" pagoda ")[0])
        server = Server(
            default_model(),
            "--port",
            "0",
            launcher=("env", "-C", self.folder, *launcher, "--oversubscribe"),
            env={**MPI_ENV, **self.env},
        )
        server.stop()

    def serve(self, words):
        """Starts a server and waits until it listens. It runs until the next server of the page, or the page's end."""
        self.stop()
        model, flags = (words[0], words[1:]) if not words[0].startswith("-") else (default_model(), words)
        kind = SecureServer if "--ssl-certfile" in flags else Server
        # After the page's own --host: the last one takes effect.
        self.server = kind(
            model, *flags, "--host", "127.0.0.1", "--port", "0", launcher=("env", "-C", self.folder), env=self.env
        )

    def stop(self):
        server, self.server = self.server, None
        if server:
            assert server.stop() == 0


ALL = [(page, list(shown_commands(page, OTHERS))) for page in PAGES]
RUN = [(page, lines) for page, lines in ALL if any(line.split(" ")[0] in RUN_HERE for line in lines)]


@pytest.mark.parametrize("page, lines", RUN, ids=[page for page, _ in RUN])
def test_the_commands_of_a_page_run(page, lines, tmp_path):
    hub = Hub({"small-Q8_0.gguf": small_model().read_bytes()})
    shown = Page(tmp_path, hub)
    try:
        for line in lines:
            if line.split(" ")[0] in RUN_HERE and NEEDS_A_GPU not in line:
                shown.run(line)
    finally:
        shown.stop()
        hub.stop()
    if shown.left_out:  # the other lines ran
        pytest.skip(shown.left_out)


def test_the_other_commands_have_somebody_who_runs_them():
    others = {line.split(" ")[0] for _, lines in ALL for line in lines if line.split(" ")[0] not in RUN_HERE}
    assert [name for name in others if not name.startswith(tuple(RUN_BY))] == []
