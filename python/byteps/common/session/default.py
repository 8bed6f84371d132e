"""The default session: what `init` opens and every plugin uses. The one global of the package."""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from byteps.common import environment
from byteps.common.errors import InvalidArgumentError, NotInitializedError
from byteps.common.job.exit_reason import ExitReason
from byteps.common.job.own_services import OwnServices
from byteps.common.job.stack_answers import StackAnswers
from byteps.common.same_bits import SameBits
from byteps.common.session.pending import PendingTable
from byteps.common.session.process_sets import ProcessSet, ProcessSets
from byteps.common.session.session import Session
from byteps.common.timeline.timeline import Timeline, Trace, file_of_rank

_LOG = logging.getLogger("byteps")


def _give_up(why: str) -> None:
    """Tell the others why this process ends, which would leave them waiting."""
    session = _process.session
    if session is not None:
        session.give_up(why)


class _Process:
    """This process' part in a job. Handles go on counting when a session follows another."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_changing = False
        self.session: Session | None = None
        self.sessions = 0  # so far
        self.process_sets: ProcessSets | None = None
        # The session that was shut down last. Its connection to the coordinator says that this
        # process may join the job again, so that servers stay; it ends with the process.
        self.left: Session | None = None
        self.services = OwnServices()
        self.pending = PendingTable()
        self.exit_reason = ExitReason(_give_up)
        self.stack_answers = StackAnswers()
        # Names in the order of their declaration; `resume` declares them again.
        self.declared: dict[str, bool] = {}  # whether atomic
        # Names that objects have declared for themselves, as long as these live.
        self.declared_for: WeakKeyDictionary[object, list[str]] = WeakKeyDictionary()

    @contextlib.contextmanager
    def change(self) -> Iterator[bool]:
        """Let one thread at a time join or leave a job; yield False if this one is doing so.

        That is what a signal handler finds that has interrupted `init` or `shutdown`: the thread
        cannot wait for itself.
        """
        with self._lock:
            before = self._is_changing
            try:
                self._is_changing = True
                yield not before
            finally:
                self._is_changing = before


_process = _Process()


def init(
    lazy: bool | Sequence[int] = True,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
    comm: Sequence[int] | None = None,
) -> None:
    """Join the job that the environment describes; a second call only registers process sets.

    Blocks until every process of the job is there, with a bound. An exception that a signal handler
    raises meanwhile, as Ctrl-C does, ends the joining, too: the others wait for this process as if
    it had never come, and `init` may be called again. `lazy` is accepted for programs written for
    the original; joining is never put off, so that errors show where they arise. `process_sets` are
    groups of ranks to register at once, the same on all ranks; one that has the ranks of a
    registered set stands for that set. The text "dynamic" is accepted and changes nothing, since
    sets can be added at any time. `comm`, which may also be the first argument, can only be the
    list of all ranks.

    Example::

        import byteps.torch as bps
        bps.init()
        assert bps.rank() < bps.size()
    """
    if not isinstance(lazy, (bool, int)) and lazy is not None:
        comm = lazy
    with _process.change() as is_first:
        if not is_first:
            raise InvalidArgumentError(
                "init was called by a signal handler that has interrupted init, shutdown or suspend"
            )
        opened = _process.session is None
        if opened:
            _open()
    if opened:
        _check_ranks(comm)
    if process_sets is not None and not isinstance(process_sets, str):
        _sets().register(process_sets)


def join(told: Mapping[str, str]) -> None:
    """Do as `init` in a process whose place in the job the environment does not say, but `told`, in
    the words of torchrun."""
    with _process.change():
        if _process.session is None:
            _open(told)


def _open(told: Mapping[str, str] = MappingProxyType({})) -> None:
    atexit.unregister(_leave_for_good)
    atexit.register(_leave_for_good)  # before `_leave_at_exit` is: so it runs after it
    try:
        environment.take_horovods()
        _process.services.begin(told)
        _process.session = Session(number=_process.sessions + 1)
        _process.services.joined()
        _process.sessions += 1
        _process.process_sets = ProcessSets(_process.session)
        _process.left = None
        atexit.register(_leave_at_exit)
        _process.exit_reason.begin()
        if _process.session.size > 1 and environment.shows_itself():
            _process.stack_answers.begin(_process.session.rank, _process.session.size)
        _record_as_asked(_process.session)
        _warn_of_variables(_process.session)
    except BaseException:  # also of a signal handler: joined, or not
        _close()
        _process.exit_reason.begin()  # so the error of `init` is shown in few lines, too
        raise


def _record_as_asked(session: Session) -> None:
    """Begin the records that the environment asks for."""
    timeline = environment.timeline()
    if timeline is not None:
        session.record(Timeline(file_of_rank(timeline, session.rank), session.rank))
    trace = environment.trace()
    if trace is not None:
        session.add_recorder(Trace(trace.folder, session.local_rank, trace.first, trace.last))


def _warn_of_variables(session: Session) -> None:
    """Say once in a job which variables have no effect."""
    names = environment.of_horovod() if session.rank == 0 and session.number == 1 else []
    if names:
        _LOG.warning(
            "variables of Horovod have no effect here: %s. 'bps docs migrating' says what to set "
            "instead.",
            ", ".join(names),
        )


def _check_ranks(comm: Any) -> None:
    """Refuse a `comm` that is not the list of all ranks."""
    if comm is None or (isinstance(comm, Sequence) and list(comm) == list(range(size()))):
        return
    shutdown()
    raise InvalidArgumentError(
        f"comm is {comm!r}: a job has all the ranks that were started. For groups of ranks use "
        "init(process_sets=[...]); communicators of MPI have no meaning here."
    )


def shutdown() -> None:
    """Leave the job; `init` may follow. Does nothing when not initialised.

    It may be called in a signal handler. One that interrupts `init`, `shutdown` or `suspend` of its
    own thread does nothing here, because that goes on after the handler; an exception such as
    `sys.exit()` raises ends it, and then this process is not in the job.

    Example::

        bps.shutdown()
    """
    with _process.change() as is_first:
        if is_first:
            _close()
            _process.declared.clear()
            _process.declared_for.clear()


def _close() -> None:
    session, _process.session = _process.session, None
    process_sets, _process.process_sets = _process.process_sets, None
    atexit.unregister(_leave_at_exit)
    _process.exit_reason.end()
    _process.stack_answers.end()
    if process_sets is not None:
        process_sets.clear()
    if session is not None:
        session.shutdown()
        _process.left = session


def _leave_at_exit() -> None:
    _process.exit_reason.tell_of_exit()
    shutdown()


def _leave_for_good() -> None:
    """End this process' part in every job, also in the services that it has started."""
    session, _process.left = _process.left, None
    if session is not None:
        session.close()
    if not _process.exit_reason.was_said:  # of an error the launcher shall hear at once
        _process.services.wait()


def suspend() -> None:
    """Leave the job, and remember the names that were declared, for `resume`.

    Example::

        bps.suspend()
        bps.resume(num_workers=2, num_servers=1, global_rank=0)
    """
    with _process.change() as is_first:
        if is_first:
            _close()


def resume(num_workers: int, num_servers: int, global_rank: int, context: object = None) -> None:
    """Join a job of the given size after `suspend`, with the names declared in the same order.

    `num_workers` is what DMLC_NUM_WORKER says: the machines with workers, each of which has
    BYTEPS_LOCAL_SIZE of them, or as many as BYTEPS_LOCAL_SIZES says. All processes of the job,
    servers too, must be started for the new size. No state of the model moves: broadcast it again.
    `context` is accepted for programs written for the original.

    Example::

        bps.resume(num_workers=2, num_servers=1, global_rank=0)
        bps.broadcast_parameters(model.state_dict(), root_rank=0)
    """
    del context
    environment.set_job_size(num_workers, num_servers, global_rank)
    declared = dict(_process.declared)
    init(lazy=False)
    for name, atomic in declared.items():
        declare(name, atomic)
    for names in list(_process.declared_for.values()):
        _declare_all(names)


def current() -> Session:
    """Return the default session, or raise NotInitializedError."""
    session = _process.session
    if session is None:
        raise NotInitializedError
    return session


def pending() -> PendingTable:
    """Return the operations of this process that nobody has synchronized yet."""
    return _process.pending


def is_initialized() -> bool:
    """Return whether `init` was called and `shutdown` was not.

    Example::

        if not bps.is_initialized():
            bps.init()
    """
    return _process.session is not None


def rank() -> int:
    """Return the number of this process among all workers, from 0.

    Example::

        if bps.rank() == 0:
            torch.save(model.state_dict(), "model.pt")
    """
    return current().rank


def size() -> int:
    """Return the number of worker processes.

    Example::

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * bps.size())
    """
    return current().size


def members() -> list[int]:
    """Return the ranks that take part in the job now: fewer than `size` when some were lost.

    A rank may hear of a loss before another one does. What all ranks must decide alike, they decide
    from a result: `members_of` tells whose contributions are in it.

    Example::

        assert len(bps.members()) == bps.size()  # nobody was lost
    """
    return current().members()


def same_bits() -> SameBits:
    """Return which sums have the same bits on every layout of the job's ranks, and the reason.

    True where all have. The layout may change when workers come or go at a sync point.

    Example::

        assert bps.same_bits(), bps.same_bits().reason
    """
    return current().same_bits()


def local_rank() -> int:
    """Return the number of this process among the workers of its machine, from 0.

    Example::

        torch.cuda.set_device(bps.local_rank())
    """
    return current().local_rank


def local_size() -> int:
    """Return the number of workers on this machine.

    Example::

        torch.set_num_threads(max(1, os.cpu_count() // bps.local_size()))
    """
    return current().local_size


def cross_rank() -> int:
    """Return the number of this worker's machine, from 0.

    It is DMLC_WORKER_ID, whatever order BYTEPS_GLOBAL_RANK gives the ranks of the machines.

    Example::

        assert bps.cross_rank() < bps.cross_size()
    """
    return current().machine


def cross_size() -> int:
    """Return the number of machines.

    Example::

        assert bps.cross_rank() < bps.cross_size()
    """
    return len(current().machine_sizes)


def is_homogeneous() -> bool:
    """Return whether every machine has the same number of workers.

    Example::

        if bps.is_homogeneous():
            assert bps.cross_size() * bps.local_size() == bps.size()
    """
    return len(set(current().machine_sizes)) == 1


def declare(name: str, atomic: bool = False) -> int:
    """Give `name` its place in the order of urgency before its first use. Returns 0.

    The sums, averages, minima, maxima and products of a name that is `atomic` hold the same ranks'
    contributions in all of their elements, also when a rank is lost on the way. All ranks must
    declare it so. Combined in place, such a tensor is copied first.

    Example::

        for name, _ in model.named_parameters():
            bps.declare(name)
        bps.declare("loss", atomic=True)
    """
    current().declare(name, atomic)
    _process.declared[name] = atomic
    return 0


def declare_for(owner: object, names: Iterable[str]) -> None:
    """Declare names that an object of the library uses; `resume` does it again while it lives."""
    _process.declared_for[owner] = list(names)
    _declare_all(_process.declared_for[owner])


def _declare_all(names: Iterable[str]) -> None:
    for name in names:
        current().declare(name)


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Register a group of ranks; all ranks of the job must call this with the same ranks.

    Blocks until they have. ValueError if there is such a set already; MismatchError on every rank
    if they disagree.

    Example::

        even = bps.add_process_set([0, 2])
    """
    item = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _sets().add(item)
    return item


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a group of ranks; all ranks of the job must call this. Blocks until they have.

    Returns False, at once, for a set that is not registered and for the set of all ranks.

    Example::

        assert bps.remove_process_set(even)
    """
    return _sets().remove(process_set)


def process_set_of(number: int | None) -> ProcessSet:
    """Return the process set of a number: the `process_set_id`, which is None if there is none."""
    if number is None:
        raise InvalidArgumentError(
            "the process set is not registered: pass it to init(process_sets=[...]) or to "
            "add_process_set, on all ranks."
        )
    return _sets().get(number)


def process_set_with(ranks: Sequence[int]) -> ProcessSet:
    """Return the registered process set that has these ranks."""
    return _sets().of_ranks(ranks)


def _sets() -> ProcessSets:
    process_sets = _process.process_sets
    if process_sets is None:
        raise NotInitializedError
    return process_sets


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Record this rank's operations from now on, for chrome://tracing and Perfetto.

    The file has Horovod's format. Rank 0 writes to `file_path`, rank 1 to `timeline.rank1.json`
    beside it, and so on, if they call this. `bps timeline` makes one file of them, by one clock.
    `mark_cycles` is accepted for programs written for Horovod; there are no cycles here.

    Example::

        bps.start_timeline("timeline.json")
    """
    del mark_cycles
    session = current()
    session.record(None)  # what it still has belongs to its file, which may be the same one
    session.record(Timeline(file_of_rank(file_path, session.rank), session.rank))


def stop_timeline() -> None:
    """End the record of operations, if there is one.

    Example::

        bps.stop_timeline()
    """
    current().record(None)


def get_pushpull_speed() -> tuple[int, float]:
    """Return (ms since the epoch, MB/s) of the oldest window that nobody asked for.

    Windows are of ten seconds; before the first is over, what there is so far. (0, -5.0) when
    nothing has been exchanged.

    Example::

        milliseconds, megabytes_per_second = bps.get_pushpull_speed()
    """
    window_ms, megabytes_per_second, end_ms = current().speed()
    return (end_ms, megabytes_per_second) if window_ms else (0, -5.0)
