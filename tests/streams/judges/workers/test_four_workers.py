"""Four processes of `--role judge` share the cap of thirty metrics, and one of them is killed in the middle."""

import random
import signal
import threading
import time

import orjson
import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.streams.judges.model_server import HttpAnswer, served, verdict
from tests.streams.run_process import trace

pytestmark = pytest.mark.kafka

WORKERS, METRICS, TRACES, CALLS = 4, 30, 80, 1_500
USD = 500 * 1e-6 + 40 * 4e-6
METRIC = """\
  - name: m{number:02}
    component: answer
    claim:
      form: judge
      rubric: {{criterion: helpful {number}, scale: [good, bad], inputs: [input, output], pass_at: good}}
      judges: [{{name: mini, model: openai/small}}]
"""


class Bill:
    """Bills within a quarter of the usual cost; one in a hundred breaks off, billed all the same."""

    def __init__(self):
        self._rng, self._lock = random.Random(7), threading.Lock()
        self.usd = self.largest = 0.0
        self.calls = 0
        self.history = []

    def answer(self, body, headers):
        with self._lock:
            factor = self._rng.uniform(0.75, 1.25)
            is_cut = self._rng.random() < 0.01
            tokens = {"prompt_tokens": int(500 * factor), "completion_tokens": int(40 * factor)}
            usd = tokens["prompt_tokens"] * 1e-6 + tokens["completion_tokens"] * 4e-6
            self.usd += usd
            self.largest = max(self.largest, usd)
            self.calls += 1
            self.history.append((time.time(), self.usd))
        said = verdict(body, "good", usage=tokens)
        return HttpAnswer(body=said.body, seconds=0.1, sent=len(said.body) // 2 if is_cut else None)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [0, 1], ids=["undisturbed", "one killed"])
def test_nine_tenths_of_a_cap_are_spent_before_any_is_shed_and_a_call_each_above_it_at_most(judged, kills):
    bill, cap = Bill(), CALLS * USD
    with served(bill.answer) as server:
        one = judged(base_url=server.base_url, concurrency=8, cap=cap)
        head = one.portfolios[0].read_text().split("metrics:\n")[0]
        metrics = "".join(METRIC.format(number=number) for number in range(METRICS))
        one.portfolios[0].write_text(f"{head}metrics:\n{metrics}")
        one.start(f"--judges={one.judges}", "--role=score,keep", lease_seconds=5.0)
        one.wait_until(lambda: read_note(one.store) is not None and "reading partition" in one.said())
        judges = [one.start_judge(number) for number in range(WORKERS)]
        logs = [one.folder / f"err-{number}" for number in range(WORKERS)]
        one.wait_until(lambda: all("answers requests from Kafka" in log.read_text() for log in logs), 60)
        one.broker.produce(one.topic, [trace(n) for n in range(TRACES)])
        if kills:
            one.wait_until(lambda: bill.usd >= 0.4 * cap, 90)
            assert one.end_judge(judges.pop(0), signal.SIGKILL) == -signal.SIGKILL
            judges.append(one.start_judge(WORKERS))
        closed = "SELECT count(DISTINCT id)::BIGINT AS n FROM internal.judge_closed"
        one.wait_until(lambda: one.live(closed)[0]["n"] == METRICS * TRACES, 120)
        for pid in judges:
            assert one.end_judge(pid) == 0
        assert one.end() == 0

    one.assert_each_ended_once(METRICS * TRACES)
    ((first_shed, shed),) = one.query(
        "SELECT min(seq), count(*) FROM internal.judge_closed WHERE state = 'shed_budget'"
    )
    # Judgements are stored within a second of their decision.
    ((shed_at,),) = one.query(f"SELECT epoch(max(kept_at)) - 1.0 FROM offsets WHERE seq = {first_shed}")
    before = max(usd for at, usd in bill.history if at <= shed_at)
    ((aside, booked),) = one.query(
        "SELECT (SELECT sum(usd) FROM internal.judge_money), (SELECT sum(usd) FROM judge_calls)"
    )
    print(orjson.dumps({
        "cap": cap, "billed": bill.usd, "booked": booked, "aside": aside, "billed before the first was shed": before,
        "shed": shed, "calls": bill.calls,
    }).decode())  # fmt: skip
    assert shed > 0
    assert before >= 0.9 * cap
    assert bill.usd <= cap + WORKERS * bill.largest
    assert aside <= cap + WORKERS * bill.largest
