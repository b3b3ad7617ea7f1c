"""Certificates for tests, made by openssl: an authority, a server and a client."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificates(NamedTuple):
    """PEM files. The client's private key has a password."""

    authority: Path
    server: Path
    client: Path
    client_password: str


def make_certificates(directory: Path) -> Certificates:
    authority, authority_key = directory / "authority.pem", directory / "authority.key"
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority"),
        *("-keyout", authority_key, "-out", authority),
    )
    found = {}
    for name, password in (("server", None), ("client", "key-password")):
        key, request, signed = (directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = directory / f"{name}.extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl(
            *("req", "-newkey", "rsa:2048", "-subj", f"/CN={name}", "-out", request),
            *("-keyout", key, *(("-passout", f"pass:{password}") if password else ("-nodes",))),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key),
            *("-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", signed),
        )
        both = directory / f"{name}.pem"
        both.write_bytes(key.read_bytes() + signed.read_bytes())
        found[name] = both
    return Certificates(authority, found["server"], found["client"], "key-password")


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
