"""Servers that share K/V (--kv-transfer-config) with the small model, and a proxy between them that injects faults."""

import contextlib
import json
import socket
import threading
import time

from conftest import serving, small_model
from kv_disk import FLAGS

SECRET = "0123456789abcdef0123456789abcdef"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_port_and_the_next():
    while True:
        port = free_port()
        with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + 1))
            return port


def config(role, port=None, peers=(), secret_file=None, **more):
    extra = {}
    if peers:
        extra["peers"] = [f"127.0.0.1:{peer}" for peer in peers]
    if secret_file:
        extra["secret_file"] = str(secret_file)
    fields = {"kv_connector": "PagodaConnector", "kv_role": role, "kv_connector_extra_config": extra, **more}
    if port:
        fields["kv_port"] = port
    return "--kv-transfer-config", json.dumps(fields)


def peer(*args, flags=(), **more):
    return serving(small_model(), *FLAGS, *config(*args, kv_buffer_size=64 << 20, **more), *flags)


def wait_for_peers(server, count=1, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while server.metric("kv_peer_connected") != count:
        assert time.monotonic() < deadline, "".join(server.log)
        time.sleep(0.02)


class Proxy:
    """Forwards bytes between two servers. `harm(chunk, total)` changes the bytes from the server that listens."""

    def __init__(self, target, harm=None):
        self.target, self.harm = target, harm
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                self.sockets += [near, far]
                for source, to, harm in ((near, far, None), (far, near, self.harm)):
                    threading.Thread(target=self._pass_on, args=(source, to, harm), daemon=True).start()

    @staticmethod
    def _pass_on(source, to, harm):
        total = 0
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                passed = chunk if harm is None else harm(bytearray(chunk), total)
                total += len(chunk)
                if passed is None:
                    break
                to.sendall(passed)
        for each in (source, to):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        for each in (self.listener, *self.sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
