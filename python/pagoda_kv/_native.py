"""ctypes bindings of the C interface pagoda_kv.h: errors become exceptions, and tensors become DLPack capsules."""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from typing import Any, NamedTuple


class Error(Exception):
    """Base class of the library's errors, with the library's message. Some subclasses are also a ValueError,
    MemoryError or OSError."""


class Full(Error):
    """A normal result: no free pages, mappings or slot. Nothing has changed; free or shorten a sequence and retry."""


class Invalid(Error, ValueError):
    """An argument is invalid."""


class PageSize(Invalid):
    """The page size is not a multiple of the token size. The message names the nearest valid sizes."""


class NoMemory(Error, MemoryError):
    """The cache might need more memory, address space or mappings than are available."""


class System(Error, OSError):
    """A system call or a call of the CUDA driver failed. The cache cannot be used any more."""


class NoDevice(Error):
    """There is no CUDA driver, or no device with this ordinal."""


_ERRORS: dict[int, type[Error]] = {
    1: Full,
    -1: Invalid,
    -2: PageSize,
    -3: NoMemory,
    -4: NoMemory,
    -5: NoMemory,
    -6: System,
    -7: NoDevice,
}


class Layout(NamedTuple):
    """Strides are in bytes and the same in every tensor. A page is mapped in all tensors at once."""

    slot_stride: int
    token_stride: int
    num_tensors: int
    tokens_per_page: int
    num_pages: int


class Stats(NamedTuple):
    """The fields of pagoda_kv_stats: free pages, totals of calls and pages, and seconds spent mapping."""

    free_pages: int
    map_calls: int
    map_calls_background: int
    pages_mapped: int
    pages_reused: int
    step_seconds: float
    background_seconds: float


class Config(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("num_layers", "num_heads", "head_size", "element_size")),
        *((name, c_int32) for name in ("max_batch", "max_context")),
        *((name, c_int64) for name in ("page_size", "capacity_bytes")),
        *((name, c_int32) for name in ("slicing", "map_ahead", "eager_pages", "deferred_reclaim")),
        ("cuda_driver", c_char_p),
        ("cuda_device", c_int32),
    ]


class _Layout(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in Layout._fields[:2]),
        *((name, c_int32) for name in Layout._fields[2:4]),
        ("num_pages", c_int64),
    ]


class _Stats(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in Stats._fields[:5]),
        *((name, c_double) for name in Stats._fields[5:]),
    ]


class TensorRequest(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("layer", "values", "reqid", "type", "versioned")),
        ("stream", c_int64),
    ]


_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # result type, then argument types
    "init": (c_int, POINTER(Config), POINTER(c_void_p)),
    "destroy": (None, c_void_p),
    "alloc_reqid": (c_int32, c_void_p, c_int32),
    "free_reqid": (c_int, c_void_p, c_int32),
    "step": (c_int, c_void_p, POINTER(c_int32)),
    "fork": (c_int32, c_void_p, c_int32, c_int32),
    "tensor": (c_int, c_void_p, POINTER(TensorRequest), POINTER(c_void_p)),
    "get_layout": (_Layout, c_void_p),
    "get_stats": (_Stats, c_void_p),
    "last_status": (c_int,),
    "last_error": (c_char_p,),
    "capsule_destructor": (None, c_void_p),
}


@functools.cache
def library() -> dict[str, Any]:
    """Returns the functions of the library: the file beside this one, unless PAGODA_KV_LIBRARY names another. Calls
    release the GIL."""
    path = os.environ.get("PAGODA_KV_LIBRARY") or str(pathlib.Path(__file__).with_name("libpagoda_kv.so.1"))
    loaded, functions = ctypes.CDLL(path), {}
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = functions[name] = getattr(loaded, f"pagoda_kv_{name}")
        function.restype, function.argtypes = result, arguments
    return functions


def call(name: str, *arguments: Any) -> int:
    """Calls a function that returns a status, or a slot or -1. Raises its error with the library's message."""
    result = int(library()[name](*arguments))
    if result == 0 or (result > 0 and name in ("alloc_reqid", "fork")):
        return result
    status = library()["last_status"]()
    raise _ERRORS.get(status, Error)(library()["last_error"]().decode(errors="replace"))


def init(config: Config) -> c_void_p:
    handle = c_void_p()
    call("init", byref(config), byref(handle))
    return handle


def layout_of(handle: c_void_p) -> Layout:
    found = library()["get_layout"](handle)
    return Layout(*(getattr(found, name) for name in Layout._fields))


def stats_of(handle: c_void_p) -> Stats:
    found = library()["get_stats"](handle)
    return Stats(*(getattr(found, name) for name in Stats._fields))


def int64(value: Any, what: str) -> int:
    return int32(value, what, 64)


def int32(value: Any, what: str, bits: int = 32) -> int:
    """Returns `value` as an int, or raises Invalid if it does not fit; ctypes would truncate it."""
    number = operator.index(value)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Invalid(f"{what} {number} is out of range")
    return number


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (c_void_p, c_char_p, c_void_p)
_NAMES = (b"dltensor", b"dltensor_versioned")
for _name in _NAMES:  # capsules keep the address of the name and may outlive this module
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_name))


def capsule(handle: c_void_p, request: TensorRequest) -> Any:
    """Returns a PyCapsule of a tensor. The tensor is released with the capsule unless a consumer takes it."""
    tensor = c_void_p()
    call("tensor", handle, byref(request), byref(tensor))
    destructor = ctypes.cast(library()["capsule_destructor"], c_void_p)
    return _new_capsule(tensor, _NAMES[request.versioned], destructor)
