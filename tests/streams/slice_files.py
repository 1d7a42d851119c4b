"""Slices in files, one a line: the simplest store that a kill cannot leave in halves."""

import base64
import json
import os
import time
from pathlib import Path


class FileSink:
    """One file a partition; a line that a kill left unfinished is cut off at the next start."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        for file in folder.glob("*.jsonl"):
            data = file.read_bytes()
            end = data.rfind(b"\n") + 1
            if end < len(data):
                os.truncate(file, end)

    def file(self, partition: int) -> Path:
        return self.folder / f"{partition}.jsonl"

    def stored_offsets(self, partitions: set[int]) -> dict[int, int]:
        return {p: lines[-1]["to"] for p in partitions if (lines := read_lines(self.file(p)))}

    def add(self, raw) -> None:
        values = [None if value is None else base64.b64encode(value).decode() for value in raw.values]
        line = {"from": raw.from_offset, "to": raw.to_offset, "lost": raw.lost, "at": time.time(), "values": values}
        line["offsets"] = raw.offsets.tolist()
        line["timestamps"] = raw.timestamps.tolist()
        with self.file(raw.partition).open("a") as file:
            file.write(json.dumps(line) + "\n")


def read_lines(file: Path) -> list[dict]:
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]
