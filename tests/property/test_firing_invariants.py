"""Each time of a schedule is fired or skipped once and in order, for any sequence of ticks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.engine.mill import AHEAD_MS
from shardmill.engine.schedules.catch_up import (
    ON_TIME_MS,
    TICK_MS,
    Decision,
    Visit,
    decide,
    latest,
    next_time,
    punctual_since,
)
from shardmill.model.time.schedule import Schedule
from shardmill.model.timestamps import from_ms, to_ms

BEGIN = to_ms(datetime(2026, 3, 28, tzinfo=UTC))

TIMES = st.one_of(
    st.sampled_from([{"cron": text} for text in ("*/7 * * * *", "30 2 * * *", "0 */3 * * *", "0 0 1 * *")]),
    st.integers(20, 90_000).map(lambda seconds: {"everySeconds": seconds}),
)
RULES = st.fixed_dictionaries(
    {"catchUp": st.sampled_from(["none", "latest", "all"])},
    optional={"maxLatenessSeconds": st.integers(0, 200_000)},
)
GAPS = st.lists(st.integers(-40_000, 80_000), min_size=1, max_size=12)  # seconds from tick to tick


def make_schedule(**document: Any) -> Schedule:
    return Schedule.model_validate(
        {"jobName": "j", "scheduleId": "s", "timezone": "Europe/Berlin", **document}, by_alias=True
    )


def run_ticks(schedule: Schedule, gaps: list[int]) -> tuple[list[tuple[Decision, int]], int]:
    """Return each decision with the time of its tick, and the time of the latest tick."""
    table, now, latest_tick = schedule.timetable, BEGIN, BEGIN
    first = next_time(table, BEGIN)
    decisions = []
    for gap in gaps:
        now += gap * 1000
        latest_tick = max(latest_tick, now)
        for _ in range(5_000):
            if first is None or first > now:
                break
            decision = decide(schedule, first, Visit.of_tick(now, now))
            decisions.append((decision, now))
            assert decision.next is None or decision.next > first
            first = decision.next
    return decisions, latest_tick


@settings(max_examples=150)
@given(times=TIMES, rules=RULES, gaps=GAPS)
def test_each_time_is_fired_or_skipped_once_and_in_order(times: Any, rules: Any, gaps: list[int]) -> None:
    schedule = make_schedule(**times, **rules)
    decisions, latest_tick = run_ticks(schedule, gaps)
    expected = [
        to_ms(each) for each in schedule.timetable.times(from_ms(BEGIN + 1), from_ms(latest_tick + 1))
    ]
    fired = [decision.fire for decision, _ in decisions if decision.fire is not None]
    skipped = [
        time
        for decision, _ in decisions
        if decision.skipped
        for time in expected
        if decision.skipped[0] <= time <= decision.skipped[1]
    ]
    assert sorted([*fired, *skipped]) == expected
    assert fired == sorted(set(fired))


@settings(max_examples=150)
@given(times=TIMES, rules=RULES, gaps=GAPS)
def test_firings_obey_catch_up_and_max_lateness(times: Any, rules: Any, gaps: list[int]) -> None:
    schedule = make_schedule(**times, **rules)
    lateness = schedule.max_lateness_seconds
    for decision, now in run_ticks(schedule, gaps)[0]:
        if decision.fire is None:
            continue
        late = now - decision.fire
        assert lateness is None or late <= max(lateness * 1000, TICK_MS)
        if schedule.catch_up == "none":
            assert late <= ON_TIME_MS
        if schedule.catch_up == "latest" and late > ON_TIME_MS:
            assert decision.next is None or decision.next > now
        if schedule.catch_up == "all" and lateness is None:
            assert decision.skipped is None


@settings(max_examples=150)
@given(
    times=st.one_of(TIMES, st.integers(1, 60).map(lambda seconds: {"everySeconds": seconds})),
    catch_up=st.sampled_from(["none", "latest", "all"]),
    gaps=st.lists(st.integers(1, ON_TIME_MS // 1000), min_size=1, max_size=20),
    visits=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), max_size=60),
)
def test_punctual_ticks_miss_no_time_even_if_visits_are_late(
    times: Any, catch_up: str, gaps: list[int], visits: list[tuple[int, int]]
) -> None:
    """`visits`: which of the ticks' visits continues after each tick, and how many times it decides on."""
    schedule = make_schedule(**times, catchUp=catch_up)
    first, now, ticks = next_time(schedule.timetable, BEGIN), BEGIN, None
    sent: list[Visit] = []
    fired = []

    def work(visit: Visit, most: int) -> None:
        nonlocal first
        while first is not None and first <= visit.now and most:
            decision = decide(schedule, first, visit)
            assert not decision.skipped
            fired.append(decision.fire)
            first, most = decision.next, most - 1

    queue = iter(visits)
    for gap in gaps:
        now += gap * 1000
        if first is None or first > now:
            continue  # a tick without due schedules records nothing
        ticks = (punctual_since(ticks, now), now)
        sent.append(Visit.of_tick(now, ticks[0]))
        for chosen, most in [each for _, each in zip(range(3), queue, strict=False)]:
            work(sent[chosen % len(sent)], most)
    for visit in sent[::-1] + sent:
        work(visit, 10**6)
    until = sent[-1].now + 1 if sent else BEGIN
    assert fired == [to_ms(time) for time in schedule.timetable.times(from_ms(BEGIN + 1), from_ms(until))]


class FireQueue:
    """A schedule, the ticks that hand it over, and a queue that loses, repeats and delays messages."""

    def __init__(self, schedule: Schedule, fates: Iterator[str]) -> None:
        self.schedule, self.fates = schedule, fates
        self.now, self.first = BEGIN, next_time(schedule.timetable, BEGIN)
        self.ticks: tuple[int, int] | None = None
        self.messages: list[tuple[int, int]] = []  # arrival, time
        self.fired: list[tuple[int, int]] = []  # time, lag

    def hand_over(self) -> None:
        if self.first is None or self.first > self.now + AHEAD_MS:
            return
        fate = next(self.fates, "kept")
        arrival = max(self.now, self.first) + (7_000 if fate == "late" else 0)
        for _ in range({"lost": 0, "twice": 2}.get(fate, 1)):
            heappush(self.messages, (arrival, self.first))

    def deliver(self, until: int) -> None:
        while self.messages and self.messages[0][0] <= until:
            self.now, time = heappop(self.messages)
            self.work(Visit.at_time(time))

    def tick(self, now: int) -> None:
        self.now = now
        if self.first is not None and self.first <= now:
            self.ticks = (punctual_since(self.ticks, now), now)
            self.work(Visit.of_tick(now, self.ticks[0]))
        else:
            self.hand_over()

    def work(self, visit: Visit) -> None:
        before = len(self.fired)
        while self.first is not None and self.first <= visit.now and not visit.leaves(self.first):
            decision = decide(self.schedule, self.first, visit)
            assert not decision.skipped
            assert decision.fire is not None
            self.fired.append((decision.fire, self.now - decision.fire))
            self.first = decision.next
        if len(self.fired) > before:
            self.hand_over()


@settings(max_examples=150)
@given(
    times=st.one_of(TIMES, st.integers(1, 60).map(lambda seconds: {"everySeconds": seconds})),
    catch_up=st.sampled_from(["none", "latest", "all"]),
    gaps=st.lists(st.integers(1, ON_TIME_MS // 1000), min_size=1, max_size=10),
    fates=st.lists(st.sampled_from(["lost", "twice", "late", "kept"]), max_size=40),
)
def test_handed_over_times_fire_once_and_on_time_unless_a_message_is_lost(
    times: Any, catch_up: str, gaps: list[int], fates: list[str]
) -> None:
    """`fates`: what happens to each message; all are kept when the list is used up."""
    schedule = make_schedule(**times, catchUp=catch_up)
    queue = FireQueue(schedule, iter(fates))
    queue.hand_over()
    tick = BEGIN
    for gap in gaps:
        tick += gap * 1000
        queue.deliver(tick)
        queue.tick(tick)
    fired = queue.fired
    expected = [to_ms(time) for time in schedule.timetable.times(from_ms(BEGIN + 1), from_ms(tick + 1))]
    assert [time for time, _ in fired] == expected
    if set(fates) <= {"twice", "kept"} and max(gaps) * 1000 <= AHEAD_MS:
        assert {lag for _, lag in fired} <= {0}


@given(times=TIMES, start=st.integers(0, 10**6), length=st.integers(0, 4 * 10**6))
def test_latest_returns_the_last_time_of_the_interval(times: Any, start: int, length: int) -> None:
    table = make_schedule(**times).timetable
    begin = from_ms(BEGIN) + timedelta(seconds=start)
    end = begin + timedelta(seconds=length)
    times_between = list(table.times(begin, end + timedelta(milliseconds=1)))
    assert latest(table, to_ms(begin), to_ms(end)) == (to_ms(times_between[-1]) if times_between else None)
