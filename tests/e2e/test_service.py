"""Under a service manager: the notifications that it receives, and their times."""

import os
import signal
import socket
import time

import httpx
from conftest import serving, small_model


def wait(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


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


def test_sighup_takes_the_log_level_from_the_config_file(tmp_path):
    config = tmp_path / "pagoda.yaml"
    config.write_text("log-level: info\n")
    with serving(small_model(), "--access-log", "--config", str(config)) as server:

        def seen(text):
            return any(text in line for line in server.log)

        def reload(level, said):
            config.write_text(f"log-level: {level}\n")
            server.process.send_signal(signal.SIGHUP)
            wait(lambda: seen(said))

        httpx.get(server.url + "/health-one")
        wait(lambda: seen("/health-one"))
        reload("warning", "log level: warning")
        httpx.get(server.url + "/health-two")
        reload("loud", "the log level was not changed")
        reload("info", "log level: info")
        httpx.get(server.url + "/health-three")
        wait(lambda: seen("/health-three"))
        assert not seen("/health-two")
