"""Connections and bodies that clients hold without using them do not block other clients."""

import contextlib
import socket
import time

import httpx
from conftest import serving, small_model

HELD = (
    b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect:"
    b" 100-continue\r\n\r\n"
)
PATIENCE_S = 60


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def ask(client, path="/health"):
    """Returns the status of a request on a persistent connection; None if the connection has been closed."""
    try:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data and (more := client.recv(65536)):
            data += more
        return int(data.split()[1]) if data else None
    except ConnectionError:
        return None


def hold(port, size=1000):
    """Returns a connection that stays busy, since the server waits for the rest of its body."""
    client = connect(port)
    client.sendall(HELD % size)
    assert client.recv(100).startswith(b"HTTP/1.1 100"), "it is being read"
    return client


def is_closed(client):
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        client.settimeout(PATIENCE_S)


def eventually(condition):
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def status(url, path):
    try:
        return httpx.get(url + path, timeout=PATIENCE_S).status_code
    except httpx.TransportError:
        return None


def test_idle_connections_make_room_the_oldest_first():
    # Regression: with 4,096 idle connections without a key, every client got 503.
    with (
        serving(small_model(), "--max-connections", "40", "--keep-alive-timeout", "3600") as server,
        contextlib.ExitStack() as stack,
    ):
        idle = []
        for _ in range(40):
            idle.append(stack.enter_context(connect(server.port)))
            assert ask(idle[-1]) == 200
        assert eventually(lambda: status(server.url, "/v1/models") == 200)
        closed = [is_closed(client) for client in idle]
        assert closed[0] and closed == sorted(closed, reverse=True), "those that have been idle for longest"
        assert not closed[-1] and ask(idle[-1], "/v1/models") == 200


def test_among_busy_connections_health_and_the_operator_are_answered(tmp_path):
    with (
        serving(
            small_model(), "--max-connections", "4", "--body-timeout", "3600", "--admin-socket", str(tmp_path / "admin")
        ) as server,
        contextlib.ExitStack() as stack,
    ):
        busy = [stack.enter_context(hold(server.port)) for _ in range(4)]
        beyond = stack.enter_context(connect(server.port))
        assert ask(beyond) == 200 and ask(beyond, "/v1/models") == 503
        # More than the reserve can hold: they are idle and are closed to make space.
        for _ in range(40):
            stack.enter_context(connect(server.port))
        assert eventually(lambda: status(server.url, "/health") == 200)
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(tmp_path / "admin")), base_url="http://localhost", timeout=PATIENCE_S
        ) as operator:
            assert operator.get("/debug/memory").status_code == 200
        assert not any(is_closed(client) for client in busy), "who is being served is not closed for others"
        busy[0].close()
        assert eventually(lambda: status(server.url, "/v1/models") == 200)


def ends(client, first=b""):
    """Returns whether the server gives up a body of which a byte arrives now and then, and states the reason, if the
    answer can still be received."""
    end = time.monotonic() + PATIENCE_S
    try:
        client.sendall(first)
        client.settimeout(0.1)
        while time.monotonic() < end:
            client.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                return client.recv(65536)[:12] in (b"HTTP/1.1 408", b"")
    except ConnectionError:
        return True
    return False


def test_a_body_that_drips_in_ends():
    # Regression: 14 connections occupied 256 MiB by sending a byte every ten seconds each.
    with serving(small_model(), "--body-timeout", "2") as server, contextlib.ExitStack() as stack:
        assert ends(stack.enter_context(hold(server.port, 8 << 20)))
        # A fast beginning does not extend the limit for the rest.
        assert ends(stack.enter_context(hold(server.port, 8 << 20)), b" " * (4 << 20))
        assert ask(stack.enter_context(connect(server.port))) == 200
