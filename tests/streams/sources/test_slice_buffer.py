"""Which waiting slices go next: none starves, none is lost, few records wait for others and many do not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.streams.sources.linger import ENOUGH_RECORDS, Linger
from gapwatch.streams.sources.slice_buffer import MOST_PASSES, SliceBuffer, WaitingSlice, chosen

NOW, FULL, MOST = 1_000_000.0, 2_000, 8_000


def waiting(age, records=10, passes=0, begin=0):
    return WaitingSlice(begin, begin + records, NOW - age, 0.0, list(range(begin, begin + records)), passes=passes)


slices = st.builds(
    waiting, age=st.floats(0, 3_600), records=st.integers(1, FULL), passes=st.integers(0, MOST_PASSES + 1)
)
buffers = st.dictionaries(st.integers(0, 9), slices, min_size=1, max_size=8)


class TestTheChoice:
    @given(buffers)
    def test_the_one_that_waits_longest_always_goes(self, buffer):
        order = chosen(buffer, FULL, MOST, NOW)
        overdue = [of for of, one in buffer.items() if one.passes >= MOST_PASSES]

        assert order[0] == min(overdue or buffer, key=lambda of: buffer[of].since)
        assert len(order) == len(set(order))

    @given(buffers)
    def test_no_slice_goes_while_one_left_behind_waits_more_than_twice_as_long(self, buffer):
        order = chosen(buffer, FULL, 10**9, NOW)
        left = [NOW - one.since for of, one in buffer.items() if of not in order]
        gone = [NOW - buffer[of].since for of in order if buffer[of].passes < MOST_PASSES]

        assert not left or not gone or max(left) <= 2 * min(gone)

    @given(buffers)
    def test_it_takes_no_more_than_asked_unless_one_slice_has_more(self, buffer):
        order = chosen(buffer, FULL, MOST, NOW)

        assert len(order) == 1 or sum(len(buffer[of].records) for of in order) <= MOST

    @given(st.dictionaries(st.integers(0, 9), st.builds(waiting, age=st.floats(0, 3_600)), min_size=1))
    def test_without_a_backlog_all_go_together(self, buffer):
        assert set(chosen(buffer, FULL, MOST, NOW)) == set(buffer)

    def test_beside_a_backlog_those_that_wait_briefly_are_passed_over(self):
        buffer = {0: waiting(30.0, FULL), 1: waiting(2.0), 2: waiting(25.0), 3: waiting(20.0, passes=MOST_PASSES)}

        assert chosen(buffer, FULL, MOST, NOW) == [3, 0, 2]

    def test_a_wrong_clock_holds_up_the_others_for_a_limited_number_of_turns(self):
        buffer, turns = SliceBuffer(MOST, Linger(1.0), 0.25), 0
        buffer.add(1, waiting(0.1))
        while 1 in buffer:
            buffer.add(0, waiting(86_400.0, FULL))
            buffer.take({0, 1}, 4, turns, NOW + turns)
            turns += 1

        assert turns == MOST_PASSES + 1

    @pytest.mark.parametrize("share", [0.5, 0.8, 0.97])
    def test_under_overload_no_partition_waits_more_than_twice_as_long_as_another(self, share):
        """Four partitions of 1,500 records/s, one of them with most; 1,000 records/s are scored."""
        rates = [share * 1_500] + [(1 - share) * 500] * 3
        read, waits = [0.0] * 4, [[], [], [], []]  # read: time up to which the records of a partition were fetched
        buffer, now = SliceBuffer(MOST, Linger(1.0), 0.25), 1.0
        while now < 200.0:
            for of in range(4):
                if of not in buffer and (count := min(FULL, int((now - read[of]) * rates[of]))):
                    records = [read[of] + n / rates[of] for n in range(count)]
                    buffer.add(of, WaitingSlice(0, 0, records[0], now, records))
                    read[of] += count / rates[of]
            took = buffer.take(range(4), 4, now, now)
            now += 0.05 + sum(len(one.records) for _, one in took) / 1_000
            for of, one in took:
                waits[of].append(now - one.since)

        late = [max(of[-len(of) // 3 :]) for of in waits]
        assert max(late) > 10.0
        assert max(late) / min(late) < 2.0


class TestTheBuffer:
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 900)), max_size=40), st.data())
    def test_every_record_goes_once_and_each_slice_begins_where_the_last_one_ended(self, fetches, data):
        buffer, ends, gone = (
            SliceBuffer(MOST, Linger(1.0), 0.25),
            dict.fromkeys(range(4), 0),
            {of: [] for of in range(4)},
        )

        def take():
            for of, one in buffer.take(range(4), 4, 0.0, NOW):
                assert one.from_offset == (gone[of][-1] + 1 if gone[of] else 0)
                assert len(one.records) == one.to_offset - one.from_offset
                gone[of] += one.records

        for of, records in fetches:
            buffer.add(of, waiting(data.draw(st.floats(0, 90)), records, begin=ends[of]))
            ends[of] += records
            if data.draw(st.booleans()):
                take()
        while buffer.records:
            take()

        assert {of: len(records) for of, records in gone.items()} == ends

    def test_few_records_wait_for_the_linger_less_the_wait_at_the_broker(self):
        buffer = SliceBuffer(MOST, Linger(1.0), 0.25)
        assert buffer.seconds_left({0, 1}, 4, 0.0) is None
        buffer.add(0, waiting(0.0))

        assert buffer.seconds_left({0, 1}, 4, 0.5) == pytest.approx(0.25)
        assert buffer.seconds_left({0, 1}, 4, 0.8) == 0.0
        assert buffer.seconds_left({1}, 4, 0.8) is None

    def test_the_first_records_after_a_seek_do_not_wait(self):
        buffer = SliceBuffer(MOST, Linger(1.0), 0.25)
        buffer.clear()
        buffer.add(0, waiting(0.0))

        assert buffer.seconds_left({0}, 4, 0.0) == 0.0
        buffer.take({0}, 4, 0.0, 0.0)
        buffer.add(0, waiting(0.0))
        assert buffer.seconds_left({0}, 4, 0.0) == pytest.approx(0.75)

    def test_many_records_do_not_wait(self):
        buffer = SliceBuffer(MOST, Linger(1.0), 0.25)
        buffer.add(0, waiting(0.0, ENOUGH_RECORDS))

        assert buffer.seconds_left({0}, 4, 0.0) == 0.0

    @given(st.integers(1, 200), st.integers(1, 100_000))
    def test_a_full_slice_is_within_its_limit(self, partitions, most):
        full = SliceBuffer(most, Linger(1.0), 0.25).full_slice(partitions)

        assert 1 <= full <= most
        assert full * partitions <= 2 * most or full <= 500


class TestTheLinger:
    @staticmethod
    def after(rate, seconds=60.0, most=1.0):
        linger, now = Linger(most), 0.0
        while now < seconds:
            now += linger.seconds
            linger.note(round(rate * linger.seconds), now)
        return linger.seconds

    @given(st.floats(0.0, 100_000.0), st.floats(0.1, 10.0))
    def test_it_is_at_most_the_option_and_gives_at_most_enough_records(self, rate, most):
        seconds = self.after(rate, most=most)

        assert 0.0 < seconds <= most
        assert seconds * rate <= 1.1 * ENOUGH_RECORDS + 1

    def test_it_is_long_for_few_records_and_short_for_many(self):
        assert self.after(1.0) == pytest.approx(1.0, abs=0.01)
        assert self.after(200.0) == pytest.approx(1 / 1.2, rel=0.05)
        assert self.after(10_000.0) == pytest.approx(1 / 11, rel=0.05)

    def test_it_is_long_again_after_the_load(self):
        linger = Linger(1.0)
        for n in range(600):
            linger.note(1_000, n / 10)
        busy = linger.seconds
        for n in range(60):
            linger.note(10, 60.0 + n)

        assert busy < 0.2
        assert linger.seconds > 0.95
        assert math.isfinite(linger.seconds)
