"""--kv-transfer-config: a server fetches rows that another one has computed, bit-identical. Its answers are correct
whatever the other server does."""

import contextlib
import subprocess
import sys
import time

import httpx
import pytest
from conftest import ROOT, binary, serving, small_model
from kv_disk import FLAGS, PROMPT, answer
from kv_peers import SECRET, Proxy, config, free_port, free_port_and_the_next, peer, wait_for_peers

EACH = 4  # prompts; several, since a prompt is computed if that is faster than fetching, as on a busy machine


@pytest.fixture(scope="module")
def expected():
    """Answers of a single server."""
    with serving(small_model(), *FLAGS, "--no-enable-prefix-caching") as server:
        yield lambda number: answer(server, prompt(number))[0]


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


def prompt(number):
    return f"{number} {PROMPT}"


def ask_both(first, second, numbers, expected, **more):
    """Sends each prompt to the first server, then to the second. Returns the tokens that the second found cached."""
    found = 0
    for number in numbers:
        got, _ = answer(first, prompt(number), **more)
        assert got == expected(number)
        got, cached = answer(second, prompt(number), **more)
        assert got == expected(number), f"prompt {number}"
        found += cached
    return found


def ask_until_found(first, second, expected, timeout_s=120):
    deadline, number = time.monotonic() + timeout_s, 1000
    while not ask_both(first, second, [number], expected):
        number += 1
        assert time.monotonic() < deadline, second.metrics()


@pytest.mark.parametrize("with_secret", [True, False])
def test_what_one_server_computed_the_other_fetches(secret, expected, with_secret):
    port, file = free_port(), secret if with_secret else None
    with (
        peer("kv_producer", port, secret_file=file) as producer,
        peer("kv_consumer", peers=[port], secret_file=file) as consumer,
    ):
        wait_for_peers(consumer)
        ask_until_found(producer, consumer, expected)
        hits = consumer.metric("kv_peer_hits_total")
        assert hits > 0
        assert producer.metric("kv_peer_served_blocks_total") >= hits
        assert consumer.metric("external_prefix_cache_hits_total") > 0
        assert consumer.metric("kv_peer_errors_total") == 0 or consumer.metric("kv_peer_read_bytes_total") > 0
        # Nothing is fetched in the other direction.
        answer(consumer, prompt("the consumer's own"))
        assert answer(producer, prompt("the consumer's own"))[1] == 0


def test_two_servers_share_with_each_other_and_replay_finds_every_decision(secret, expected, tmp_path):
    one, other, log = free_port(), free_port(), tmp_path / "run.log"
    with (
        peer("kv_both", one, peers=[other], secret_file=secret) as left,
        peer("kv_both", other, peers=[one], secret_file=secret, flags=["--record", log]) as right,
    ):
        wait_for_peers(left)
        wait_for_peers(right)
        ask_until_found(left, right, expected)
        ask_until_found(right, left, lambda number: expected(number))
        # With another salt, a prompt is a different text.
        answer(left, prompt("salted"), cache_salt="one")
        assert answer(right, prompt("salted"), cache_salt="other")[1] == 0
    replayed = subprocess.run(
        [binary(), "simulate", "--replay", log], capture_output=True, text=True, timeout=120, check=False
    )
    assert replayed.returncode == 0, replayed.stderr
    assert "every decision the same" in replayed.stdout


def test_every_engine_of_a_server_gives_and_fetches(secret, expected):
    port, two = free_port_and_the_next(), ("--data-parallel-size", "2", "--threads", "2")
    with (
        peer("kv_producer", port, secret_file=secret, flags=two) as producer,
        peer("kv_consumer", peers=[port, port + 1], secret_file=secret, flags=two) as consumer,
    ):
        wait_for_peers(consumer, 4)
        # Each engine of one server finds blocks of each engine of the other.
        for given, taken in ((0, 0), (0, 1), (1, 0), (1, 1)):
            deadline, number = time.monotonic() + 120, 2000 + 100 * given + 1000 * taken
            found = 0
            while not found:
                assert time.monotonic() < deadline, consumer.metrics()
                number += 1
                answer(producer, prompt(number), headers={"X-data-parallel-rank": str(given)})
                got, found = answer(consumer, prompt(number), headers={"X-data-parallel-rank": str(taken)})
                assert got == expected(number)
        for engine in ("0", "1"):
            label = f'engine="{engine}"'
            for server, name in ((producer, "kv_peer_served_blocks_total"), (consumer, "kv_peer_hits_total")):
                counts = [v for k, v in server.metrics().items() if name in k and label in k]
                assert counts and counts[0] > 0


def flip(chunk, total):
    if total > 5000:
        chunk[len(chunk) // 2] ^= 1
    return chunk


def cut(chunk, total):
    return chunk if total < 20_000 else None


def twice(chunk, total):
    return chunk + chunk if total > 2000 else chunk


def stall(chunk, total):
    if total > 2000:
        time.sleep(3)
    return chunk


@pytest.mark.parametrize("harm", [flip, cut, twice, stall])
@pytest.mark.parametrize("with_secret", [True, False])
def test_a_connection_that_is_harmed_costs_no_answer(secret, expected, harm, with_secret):
    port, file = free_port(), secret if with_secret else None
    with (
        peer("kv_producer", port, secret_file=file) as producer,
        contextlib.closing(Proxy(port, harm)) as proxy,
        peer("kv_consumer", peers=[proxy.port], secret_file=file) as consumer,
    ):
        wait_for_peers(consumer)
        ask_both(producer, consumer, range(EACH), expected)


def test_a_peer_that_dies_costs_no_answer_and_is_found_again(secret, expected):
    port = free_port()
    with peer("kv_consumer", peers=[port], secret_file=secret) as consumer:
        for _ in range(2):
            with peer("kv_producer", port, secret_file=secret) as producer:
                wait_for_peers(consumer)
                ask_both(producer, consumer, range(3), expected)
                producer.process.kill()
                producer.process.wait()
                for number in range(1, EACH):
                    assert answer(consumer, prompt(number))[0] == expected(number)
            wait_for_peers(consumer, 0)


def test_whoever_has_another_secret_or_model_is_refused(secret, expected, tmp_path):
    port, other = free_port(), tmp_path / "other"
    other.write_text(SECRET[::-1])
    foreign = ("--dtype", "float32")
    with (
        peer("kv_producer", port, secret_file=secret) as producer,
        peer("kv_consumer", peers=[port], secret_file=other) as stranger,
        peer("kv_consumer", peers=[port], secret_file=secret, flags=foreign) as different,
    ):
        deadline = time.monotonic() + 30
        while producer.metric("kv_peer_refused_connections_total") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert ask_both(producer, stranger, range(2), expected) == 0
        answer(different, prompt(0))
        for server in (stranger, different):
            assert server.metric("kv_peer_connected") == 0
            assert server.metric("kv_peer_hits_total") == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (config("kv_producer", kv_ip="0.0.0.0"), "secret_file"),
        (("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'), "PagodaConnector"),
        (config("kv_consumer"), "peers"),
        (config("kv_producer", secret_file="/nowhere"), "/nowhere"),
        ((*config("kv_producer"), "--no-enable-prefix-caching"), "needs --enable-prefix-caching"),
        ((*config("kv_producer", 65535), "--data-parallel-size", "2", "--threads", "2"), "'kv_port' takes 2 ports"),
        ((*config("kv_producer"), "--tensor-parallel-size", "2"), "--kv-transfer-config"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, said):
    refused = subprocess.run(
        [binary(), "serve", str(small_model()), "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert said in refused.stderr.splitlines()[-1]


def post(url, **body):
    return httpx.post(url + "/v1/completions", json={"temperature": 0, "max_tokens": 6, **body}, timeout=60)


def test_a_proxy_of_vllms_hands_a_request_on(secret, expected):
    """One server computes the prompt, another generates; kv_transfer_params of the first are sent to the second."""
    port = free_port()
    with (
        peer("kv_producer", port, secret_file=secret, engine_id="p1") as prefill,
        peer("kv_consumer", peers=[port], secret_file=secret) as decode,
    ):
        wait_for_peers(decode)
        answer_of_prefill = post(
            prefill.url, prompt=prompt("a"), max_tokens=1, kv_transfer_params={"do_remote_decode": True}
        ).json()
        params = answer_of_prefill["kv_transfer_params"]
        assert params == {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": "p1",
            "remote_block_ids": None,
            "remote_host": "127.0.0.1",
            "remote_port": port,
        }
        assert answer(decode, prompt("a"), kv_transfer_params=params)[0] == expected("a")
        # No server fetches from a consumer, and ordinary answers have no kv_transfer_params.
        for url, asked in ((decode.url, {"do_remote_decode": True}), (prefill.url, None), (prefill.url, params)):
            assert "kv_transfer_params" not in post(url, prompt="b", kv_transfer_params=asked).json()
        for wrong, field in (
            (5, "kv_transfer_params"),
            ({"do_remote_decode": 1}, "kv_transfer_params.do_remote_decode"),
        ):
            refused = post(prefill.url, prompt="b", kv_transfer_params=wrong)
            assert refused.status_code == 400
            assert refused.json()["error"]["param"] == field
        example_answers_as_one_server(prefill, decode, expected)


def example_answers_as_one_server(prefill, decode, expected):
    script = ROOT / "examples/kv_transfer/proxy.py"
    with subprocess.Popen(
        [sys.executable, script, "0", prefill.url, decode.url], stdout=subprocess.PIPE, text=True
    ) as proxy:
        try:
            url = proxy.stdout.readline().split()[-1]
            before, deadline, number = decode.metric("kv_peer_hits_total"), time.monotonic() + 60, 2000
            while decode.metric("kv_peer_hits_total") == before:
                assert time.monotonic() < deadline
                number += 1
                choice = post(url, prompt=prompt(number), logprobs=2).json()["choices"][0]
                assert (choice["text"], choice["logprobs"]["token_logprobs"]) == expected(number)
            streamed = post(url, prompt=prompt(number), stream=True)
            assert streamed.text.endswith("data: [DONE]\n\n")
            assert post(url, prompt=5).status_code == 400
        finally:
            proxy.kill()
