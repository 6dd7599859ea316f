"""torch and numpy, as installed, over the tensors of pagoda_kv."""

import gc
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY = pathlib.Path(os.environ.get("PAGODA_BINARY", ROOT / "build/pagoda")).parent / "libpagoda_kv.so"
EXAMPLE = ROOT / "examples/pagoda_kv/torch_attention.py"
DTYPES = ["float16", "bfloat16", "float32"]


@pytest.fixture(scope="module")
def pagoda_kv():
    if not LIBRARY.exists():
        pytest.skip(f"no library at {LIBRARY}")
    os.environ["PAGODA_KV_LIBRARY"] = str(LIBRARY)
    sys.path.insert(0, str(ROOT / "python"))
    import pagoda_kv

    return pagoda_kv


def small(module, dtype="float32", **changes):
    """Opens a cache of 12 pages, each of 16 tokens in float32."""
    sizes = dict(num_layers=2, num_heads=2, head_size=32, dtype=dtype, max_batch=4, max_context=128)
    return module.init(**{**sizes, "page_size": 4096, "capacity_bytes": 12 * 4 * 4096, **changes})


def test_the_example(pagoda_kv):
    """The target of this tier: the same bits as with ordinary tensors, with little memory, through preemption."""
    assert len(EXAMPLE.read_text().splitlines()) <= 150
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PAGODA_KV_LIBRARY": str(LIBRARY)}
    done = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    calls, different = map(int, re.search(r"(\d+) calls of attention, (\d+) with other bits", done.stdout).groups())
    assert calls > 1000 and different == 0
    mapped = float(re.search(r"([0-9.]+) MiB mapped at most", done.stdout)[1])
    assert 0 < mapped <= 14 and "384 MiB of addresses" in done.stdout and "preempted" in done.stdout
    assert int(re.search(r"(\d+) of them ahead", done.stdout)[1]) > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_sees_its_own_types(pagoda_kv, dtype):
    wanted = getattr(torch, dtype)
    kv = small(pagoda_kv, wanted)
    reqid = kv.alloc_reqid(50)
    kv.step({reqid: 50})
    one, whole = torch.from_dlpack(kv.key(1, reqid)), torch.from_dlpack(kv.key(1))
    assert one.dtype == whole.dtype == wanted and one.shape == (50, 2, 32) and whole.shape == (4, 128, 2, 32)
    one.copy_(torch.randn(50, 2, 32))
    assert torch.equal(whole[reqid, :50], one) and not whole[reqid, 100:].any()
    del one, whole
    kv.free_reqid(reqid)
    assert kv.stats().free_pages == kv.layout.num_pages


def test_numpy_takes_what_it_knows(pagoda_kv):
    for dtype in ("float16", "float32"):
        kv = small(pagoda_kv, dtype)
        kv.step({kv.alloc_reqid(50): 50})
        one, whole = np.from_dlpack(kv.value(0, 0)), np.from_dlpack(kv.value(0))
        assert one.dtype == dtype and one.shape == (50, 2, 32)
        one[:] = np.arange(32)
        assert (whole[0, :50] == np.arange(32)).all() and not whole[1:].any()
    kv = small(pagoda_kv, "bfloat16")
    kv.step({kv.alloc_reqid(50): 50})
    # numpy drops the capsule while an error is pending; that error is the one raised.
    for _ in range(100):
        with pytest.raises((BufferError, RuntimeError, TypeError)):
            np.from_dlpack(kv.value(0, 0))
    kv.free_reqid(0)
    assert kv.stats().free_pages == kv.layout.num_pages


def test_a_batch_of_unequal_lengths_in_one_call(pagoda_kv):
    """One call over the tensors of all slots, with a mask: tokens without memory are not written and read as zeros."""
    kv = small(pagoda_kv, map_ahead=True)
    lengths = [5, 37, 16, 21]
    for length in lengths:
        kv.alloc_reqid(length)
    kv.step(lengths)
    keys, values = torch.from_dlpack(kv.key(0)), torch.from_dlpack(kv.value(0))
    plain = torch.zeros(2, 4, 128, 2, 32)
    for slot, length in enumerate(lengths):
        for tensor, other in zip((keys, values), plain):
            tensor[slot, :length] = other[slot, :length] = torch.randn(length, 2, 32)
    q = torch.randn(4, 2, 1, 32)
    mask = (torch.arange(128) < torch.tensor(lengths)[:, None])[:, None, None]
    over = [
        F.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2), mask)
        for k, v in [(keys, values), plain]
    ]
    assert torch.equal(*over)


def test_tensors_and_managers_go_in_any_order(pagoda_kv):
    """Random calls: each live tensor keeps its numbers, whichever library holds it."""
    for seed in range(100):
        chance, held = random.Random(seed), []
        kv = small(pagoda_kv, deferred_reclaim=chance.random() < 0.5, map_ahead=chance.random() < 0.5)
        slots = {}
        for _ in range(60):
            try:
                match chance.randrange(5):
                    case 0:
                        slots[kv.alloc_reqid(chance.randrange(100))] = 0
                    case 1 if slots:
                        slot = chance.choice(list(slots))
                        kv.step({slot: chance.randrange(1, 129)})
                        take = chance.choice([torch.from_dlpack, np.from_dlpack])
                        array = take((kv.key if chance.random() < 0.5 else kv.value)(0, slot))
                        number = chance.random()
                        array[:] = number
                        # Other arrays of the same tokens see the new number.
                        held = [(other, old) for other, old in held if pointer(other) != pointer(array)]
                        held.append((array, np.float32(number)))
                    case 2 if slots:
                        kv.free_reqid(slots.popitem()[0])
                    case 3 if held:
                        held.pop(chance.randrange(len(held)))
                        array = None
                    case 4 if chance.random() < 0.1:
                        kv.close()
            except pagoda_kv.Full:
                pass
            except ValueError as error:
                assert "closed" in str(error)
                break
            for array_held, number in held:
                assert (array_held == float(number)).all(), f"seed {seed}"
        del kv
        gc.collect()
        for array_held, number in held:
            assert (array_held == float(number)).all(), f"seed {seed}"


def pointer(array):
    return array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data
