"""The KV cache of an LLM server as plain, contiguous tensors whose memory is mapped as sequences grow: vAttention's
calls (arXiv 2405.04437) over libpagoda_kv; include/pagoda_kv.h has the details that are not repeated here. Any array
library that supports DLPack can use the tensors, and attention kernels without block tables run on them unchanged.

    kv = pagoda_kv.init(num_layers=32, num_heads=8, head_size=128, dtype="bfloat16", max_batch=64, max_context=8192,
                        page_size=1 << 16, capacity_bytes=8 << 30)
    reqid = kv.alloc_reqid(len(prompt))
    kv.step({reqid: len(prompt)})                   # before a forward pass: map memory for the tokens
    keys = torch.from_dlpack(kv.key(0, reqid))      # [tokens, heads, head_size]
    kv.free_reqid(reqid)
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from ctypes import c_int32
from typing import Any

from pagoda_kv import _native
from pagoda_kv._native import Error as Error
from pagoda_kv._native import Full as Full
from pagoda_kv._native import Invalid as Invalid
from pagoda_kv._native import Layout as Layout
from pagoda_kv._native import NoDevice as NoDevice
from pagoda_kv._native import NoMemory as NoMemory
from pagoda_kv._native import PageSize as PageSize
from pagoda_kv._native import Stats as Stats
from pagoda_kv._native import System as System

_FLOAT, _BFLOAT = 2, 4  # DLPack's type codes; below, its device types
_CPU, _CUDA = 1, 2
_TYPES = {"float16": (_FLOAT, 2), "bfloat16": (_BFLOAT, 2), "float32": (_FLOAT, 4)}


def init(
    num_layers: int,
    num_heads: int,
    head_size: int,
    dtype: Any,
    max_batch: int,
    max_context: int,
    page_size: int,
    capacity_bytes: int,
    *,
    slicing: bool = False,
    map_ahead: bool = False,
    eager_pages: int = 0,
    deferred_reclaim: bool = False,
    device: str = "cpu",
    cuda_driver: str = "libcuda.so.1",
) -> KvCache:
    """Reserves address space for max_batch slots of max_context tokens and commits capacity_bytes of memory.

    dtype: float16, bfloat16 or float32, as a name or as a dtype of torch or numpy. device: "cpu", "cuda" or "cuda:N".
    The other arguments are those of pagoda_kv_config: heads are KV heads, and page_size is a multiple of 4096 bytes
    (of 2 MiB on a GPU) and of the size of a token in one tensor."""
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in _TYPES:
        raise Invalid(f"dtype {name}: there are {', '.join(_TYPES)}")
    kind, _, ordinal = str(device).partition(":")
    if kind not in ("cpu", "cuda") or not (ordinal or "0").isdecimal() or (kind == "cpu" and ordinal not in ("", "0")):
        raise Invalid(f"device {device}: there are cpu, cuda and cuda:N")
    counts = {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "head_size": head_size,
        "max_batch": max_batch,
        "max_context": max_context,
        "eager_pages": eager_pages,
        "cuda_device": int(ordinal or 0),
    }
    config = _native.Config(
        **{what: _native.int32(count, what) for what, count in counts.items()},
        element_size=_TYPES[name][1],
        page_size=_native.int64(page_size, "page_size"),
        capacity_bytes=_native.int64(capacity_bytes, "capacity_bytes"),
        slicing=bool(slicing),
        map_ahead=bool(map_ahead),
        deferred_reclaim=bool(deferred_reclaim),
        cuda_driver=os.fsencode(cuda_driver) if kind == "cuda" else None,
    )
    return KvCache(config, name)


class KvCache:
    """The KV cache that init() creates. Thread-safe: calls are serialized, and waiting calls release the GIL. The
    memory is released by close() or with the object, once no array refers to it any more."""

    def __init__(self, config: _native.Config, dtype: str):
        self._config = config
        self._handle = _native.init(config)
        self._close = weakref.finalize(self, _native.library()["destroy"], self._handle)
        self._lock, self._process = threading.RLock(), os.getpid()
        # Per slot, the number of times it was freed: a Tensor made before that belongs to an earlier sequence.
        self._turns = [0] * config.max_batch
        self.dtype = dtype
        self.layout = _native.layout_of(self._handle)

    def _open(self) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError("a KV cache does not survive fork(): use the spawn method of multiprocessing")
        return self._lock

    def _living(self) -> Any:
        if not self._close.alive:
            raise Invalid("this KV cache is closed")
        return self._handle

    def close(self) -> None:
        """Closes the cache. Arrays over its memory stay valid; the memory is released with the last of them."""
        if os.getpid() == self._process:
            with self._lock:
                self._close()

    def __enter__(self) -> KvCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def alloc_reqid(self, num_tokens: int = 0) -> int:
        """Returns a free slot for a sequence that will soon have num_tokens tokens, the one whose existing mapping fits
        best. Raises Full if all slots are taken."""
        with self._open():
            return _native.call("alloc_reqid", self._living(), _native.int32(num_tokens, "num_tokens"))

    def free_reqid(self, reqid: int) -> None:
        """Frees the slot, immediately or when the last array over its tokens is released."""
        with self._open():
            reqid = _native.int32(reqid, "reqid")
            _native.call("free_reqid", self._living(), reqid)
            self._turns[reqid] += 1

    def step(self, context_lengths: Mapping[int, int] | Sequence[int]) -> None:
        """Call before each forward pass with the number of tokens that each slot will have after it, by slot. Slots
        that take no part have 0 or are left out. If Full is raised, nothing has changed."""
        max_batch = self._config.max_batch
        given = context_lengths.items() if isinstance(context_lengths, Mapping) else enumerate(context_lengths)
        lengths = (c_int32 * max_batch)()
        for reqid, length in given:
            if not 0 <= reqid < max_batch:
                raise Invalid(f"step: there is no slot {reqid} of {max_batch}")
            lengths[reqid] = _native.int32(length, "step: the length")
        with self._open():
            _native.call("step", self._living(), lengths)

    def fork(self, reqid: int, num_tokens: int) -> int:
        """Returns the slot of a new sequence with the first num_tokens tokens of this one. The two sequences share
        whole pages, into which neither may write."""
        with self._open():
            numbers = _native.int32(reqid, "reqid"), _native.int32(num_tokens, "num_tokens")
            return _native.call("fork", self._living(), *numbers)

    def key(self, layer: int, reqid: int | None = None) -> Tensor:
        """Returns the keys of a sequence for from_dlpack(): [tokens, heads, head_size], for the tokens that have memory
        now. For tokens of later steps, request a new tensor. Without reqid, returns the keys of all slots: [max_batch,
        max_context, heads, head_size]. There, writing a token without memory raises a signal; reading one yields zeros
        in host memory and is not allowed in GPU memory."""
        return Tensor(self, layer, False, reqid)

    def value(self, layer: int, reqid: int | None = None) -> Tensor:
        """Returns the values, like key()."""
        return Tensor(self, layer, True, reqid)

    def stats(self) -> Stats:
        with self._open():
            return _native.stats_of(self._living())

    @property
    def reserved_bytes(self) -> int:
        """Address space reserved for all tensors."""
        return self.layout.slot_stride * self._config.max_batch * self.layout.num_tensors

    @property
    def mapped_bytes(self) -> int:
        """Memory of the pages that sequences use. A shared page counts once."""
        used = self.layout.num_pages - self.stats().free_pages
        return used * int(self._config.page_size) * self.layout.num_tensors


class Tensor:
    """The keys or values of a layer, for from_dlpack(). This object keeps no memory alive; the arrays created from it
    do, so the tokens stay in place as long as an array refers to them."""

    def __init__(self, kv: KvCache, layer: int, values: bool, reqid: int | None):
        self._kv, self._layer, self._values = kv, _native.int32(layer, "layer"), values
        self._reqid = -1 if reqid is None else _native.int32(reqid, "reqid")
        if not (0 <= self._layer < kv._config.num_layers):
            raise Invalid(f"there is no layer {layer} of {kv._config.num_layers}")
        if reqid is not None and not (0 <= self._reqid < kv._config.max_batch):
            raise Invalid(f"there is no slot {reqid} of {kv._config.max_batch}")
        self._turn = kv._turns[self._reqid]

    def __dlpack_device__(self) -> tuple[int, int]:
        config = self._kv._config
        return (_CUDA, int(config.cuda_device)) if config.cuda_driver is not None else (_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        device, kv = self.__dlpack_device__(), self._kv
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"a tensor on DLPack's device {device} cannot be on {tuple(dl_device)}")
        if copy:
            raise BufferError("a tensor of the KV cache is not copied")
        if device[0] == _CPU and stream not in (None, -1):
            raise BufferError(f"the host's memory has no stream {stream}")
        request = _native.TensorRequest(
            layer=self._layer,
            values=self._values,
            reqid=self._reqid,
            type=_TYPES[kv.dtype][0],
            versioned=max_version is not None and max_version[0] >= 1,
            stream=1 if stream is None else stream,
        )
        with kv._open():
            if self._reqid >= 0 and kv._turns[self._reqid] != self._turn:
                raise Invalid(f"slot {self._reqid} was freed since this tensor was made")
            return _native.capsule(kv._living(), request)
