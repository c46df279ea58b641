"""A run: the undisturbed results first, then the same jobs while things die, then the checks."""

from __future__ import annotations

import heapq
import itertools
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from control import admission
from runtime.broker.embedded import free_ports
from runtime.cluster import ensure_topics
from runtime.jobs import JobBoard
from runtime.settings import Settings, load
from schemas.errors import BrokerError
from schemas.events import Role
from schemas.job import JobSpec
from tests.chaos import checks, rebuilt
from tests.chaos.block import KILL, STOP
from tests.chaos.crew import Broker, Crew, Death, Disk, Member
from tests.chaos.schedule import LEAST, Action, Kind
from tests.chaos.work import Work, numbers, wrong_with

TICK_SECONDS = 0.05
LONG_BROKER_STOP = 20.0
REFERENCE_SECONDS = 600.0
"""For the undisturbed jobs, at most: other work may be on the machine."""
ARMED_SECONDS = 45.0
"""A point that is not reached for so long is tried again later, in another process."""
AGAIN_SECONDS = 0.2
"""Until the next is tried when there was nobody to do this to."""
PATIENCE = 10
"""Looks for somebody at work before somebody idle is taken; for a kill at a random moment nobody idle is."""
TAKE_OVER_SECONDS = 8.0
"""Session time-out of the schedulers' group plus two."""


@dataclass
class Report:
    """What was done, what came of it."""

    group: str
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    """SIGKILLs while work was in flight, by role or point or `broker`."""
    idle: Counter[str] = field(default_factory=Counter)
    """SIGKILLs of services that had nothing to do."""
    others: Counter[str] = field(default_factory=Counter)
    """Disturbances that do not kill, by kind."""
    ends: Counter[str] = field(default_factory=Counter)
    """Services that ended by themselves, by last words: somebody else's failure that they could not bear."""
    counts: Counter[str] = field(default_factory=Counter)
    take_overs: list[float] = field(default_factory=list)
    """Seconds from the death of the control in charge to the next one in charge."""
    jobs: int = 0
    rounds: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        return sum(self.kills.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group, "seed": self.seed, "passed": not self.wrong, "wrong": self.wrong,
            "jobs": self.jobs, "rounds": self.rounds, "seconds": round(self.seconds, 1),
            "sigkills_in_flight": self.killed, "kills": dict(sorted(self.kills.items())),
            "kills_idle": dict(self.idle), "others": dict(self.others), "counts": dict(self.counts),
            "take_over_seconds": [round(s, 2) for s in sorted(self.take_overs)],
            "ended_by_themselves": dict(self.ends),
        }  # fmt: skip

    def text(self) -> str:
        lines = [
            f"{'PASSED' if not self.wrong else 'FAILED'}: {self.jobs} jobs in {self.rounds} rounds, "
            f"{self.killed} SIGKILLs with work in flight, group mode {self.group}, seed {self.seed}, "
            f"{self.seconds:.0f} s",
            "",
            "killed at                            times",
        ]
        lines += [f"  {name:34} {count:5}" for name, count in sorted(self.kills.items())]
        rows = (("besides", self.others), ("idle when killed", self.idle), ("counted", self.counts))
        for title, found in rows:
            lines += ["", title, *(f"  {name:34} {count:5}" for name, count in sorted(found.items()))]
        if found := self.take_overs:
            late = sum(s > TAKE_OVER_SECONDS for s in found)
            lines += [
                "",
                f"next control in charge after {median(found):.1f} s (median of {len(found)}; longest "
                f"{max(found):.1f} s; {late} above {TAKE_OVER_SECONDS:g} s)",
            ]
        lines += ["", "services that ended by themselves"]
        lines += [f"  {count:3} {words[:150]}" for words, count in self.ends.most_common(12)]
        lines += ["", *(f"WRONG: {line}" for line in self.wrong)]
        return "\n".join(lines)


class Run:
    """One broker, one crew, one report. `actions` come in order; one that finds no victim comes again."""

    def __init__(
        self,
        folder: Path,
        actions: Sequence[Action],
        group: str,
        seed: int,
        *,
        few: bool = False,
        broken: str = "",
        minutes: float = 60.0,
        settle: float = 240.0,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._folder, self._actions = folder, list(actions)
        self._wanted = Counter(action.name for action in actions if action.kind.kills)
        self._armed_by: dict[str, Action] = {}
        """What armed a point that was not seen to go off yet, by member."""
        self._heads: list[float] = []
        """When the control in charge died (monotonic seconds)."""
        self._troubles: list[float] = []
        """When the broker was disturbed."""
        self._random = random.Random(f"{seed}/victims")
        self._minutes, self._settle_seconds, self._tell = minutes, settle, tell
        self.report = Report(group, seed)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = itertools.count()
        self._looked: dict[Path, tuple[int, int]] = {}
        """State (mtime, inode) in which a result was last read."""
        self._specs: dict[str, tuple[JobSpec, str]] = {}
        """Submitted under chaos, by job: spec and kind of job."""
        self._running: set[str] = set()
        self._tries: Counter[Action] = Counter()
        self._settings = self._make_settings(group)
        self._broker = Broker(folder / "broker", self._settings)
        self._disk = Disk(self._settings.data)
        self._close = ExitStack()
        self._few = few
        self._crew = Crew(self._settings, folder / "crew", broken)
        self._log = (folder / "events.jsonl").open("a")
        self._began = time.monotonic()

    def _make_settings(self, group: str) -> Settings:
        port, _ = free_ports()
        return load(
            {
                "topic_prefix": f"chaos.{group}.",
                "data": self._folder / "data",
                "kafka": {"bootstrap": f"127.0.0.1:{port}", "session_timeout_ms": 6000},
                "topics": {"frame_partitions": 4, "order_partitions": 4},
                "limits": {"batch_bytes": 60_000, "stuck_seconds": 60.0},
                "keep": {"sweep_seconds": 5.0},
                "swapper": {"group": group, "engines": ["mesh"]},
                "broker": {"port": port},
                "drain_seconds": 10.0,
                "log": {"level": "info"},
            }
        )

    # -- the run -----------------------------------------------------------------------------------

    def __call__(self) -> Report:
        try:
            self._broker.start()
            ensure_topics(self._settings)
            self._work = Work(self._settings, self._folder, self._few)
            self._board = self._close.enter_context(JobBoard(self._settings, "chaos"))
            self._crew.start()
            self._make_reference()
            if not self.report.wrong:
                self._began = time.monotonic()
                self._disturb()
                self._calm()
                self.report.seconds = time.monotonic() - self._began
                self._check()
        finally:
            self._crew.kill()
            self._close.close()
            self._broker.stop()
            self._disk.remove()
            self._note("report", **self.report.as_json())
            self._log.close()
        return self.report

    def _make_reference(self) -> None:
        self._reference = self._folder / "reference"
        specs = self._work.specs(self._reference)
        for spec in specs.values():
            admission.submit(self._settings, spec)
        wrong = checks.eventually_none(lambda: self._unfinished(specs.values()), REFERENCE_SECONDS)
        for order in self._work.orders:
            if not wrong and (what := wrong_with(order, Path(specs[order.name].output))):
                wrong.append(f"undisturbed, {order.name}: {what}")
        self.report.wrong += wrong
        self._tell(f"undisturbed: {len(specs)} jobs in {time.monotonic() - self._began:.0f} s")

    def _unfinished(self, specs: Any) -> list[str]:
        self._reap()
        records = {record.job: record for record in self._board.records()}
        return checks.states(records, specs)

    def _disturb(self) -> None:
        """Do what is on the list, with jobs running all the time."""
        until = self._began + 60 * self._minutes
        left = self._actions
        due = 0.0
        while (left or self._armed()) and time.monotonic() < until:
            self._turn()
            if len(self._running) <= len(self._work.orders) // 3 and self._broker.up and left:
                self._submit()
            if self._running and left and time.monotonic() >= due:
                action = left.pop(0)
                done = self._act(action)
                due = time.monotonic() + (action.wait if done else AGAIN_SECONDS)
                if not done:
                    left.append(action)
            elif not left and not self._running and self._broker.up and self._armed():
                self._submit()
        if left:
            self._tell(f"{len(left)} disturbances were not made for want of time")
            self.report.wrong.append(f"{len(left)} disturbances were not made for want of time")

    def _calm(self) -> None:
        """Nothing more is done to anybody; the jobs must come to their end."""
        self._reap()
        for member in self._crew.members:
            member.block.disarm()
        deadline = time.monotonic() + self._settle_seconds
        while (self._running or self._asleep()) and time.monotonic() < deadline:
            self._turn()

    def _asleep(self) -> bool:
        """Whether something that was done still lasts."""
        stopped = any(member.stopped for member in self._crew.members)
        return stopped or self._disk.full or not self._broker.up

    def _turn(self) -> None:
        """A moment of the run: who died, what is due, how the jobs stand."""
        time.sleep(TICK_SECONDS)
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        self._notice_stops()
        self._reap()
        self._look_at_results()
        ended = {record.job for record in self._board.records() if record.state.ended}
        self._running -= ended

    def _submit(self) -> None:
        self.report.rounds += 1
        specs = self._work.specs(self._folder / f"round-{self.report.rounds}")
        for name, spec in specs.items():
            try:
                admission.submit(self._settings, spec)
            except BrokerError as error:
                self._tell(f"not submitted: {error}")
                continue
            self._specs[spec.job] = spec, name
            self._running.add(spec.job)
            self.report.jobs += 1
        self._tell(
            f"{self._clock()} round {self.report.rounds}: {len(specs)} jobs, {self.report.killed} kills"
        )

    # -- doing harm --------------------------------------------------------------------------------

    def _act(self, action: Action) -> bool:
        """Do it; False if there is nobody to do it to now."""
        match action.kind:
            case Kind.BROKER_KILL:
                if not self._broker.up:
                    return False
                self._broker.kill()
                self._troubles.append(time.monotonic())
                self._count_kill("broker", True)
            case Kind.BROKER_STOP:
                if not self._broker.up:
                    return False
                self._broker.pause(True)
                self._troubles += [time.monotonic(), time.monotonic() + action.seconds]
                self._later(action.seconds, lambda: self._broker.pause(False))
                self._count_other(
                    f"broker away {'a minute' if action.seconds > LONG_BROKER_STOP else '8 to 15 s'}"
                )
            case Kind.DISK:
                if not self._disk.there:
                    self._count_other("disk full: not made, no right to mount")
                    return True
                if self._disk.full:
                    return False
                self._disk.fill(True)
                self._later(action.seconds, lambda: self._disk.fill(False))
                self._count_other("disk of the work folder full for 1 to 4 s")
            case _:
                return self._harm(action)
        self._note(action.kind, seconds=action.seconds)
        return True

    def _harm(self, action: Action) -> bool:
        member = self._victim(action)
        if member is None:
            return False
        block = member.block
        match action.kind:
            case Kind.KILL:
                self._kill(member)
            case Kind.STOP:
                self._count_other(f"{member.role} stopped 8 to 12 s")
                self._freeze(member, action.seconds)
            case Kind.CLOCK:
                self._count_other(f"{member.role} clock jump")
                block.clock += action.seconds
            case Kind.POINT | Kind.STOP_POINT:
                self._arm(member, action)
        self._note(
            action.kind, member=member.name, point=action.point, seconds=action.seconds, busy=block.busy
        )
        return True

    def _victim(self, action: Action) -> Member | None:
        """Somebody of the role who is at work. To arm or to stop also, if nobody was at work PATIENCE times,
        anybody who lives."""
        living = [
            m
            for m in self._crew.members
            if m.role is action.role and m.alive and not (m.again or m.stopped or m.name in self._armed_by)
        ]
        standby = action.point == "control.restored"
        wanted = [m for m in living if m.block.busy is not standby]
        tries = self._tries[action] = self._tries[action] + 1
        if not wanted and (action.kind is Kind.KILL or tries <= PATIENCE):
            return None
        self._tries[action] = 0
        return self._random.choice(wanted or living) if living else None

    def _arm(self, member: Member, action: Action) -> None:
        block = member.block
        block.arm(action.point, action.passes, KILL if action.kind is Kind.POINT else STOP)
        self._armed_by[member.name] = action

        def give_up() -> None:
            if member.block is block and block.armed:
                block.disarm()
                self._actions.append(self._armed_by.pop(member.name))

        self._later(ARMED_SECONDS, give_up)
        if action.point == "control.restored":  # it stands by: make it take over
            for other in self._crew.members:
                if other.role is action.role and other.block.busy and other.alive:
                    self._kill(other)

    def _kill(self, member: Member) -> None:
        self._count_kill(str(member.role), member.block.busy)
        member.killed = True
        member.signal(signal.SIGKILL)

    def _freeze(self, member: Member, seconds: float) -> None:
        process = member.process
        member.signal(signal.SIGSTOP)
        member.stopped = True

        def wake() -> None:
            if member.process is process:
                member.stopped = False
                member.signal(signal.SIGCONT)

        self._later(seconds, wake)

    def _notice_stops(self) -> None:
        """Services that stopped at a point sleep past their session."""
        for member in self._crew.members:
            point = member.block.fired
            if point and not member.stopped and member.alive and _is_stopped(member.process.pid):
                self._count_other(f"stopped at {point}")
                self._note("stopped", member=member.name, point=point)
                member.block.disarm()
                self._armed_by.pop(member.name, None)
                self._freeze(member, 20.0 if self._crew.broken else self._random.uniform(8, 12))

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._ids), what))

    def _armed(self) -> bool:
        """Whether a point is waited for, or was passed and what comes of it is not seen yet."""
        return any(member.block.armed or member.block.fired for member in self._crew.members)

    # -- seeing what comes of it -------------------------------------------------------------------

    def _reap(self) -> None:
        for death in self._crew.reap():
            self._note("death", member=death.member, code=death.code, point=death.point, words=death.words)
            if death.role is Role.CONTROL:
                headless = death.busy and death.code == -signal.SIGKILL and self._broker.up
                (self._heads if headless else self._troubles).append(time.monotonic())
            armed = self._armed_by.pop(death.member, None)
            if death.point and death.code == -signal.SIGKILL:
                self._count_kill(death.point, True)
                continue
            if armed:  # it died of something else
                self._actions.append(armed)
            if not death.killed:
                self._ended(death)

    def _ended(self, death: Death) -> None:
        words = death.words
        try:
            told = json.loads(words)
            words = f"{told.get('event')}: {told.get('message') or told.get('reason') or ''}"
        except (ValueError, AttributeError):
            pass
        self.report.ends[f"{death.role} ({death.code}) {words}"] += 1

    def _look_at_results(self) -> None:
        """A result is there in full, or it is not there: at every moment."""
        for job in self._running:
            spec, _name = self._specs[job]
            path = Path(spec.output)
            try:
                found = path.stat()
                state = found.st_mtime_ns, found.st_ino
                if self._looked.get(path) == state:
                    continue
            except FileNotFoundError:
                continue
            self._looked[path] = state
            if wrong := checks.differences(self._reference / path.name, path, self._work.exact(path)):
                self.report.wrong.append(
                    f"{path.parent.name}/{path.name} was seen in part, or with other bytes: {wrong[0]}"
                )

    def _count_kill(self, name: str, busy: bool) -> None:
        (self.report.kills if busy else self.report.idle)[name] += 1
        if busy and self.report.killed % 10 == 0:
            self._tell(f"{self._clock()} {self.report.killed} kills, {len(self._running)} jobs running")

    def _count_other(self, name: str) -> None:
        self.report.others[name] += 1

    def _clock(self) -> str:
        return f"{time.monotonic() - self._began:6.0f} s"

    def _note(self, what: str, **more: Any) -> None:
        entry = {"at": round(time.monotonic() - self._began, 2), "what": str(what)} | more
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()

    # -- the end -----------------------------------------------------------------------------------

    def _check(self) -> None:
        settings = self._settings
        records = {record.job: record for record in self._board.records()}
        specs = [spec for spec, _ in self._specs.values()]
        folders = [self._folder / f"round-{n + 1}" for n in range(self.report.rounds)]
        self._complain(lambda: checks.states(records, specs))
        self._complain(lambda: self._compare_results(specs))
        self._complain(lambda: checks.eventually_none(lambda: checks.lag(settings), 120))
        self._complain(lambda: checks.eventually_none(lambda: checks.store_leavings(settings, records), 60))
        self._complain(lambda: checks.segments_left(settings))
        self._complain(lambda: checks.decisions(settings, specs))
        self._complain(self._compare_schedulers)
        self._complain(self._shortfalls)
        self._complain(lambda: checks.checkpoints(settings, self.report.counts))
        self._complain(lambda: checks.answers(settings, self.report.counts))
        self._reap()
        self._complain(self._crew.stop)
        if self.report.group == "share":
            self._complain(lambda: checks.share_lag(settings))
        self._complain(lambda: checks.scratch_leavings(settings))
        self._complain(lambda: checks.output_leavings(folders, specs))

    def _compare_results(self, specs: Sequence[JobSpec]) -> list[str]:
        """All results with those of the undisturbed run."""
        wrong, counts = [], self.report.counts
        shown = {p.name: len(numbers(p)) for p in self._reference.iterdir()}
        for spec in specs:
            result = Path(spec.output)
            reference, exact = self._reference / result.name, self._work.exact(result)
            found = checks.differences(reference, result, exact)
            if not found and not exact:
                order = next(o for o in self._work.orders if o.name == result.stem)
                found = [f"{result}: {what}" for what in [wrong_with(order, result)] if what]
            if not found:
                counts["results the same" if exact else "results with the same frames and times"] += 1
                counts["frames in them"] += shown[result.name]
            wrong += found
        return wrong

    def _compare_schedulers(self) -> list[str]:
        found = rebuilt.take_overs(self._folder / "crew")
        self.report.take_overs = rebuilt.seconds_after(self._heads, found, self._troubles)
        compared = [entry for entry in found if entry["before"]]
        self.report.counts["schedulers rebuilt and compared"] = len(compared)
        self.report.counts["of these with jobs running"] = sum(entry["running"] > 0 for entry in compared)
        return rebuilt.wrong_with(found)

    def _shortfalls(self) -> list[str]:
        """Each role and point has had its share of kills, with work in flight."""
        kills = self.report.kills
        return [
            f"{name} was killed {kills[name]} times instead of {min(LEAST, wanted)} at least"
            for name, wanted in self._wanted.items()
            if kills[name] < min(LEAST, wanted)
        ]

    def _complain(self, check: Callable[[], list[str]]) -> None:
        """Add what a check finds wrong; one that cannot be made is wrong too, and the others are made."""
        try:
            self.report.wrong += check()
        except Exception as error:
            self.report.wrong.append(f"not checked: {type(error).__name__}: {error}")


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False
