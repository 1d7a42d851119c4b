"""A certificate authority and a server certificate for a broker on this machine, made by openssl."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from jars import BrokerError

#: Long enough for a laptop; a broker that is purged and started anew gets new ones.
VALID_DAYS = 825


def make_certificates(folder: Path) -> None:
    """Write `ca.pem` (for clients to trust) and `server.pem` (key and chain, for the broker), unless they are there.

    Args:
        folder: Where they go; made readable by its owner alone.

    Raises:
        BrokerError: openssl is missing or failed.
    """
    if (folder / "server.pem").is_file() and (folder / "ca.pem").is_file():
        return
    if shutil.which("openssl") is None:
        raise BrokerError(
            "no `openssl` on the PATH, which makes the certificates for --tls; install it (Debian: apt install openssl)"
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    names = folder / "names.cnf"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    days = str(VALID_DAYS)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _openssl(
        folder,
        *[
            "req",
            "-x509",
            *curve,
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-days",
            days,
            "-subj",
            "/CN=gapwatch test authority",
        ],
        *["-addext", "keyUsage=critical,keyCertSign,cRLSign"],
    )
    _openssl(folder, "req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    _openssl(
        folder,
        *["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
        *["-out", "server.crt", "-days", days, "-extfile", "names.cnf"],
    )
    chain = b"".join((folder / name).read_bytes() for name in ("server.key", "server.crt", "ca.pem"))
    with os.fdopen(os.open(folder / "server.pem", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(chain)
    for leftover in ("ca.key", "ca.srl", "server.key", "server.csr", "server.crt", "names.cnf"):
        (folder / leftover).unlink(missing_ok=True)  # the authority signs once; without its key it can sign no other


def _openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
