"""The blocks of the README and of docs/ that are not commands (commands run in test_docs_run.py): programs are run, and
files are read by the program that uses them. The other blocks are listed here with a reason, so that a new block is
either run or explained."""

import re
import subprocess
import sys

import httpx
import yaml
from conftest import ROOT, binary, serving, small_model
from test_docs import FOLDERS, OTHERS, PAGES, PROGRAMS

# (page, beginning of the block): the reason why the block is not run here.
NOT_RUN = {
    ("README.md", '{"id":"chatcmpl'): "an answer; its text and times are of one run",
    ("docs/clients.md", "location / {"): "nginx's, which is not among the packages",
    ("docs/clients.md", "http:"): "Traefik's, which is not among the packages",
    ("docs/clients.md", "llm.example.org {"): "Caddy's, which is not among the packages",
    ("docs/deploy.md", "helm install"): "script/test --tier deploy renders the chart",
    ("docs/kv-cache.md", "FREE --allocate-->"): "a drawing",
    ("docs/kv-tiers.md", "kv_cache/kv_tiers"): "a drawing",
    ("docs/kv-tiers.md", '"cache_hint"'): "a field; test_kv_disk.py sends it, cache_hint_fields_test.cc reads it",
    ("docs/kv-tiers.md", "DELETE /admin/sessions"): "a route; test_kv_disk.py asks for it",
    ("docs/kv-transfer.md", '{"do_remote_prefill"'): "a part of an answer; test_kv_transfer.py reads one",
    ("docs/kv-events.md", '{"type": "BlockStored"'): "the form of an event; test_agents_cache.py reads them",
    ("docs/lora.md", "from pagoda.lora"): "an adapter that nobody has; tiers/packages/test_llm.py asks so",
    ("docs/peer-flags.md", "--"): "names of flags; engine_flag_table_test.cc gives each of them",
    ("docs/planning.md", "1 x "): "an answer; tests/e2e/test_planning.py asks for one",
    ("docs/python.md", "from pagoda import LLM"): "script/test --tier packages (test_docs_python.py)",
    ("docs/python.md", 'llm = LLM("model.gguf"'): "script/test --tier packages (test_docs_python.py)",
    ("docs/tensor-parallelism.md", "rank 1:"): "a line of the log",
    ("docs/tensor-parallelism.md", "ip netns"): "needs rights over network name spaces",
    ("docs/virtual-kv.md", "python3 examples/pagoda_kv/torch_attention.py"): "script/test --tier virtual_kv",
    ("docs/tools.md", '{"text": "…'): "the form of a line; test_parse.py reads and writes them",
    ("docs/tools.md", '{"content": null'): "the form of a line; test_parse.py reads and writes them",
}
RUN_BELOW = {
    ("README.md", "from openai import OpenAI"),
    ("docs/flags.md", "model: Hugging"),
    ("docs/operations.md", "keys:"),
}


def blocks(page):
    """Returns the indented or fenced blocks that contain no command."""
    found, block, fenced, before, drawing = [], [], False, "", False
    for line in [*(ROOT / page).read_text().splitlines(), ""]:
        if line.startswith("```"):
            drawing = line == "```mermaid"
            fenced = not fenced
        elif drawing:
            continue
        elif fenced or (line.startswith("    ") and (block or not before.strip())):
            block.append(line if fenced else line[4:])
            before = line
            continue
        if block:
            found.append("\n".join(block))
        block, before = [], line
    starts = (*(f"{name} " for name in (*PROGRAMS, *OTHERS)), *FOLDERS)
    return [
        one for one in found if not any(line.strip().removeprefix("$ ").startswith(starts) for line in one.splitlines())
    ]


def block_of(page, start):
    (found,) = (one for one in blocks(page) if one.startswith(start))
    return found


def test_every_block_is_run_or_explained():
    all_blocks = [(page, block) for page in PAGES for block in blocks(page)]
    assert len(all_blocks) >= 10
    known = [*NOT_RUN, *RUN_BELOW]
    unknown = [
        (page, block.splitlines()[0])
        for page, block in all_blocks
        if not any(page == where and block.startswith(start) for where, start in known)
    ]
    assert not unknown
    gone = [one for one in known if not any(page == one[0] and block.startswith(one[1]) for page, block in all_blocks)]
    assert not gone, "no block begins so any more"


def test_the_openai_client_of_the_readme(tmp_path):
    template = tmp_path / "chat.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    with serving(small_model(), "--chat-template", template) as server:
        code = block_of("README.md", "from openai import OpenAI").replace("http://127.0.0.1:8000", server.url)
        code = code.replace("max_tokens=200", "max_tokens=5")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_file_of_flags(tmp_path):
    file = tmp_path / "flags.yaml"
    file.write_text(block_of("docs/flags.md", "model: Hugging"))
    done = subprocess.run([binary(), "config", "check", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_file_of_keys(tmp_path):
    text = block_of("docs/operations.md", "keys:")
    key = yaml.safe_load(text)["keys"][0]
    assert set(key) >= {"name", "sha256", "role", "weight"}
    file = tmp_path / "keys.yaml"
    file.write_text(re.sub(r"sha256: \S+", "key: alices-key", text))
    with serving(small_model(), "--api-key-file", file) as server:
        assert httpx.get(server.url + "/v1/models").status_code == 401
        own = {"Authorization": "Bearer alices-key"}
        assert httpx.get(server.url + "/v1/models", headers=own).status_code == 200
        assert httpx.get(server.url + "/admin/usage", headers=own).status_code == 403
        asked = httpx.post(
            server.url + "/v1/completions", headers=own, json={"prompt": "a", "max_tokens": 2, "priority": -1}
        )
        assert asked.status_code in (400, 403), asked.text
