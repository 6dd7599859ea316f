"""TLS, Unix sockets and the operator's own socket, with OpenAI's client."""

import os
import signal
import ssl
import stat
import threading
import time

import httpx
import openai
import pytest
from conftest import small_model
from secure_server import SecureServer, certificate


@pytest.fixture
def secure(tmp_path):
    made, key = certificate(tmp_path, "server")
    server = SecureServer(
        small_model(), "--ssl-certfile", str(made), "--ssl-keyfile", str(key), "--served-model-name", "m"
    )
    server.folder, server.certificate = tmp_path, made
    server.base = f"https://127.0.0.1:{server.port}"
    yield server
    server.stop()


def streamed(client, max_tokens=40):
    chunks = client.completions.create(
        model="m", prompt="x", max_tokens=max_tokens, temperature=0, stream=True, extra_body={"ignore_eos": True}
    )
    return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


def test_openais_client_over_tls(secure):
    trust = ssl.create_default_context(cafile=str(secure.certificate))
    with openai.OpenAI(
        base_url=secure.base + "/v1", api_key="none", max_retries=0, http_client=httpx.Client(verify=trust)
    ) as client:
        whole = client.completions.create(
            model="m", prompt="x", max_tokens=40, temperature=0, extra_body={"ignore_eos": True}
        )
        assert streamed(client) == whole.choices[0].text
        assert len(client.models.list().data) == 1
    with pytest.raises(httpx.ConnectError):
        httpx.get(secure.base + "/health", verify=ssl.create_default_context())


def test_new_certificates_cut_no_stream(secure):
    old = ssl.create_default_context(cafile=str(secure.certificate))
    with httpx.stream(
        "POST",
        secure.base + "/v1/completions",
        verify=old,
        timeout=60,
        json={"prompt": "x", "max_tokens": 400, "ignore_eos": True, "stream": True},
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        certificate(secure.folder, "server")  # replaces the certificate at the same path
        secure.process.send_signal(signal.SIGHUP)
        new = ssl.create_default_context(cafile=str(secure.certificate))
        deadline = time.monotonic() + 5
        while True:
            try:
                assert httpx.get(secure.base + "/health", verify=new).status_code == 200
                break
            except httpx.ConnectError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert "data: [DONE]" in list(lines)
    with pytest.raises(httpx.ConnectError):
        httpx.get(secure.base + "/health", verify=old)
    secure.certificate.write_text("broken")
    secure.process.send_signal(signal.SIGHUP)
    while not any("the certificates were not reloaded" in line for line in secure.log):
        assert time.monotonic() < deadline + 5
        time.sleep(0.05)
    assert httpx.get(secure.base + "/health", verify=new).status_code == 200


def test_many_streams_over_tls_say_what_one_says(secure):
    trust = ssl.create_default_context(cafile=str(secure.certificate))
    texts = []

    def ask():
        with openai.OpenAI(
            base_url=secure.base + "/v1",
            api_key="none",
            max_retries=0,
            timeout=120,
            http_client=httpx.Client(verify=trust),
        ) as client:
            texts.append(streamed(client, 100))

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 24 and len(set(texts)) == 1 and texts[0]


def test_a_client_certificate_is_asked_for(tmp_path):
    made, key = certificate(tmp_path, "server")
    ours, our_key = certificate(tmp_path, "client")
    server = SecureServer(
        small_model(),
        "--ssl-certfile",
        str(made),
        "--ssl-keyfile",
        str(key),
        "--ssl-ca-certs",
        str(ours),
        "--ssl-cert-reqs",
        "2",
    )
    try:
        trust = ssl.create_default_context(cafile=str(made))
        with pytest.raises((httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)):
            httpx.get(f"https://127.0.0.1:{server.port}/health", verify=trust)
        trust.load_cert_chain(str(ours), str(our_key))
        assert httpx.get(f"https://127.0.0.1:{server.port}/health", verify=trust).status_code == 200
    finally:
        server.stop()


def test_a_unix_socket_and_the_operators(tmp_path):
    main, own = tmp_path / "pagoda.sock", tmp_path / "admin.sock"
    flags = (
        "--uds",
        str(main),
        "--admin-socket",
        str(own),
        "--api-key",
        "one",
        "--api-key",
        "two",
        "--served-model-name",
        "m",
    )
    server = SecureServer(small_model(), *flags)
    try:
        with openai.OpenAI(
            base_url="http://localhost/v1",
            api_key="one",
            max_retries=0,
            http_client=httpx.Client(transport=httpx.HTTPTransport(uds=str(main))),
        ) as client:
            assert streamed(client)
        assert stat.S_IMODE(os.stat(own).st_mode) == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(own)), base_url="http://localhost") as admin:
            assert admin.get("/admin/usage").json()["api-key-1"]["completion_tokens"] == 40
            assert admin.get("/debug/kv").status_code == 200
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(main)), base_url="http://localhost") as user:
            assert user.get("/admin/usage", headers={"Authorization": "Bearer one"}).status_code == 403
            assert user.get("/v1/models").status_code == 401
        server.process.kill()  # the files it leaves do not matter
        server.process.wait()
        assert main.exists()
        server = SecureServer(small_model(), *flags)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(main)), base_url="http://localhost") as user:
            assert user.get("/health").status_code == 200
    finally:
        server.stop()
    assert not main.exists() and not own.exists()
