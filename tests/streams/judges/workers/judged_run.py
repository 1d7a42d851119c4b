"""A store that a real run fills, with judges beside it or in other processes."""

import contextlib
import json
import os
import signal
import time
import urllib.error
import urllib.request

from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import gapwatch
from tests.streams.judges.model_server import verdict
from tests.streams.run_process import Watched

PORTFOLIO = """\
gapwatch: 1
portfolio: {name}
version: 1
pipeline: support
budget: {{judge_usd_per_week: {cap}}}
components:
  - {{id: answer, role: ai_core, kind: llm}}
edges: []
metrics:
  - name: short
    component: answer
    claim: {{form: check, field: output, length: {{max: 40}}}}
  - name: helpful
    component: answer
    claim:
      form: judge
      rubric: {{criterion: helpful, scale: [good, bad], inputs: [input, output], pass_at: good}}
      judges: [{{name: mini, model: openai/small}}]
    sample: {{rate: 0.5}}
"""
#: US dollars: a call is billed 500 tokens in and 40 out.
A_CALL = 500 * 1e-6 + 40 * 4e-6


def answer(body, headers):
    """Every third question is bad; which is in the text, so that any worker says the same."""
    number = int(body["messages"][1]["content"].split("question ")[1].split("\n")[0])
    return verdict(body, "bad" if number % 3 == 0 else "good")


class Judged(Watched):
    """A store with judges beside it."""

    def __init__(self, children, folder, broker, cap=100.0, base_url="", **provider):
        folder.mkdir()
        name = f"judged-{broker.make_topic()}"
        super().__init__(children, folder, broker, broker.make_topic(), [PORTFOLIO.format(name=name, cap=cap)])
        provider = {
            "adapter": "http", "base_url": base_url, "first_delay_seconds": 0.01, "breaker_seconds": 0.1, **provider
        }  # fmt: skip
        written = {"providers": {"openai": provider}, "prices": {"openai/small": {"input": 1, "output": 4}}}
        self.judges = folder / "judges.yaml"
        self.judges.write_text(json.dumps({**written, "max_output_tokens": 100}))
        self.judge_pids = set()

    def start_judge(self, number, *more):
        arguments = ["run", "--role=judge", f"--brokers={self.broker.address}", f"--judges={self.judges}", *more]
        files = {"out": str(self.folder / f"out-{number}"), "err": str(self.folder / f"err-{number}")}
        pid = self.children.ask(start={"arguments": [*arguments, f"--store={self.store}"], **files})["pid"]
        self.judge_pids.add(pid)
        return pid

    def end_judge(self, pid, number=signal.SIGTERM):
        os.kill(pid, number)
        status = self.children.ask(wait=pid, seconds=20.0)["status"]
        if status is not None:
            self.judge_pids.discard(pid)
        return status

    def kill_judges(self):
        """Kill those that run: in the group of the judges of later tests they would take their requests."""
        for pid in [*self.judge_pids]:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and was waited for
                self.end_judge(pid, signal.SIGKILL)

    def asked(self, path, token=None, **posted):
        note = read_note(self.store)
        headers = {"content-type": "application/json"}
        if token is not False:
            headers["authorization"] = f"Bearer {token or note.write_token}"
        data = json.dumps(posted).encode() if posted else None
        request = urllib.request.Request(note.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.read().decode()

    def live(self, sql):
        """Return the rows of a query; asked again while the API says that it is busy."""
        for _ in range(20):
            try:
                return json.loads(self.asked("/v1/query", sql=sql))
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 503:
                    raise
                time.sleep(0.5)
        raise TimeoutError("the API was busy for 10 s")

    def pending(self, metric="helpful"):
        rows = self.live(f"SELECT sum(n)::BIGINT AS n FROM ledger WHERE metric = '{metric}' AND state = 'pending'")
        return rows[0]["n"]

    def read(self):
        return self.live("SELECT coalesce(sum(n), 0)::BIGINT AS n FROM ledger WHERE metric IS NULL")[0]["n"]

    def states(self):
        rows = self.query("SELECT state, sum(n) FROM ledger WHERE metric = 'helpful' GROUP BY ALL HAVING sum(n) <> 0")
        return dict(rows)

    def assert_each_ended_once(self, requests):
        assert self.query("SELECT count(*), count(DISTINCT id) FROM internal.judge_requests") == [(requests, requests)]
        assert self.query("SELECT count(*), count(DISTINCT id) FROM internal.judge_closed") == [(requests, requests)]
        identity = "lane, source_topic, source_partition, source_offset, span_index, metric, metric_version, judge"
        twice = f"SELECT count(*) FROM (SELECT 1 FROM gaps GROUP BY {identity} HAVING count(*) > 1)"
        assert self.query(twice) == [(0,)]
        assert gapwatch("ledger", "--store", self.store).status == 0
