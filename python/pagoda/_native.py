"""ctypes bindings of the C interface pagoda.h, and nothing more; the vLLM-compatible classes are built on them in the
other modules. Calls that block release the GIL."""

from __future__ import annotations

import json
import os
import pathlib
from array import array
from collections.abc import Callable
from ctypes import (
    CDLL,
    POINTER,
    PyDLL,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    sizeof,
    string_at,
)
from typing import Any

TIMEOUT, IDLE, BUSY = 1, 2, 3  # normal results, not errors
INVALID, NOT_FOUND, UNIMPLEMENTED = -1, -2, -3
ERRORS: dict[int, type[Exception]] = {
    INVALID: ValueError,
    NOT_FOUND: FileNotFoundError,
    UNIMPLEMENTED: NotImplementedError,
}
OUTPUTS_AT_ONCE = 256  # outputs per batch; limits how long decoding a batch holds the GIL


class _Option(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Facts(Structure):
    _fields_ = [
        *((name, c_char_p) for name in ("model", "architecture", "scheduler", "scheduling_policy", "kv_manager")),
        *((name, c_int64) for name in ("max_model_len", "max_num_seqs", "vocab_size")),
        *((name, c_int64) for name in ("kv_cache_bytes", "kv_cache_tokens", "weight_bytes", "num_threads")),
        *((name, c_int32) for name in ("bos_token_id", "eos_token_id", "pad_token_id")),
    ]


class Stats(Structure):
    _fields_ = [
        (name, c_int64)
        for name in (
            *("block_size", "num_blocks", "num_free_blocks", "num_running", "num_waiting", "num_swapped"),
            *("total_slots", "token_slots", "reserved_slots", "internal_slots", "external_slots", "cached_slots"),
            *("blocks_in_use", "blocks_without_sharing", "num_steps", "num_batched_tokens", "num_preemptions"),
            *("num_blocks_copied", "num_blocks_swapped_out", "num_blocks_swapped_in"),
        )
    ]


_TEXT_OUT = (POINTER(c_void_p), POINTER(c_size_t))
_WAITS: dict[str, tuple[Any, ...]] = {
    "engine_create": (c_char_p, POINTER(_Option), c_size_t, POINTER(c_void_p)),
    "queue_create": (c_void_p, POINTER(c_void_p)),
    "submit_text": (c_void_p, c_char_p, c_size_t, c_char_p, POINTER(c_uint64)),
    "submit_ids": (c_void_p, c_void_p, c_size_t, c_char_p, POINTER(c_uint64)),
    "submit_chat": (c_void_p, c_char_p, c_char_p, POINTER(c_uint64)),
    "submit_call": (c_void_p, c_char_p, c_char_p, POINTER(c_uint64)),
    "next_json": (c_void_p, c_int64, c_size_t, *_TEXT_OUT),
    "tokenize": (c_void_p, c_char_p, c_size_t, c_int32, *_TEXT_OUT),
    "detokenize": (c_void_p, c_void_p, c_size_t, c_int32, *_TEXT_OUT),
    "apply_chat_template": (c_void_p, c_char_p, *_TEXT_OUT),
    "get_stats": (c_void_p, POINTER(Stats), c_size_t),
    "sleep": (c_void_p, c_int32, c_char_p),
    "wake_up": (c_void_p, c_char_p),
    "reset_prefix_cache": (c_void_p,),
    "load_adapter": (c_void_p, c_char_p, c_char_p),
    "get_metrics": (c_void_p, *_TEXT_OUT),
    "engine_destroy": (c_void_p,),
    "queue_destroy": (c_void_p,),
}
# These take microseconds at most. Releasing the GIL would cost more, since another thread may take it meanwhile.
_SHORT: dict[str, tuple[Any, ...]] = {
    "version": (),
    "last_error": (),
    "free": (c_void_p,),
    "abort": (c_void_p, c_uint64),
    "token_text": (c_void_p, c_int32, *_TEXT_OUT),
    "token_id": (c_void_p, c_char_p, c_size_t, POINTER(c_int32)),
    "get_facts": (c_void_p, POINTER(Facts), c_size_t),
    "is_sleeping": (c_void_p, POINTER(c_int32)),
}
_RESULTS = {"version": c_char_p, "last_error": c_char_p, "free": None, "engine_destroy": None, "queue_destroy": None}


def _load(kind: type[CDLL], functions: dict[str, tuple[Any, ...]]) -> CDLL:
    library = kind(str(pathlib.Path(__file__).with_name("libpagoda.so.0")))
    for name, arguments in functions.items():
        function = getattr(library, f"pagoda_{name}")
        function.argtypes, function.restype = arguments, _RESULTS.get(name, c_int)
    return library


_lib = _load(CDLL, _WAITS)  # releases the GIL during a call
_short = _load(PyDLL, _SHORT)  # holds the GIL


def version() -> str:
    return str(_short.pagoda_version().decode())


def _check(status: int) -> None:
    """Raises the exception for `status`, with the message of this thread's last error, unless the call succeeded."""
    if status != 0:
        raise ERRORS.get(status, RuntimeError)(_short.pagoda_last_error().decode(errors="replace"))


def _utf8(text: str) -> bytes:
    return str.encode(text)  # raises TypeError if `text` is not a str


def _c_string(text: str) -> bytes:
    packed = _utf8(text)
    if b"\0" in packed:
        raise ValueError(f"{text[:80]!r} has a zero byte")
    return packed


def _int32s(ids: list[int]) -> array[int]:
    try:
        return array("i", ids)
    except OverflowError as error:
        raise ValueError(f"a number is out of range: {error}") from None


def _bytes_of(call: Callable[..., int], *arguments: Any, item_size: int = 1) -> bytes:
    """Returns a copy of the buffer that `call` returns through its last two arguments, and frees the buffer."""
    memory, count = c_void_p(), c_size_t()
    _check(call(*arguments, byref(memory), byref(count)))
    try:
        return string_at(memory, count.value * item_size)
    finally:
        _short.pagoda_free(memory)


def _text_of(call: Callable[..., int], *arguments: Any) -> str:
    return _bytes_of(call, *arguments).decode()


class _Owner:
    """Owns a pointer from the library, which is destroyed once and only in the process that created it. Threads do not
    survive fork(), so in a child process an engine can neither run nor be shut down."""

    _getpid = staticmethod(os.getpid)  # still available during interpreter shutdown

    def __init__(self, name: str, pointer: c_void_p, destroy: Callable[[c_void_p], None]) -> None:
        self._name, self._destroy, self._process = name, destroy, os.getpid()
        self._pointers = [pointer]  # empty after close()

    def close(self) -> None:
        try:
            pointer = self._pointers.pop()  # atomic: only one thread gets the pointer
        except (IndexError, AttributeError):
            return
        if self._getpid() == self._process:
            self._destroy(pointer)

    __del__ = close

    def _pointer(self) -> c_void_p:
        if self._getpid() != self._process:
            raise RuntimeError(
                "this engine was made before fork(): its threads are in the parent process. Make it in the child, or"
                " start processes with multiprocessing's 'spawn' method"
            )
        try:
            return self._pointers[0]
        except IndexError:
            raise ValueError(f"the {self._name} has been shut down") from None


class Engine(_Owner):
    def __init__(self, model: str, options: list[tuple[str, str]]) -> None:
        rows = (_Option * len(options))(*(_Option(_c_string(name), _c_string(value)) for name, value in options))
        pointer = c_void_p()
        _check(_lib.pagoda_engine_create(_c_string(model), rows, len(options), byref(pointer)))
        super().__init__("engine", pointer, _lib.pagoda_engine_destroy)

    def tokenize(self, text: str, add_special_tokens: bool) -> list[int]:
        packed = _utf8(text)
        ids = array("i")
        ids.frombytes(
            _bytes_of(
                _lib.pagoda_tokenize, self._pointer(), packed, len(packed), add_special_tokens, item_size=ids.itemsize
            )
        )
        return ids.tolist()

    def detokenize(self, ids: list[int], skip_special_tokens: bool) -> str:
        packed = _int32s(ids)
        return _text_of(_lib.pagoda_detokenize, self._pointer(), *packed.buffer_info(), skip_special_tokens)

    def apply_chat_template(self, body: str) -> str:
        return _text_of(_lib.pagoda_apply_chat_template, self._pointer(), _c_string(body))

    def facts(self) -> dict[str, Any]:
        facts = Facts()
        _check(_short.pagoda_get_facts(self._pointer(), byref(facts), sizeof(facts)))
        values = {name: getattr(facts, name) for name, *_ in Facts._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def stats(self) -> dict[str, int]:
        stats = Stats()
        _check(_lib.pagoda_get_stats(self._pointer(), byref(stats), sizeof(stats)))
        return {name: getattr(stats, name) for name, *_ in Stats._fields_}

    def token_text(self, id: int) -> str:
        return _text_of(_short.pagoda_token_text, self._pointer(), *_int32s([id]))

    def token_id(self, text: str) -> int:
        packed, found = _utf8(text), c_int32(-1)
        _check(_short.pagoda_token_id(self._pointer(), packed, len(packed), byref(found)))
        return found.value

    def sleep(self, level: int, mode: str) -> None:
        _check(_lib.pagoda_sleep(self._pointer(), *_int32s([level]), _c_string(mode)))

    def wake_up(self, tags: str) -> None:
        """`tags`: comma-separated; empty means all."""
        _check(_lib.pagoda_wake_up(self._pointer(), _c_string(tags) or None))

    def is_sleeping(self) -> bool:
        sleeps = c_int32()
        _check(_short.pagoda_is_sleeping(self._pointer(), byref(sleeps)))
        return sleeps.value != 0

    def reset_prefix_cache(self) -> None:
        _check(_lib.pagoda_reset_prefix_cache(self._pointer()))

    def load_adapter(self, name: str, path: str) -> None:
        _check(_lib.pagoda_load_adapter(self._pointer(), _c_string(name), _c_string(path)))

    def metrics(self) -> str:
        return _text_of(_lib.pagoda_get_metrics, self._pointer())


class Queue(_Owner):
    """Accepts requests and returns their outputs. The submit functions return the id of the request, or None if too
    many requests wait."""

    def __init__(self, engine: Engine) -> None:
        pointer = c_void_p()
        _check(_lib.pagoda_queue_create(engine._pointer(), byref(pointer)))
        super().__init__("queue", pointer, _lib.pagoda_queue_destroy)

    def submit_text(self, text: str, params: str) -> int | None:
        packed = _utf8(text)
        return self._submit(_lib.pagoda_submit_text, packed, len(packed), _c_string(params))

    def submit_ids(self, ids: list[int], params: str) -> int | None:
        packed = _int32s(ids)
        return self._submit(_lib.pagoda_submit_ids, *packed.buffer_info(), _c_string(params))

    def submit_chat(self, messages: str, params: str) -> int | None:
        return self._submit(_lib.pagoda_submit_chat, _c_string(messages), _c_string(params))

    def submit_call(self, path: str, body: str) -> int | None:
        return self._submit(_lib.pagoda_submit_call, _c_string(path), _c_string(body))

    def abort(self, id: int) -> bool:
        """Returns False if the request has already ended."""
        status = _short.pagoda_abort(self._pointer(), id)
        if status != NOT_FOUND:
            _check(status)
        return bool(status == 0)

    def next(self, timeout_ms: int) -> list[dict[str, Any]]:
        """Waits for an output and returns all available outputs, at most OUTPUTS_AT_ONCE, as pagoda_next_json returns
        them. Empty if no output arrived in time or no request runs in this queue."""
        memory, length = c_void_p(), c_size_t()
        status = _lib.pagoda_next_json(self._pointer(), timeout_ms, OUTPUTS_AT_ONCE, byref(memory), byref(length))
        if status in (TIMEOUT, IDLE):
            return []
        _check(status)
        try:
            text = string_at(memory, length.value)
        finally:
            _short.pagoda_free(memory)
        outputs: list[dict[str, Any]] = json.loads(text.decode())
        return outputs

    def _submit(self, call: Callable[..., int], *arguments: Any) -> int | None:
        number = c_uint64()
        status = call(self._pointer(), *arguments, byref(number))
        if status == BUSY:
            return None
        _check(status)
        return number.value
