"""The Python module pagoda_kv. The tests read its tensors as DLPack's header defines them, without an array library."""

import ctypes
import gc
import os
import random
import subprocess
import sys
import threading

import pytest
from conftest import ROOT, binary

MIB = 1 << 20


@pytest.fixture(scope="module")
def pagoda_kv():
    path = binary().parent / "libpagoda_kv.so"
    if not path.exists():
        pytest.skip(f"no library at {path}")
    if b"__asan_init" in path.read_bytes() or b"__tsan_init" in path.read_bytes():
        pytest.skip("built with a sanitizer, whose runtime Python does not have")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGODA_KV_LIBRARY", str(path))
        patch.syspath_prepend(ROOT / "python")
        import pagoda_kv

        yield pagoda_kv


@pytest.fixture
def driver(pagoda_kv):
    """A CUDA driver in software, which uses host memory."""
    path = binary().parent / "src/kv_library/libfake_cuda_driver.so"
    if not path.exists():
        pytest.skip(f"no library at {path}")
    library = ctypes.CDLL(str(path))
    library.fake_ordered.restype, library.fake_waits.restype = ctypes.c_uint64, ctypes.c_int64
    library.path = str(path)
    yield library
    gc.collect()
    assert library.fake_alive() == 0


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("device_type", "device_id", "ndim")),
        *(("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)),
        *((name, ctypes.POINTER(ctypes.c_int64)) for name in ("shape", "strides")),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p)),
        *(("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", DLTensor)),
    ]


ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"


class Array:
    """Imports a tensor as an array library does."""

    def __init__(self, tensor, versioned=False, **options):
        options.update({"max_version": (1, 0)} if versioned else {})
        capsule = tensor.__dlpack__(**options)
        name, form = (b"dltensor_versioned", Versioned) if versioned else (b"dltensor", Managed)
        self.address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, name)
        assert ctypes.pythonapi.PyCapsule_SetName(capsule, USED) == 0
        self.managed = form.from_address(self.address)
        tensor = self.managed.tensor
        self.shape, self.strides = tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]
        self.device, self.type = (tensor.device_type, tensor.device_id), (tensor.code, tensor.bits, tensor.lanes)
        self.size = tensor.bits // 8
        self.data = tensor.data + tensor.byte_offset

    def bytes_of(self, *at):
        """Returns the last axis at these indices as a writable buffer."""
        start = sum(index * stride for index, stride in zip(at, self.strides)) * self.size
        return (ctypes.c_char * (self.shape[-1] * self.size)).from_address(self.data + start)

    def close(self):
        if self.address:
            self.managed.deleter(self.address)
        self.address = None

    __del__ = close


def small(module, **changes):
    """Returns a cache with 12 pages of 32 tokens, and slots of 8 pages."""
    sizes = dict(num_layers=2, num_heads=2, head_size=32, dtype="float16", max_batch=4, max_context=256)
    return module.init(**{**sizes, "page_size": 4096, "capacity_bytes": 12 * 4 * 4096, **changes})


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("slicing", [False, True])
@pytest.mark.parametrize("dtype, kind", [("float16", (2, 16, 1)), ("bfloat16", (4, 16, 1)), ("float32", (2, 32, 1))])
def test_a_tensor_is_what_dlpack_says(pagoda_kv, dtype, kind, slicing, versioned):
    size = kind[1] // 8
    page = 64 * size * 32 * (2 if slicing else 1)
    with small(pagoda_kv, dtype=dtype, slicing=slicing, page_size=page, capacity_bytes=1 << 20) as kv:
        reqid = kv.alloc_reqid(40)
        kv.step({reqid: 40})
        token = 64 * (2 if slicing else 1)
        for tensors in (kv.key, kv.value):
            array, whole = Array(tensors(1, reqid), versioned), Array(tensors(1), versioned)
            assert (array.shape, array.strides) == ([40, 2, 32], [token, 32, 1])
            assert (whole.shape, whole.strides) == ([4, 256, 2, 32], [kv.layout.slot_stride // size, token, 32, 1])
            assert array.device == whole.device == (1, 0) == tensors(1).__dlpack_device__()
            assert array.type == whole.type == kind
            array.bytes_of(39, 1).raw = bytes([7]) * (32 * size)
            assert whole.bytes_of(reqid, 39, 1).raw == bytes([7]) * (32 * size)
            # Tokens without memory read as zeros.
            assert whole.bytes_of(reqid, 255, 1).raw == whole.bytes_of(3, 100, 0).raw == bytes(32 * size)
            if versioned:
                assert (array.managed.major, array.managed.minor, array.managed.flags) == (1, 0, 0)
        assert kv.reserved_bytes == kv.layout.slot_stride * 4 * kv.layout.num_tensors
        assert kv.mapped_bytes == 2 * page * kv.layout.num_tensors


def test_errors_are_exceptions_with_the_librarys_words(pagoda_kv):
    def refused(kind, text, call, *arguments, **options):
        with pytest.raises(kind, match=text) as caught:
            call(*arguments, **options)
        assert isinstance(caught.value, pagoda_kv.Error)

    refused(pagoda_kv.PageSize, "12288", small, pagoda_kv, num_heads=3)
    refused(ValueError, "at least 1", small, pagoda_kv, num_layers=0)
    refused(ValueError, "out of range", small, pagoda_kv, max_batch=1 << 40)
    refused(ValueError, "less than one page", small, pagoda_kv, capacity_bytes=100)
    refused(MemoryError, "not enough memory", small, pagoda_kv, capacity_bytes=1 << 45)
    refused(MemoryError, "max_batch x max_context", small, pagoda_kv, max_batch=1 << 24, max_context=1 << 20)
    refused(MemoryError, "vm.max_map_count", small, pagoda_kv, max_context=1 << 24)
    refused(ValueError, "dtype int8", small, pagoda_kv, dtype="int8")
    refused(ValueError, "device tpu", small, pagoda_kv, device="tpu")
    refused(pagoda_kv.NoDevice, "there is no libnone.so", small, pagoda_kv, device="cuda", cuda_driver="libnone.so")
    kv = small(pagoda_kv)
    refused(ValueError, "max_context is 256", kv.alloc_reqid, 257)
    refused(ValueError, "not in use", kv.free_reqid, 0)
    refused(ValueError, "not in use", kv.step, {0: 1})
    refused(ValueError, "no slot 4 of 4", kv.step, [1, 1, 1, 1, 1])
    refused(ValueError, "no layer 2 of 2", kv.key, 2)
    refused(ValueError, "no slot -1 of 4", kv.key, 0, -1)
    refused(ValueError, "not in use", kv.key(0, 0).__dlpack__)
    slots = [kv.alloc_reqid(64) for _ in range(4)]
    refused(ValueError, "more than max_context", kv.step, {0: 257})
    refused(pagoda_kv.Full, "all slots are in use", kv.alloc_reqid, 1)
    refused(pagoda_kv.Full, "32 pages are needed, 12 are free", kv.step, [256] * 4)
    kv.step([256, 128])
    refused(pagoda_kv.Full, "fork", kv.fork, 0, 33)
    refused(ValueError, "fewer tokens", kv.fork, slots[1], 129)
    for options, text in (
        (dict(copy=True), "not copied"),
        (dict(dl_device=(2, 0)), "cannot be on"),
        (dict(stream=1), "no stream"),
    ):
        with pytest.raises(BufferError, match=text):
            kv.key(0, 0).__dlpack__(**options)
    with pytest.raises(TypeError):
        kv.__class__.step(kv, {0: "1"})
    kv.close()
    kv.close()
    refused(ValueError, "closed", kv.step, [1])
    refused(ValueError, "closed", kv.key(0).__dlpack__)


def test_tensors_keep_what_they_show(pagoda_kv):
    kv = small(pagoda_kv)
    slots = [kv.alloc_reqid(96) for _ in range(4)]
    kv.step([96] * 4)  # all 12 pages
    array = Array(kv.key(0, slots[0]))
    array.bytes_of(95, 0).raw = b"\5" * 64
    for slot in slots:
        kv.free_reqid(slot)
    with pytest.raises(ValueError, match="not in use"):
        kv.free_reqid(slots[0])
    assert kv.stats().free_pages == 9
    stale = kv.key(0, slots[1])
    others = [kv.alloc_reqid(96) for _ in range(3)]
    assert slots[0] not in others
    with pytest.raises(pagoda_kv.Full, match="tensors keep 1 freed slot"):
        kv.alloc_reqid(1)
    with pytest.raises(pagoda_kv.Full, match="10 pages are needed, 9 are free; tensors keep 1 freed slot"):
        kv.step({others[0]: 320 - 64, others[1]: 64})
    with pytest.raises(ValueError, match="no memory|freed since|not in use"):
        kv.free_reqid(others[others.index(slots[1])])
        stale.__dlpack__()
    assert array.bytes_of(95, 0).raw == b"\5" * 64
    threading.Thread(target=array.close).run()
    assert kv.stats().free_pages == 12
    late, unclaimed = Array(kv.value(1)), kv.value(0).__dlpack__()
    kv.close()
    del kv
    gc.collect()
    assert late.bytes_of(3, 255, 1).raw == bytes(64)
    del unclaimed, late


def run(pagoda_kv, seed, **options):
    """Makes random calls, imports and releases arrays at random times, and compares each array with plain bytes."""
    chance = random.Random(seed)
    kv = small(
        pagoda_kv,
        map_ahead=chance.random() < 0.5,
        eager_pages=chance.choice([0, 1, 1 << 30]),
        deferred_reclaim=chance.random() < 0.5,
        **options,
    )
    lengths, arrays = {}, []
    for _ in range(120):
        match chance.randrange(7):
            case 0 | 1:
                try:
                    lengths[kv.alloc_reqid(chance.randrange(200))] = 0
                except pagoda_kv.Full:
                    assert len(lengths) == 4 or arrays
            case 2 if lengths:
                kv.free_reqid(gone := chance.choice(list(lengths)))
                del lengths[gone]
            case 3 if lengths:
                wanted = {slot: chance.randrange(1, 257) for slot in lengths if chance.random() < 0.7}
                try:
                    kv.step(wanted)
                    lengths.update({slot: max(length, lengths[slot]) for slot, length in wanted.items()})
                except pagoda_kv.Full:
                    pass
            case 4 if arrays:
                arrays.pop(chance.randrange(len(arrays)))[0].close()
            case 5 | 6 if any(lengths.values()):
                slot = chance.choice([slot for slot in lengths if lengths[slot]])
                array = Array(kv.key(1, slot), chance.random() < 0.5)
                assert array.shape[0] == lengths[slot]
                for other, written in arrays:
                    if other.data == array.data:  # arrays of one slot, which share their bytes
                        written.clear()
                arrays.append((array, {}))
        for array, written in arrays:
            for at, byte in written.items():
                assert array.bytes_of(at, 1).raw == bytes([byte]) * 64, f"seed {seed}"
        for array, written in arrays:
            if not any(other is not array and other.data == array.data for other, _ in arrays):
                at = chance.randrange(array.shape[0])
                written[at] = chance.randrange(256)
                array.bytes_of(at, 1).raw = bytes([written[at]]) * 64
    if chance.random() < 0.5:
        kv.close()
    return arrays


def test_no_order_of_calls_loses_bytes(pagoda_kv):
    for seed in range(150):
        run(pagoda_kv, seed)
    gc.collect()


def test_nor_on_a_devices_memory(pagoda_kv, driver):
    for seed in range(40):
        run(pagoda_kv, seed, device="cuda", cuda_driver=driver.path)
    gc.collect()


def test_a_devices_streams_are_honoured(pagoda_kv, driver):
    kv = small(pagoda_kv, device="cuda", cuda_driver=driver.path)
    assert kv.key(0).__dlpack_device__() == (2, 0)
    reqid = kv.alloc_reqid(40)
    kv.step({reqid: 40})
    array = Array(kv.key(0, reqid), stream=77)
    assert array.device == (2, 0) and driver.fake_ordered() == 0  # nothing was copied, so there is nothing to wait for
    for stream in (0, -2):
        with pytest.raises(pagoda_kv.Invalid, match=f"stream {stream} is none"):
            kv.key(0, reqid).__dlpack__(stream=stream)
    with pytest.raises(BufferError):
        kv.key(0, reqid).__dlpack__(dl_device=(1, 0))
    child = kv.fork(reqid, 33)
    for stream, ordered in ((None, 0), (1, 0), (-1, 0), (2, 2), (77, 77)):
        Array(kv.key(0, child), stream=stream)
        assert driver.fake_ordered() == ordered
    # Memory that tensors have shown is unmapped only after kernels have finished; other memory without waiting.
    before = driver.fake_waits()
    kv.step({reqid: 41})
    kv.free_reqid(reqid)
    assert driver.fake_waits() == before
    del array
    kv.step({child: 34})
    assert driver.fake_waits() == before + 1
    kv.step({child: 256})
    assert driver.fake_waits() == before + 1
    # Pages may be missing after an error of the driver, so nothing may be read any more.
    driver.fake_fail(b"cuMemMap", ctypes.c_int64(1))
    other = kv.alloc_reqid(40)
    with pytest.raises(OSError, match="cuMemMap: error 2 of the driver"):
        kv.step({other: 40})
    for call in (lambda: kv.step({child: 1}), lambda: kv.alloc_reqid(1), kv.key(0, child).__dlpack__):
        with pytest.raises(pagoda_kv.System, match="an earlier call has failed.*cuMemMap"):
            call()
    kv.free_reqid(other)


AT_THE_END = """
import os, pagoda_kv, sys
kv = pagoda_kv.init(2, 2, 32, "float16", 4, 256, 4096, 1 << 20, map_ahead=True)
reqid = kv.alloc_reqid(40)
kv.step({reqid: 40})
held, taken = kv.key(0, reqid).__dlpack__(), kv.value(1).__dlpack__(max_version=(1, 0))
pid = os.fork()
if pid == 0:
    try:
        kv.step({reqid: 41})
    except RuntimeError as error:
        assert "fork" in str(error)
        del held, kv
        sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
kv.step({reqid: 41})
sys.leak = held  # outlives the modules
"""


def test_a_process_may_end_or_fork_with_tensors(pagoda_kv):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
