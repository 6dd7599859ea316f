"""Adapters that requests select (--enable-lora), with the real openai client. Each adapter answers as if it were merged
into the model, whatever else runs; adapters are loaded and unloaded while the server runs; K/V are never shared between
adapters."""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess

import httpx
import openai
import pytest
from conftest import binary, serving, small_model
from kv_disk import wait_for

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
MODEL = FIXTURES / "tiny_models/llama"
ADAPTERS = FIXTURES / "adapters"
NAMES = ["plain", "all_linear", "rslora", "patterns"]
FLAGS = [
    *("--tokenizer", str(small_model()), "--served-model-name", "base", "--dtype", "float32"),
    *("--kv-cache-memory-bytes", "4MiB", "--max-num-batched-tokens", "32", "--max-num-seqs", "24"),
    *("--rope-scaling", "linear", "--rope-scale", "8", "--max-model-len", "200"),
]
PROMPT = [42, 51, 1, 7, 7, 30, 2] * 5


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


def ask(client, model, prompt=PROMPT, **how):
    """Returns tokens, their log-probabilities, the model's name, and the number of cached prompt tokens."""
    body = {"temperature": 0, "max_tokens": 12, "logprobs": 0, **how}
    more = {"return_token_ids": True, "ignore_eos": True}
    answer = client.completions.create(model=model, prompt=prompt, extra_body=more, **body)
    (choice,) = answer.choices
    cached = (answer.usage.prompt_tokens_details or {}).cached_tokens
    return choice.token_ids, choice.logprobs.token_logprobs, answer.model, cached


@pytest.fixture(scope="module")
def lora(tmp_path_factory):
    template = tmp_path_factory.mktemp("lora") / "chat.jinja"
    template.write_text("{{ messages[0].content }}")
    as_json = json.dumps({"name": "patterns", "path": str(ADAPTERS / "patterns"), "base_model_name": "base"})
    modules = [f"{name}={ADAPTERS / name}" for name in NAMES[:-1]] + [as_json]
    flags = ["--enable-lora", "--lora-modules", *modules, "--allow-runtime-lora-updating", "--chat-template", template]
    with serving(MODEL, *FLAGS, *flags) as server:
        yield server


@pytest.fixture(scope="module")
def merged():
    """Answers of the base model, and of each adapter merged into it."""
    answers = {}
    for name in ["base", *NAMES]:
        adapter = [] if name == "base" else ["--lora", str(ADAPTERS / name)]
        with serving(MODEL, *FLAGS, *adapter) as server, client_of(server) as client:
            answers[name] = ask(client, "base")[:2]
    return answers


def test_each_answers_as_if_it_were_merged(lora, merged):
    assert len({tuple(tokens) for tokens, _ in merged.values()}) > 2, "the fixtures' answers differ"
    with client_of(lora) as client:
        for name, (tokens, logprobs) in merged.items():
            got = ask(client, name)
            assert got[2] == name
            assert got[0] == tokens, name
            assert got[1] == pytest.approx(logprobs, abs=1e-3), name


def test_k_v_are_no_others(lora):
    prompt = [5 + i % 50 for i in range(40)]
    with client_of(lora) as client:
        first = {name: ask(client, name, prompt) for name in ["base", *NAMES]}
        assert [answer[3] for answer in first.values()] == [0] * 5, "each computes its own"
        for name, answer in first.items():
            again = ask(client, name, prompt)
            assert again[3] == 32 and again[:2] == answer[:2], name


def test_a_mix_gives_what_each_gives_alone(lora):
    with client_of(lora) as client:
        prompts = [[(7 * i + 3 * at) % 60 + 3 for at in range(20 + 3 * i)] for i in range(4)]
        jobs = [(name, prompt) for name in ["base", *NAMES] for prompt in prompts] * 2
        alone = {(name, tuple(prompt)): ask(client, name, prompt)[:2] for name, prompt in jobs}
        with concurrent.futures.ThreadPoolExecutor(20) as threads:
            together = list(threads.map(lambda job: ask(client, *job)[:2], jobs))
        assert together == [alone[name, tuple(prompt)] for name, prompt in jobs], "the same bits"
        # Several sequences of a request, and beams.
        sampled = {"n": 3, "temperature": 1, "seed": 5, "max_tokens": 8}
        for how in (sampled, {"max_tokens": 6, "extra_body": {"use_beam_search": True, "beam_width": 3}}):
            calls = [{"model": name, "prompt": PROMPT, **how} for name in ("plain", "base", "rslora")]
            texts = [[c.text for c in client.completions.create(**call).choices] for call in calls]
            with concurrent.futures.ThreadPoolExecutor(3) as threads:
                answers = list(threads.map(lambda call: client.completions.create(**call), calls))
            assert [[c.text for c in answer.choices] for answer in answers] == texts


def test_they_are_listed(lora, valid):
    with client_of(lora) as client:
        models = {model.id: model for model in client.models.list().data}
        assert list(models)[:5] == ["base", *NAMES]
        assert models["plain"].root == str(ADAPTERS / "plain") and models["plain"].parent == "base"
        assert models["base"].parent is None
        for model in models.values():
            valid("Model", model)
        assert client.models.retrieve("rslora").parent == "base"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("other")
    listed = httpx.get(lora.url + "/lora-adapters").json()
    assert [(entry["id"], entry["path"]) for entry in listed[:2]] == [
        (0, str(ADAPTERS / "plain")),
        (1, str(ADAPTERS / "all_linear")),
    ]


def test_chat_and_llama_cpps_field(lora, merged):
    with client_of(lora) as client:
        call = {"messages": [{"role": "user", "content": "!"}], "max_tokens": 4, "temperature": 0}
        assert client.chat.completions.create(model="plain", **call).model == "plain"
        chosen = {"lora": [{"id": 2, "scale": 1.0}]}
        answer = client.completions.create(
            model="base", prompt=PROMPT, max_tokens=12, temperature=0,
            extra_body={**chosen, "return_token_ids": True, "ignore_eos": True},
        )  # fmt: skip
        assert answer.model == "rslora" and answer.choices[0].token_ids == merged["rslora"][0]
        with pytest.raises(openai.BadRequestError, match="0 or 1"):
            client.completions.create(
                model="base", prompt="a", extra_body={"lora": [{"id": 0, "scale": 0.5}]}, max_tokens=1
            )


def change(server, what, **body):
    return httpx.post(f"{server.url}/v1/{what}_lora_adapter", json=body, timeout=60)


def test_they_come_and_go_while_the_server_runs(lora, merged, tmp_path):
    folder = tmp_path / "adapter"
    shutil.copytree(ADAPTERS / "plain", folder)
    loaded = change(lora, "load", lora_name="new", lora_path=str(folder))
    assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'new' added successfully.")
    with client_of(lora) as client:
        assert ask(client, "new")[:2] == ask(client, "plain")[:2]
        assert ask(client, "new")[3] == 32, "the same content, though under another name"
        twice = change(lora, "load", lora_name="new", lora_path=str(folder))
        assert twice.status_code == 400 and "load_inplace" in twice.json()["error"]["message"]
        # Loads other content under the same name while an answer with the old content is being generated.
        long = {"max_tokens": 150, "stream": True, "temperature": 0, "extra_body": {"ignore_eos": True}}
        stream = client.completions.create(model="new", prompt=PROMPT, **long)
        next(stream)
        other = change(lora, "load", lora_name="new", lora_path=str(ADAPTERS / "rslora"), load_inplace=True)
        assert other.status_code == 200
        assert ask(client, "new")[0] == merged["rslora"][0]
        assert change(lora, "unload", lora_name="new").text == "Success: LoRA adapter 'new' removed successfully."
        with pytest.raises(openai.NotFoundError):
            ask(client, "new")
        rest = "".join(chunk.choices[0].text for chunk in stream)
        whole = client.completions.create(model="plain", prompt=PROMPT, **{**long, "stream": False}).choices[0].text
        assert rest and whole.endswith(rest), "it ends as it began"
    gone = change(lora, "unload", lora_name="new")
    assert gone.status_code == 404 and "cannot be found" in gone.json()["error"]["message"]
    missing = change(lora, "load", lora_name="new", lora_path=str(tmp_path / "none"))
    assert missing.status_code == 404 and "No adapter found" in missing.json()["error"]["message"]
    (folder / "adapter_model.safetensors").write_bytes(b"\x10")
    broken = change(lora, "load", lora_name="new", lora_path=str(folder))
    assert broken.status_code == 400 and broken.json()["error"]["message"]
    for name in ("base", "", "a\nb", "x" * 300):
        assert change(lora, "load", lora_name=name, lora_path=str(ADAPTERS / "plain")).status_code == 400


def test_their_bytes_are_in_the_ledger(lora):
    def used():
        accounts = httpx.get(lora.url + "/debug/memory").json()["accounts"]
        (own,) = [account for account in accounts if account["name"] == "adapters"]
        assert 0 < own["promised"] <= own["limit"]
        return own["used"]

    lora.wait_until_idle()
    before = used()
    assert change(lora, "load", lora_name="counted", lora_path=str(ADAPTERS / "plain")).status_code == 200
    assert used() > before
    assert change(lora, "unload", lora_name="counted").status_code == 200
    assert used() == before


def test_routers_are_told(lora):
    lora.wait_until_idle()
    (labels,) = [name for name in lora.metrics() if name.startswith("vllm:lora_requests_info")]
    assert 'max_lora="64"' in labels and 'running_lora_adapters=""' in labels, labels


def test_rows_on_disk_are_one_contents(tmp_path):
    """K/V on disk belong to the content of an adapter, whatever its name and path."""
    folder = tmp_path / "adapter"
    shutil.copytree(ADAPTERS / "plain", folder)
    disk = ["--kv-disk", str(tmp_path / "disk"), "--enable-lora", "--lora-modules"]
    prompt = [3 + i % 50 for i in range(60)]
    with serving(MODEL, *FLAGS, *disk, f"a={folder}") as server, client_of(server) as client:
        wanted = ask(client, "a", prompt)
        wait_for(tmp_path / "disk", 48)
    moved = shutil.copytree(folder, tmp_path / "moved")
    with serving(MODEL, *FLAGS, *disk, f"b={moved}", f"a={ADAPTERS / 'rslora'}") as server, client_of(server) as client:
        assert ask(client, "base", prompt)[3] == 0 and ask(client, "a", prompt)[3] == 0
        again = ask(client, "b", prompt)
        assert again[3] == 48 and again[:2] == wanted[:2]


def test_a_device_computes_them(merged):
    """Requests with two adapters and without in one batch on the emulated device, with loading and unloading."""
    flags = ["--device", "emulated", "--enable-lora", "--allow-runtime-lora-updating", "--lora-modules"]
    short = {"max_tokens": 4}
    with serving(MODEL, *FLAGS, *flags, f"plain={ADAPTERS / 'plain'}") as server, client_of(server) as client:
        assert change(server, "load", lora_name="rslora", lora_path=str(ADAPTERS / "rslora")).status_code == 200
        names = ["base", "plain", "rslora"]
        alone = [ask(client, name, **short)[:2] for name in names]
        for name, (tokens, logprobs) in zip(names, alone, strict=True):
            assert tokens == merged[name][0][:4], name
            assert logprobs == pytest.approx(merged[name][1][:4], abs=1e-3), name
        with concurrent.futures.ThreadPoolExecutor(6) as threads:
            together = list(threads.map(lambda name: ask(client, name, **short)[:2], names * 2))
        assert together == alone * 2, "the same bits"
        assert change(server, "unload", lora_name="plain").status_code == 200
        assert ask(client, "base", **short)[:2] == alone[0]


def test_no_more_run_together_than_may(merged):
    """If only one adapter can run at a time, requests with different adapters alternate, and each is answered."""
    flags = ["--enable-lora", "--max-loras", "1", "--lora-modules", *(f"{name}={ADAPTERS / name}" for name in NAMES)]
    with serving(MODEL, *FLAGS, *flags) as server, client_of(server) as client:
        jobs = ["base", *NAMES] * 3
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as threads:
            together = list(threads.map(lambda name: ask(client, name)[:2], jobs))
        assert [tokens for tokens, _ in together] == [merged[name][0] for name in jobs]
        metrics = httpx.get(f"{server.url}/metrics", timeout=60).text
        assert 'max_lora="1"' in metrics


def test_all_engines_of_a_server_have_them(merged):
    flags = ["--data-parallel-size", "2", "--threads", "2", "--enable-lora", "--lora-modules"]
    with serving(MODEL, *FLAGS, *flags, f"plain={ADAPTERS / 'plain'}") as server, client_of(server) as client:
        for rank in ("0", "1"):
            got = ask(client, "plain", extra_headers={"X-data-parallel-rank": rank})
            assert got[0] == merged["plain"][0] and got[3] == 0, "each engine has a cache of its own"


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--lora-modules", "a=b"], "--lora-modules needs --enable-lora"),
        (["--enable-lora", "--tensor-parallel-size", "2"], "--enable-lora needs --tensor-parallel-size 1"),
        (
            ["--enable-lora", "--device", "emulated", "--tensor-parallel-size", "2"],
            "--enable-lora needs --tensor-parallel-size 1",
        ),
        (["--enable-lora", "--lora-modules", "a=/none"], "--lora-modules a=/none: "),
        (["--enable-lora", "--lora-modules", f"base={ADAPTERS / 'plain'}"], "is a name of the model itself"),
        (["--enable-lora", "--max-loras", "4", "--max-cpu-loras", "2"], "--max-cpu-loras 2 is less than --max-loras 4"),
        (["--enable-lora", "--max-cpu-loras", "1", "--lora-modules", "a=b", "c=d"], "see --max-cpu-loras"),
        (["--enable-lora", "--max-lora-rank", "1", "--lora-modules", f"a={ADAPTERS / 'plain'}"], "rank"),
    ],
)
def test_what_cannot_be_is_refused_at_start(flags, message):
    run = subprocess.run(
        [binary(), "serve", str(MODEL), "--port", "0", *FLAGS, *flags], capture_output=True, text=True, timeout=120
    )
    assert run.returncode != 0 and message in run.stderr, run.stderr
