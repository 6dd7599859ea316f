"""`pagoda pull` and related commands against a test hub on loopback, which disconnects, lies, redirects and refuses."""

import collections
import hashlib
import http.server
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
import time

import httpx
import pytest
from conftest import Server, binary, small_model
from test_transport import certificate

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "org/name"
TOKEN = "hf_secret"


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """Two servers: the hub, and the store that large files (above 1000 bytes) are redirected to."""

    def __init__(self, files):
        self.files = files
        self.seen = []  # (server, method, path, Range, Authorization)
        self.once = collections.defaultdict(list)  # file: [callable(handler) that answers instead]
        self.etags, self.sizes = {}, {}
        self.listed = None
        self.slow_s = 0
        self.loops = False
        self.hub, self.store = self._start("hub"), self._start("store")
        self.endpoint = f"http://127.0.0.1:{self.hub.server_port}"

    def _start(self, name):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                outer.answer(self, name)

            do_GET = do_HEAD

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def stop(self):
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    def gets(self, part):
        return [one for one in self.seen if one[1] == "GET" and part in one[2]]

    @staticmethod
    def reply(handler, status, body=b"", **fields):
        handler.send_response(status)
        for field, value in {"Content_Length": len(body), **fields}.items():
            handler.send_header(field.replace("_", "-"), str(value))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(body)

    def answer(self, handler, server):
        path = handler.path
        self.seen.append((server, handler.command, path, handler.headers["Range"], handler.headers["Authorization"]))
        if path.startswith("/api/"):
            if path != f"/api/models/{REPO}/revision/main":
                return self.reply(handler, 404)
            if self.once["api"]:
                return self.once["api"].pop(0)(handler)
            names = self.listed or list(self.files)
            body = {"sha": COMMIT, "siblings": [{"rfilename": one} for one in names]}
            return self.reply(handler, 200, json.dumps(body).encode())
        file = path.split(f"/{COMMIT}/", 1)[1]
        data = self.files[file]
        large = len(data) > 1000
        etag = self.etags.get(file) or (hashlib.sha256(data).hexdigest() if large else git_sha1(data))
        if server == "hub" and large:
            where = f"http://localhost:{self.store.server_port}{path}" if not self.loops else path
            return self.reply(
                handler,
                302,
                Location=where,
                X_Repo_Commit=COMMIT,
                ETag='"other"',
                X_Linked_Etag=f'"{etag}"',
                X_Linked_Size=self.sizes.get(file, len(data)),
            )
        if server == "store" and handler.command == "HEAD":
            return self.reply(handler, 403)  # as stores whose URLs are signed for GET
        if handler.command == "GET" and self.once[file]:
            return self.once[file].pop(0)(handler)
        begin = int((handler.headers["Range"] or "bytes=0-")[6:-1])
        fields = {"Content_Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"} if begin else {}
        if handler.command == "HEAD" or not self.slow_s:
            body = data[begin:] if handler.command == "GET" else b""
            return self.reply(
                handler,
                206 if begin else 200,
                body,
                **{"ETag": f'W/"{etag}"', "Content_Length": len(data) - begin, **fields},
            )
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(data) - begin))
        for field, value in fields.items():
            handler.send_header(field.replace("_", "-"), value)
        handler.end_headers()
        for at in range(begin, len(data), 65536):
            try:
                handler.wfile.write(data[at : at + 65536])
            except OSError:
                return None
            time.sleep(self.slow_s)


def status(code, **fields):
    return lambda handler: Hub.reply(handler, code, **fields)


def cut(data):
    """Returns an answer with a Content-Length larger than its body."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data) * 2))
        handler.end_headers()
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def whole(data):
    return lambda handler: Hub.reply(handler, 200, data)


@pytest.fixture
def hub():
    made = Hub(
        {
            "config.json": b"{}",
            "model.safetensors": random.Random(1).randbytes(300_000),
            "README.md": b"x",
            "pytorch_model.bin": b"y" * 5000,
        }
    )
    yield made
    made.stop()


@pytest.fixture
def environment(hub, tmp_path):
    return {
        **os.environ,
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": TOKEN,
        "HF_HUB_CACHE": str(tmp_path),
        "HF_HUB_OFFLINE": "",
    }


def run(environment, *arguments):
    done = subprocess.run([str(binary()), *arguments], env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.strip(), done.stderr


def check(hub, environment, files=("config.json", "model.safetensors")):
    """Checks that huggingface_hub finds the same bytes without a network."""
    code = (
        "import sys, huggingface_hub as h; print(h.snapshot_download(sys.argv[1], local_files_only=True), "
        "h.try_to_load_from_cache(sys.argv[1], sys.argv[2]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, REPO, files[0]],
        env={**environment, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    snapshot, first = found.stdout.split()
    assert first == f"{snapshot}/{files[0]}"
    for file in files:
        with open(f"{snapshot}/{file}", "rb") as got:
            assert got.read() == hub.files[file]
    return snapshot


def test_a_pull_that_huggingface_hub_reads_and_a_token_that_stays_home(hub, environment, tmp_path):
    code, out, error = run(environment, "pull", REPO)
    assert code == 0, error
    assert out == check(hub, environment)
    assert sorted(os.listdir(out)) == ["config.json", "model.safetensors"]
    assert {one[4] for one in hub.seen if one[0] == "hub"} == {f"Bearer {TOKEN}"}
    assert {one[4] for one in hub.seen if one[0] == "store"} == {None}
    assert "100%" in error and TOKEN not in error
    assert not list(tmp_path.rglob("*.incomplete"))
    before = len(hub.gets("/resolve/"))
    assert run(environment, "pull", REPO)[0] == 0
    assert len(hub.gets("/resolve/")) == before
    code, out, _ = run(environment, "list")
    assert (code, REPO in out, "not whole" in out) == (0, True, False)
    code, out, _ = run(environment, "rm", REPO)
    assert code == 0 and out.startswith(f"removed {REPO}")
    assert not list(tmp_path.glob("models--*")) and REPO not in run(environment, "list")[1]
    assert run(environment, "rm", REPO)[0] == 2


def test_breaks_and_refusals_are_tried_again_and_gone_on_with(hub, environment):
    data = hub.files["model.safetensors"]
    hub.once["api"] = [status(503)]
    hub.once["config.json"] = [status(429, Retry_After=3)]
    hub.once["model.safetensors"] = [cut(data[:100_000]), status(503)]
    code, _, error = run(environment, "pull", REPO)
    assert code == 0 and "429, too many requests; retrying in 3.0 s" in error, error
    check(hub, environment)
    assert [one[3] for one in hub.gets("model.safetensors") if one[0] == "store"] == [
        None,
        "bytes=100000-",
        "bytes=100000-",
    ]


def test_wrong_bytes_are_fetched_once_more_and_then_refused(hub, environment, tmp_path):
    wrong = bytes(300_000)
    hub.once["model.safetensors"] = [whole(wrong)]
    code, _, error = run(environment, "pull", REPO)
    assert code == 0 and "the download is corrupt" in error
    check(hub, environment)
    run(environment, "rm", REPO)
    for file, data in (("model.safetensors", wrong), ("config.json", b"[]")):
        hub.once[file] = [whole(data), whole(data)]
        code, out, error = run(environment, "pull", REPO)
        assert (code, out) == (2, "") and "the download is corrupt" in error
        assert not list(tmp_path.rglob("*.incomplete")) and not list(tmp_path.glob("models--*/refs/main"))


@pytest.mark.parametrize(
    "size, message", [(299_999, "more than the 299999 bytes"), (10**16, "too full"), (-1, "no ETag or size")]
)
def test_lies_about_the_size(hub, environment, tmp_path, size, message):
    hub.sizes["model.safetensors"] = size
    if size == -1:
        hub.etags["model.safetensors"] = "../../evil"
    code, _, error = run(environment, "pull", REPO)
    assert code == 2 and message in error
    assert not list(tmp_path.rglob("*.incomplete")) and not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("name", ["../../evil.safetensors", "/etc/evil.json", "a/../../b.json"])
def test_names_that_leave_the_folder(hub, environment, tmp_path, name):
    hub.listed = ["config.json", "model.safetensors", name]
    code, _, error = run(environment, "pull", REPO)
    assert code == 2 and "outside" in error
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_had(hub, environment):
    assert "is not a model's name" in run(environment, "pull", "../x")[2]
    assert "not found on the hub" in run(environment, "pull", "org/other")[2]
    assert "HF_HUB_OFFLINE" in run({**environment, "HF_HUB_OFFLINE": "1"}, "pull", REPO)[2]
    code, _, error = run({**environment, "HF_TOKEN": "a\r\nX: y"}, "pull", REPO)
    assert code == 2 and "HF_TOKEN" in error
    hub.once["api"] = [status(401)]
    assert "needs a token" in run(environment, "pull", REPO)[2]
    hub.loops = True
    assert "more than 5 redirects" in run(environment, "pull", REPO)[2]


def test_killed_in_the_middle_and_gone_on_with(hub, environment, tmp_path):
    hub.files["model.safetensors"] = random.Random(2).randbytes(8_000_000)
    hub.slow_s = 0.02
    process = subprocess.Popen([str(binary()), "pull", REPO], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any(one.stat().st_size > 500_000 for one in tmp_path.rglob("*.incomplete")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    again = run(environment, "pull", REPO)
    assert again[0] == 2 and "by another program" in again[2]
    process.send_signal(signal.SIGKILL)
    process.wait()
    (part,) = tmp_path.rglob("*.incomplete")
    size = part.stat().st_size
    assert "not whole" in run(environment, "list")[1]
    hub.slow_s = 0
    assert run(environment, "pull", REPO)[0] == 0
    assert hub.gets("model.safetensors")[-1][3] == f"bytes={size}-"
    check(hub, environment)


def test_a_name_in_every_form_and_one_model_of_several(hub, environment):
    hub.files = {"a-Q4_K_M.gguf": b"4" * 2000, "a-Q8_0.gguf": b"8" * 3000}
    for name in (
        f"hf.co/{REPO}:Q8_0",
        f"https://huggingface.co/{REPO}/blob/main/a-Q8_0.gguf",
        f"https://hf.co/{REPO}:Q4_K_M",
    ):
        code, out, error = run(environment, "pull", name)
        assert code == 0 and out.endswith("Q4_K_M.gguf" if "Q4" in name else "Q8_0.gguf"), error
    assert len(hub.gets("a-Q8_0.gguf")) == 2  # one request each to the hub and the store
    rows = [one for one in json.loads(run(environment, "ls", "--json")[1]) if one["name"] == REPO]
    assert [(one["tag"], one["type"], one["size"], one["whole"], one["default"]) for one in rows] == [
        ("Q4_K_M", "gguf", 2000, True, False),
        ("Q8_0", "gguf", 3000, True, False),
    ]
    assert all(one["modified"].startswith("20") and os.path.exists(one["path"]) for one in rows)
    assert f"{REPO}:Q8_0" in run(environment, "list")[1]
    assert run(environment, "rm", REPO + ":Q8_0")[1].startswith(f"removed {REPO}:Q8_0, 0.0 MiB")
    assert f"{REPO}:Q8_0" not in run(environment, "list")[1] and f"{REPO}:Q4_K_M" in run(environment, "list")[1]
    assert run(environment, "rm", REPO + ":Q8_0")[0] == 2
    assert run(environment, "rm", REPO + ":Q4_K_M")[0] == 0
    assert REPO not in run(environment, "list")[1], "nothing is left of it"
    assert "smollm2" in run(environment, "models")[1]
    assert "pagoda models" in run(environment, "pull", "smollm9")[2]


def test_the_default_model_is_listed(environment, tmp_path):
    folder = tmp_path / "cache/models"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"x" * 100)
    (row,) = json.loads(run({**environment, "PAGODA_CACHE": str(tmp_path / "cache")}, "list", "--json")[1])
    assert (row["name"], row["tag"], row["size"], row["default"]) == ("SmolLM2-135M-Instruct", "Q4_1", 100, True)


def test_tags_and_parts(hub, environment):
    parts = ["Q8_0/a-Q8_0-00001-of-00002.gguf", "Q8_0/a-Q8_0-00002-of-00002.gguf"]
    hub.files = {"a-Q4_K_M.gguf": b"4" * 2000, **{one: one.encode() * 100 for one in parts}}
    code, out, error = run(environment, "pull", REPO + ":Q8_0")
    assert code == 0 and out.endswith(parts[0]), error
    check(hub, environment, parts)
    assert not hub.gets("Q4_K_M")
    code, _, error = run(environment, "pull", REPO + ":Q2_K")
    assert code == 2 and "available: Q8_0/a-Q8_0, a-Q4_K_M.gguf" in error
    assert run(environment, "pull", REPO)[1].endswith("/a-Q4_K_M.gguf")


@pytest.mark.parametrize("words", [[REPO + ":F32"], ["--block-size=16", "-hf", REPO]])
def test_serve_fetches_what_is_not_there(hub, environment, words):
    hub.files = {"small-F32.gguf": small_model().read_bytes(), "README.md": b"x"}
    for _ in range(2):
        server = Server(words[0], *words[1:], env=environment)
        try:
            assert httpx.get(server.url + "/v1/models").json()["data"][0]["id"] == words[-1]
        finally:
            server.stop()
    assert len([one for one in hub.gets("small-F32.gguf") if one[0] == "store"]) == 1


def test_serve_takes_revision_and_token(hub, environment):
    hub.files = {"small-F32.gguf": small_model().read_bytes()}
    environment = {name: value for name, value in environment.items() if name != "HF_TOKEN"}
    server = Server(REPO, "--revision", "main", "--hf-token", "hf_other", env=environment)
    try:
        assert httpx.get(server.url + "/v1/models").json()["data"][0]["id"] == REPO
    finally:
        server.stop()
    assert {one[4] for one in hub.seen if one[0] == "hub"} == {"Bearer hf_other"}


def test_run_fetches_too_but_not_offline(hub, environment, tmp_path):
    hub.files = {"small-F32.gguf": small_model().read_bytes()}
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages[-1].content }}")
    command = ["run", REPO, "a", "--max-tokens", "2", "--chat-template", str(template)]
    code, _, error = run({**environment, "HF_HUB_OFFLINE": "1"}, *command)
    assert code == 2 and "it is not in the Hugging Face cache" in error and not hub.seen
    code, _, error = run(environment, *command)
    assert hub.gets("small-F32.gguf")
    assert code == 0, error


def test_every_command_that_takes_a_model_fetches_it(hub, environment, tmp_path):
    hub.files = {"small-F32.gguf": small_model().read_bytes()}
    name, cache = REPO + ":F32", environment["HF_HUB_CACHE"]

    def once_more(*words):
        run(environment, "rm", REPO)
        before = len(hub.gets("small-F32.gguf"))
        code, out, error = run(environment, *words)
        assert code == 0, error
        assert len(hub.gets("small-F32.gguf")) > before
        return out

    assert os.path.isdir(cache) or not hub.seen
    assert once_more("generate", name, "once", "--max-tokens", "3").strip()
    assert json.loads(once_more("inspect", name, "--json"))["format"]
    assert json.loads(once_more("tokenize", name, "once"))["ids"]
    assert once_more("bench", "latency", name, "--input-len", "4", "--output-len", "4", "--num-iters", "1")
    text = tmp_path / "text"
    text.write_text("once upon a time " * 40)
    assert once_more("perplexity", name, "-f", str(text), "--context", "32")


def test_the_token_of_a_login(hub, environment, tmp_path):
    """HF_TOKEN, or else the token file of huggingface_hub's login."""
    home = tmp_path / "home"
    (home / ".cache/huggingface").mkdir(parents=True)
    (home / ".cache/huggingface/token").write_text("hf_of_login\n")
    other = tmp_path / "token"
    other.write_text("hf_elsewhere")
    without = {key: value for key, value in environment.items() if key != "HF_TOKEN"}

    def sent(more):
        hub.seen.clear()
        assert run({**without, "HOME": str(home), **more}, "pull", REPO)[0] == 0
        run(environment, "rm", REPO)
        return {one[4] for one in hub.seen if one[0] == "hub"}

    assert sent({}) == {"Bearer hf_of_login"}
    assert sent({"HF_TOKEN": TOKEN}) == {f"Bearer {TOKEN}"}
    assert sent({"HF_TOKEN_PATH": str(other)}) == {"Bearer hf_elsewhere"}
    assert sent({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}) == {None}
    assert sent({"HF_TOKEN_PATH": str(tmp_path / "none")}) == {None}


def test_a_certificate_that_does_not_hold_ends_it_before_the_token_is_sent(hub, environment, tmp_path):
    made, key = certificate(tmp_path, "hub")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    hub.hub.socket = context.wrap_socket(hub.hub.socket, server_side=True)
    hub.files = {"a.gguf": b"small"}
    safe = {**environment, "HF_ENDPOINT": f"https://127.0.0.1:{hub.hub.server_port}"}
    code, _, error = run(safe, "pull", REPO)
    assert code == 2 and "certificate" in error and "again" not in error and not hub.seen
    code, _, error = run({**safe, "SSL_CERT_FILE": str(made)}, "pull", REPO)
    assert code == 0, error
    # Redirects from a hub with TLS to a store without TLS are not followed.
    hub.files = {"a.gguf": b"large" * 1000}
    code, _, error = run({**safe, "SSL_CERT_FILE": str(made)}, "pull", REPO)
    assert code == 2 and "https to http" in error


def test_a_hub_that_never_gets_further_is_given_up(hub, environment):
    hub.once["model.safetensors"] = [cut(hub.files["model.safetensors"][:1000])] * 20  # the hub does not support ranges
    code, _, error = run(environment, "pull", REPO)
    assert code == 2 and "closed the connection" in error
    assert len([one for one in hub.gets("model.safetensors") if one[0] == "store"]) == 5
