"""A server behind TLS or on a Unix socket, and certificates for it."""

import shutil
import subprocess

import pytest
from conftest import Server


class SecureServer(Server):
    """A server that does not listen on plain HTTP. Its port is read from another line of the log."""

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if "Listening on https://" in line:
                self._port = int(line.rsplit(":", 1)[1])
            if "Listening on unix:" in line:
                self._port = 0
            if "Application startup complete." in line:
                self._known.set()
        self._known.set()


def certificate(folder, name, *more):
    if shutil.which("openssl") is None:
        pytest.skip("openssl's program is not here: no certificates can be made")
    key, made = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-addext",
            "subjectAltName=IP:127.0.0.1,DNS:localhost",
            "-keyout",
            key,
            "-out",
            made,
            *more,
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return made, key
