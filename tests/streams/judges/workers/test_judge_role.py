"""Judges of `gapwatch run` through a real broker: here and in other processes, killed, over budget, cut off."""

import hashlib
import json
import signal
import urllib.error

import pytest

from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.audit.rebuilding import Rebuilder
from tests.gapwatch_command import gapwatch
from tests.http_client import get
from tests.streams.judges.model_server import HttpAnswer, free_port, served
from tests.streams.judges.workers.judged_run import A_CALL, answer
from tests.streams.run_process import trace

pytestmark = pytest.mark.kafka


def selected(n, p=0.5):
    """How many of the first n traces are judged at a rate."""
    u = (int(hashlib.sha256(f"gapwatch/1/t-{i:08d}".encode()).hexdigest()[:13], 16) / 2**52 for i in range(n))
    return sum(x < p for x in u)


@pytest.mark.slow
def test_a_run_judges_while_it_keeps_and_is_killed_at_every_step(judged):
    with served(answer) as server:
        one = judged(base_url=server.base_url)
        for at, point in enumerate(["gaps", "also", "judge_requests", "offsets", "after"]):
            one.broker.produce(one.topic, [trace(n) for n in range(200 * at, 200 * at + 200)])
            # The slice is the first commit; verdicts are the next ones.
            one.start("--until-caught-up", f"--judges={one.judges}", die_at=[point, 1 + at % 2])
            assert one.wait() == -signal.SIGKILL
        told = one.catch_up(f"--judges={one.judges}")

    n = selected(1000)
    assert told["ledger_imbalance"] == 0
    one.assert_each_ended_once(n)
    bad = one.query("SELECT count(*) FROM gaps WHERE metric = 'helpful' AND outcome = 'fail'")[0][0]
    assert one.states() == {"pass": n - bad, "fail": bad, "sampled_out": 1000 - n}
    assert one.query(
        "SELECT sum(n)::BIGINT FROM ticks WHERE metric = 'helpful' AND level = 'unit' AND facet = 'all'"
    ) == [(n,)]
    spent, leased = one.query("SELECT (SELECT sum(usd) FROM judge_calls), (SELECT sum(usd) FROM internal.judge_money)")[
        0
    ]
    assert spent <= leased + 1e-9


@pytest.mark.slow
def test_judges_elsewhere_send_verdicts_by_topic_and_are_killed_with_the_keeper(judged):
    # Slow enough for most requests to wait still when the store process is killed.
    def slowly(body, headers):
        said = answer(body, headers)
        return HttpAnswer(said.status, said.body, said.headers, seconds=0.3)

    with served(slowly) as server:
        one = judged(base_url=server.base_url, concurrency=8)
        one.broker.produce(one.topic, [trace(n) for n in range(600)])
        store_thread = (f"--judges={one.judges}", "--role=score,keep", f"--listen=127.0.0.1:{free_port()}")
        one.start(*store_thread)
        one.wait_until(lambda: read_note(one.store) is not None and "reading partition" in one.said())
        first, second = one.start_judge(1), one.start_judge(2)
        one.wait_until(lambda: one.live("SELECT count(*) AS n FROM internal.judge_closed")[0]["n"] > 20)
        assert one.end_judge(first, signal.SIGKILL) == -signal.SIGKILL
        one.kill()
        one.start(*store_thread)
        one.wait_until(lambda: read_note(one.store) is not None)
        port = free_port()
        third = one.start_judge(3, f"--listen=127.0.0.1:{port}")
        one.wait_until(lambda: one.pending() == 0, 90)
        one.wait_until(lambda: get(f"http://127.0.0.1:{port}", "/readyz").status == 200)
        worker = get(f"http://127.0.0.1:{port}", "/metrics").body.decode()
        alive = get(f"http://127.0.0.1:{port}", "/healthz")
        strange = get(f"http://127.0.0.1:{port}", "/metrics", {"Host": "evil.example"})
        one.wait_until(lambda: 'judge="mini",metric="helpful",pipeline="support",state="pass"' in one.asked("/metrics"))
        page = one.asked("/metrics")
        # The second has waited for the keeper, and went on when it was back.
        assert [one.end_judge(second), one.end_judge(third)] == [0, 0]
        assert one.end() == 0

    n = selected(600)
    one.assert_each_ended_once(n)
    assert set(one.states()) == {"pass", "fail", "sampled_out"}
    assert 'gapwatch_judge_verdicts_total{judge="mini",metric="helpful",pipeline="support",state="pass"}' in page
    assert (alive.status, alive.json()) == (200, {"status": "ok"})
    assert strange.status == 403
    assert 'gapwatch_judge_worker_waiting_requests{providers="openai"} ' in worker
    assert "process_cpu_seconds_total " in worker
    assert "gapwatch_judge_budget_left_usd{" in page
    assert 'gapwatch_judge_breaker_workers{provider="openai",state="closed"}' in page
    spent, leased = one.query("SELECT (SELECT sum(usd) FROM judge_calls), (SELECT sum(usd) FROM internal.judge_money)")[
        0
    ]
    assert n * A_CALL <= spent + 1e-9
    assert spent <= leased + 1e-9 < 100


def test_money_and_overrides_need_the_token(judged):
    with served(answer) as server:
        one = judged(base_url=server.base_url, cap=0.5)
        one.broker.produce(one.topic, [trace(n) for n in range(20)])
        one.start(f"--judges={one.judges}")
        one.wait_until(lambda: read_note(one.store) is not None and "reading partition" in one.said())
        one.wait_until(lambda: one.live("SELECT count(*) AS n FROM internal.judge_closed")[0]["n"] == selected(20))
        # The judge gives back its own lease a second after its last call.
        open_leases = """SELECT count(*)::BIGINT AS n FROM (
            SELECT lease FROM internal.judge_money GROUP BY lease HAVING bool_and(entry = 'lease'))"""
        one.wait_until(lambda: one.live(open_leases)[0]["n"] == 0)
        wanted = {"portfolio": one.live("SELECT portfolio FROM portfolios")[0]["portfolio"], "metric": "helpful"}
        for path in ("/v1/judges/lease", "/v1/judges/settle", "/v1/overrides"):
            for token in (False, "wrong"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    one.asked(path, token=token, **wanted, least=0.01, wanted=0.01)
                assert refused.value.code == 401
        leases = []
        number = 0

        def lend(least):
            nonlocal number
            number += 1
            return json.loads(one.asked("/v1/judges/lease", **wanted, least=least, wanted=100, id=f"l{number}"))[
                "lease"
            ]

        while (lease := lend(0.01)) is not None:
            leases.append(lease)
        granted = leases[0]
        for wrong in ({"portfolio": "stranger"}, {"least": -1}, {"least": "much"}, {"metric": None}):
            with pytest.raises(urllib.error.HTTPError) as refused:
                one.asked("/v1/judges/lease", **{**wanted, "least": 0.01, "wanted": 0.01, "id": "x", **wrong})
            assert refused.value.code == 400
        # More than was granted does not come back, and not twice.
        one.asked("/v1/judges/settle", settled=[{"id": granted["id"], "usd": 100}])
        one.asked("/v1/judges/settle", settled=[{"id": granted["id"], "usd": 100}])
        left = lend(granted["usd"])["usd"]
        no_more = lend(0.02)

        place = one.live("SELECT source_offset AS o FROM gaps WHERE metric = 'helpful' AND outcome = 'pass'")[0]["o"]
        row = f"{one.topic}/0/{place}/0/helpful/mini"
        said = gapwatch("override", row, "--store", one.store, "--outcome", "fail", "--score", 0, "--why", "no help")
        assert said.status == 0, said.err
        outcome = one.live(
            f"SELECT outcome, scored_outcome FROM verdicts WHERE metric = 'helpful' AND source_offset = {place}"
        )
        assert one.end() == 0

    assert 0.05 < granted["usd"] <= 0.5 / 8
    assert 0.4 < sum(lease["usd"] for lease in leases) <= 0.5
    assert 0.01 <= left <= granted["usd"] + 0.01
    assert no_more is None
    assert outcome == [{"outcome": "fail", "scored_outcome": "pass"}]


@pytest.mark.slow
def test_without_its_provider_scoring_goes_on_and_the_backlog_drains_when_it_is_back(judged):
    port = free_port()
    one = judged(base_url=f"http://127.0.0.1:{port}/v1", breaker_failures=3)
    one.broker.produce(one.topic, [trace(n) for n in range(2000)])
    one.start(f"--judges={one.judges}")
    one.wait_until(lambda: read_note(one.store) is not None and "reading partition" in one.said())
    read = "SELECT coalesce(sum(n), 0)::BIGINT AS n FROM ledger WHERE metric IS NULL"
    one.wait_until(lambda: one.live(read)[0]["n"] == 2000)
    one.wait_until(lambda: 'gapwatch_judge_breaker_workers{provider="openai",state="open"} 1' in one.asked("/metrics"))
    waiting = one.pending()
    page = one.asked("/metrics")
    with served(answer, port):
        one.wait_until(lambda: one.pending() == 0, 90)
        assert one.end() == 0

    n = selected(2000)
    assert waiting == n
    assert f"gapwatch_judge_queue_requests {n}" in page
    one.assert_each_ended_once(n)
    assert set(one.states()) == {"pass", "fail", "sampled_out"}


def test_at_the_cap_requests_are_shed_and_counted_and_nothing_more_is_spent(judged):
    with served(answer) as server:
        one = judged(base_url=server.base_url, cap=0.02)
        one.broker.produce(one.topic, [trace(n) for n in range(400)])
        told = one.catch_up(f"--judges={one.judges}")

    states = told["outcomes"]["helpful"]
    n = selected(400)
    assert states["shed_budget"] > 0
    assert states["pass"] + states["fail"] + states["shed_budget"] == n
    assert one.query("SELECT sum(usd) FROM judge_calls")[0][0] <= 0.02
    one.assert_each_ended_once(n)


@pytest.mark.slow
def test_near_the_cap_judges_see_less_by_a_recorded_step_and_the_probabilities_say_so(judged):
    with served(answer) as server:
        one = judged(base_url=server.base_url, cap=0.25)
        one.broker.produce(one.topic, [trace(n) for n in range(700)])
        one.start(f"--judges={one.judges}")
        one.wait_until(lambda: "judge sampling rates: lowered" in one.said())
        one.wait_until(lambda: one.pending() == 0)
        one.broker.produce(one.topic, [trace(n) for n in range(700, 1100)])
        read = "SELECT coalesce(sum(n), 0)::BIGINT AS n FROM ledger WHERE metric IS NULL"
        one.wait_until(lambda: one.live(read)[0]["n"] == 1100 and one.pending() == 0)
        assert one.end() == 0

    of = "WHERE metric = 'helpful' AND cause = 'budget' ORDER BY from_offset"
    steps = one.query(f"SELECT from_offset, p_evaluated FROM policies {of}")
    assert steps
    since, p = steps[-1]
    assert p in (0.25, 0.125, 0.0625)
    asked = one.query(
        f"SELECT count(*) FROM internal.judge_requests WHERE (decode(value)::JSON->>'source_offset')::INT >= {since}"
    )
    assert asked == [(selected(1100, p) - selected(since, p),)]
    said = f"SELECT DISTINCT p_evaluated FROM gaps WHERE metric = 'helpful' AND source_offset >= {since}"
    assert one.query(said) in ([(p,)], [])  # at the very cap they were shed
    assert one.query("SELECT count(DISTINCT epoch) FROM ticks WHERE metric = 'short'") == [(1,)]
    assert one.query("SELECT sum(usd) <= 0.25 FROM internal.judge_money") == [(True,)]
    one.assert_each_ended_once(one.query("SELECT count(*) FROM internal.judge_requests")[0][0])


def test_a_judge_that_the_keeper_does_not_know_is_refused(judged):
    one = judged(base_url="http://127.0.0.1:9/v1")
    ran = gapwatch(
        "run", "--role", "judge", "--brokers", one.broker.address, "--judges", one.judges, "--store", one.store
    )
    assert ran.status == 2
    assert "no running gapwatch run serves" in ran.err
    ran = gapwatch("run", "--role", "judge", "--brokers", one.broker.address, "--store", one.store)
    assert ran.status == 2
    assert "--judges" in ran.err


TWO = """\
gapwatch: 1
portfolio: {name}
version: 1
pipeline: support
components:
  - {{id: answer, role: ai_core, kind: llm}}
edges: []
metrics:
  - name: helpful
    component: answer
    claim:
      form: judge
      rubric: {{criterion: helpful, scale: [good, bad], inputs: [input, output], pass_at: good}}
      judges: [{{name: mini, model: openai/small}}]
  - name: polite
    component: answer
    claim:
      form: judge
      rubric: {{criterion: polite, scale: [good, bad], inputs: [input, output], pass_at: good}}
      judges: [{{name: mini, model: away/small}}]
"""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in one process", "role judge"])
@pytest.mark.slow
def test_judges_of_a_dead_provider_hold_up_no_others_and_go_on_when_it_is_back(judged, elsewhere):
    port = free_port()
    with served(answer) as server:
        one = judged(base_url=server.base_url, concurrency=2, breaker_failures=2)
        one.portfolios[0].write_text(TWO.format(name=f"two-{one.topic}"))
        written = json.loads(one.judges.read_text())
        provider = {**written["providers"]["openai"], "base_url": f"http://127.0.0.1:{port}/v1"}
        written["providers"] = {"openai": written["providers"]["openai"], "away": provider}
        written["prices"]["away/small"] = {"input": 1, "output": 4}
        one.judges.write_text(json.dumps(written))
        one.broker.produce(one.topic, [trace(n) for n in range(100)])
        listen = f"--listen=127.0.0.1:{free_port()}"
        one.start(f"--judges={one.judges}", listen, *(["--role=score,keep"] if elsewhere else []))
        one.wait_until(lambda: read_note(one.store) is not None and "reading partition" in one.said())
        judge = one.start_judge(1) if elsewhere else None
        one.wait_until(lambda: one.read() == 100 and one.pending() == 0, 90)
        waiting = one.pending("polite")
        with served(answer, port):
            one.wait_until(lambda: one.pending("polite") == 0, 90)
            assert judge is None or one.end_judge(judge) == 0
            assert one.end() == 0

    assert waiting == 100
    one.assert_each_ended_once(200)
    ended = one.query("SELECT metric, outcome, count(*) FROM gaps GROUP BY ALL ORDER BY ALL")
    assert ended == [(metric, o, n) for metric in ("helpful", "polite") for o, n in (("fail", 34), ("pass", 66))]


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in one process", "role judge"])
def test_a_retry_beside_a_run_that_is_killed_asks_each_once_and_its_verdicts_can_be_rebuilt(judged, elsewhere):
    is_mended, sent = [False], []

    def mended(body, headers):
        if not is_mended[0]:
            return HttpAnswer(400, b'{"error": {"message": "no such parameter"}}')
        sent.append(body)
        return HttpAnswer(body=answer(body, headers).body, seconds=0.1)

    n = selected(100)
    retried = "SELECT count(*)::BIGINT AS n FROM overrides WHERE \"by\" = 'judge retry'"
    with served(mended) as server:
        one = judged(base_url=server.base_url, concurrency=2)
        listen = f"--listen=127.0.0.1:{free_port()}"  # where a judge elsewhere finds the run again
        arguments = (f"--judges={one.judges}", listen, *(["--role=score,keep"] if elsewhere else []))
        one.broker.produce(one.topic, [trace(i) for i in range(100)])
        one.start(*arguments)
        one.wait_until(lambda: read_note(one.store) is not None and "reading partition" in one.said())
        judge = one.start_judge(1) if elsewhere else None
        one.wait_until(lambda: one.read() == 100 and one.pending() == 0)
        is_mended[0] = True
        asked = gapwatch("judge", "retry", "--store", one.store, "--where", "reason=bad_request", "--by", "ann")
        assert json.loads(asked.out)["asked_again"] == n
        one.wait_until(lambda: len(sent) >= n // 3)
        one.kill()
        if judge is not None:
            assert one.end_judge(judge, signal.SIGKILL) == -signal.SIGKILL
        again = json.loads(gapwatch_retry(one, arguments))
        judge = one.start_judge(2) if elsewhere else None
        one.wait_until(lambda: one.live(retried)[0]["n"] == n, 90)
        assert judge is None or one.end_judge(judge) == 0
        assert one.end() == 0

    assert again["asked_again"] + again["still_waiting"] <= n
    one.assert_each_ended_once(2 * n)
    assert len(sent) < 2 * n
    assert one.query("SELECT DISTINCT scored_outcome, override_by FROM verdicts WHERE metric = 'helpful'") == [
        ("error", "judge retry")
    ]
    with Store.open(one.store) as store:
        archive = VerdictArchive(store.cursor())
        rebuilder = Rebuilder(archive)
        rows = store.query("SELECT source_topic, source_offset FROM gaps WHERE metric = 'helpful'")
        rebuilt = [rebuilder.rebuild(archive.verdict(f"{topic}/0/{offset}/0/helpful/mini")) for topic, offset in rows]
    assert len(rebuilt) == n
    assert {one.verdict.outcome for one in rebuilt} == {"pass", "fail"}
    bodies = {json.dumps(body, sort_keys=True) for body in sent}
    assert all(json.dumps(json.loads(request_bytes(one.call)), sort_keys=True) in bodies for one in rebuilt)


def gapwatch_retry(one, arguments):
    """Start the run again, and repeat the command: what waits already is not asked a third time."""
    one.start(*arguments)
    one.wait_until(lambda: (note := read_note(one.store)) is not None and note.pid == one.pid)
    again = gapwatch("judge", "retry", "--store", one.store, "--where", "metric=helpful", "--by", "ann")
    assert again.status == 0, again.err
    return again.out
