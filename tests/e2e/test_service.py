"""Under a service manager: what it is told, and when."""
import os
import signal
import socket

import httpx

from conftest import serving, small_model


def test_the_service_manager_is_told(tmp_path):
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        with serving(small_model(), env={**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}) as server:
            heard = [manager.recv(100) for _ in range(4)]
            assert sorted(set(heard)) == [b"READY=1", b"WATCHDOG=1"] and heard.count(b"READY=1") == 1
            assert httpx.get(server.url + "/health").status_code == 200
            server.process.send_signal(signal.SIGTERM)
            while (last := manager.recv(100)) == b"WATCHDOG=1":
                pass
            assert last == b"STOPPING=1"
            assert server.process.wait(timeout=30) == 0
