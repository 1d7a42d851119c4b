"""Kafka's jars: fetched once by Maven into a cache that all brokers share."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")

# Pinned: without a version Maven asks for the newest one, and what it does changes by itself.
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

#: The first Java that the Kafka 4 server runs on.
OLDEST_JAVA = 17


class BrokerError(Exception):
    """A command that cannot be carried out; the text says what is wrong and what to do next."""


def cache_folder() -> Path:
    """Return the folder of everything that may be deleted at any time: `$XDG_CACHE_HOME/gapwatch`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapwatch"


def find_java() -> str:
    """Return the path of a Java that is new enough.

    Raises:
        BrokerError: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else None
    java = java or shutil.which("java")
    if java is None:
        raise BrokerError(
            "no `java` on the PATH; install a Java 17 or newer (Debian: apt install openjdk-17-jre-headless)"
        )
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None or int(found[1]) < OLDEST_JAVA:
        first = text.splitlines()[0] if text else "no version"
        raise BrokerError(
            f"{java} says {first!r}; Kafka 4 needs Java {OLDEST_JAVA} or newer: install it or set JAVA_HOME"
        )
    return java


def ensure_jars() -> str:
    """Return the class path of Kafka, fetching the jars where the cache lacks them (about a minute, 54 MB).

    Raises:
        BrokerError: Maven is missing or could not fetch them.
    """
    folder = cache_folder() / "kafka-jars" / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two brokers that start at once fetch once
            if not folder.is_dir():
                _fetch_jars(folder)
    return str(folder / "*")


def class_archive(java: str, class_path: str) -> Path:
    """Return where this Java's archive of Kafka's loaded classes lies, or would lie."""
    real = Path(java).resolve()
    identity = f"{real} {real.stat().st_mtime_ns}"
    jars = Path(class_path).parent
    return jars.with_name(f"{jars.name}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}.jsa")


def _fetch_jars(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError("no `mvn` on the PATH, which fetches Kafka; install Maven (Debian: apt install maven)")
    print("broker: fetching Kafka by Maven, once: 54 MB, about a minute", file=sys.stderr)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=folder.parent))
    try:
        command = [
            maven,
            "-q",
            "-B",
            "-f",
            str(POM),
            COPY_GOAL,
            "-DincludeScope=runtime",
            f"-DoutputDirectory={partial}",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode or not list(partial.glob("kafka_2.13-*.jar")):
            tail = "\n".join(done.stdout.splitlines()[-8:])
            raise BrokerError(
                f"Maven could not fetch Kafka (status {done.returncode}); can it reach a repository?\n{tail}"
            )
        partial.rename(folder)  # at once: a killed fetch leaves no half cache
    finally:
        shutil.rmtree(partial, ignore_errors=True)
