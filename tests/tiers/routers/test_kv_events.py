"""KV events, read with the structures that vLLM publishes for its subscribers, and with msgpack alone."""

import hashlib
import json
import struct
import time

import httpx
import msgpack
import msgspec
import pytest
import zmq
from conftest import serving, small_model

BLOCK = 16


class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list
    data_parallel_rank: int | None = None


class KVCacheEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(KVCacheEvent):
    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple | None] | None = None


class BlockRemoved(KVCacheEvent):
    block_hashes: list[bytes | int]
    medium: str | None


class AllBlocksCleared(KVCacheEvent):
    pass


class KVEventBatch(EventBatch):
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]


DECODER = msgspec.msgpack.Decoder(KVEventBatch)


class Subscriber:
    """Accumulates the batches into {hash: its tokens from the beginning of the text}."""

    def __init__(self, endpoint, topic=""):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        self.socket.connect(endpoint)
        self.held, self.numbers, self.events, self.salts = {}, [], [], []
        self.tiers, self.ranks = {"CPU": set(), "DISK": set()}, set()

    def take(self, payload):
        batch = DECODER.decode(payload)
        self.ranks.add(batch.data_parallel_rank)
        for event in batch.events:
            self.events.append(event)
            tier = self.tiers.get(getattr(event, "medium", None))
            if tier is not None and isinstance(event, BlockStored):
                assert event.token_ids == [] and event.parent_block_hash is None
                assert not tier & set(event.block_hashes)
                tier.update(event.block_hashes)
            elif tier is not None:
                assert tier >= set(event.block_hashes)
                tier.difference_update(event.block_hashes)
            elif isinstance(event, BlockStored):
                assert (
                    event.block_size == BLOCK
                    and event.medium == "GPU"
                    and len(event.token_ids) == BLOCK * len(event.block_hashes)
                )
                before = () if event.parent_block_hash is None else self.held[event.parent_block_hash]
                for i, block in enumerate(event.block_hashes):
                    before = (*before, *event.token_ids[i * BLOCK : (i + 1) * BLOCK])
                    assert block not in self.held
                    self.held[block] = before
                if event.extra_keys:
                    self.salts.append(event.extra_keys[0][0])
            elif isinstance(event, BlockRemoved):
                for block in event.block_hashes:
                    del self.held[block]
            else:
                self.held.clear()
                for tier in self.tiers.values():
                    tier.clear()

    def receive(self, timeout_ms=20_000):
        if not self.socket.poll(timeout_ms):
            return None
        topic, number, payload = self.socket.recv_multipart()
        self.numbers.append(int.from_bytes(number, "big"))
        self.take(payload)
        return topic

    def until(self, condition, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            self.receive(200)
        return condition()


@pytest.fixture
def published(tmp_path):
    """A server with a cache of 30 blocks, and its endpoints."""
    endpoint, replay = f"ipc://{tmp_path}/events", f"ipc://{tmp_path}/replay"
    config = {"enable_kv_cache_events": True, "endpoint": endpoint, "replay_endpoint": replay, "topic": "kv-events"}
    with (
        serving(
            small_model(),
            "--kv-events-config",
            json.dumps(config),
            "--kv-cache-memory-bytes",
            "1200KiB",
            "--block-size",
            str(BLOCK),
            "--max-model-len",
            "200",
        ) as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        yield server, http, endpoint, replay


def complete(http, prompt, **more):
    answer = http.post(
        "/v1/completions",
        json={
            "prompt": prompt,
            "max_tokens": 4,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            **more,
        },
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def all_again(replay, start=0):
    """Returns [(number, payload)] of a replay, requested as by a vLLM client."""
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(replay)
    socket.send_multipart([b"", start.to_bytes(8, "big")])
    batches = []
    while True:
        assert socket.poll(20_000), "no end of the replay"
        empty, number, payload = socket.recv_multipart()
        assert empty == b""
        if not payload:
            assert int.from_bytes(number, "big", signed=True) == -1
            return batches
        batches.append((int.from_bytes(number, "big"), payload))


def replayed(replay, endpoint):
    kept = Subscriber(endpoint)
    for _, payload in all_again(replay):
        kept.take(payload)
    return kept


def test_what_is_told_is_what_is_cached(published):
    server, http, endpoint, replay = published
    subscriber = Subscriber(endpoint, "kv-events")
    prompt = [5 + i for i in range(40)]
    complete(http, prompt)
    assert subscriber.until(lambda: len(subscriber.held) >= 2) or replayed(replay, endpoint).held
    everything = replayed(replay, endpoint)
    assert sorted(everything.held.values(), key=len) == [tuple(prompt[:16]), tuple(prompt[:32])]
    # A branch is attached to the stored blocks, and is reported once.
    complete(http, prompt[:32] + [7] * 20)
    complete(http, prompt[:32] + [7] * 20)
    everything = replayed(replay, endpoint)
    assert tuple(prompt[:32] + [7] * 16) in everything.held.values() and len(everything.held) == 3
    # The cache is too small for many texts: evictions are reported, and the remaining blocks are hit.
    for i in range(40):
        complete(http, [i * 3 + 1] * 50 + [2, 3])
    everything = replayed(replay, endpoint)
    assert any(isinstance(event, BlockRemoved) for event in everything.events)
    last = complete(http, [39 * 3 + 1] * 50 + [2, 3])
    assert (
        last["usage"]["prompt_tokens_details"]["cached_tokens"] == 48 and tuple([118] * 48) in everything.held.values()
    )
    evicted = complete(http, prompt)
    assert tuple(prompt[:16]) not in everything.held.values()
    assert evicted["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert http.post("/reset_prefix_cache").status_code == 200
    assert replayed(replay, endpoint).held == {}


def test_numbers_topics_and_replay(published):
    _, http, endpoint, replay = published
    subscriber, other = Subscriber(endpoint, "kv-events"), Subscriber(endpoint, "something else")
    for i in range(200):  # until the subscription has arrived
        complete(http, [i % 200 + 1] * 20)
        if subscriber.socket.poll(50):
            break
    for i in range(5):
        complete(http, [i + 300] * 40)
    batches = all_again(replay)
    assert [number for number, _ in batches] == list(range(len(batches)))
    assert all_again(replay, 3)[0][0] == 3
    while subscriber.numbers[-1:] != [len(batches) - 1]:
        assert subscriber_take(subscriber) == b"kv-events"
    assert subscriber.numbers == list(range(subscriber.numbers[0], len(batches)))
    assert not other.socket.poll(100)
    # With msgpack alone, as a consumer without msgspec reads them.
    ts, events, rank = msgpack.unpackb(batches[0][1])
    assert abs(ts - time.time()) < 600 and rank == 0 and events[0]["type"] == "BlockStored"


def subscriber_take(subscriber):
    """Takes one message, whatever its predecessors were, and returns its topic."""
    assert subscriber.socket.poll(20_000)
    topic, number, payload = subscriber.socket.recv_multipart()
    subscriber.numbers.append(int.from_bytes(number, "big"))
    return topic


def publishing(tmp_path, *flags):
    config = {
        "enable_kv_cache_events": True,
        "endpoint": f"ipc://{tmp_path}/events",
        "replay_endpoint": f"ipc://{tmp_path}/replay",
    }
    return serving(
        small_model(),
        *("--kv-events-config", json.dumps(config), "--block-size", str(BLOCK), "--max-model-len", "200"),
        *flags,
    )


def until(tmp_path, condition, rank=""):
    """Returns the accumulated events of an engine once `condition` holds."""
    deadline = time.monotonic() + 30
    while not condition(told := replayed(f"ipc://{tmp_path}/replay{rank}", f"ipc://{tmp_path}/events{rank}")):
        assert time.monotonic() < deadline, (told.held, told.tiers)
        time.sleep(0.1)
    return told


def test_tiers_are_told_with_their_medium(tmp_path):
    flags = ("--kv-cache-memory-bytes", "1200KiB", "--kv-offloading-size", "1MiB", "--kv-disk", str(tmp_path / "kv"))
    prompt = [5 + i for i in range(40)]
    with publishing(tmp_path, *flags) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        complete(http, prompt)
        told = until(tmp_path, lambda told: len(told.tiers["CPU"]) == len(told.tiers["DISK"]) == 2)
        assert told.tiers["CPU"] == told.tiers["DISK"] == set(told.held)
        on_disk = told.tiers["DISK"]
        # CPU memory is too small for many texts, but the disk is not.
        for i in range(40):
            complete(http, [i * 3 + 1] * 50 + [2, 3])
        told = until(tmp_path, lambda told: len(told.tiers["DISK"]) == 2 + 40 * 3)
        assert on_disk < told.tiers["DISK"] and not on_disk & (told.tiers["CPU"] | set(told.held))
    with publishing(tmp_path, *flags) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert until(tmp_path, lambda again: again.tiers["DISK"] == told.tiers["DISK"]).held == {}
        complete(http, prompt)
        # A block that was fetched is in CPU memory, too.
        back = until(tmp_path, lambda back: back.tiers["CPU"] >= on_disk)
        assert set(back.held) == on_disk
        assert http.post("/reset_prefix_cache").status_code == 200
        told = until(tmp_path, lambda told: isinstance(told.events[-1], AllBlocksCleared))
        assert told.held == {} and not any(told.tiers.values())


def test_each_engine_publishes_at_an_endpoint_of_its_own(tmp_path):
    flags = ("--data-parallel-size", "2", "--threads", "2")
    prompts = [[5 + rank + i for i in range(40)] for rank in range(2)]
    with publishing(tmp_path, *flags) as server:
        for rank, prompt in enumerate(prompts):
            with httpx.Client(base_url=server.url, headers={"X-data-parallel-rank": str(rank)}) as http:
                complete(http, prompt)
        for rank, prompt in enumerate(prompts):
            told = until(tmp_path, lambda told: len(told.held) == 2, rank=f"_dp{rank}" if rank else "")
            assert set(told.held.values()) == {tuple(prompt[:16]), tuple(prompt[:32])} and told.ranks == {rank}


def test_the_hashes_are_those_of_the_page(published):
    """docs/kv-events.md: SHA-256 over the parent's digest, "tokn" and the tokens as 32-bit numbers."""
    _, http, endpoint, replay = published
    prompt = [9] * 33
    complete(http, prompt)
    event = replayed(replay, endpoint).events[0]
    model = hashlib.sha256(b"").digest()
    digest = hashlib.sha256(model + b"salt").digest()
    expected = []
    for i in range(2):
        digest = hashlib.sha256(digest + b"tokn" + struct.pack("<16i", *prompt[i * 16 : (i + 1) * 16])).digest()
        expected.append(int.from_bytes(digest[-8:], "big"))
    assert event.block_hashes == expected and event.parent_block_hash is None and event.extra_keys is None


def test_a_salted_text_is_told_as_such(published):
    _, http, endpoint, replay = published
    prompt = [11] * 33
    complete(http, prompt)
    complete(http, prompt, cache_salt="mine")
    plain, salted = replayed(replay, endpoint).events[:2]
    assert plain.extra_keys is None and len(salted.extra_keys) == 2 and salted.extra_keys[1] is None
    assert "mine" not in str(salted.extra_keys) and plain.block_hashes != salted.block_hashes


def test_a_config_that_cannot_be_is_refused(tmp_path):
    import subprocess

    from conftest import binary

    for config, wanted in (
        ("{", "JSON object"),
        ('{"endpint":"x"}', "endpint"),
        ('{"hwm":0}', "hwm"),
        ('{"enable_kv_cache_events":true,"endpoint":"tcp://*:x"}', "tcp://*:x"),
    ):
        done = subprocess.run(
            [binary(), "serve", small_model(), "--port", "0", "--kv-events-config", config],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2 and wanted in done.stderr, done.stderr
