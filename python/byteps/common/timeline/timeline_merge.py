"""One timeline of those of several ranks and servers, by one clock."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from byteps.common.timeline.timeline import PIECE_CATEGORY

Event = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)

_RANKS = 0  # the process of a viewer with the operations of all ranks


class PieceKey(NamedTuple):
    """One exchange of a piece: the same for all ranks, and for the server that owns it."""

    tensor: int
    piece: int
    round: int


@dataclass
class Use:
    """One operation on one rank, in microseconds by that rank's clock."""

    kind: str
    begun: int
    ended: int = 0


@dataclass
class Stages:
    """When the stages of a piece, or of a round of a server, began and ended; and what it says."""

    begun: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    about: Event = field(default_factory=dict)
    name: str = ""

    def move(self, by: int) -> None:
        """Read another clock."""
        self.begun = {stage: at + by for stage, at in self.begun.items()}
        self.ended = {stage: at + by for stage, at in self.ended.items()}

    @property
    def first(self) -> int:
        """When the first stage began."""
        return min(self.begun.values())

    @property
    def last(self) -> int:
        """When the last stage ended."""
        return max(self.ended.values())


@dataclass
class Rank:
    """What the file of a rank says: its uses of names by number, and its pieces."""

    number: int
    uses: dict[tuple[str, int], Use]
    pieces: dict[PieceKey, Stages]


@dataclass
class Server:
    """What the file of a server says."""

    number: int
    rounds: dict[PieceKey, Stages]


def merge(timelines: Iterable[Sequence[Event]]) -> list[Event]:
    """Make one timeline of those of several ranks and servers.

    The fastest answers of a server take equally long to all ranks, so their difference is the
    difference of the ranks' clocks. Without a server's file: all ranks come to the end of an
    operation at about the same time, so the median difference of their ends is. A server has summed
    a piece after all ranks have pushed it, and before any of them has the sum: the middle of these
    bounds is its clock.

    For each tensor NEGOTIATE lasts from the first rank's begin to the last one's: the time in which
    ranks waited for others. What follows is the operation itself. Every rank also has rows of its
    own, with all that it waited for: as many rows as it has operations at a time, as Perfetto drops
    one that overlaps another one in its row. So do the pieces of each rank and of each server.
    """
    ranks: dict[int, Rank] = {}
    servers: dict[int, Server] = {}
    for events in timelines:
        head = _head(events)
        if "server" in head:
            servers[head["server"]] = Server(head["server"], _pieces_in(events, head))
        else:
            ranks[head["rank"]] = Rank(head["rank"], _uses_in(events, head),
                                       _pieces_in(events, head))  # fmt: skip
    if not ranks:
        return []
    in_order = [ranks[number] for number in sorted(ranks)]
    for ahead, rank in [(_ahead_of(in_order[0], rank, servers), rank) for rank in in_order]:
        _move(rank, -ahead)
    for server in servers.values():
        by = -_server_ahead(server, in_order)
        for one in server.rounds.values():
            one.move(by)
    return _merged(in_order, [servers[number] for number in sorted(servers)])


def _head(events: Sequence[Event]) -> Event:
    head: Event = events[0]["args"]
    return head


def _uses_in(events: Iterable[Event], head: Event) -> dict[tuple[str, int], Use]:
    """Return the uses of names by number that have ended."""
    names: dict[int, str] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    uses: dict[tuple[str, int], Use] = {}
    open_by_row: defaultdict[int, list[tuple[str, Use | None]]] = defaultdict(list)
    start = head["start_time_since_epoch_in_micros"]
    for event in events:
        row = event["pid"]
        if event["ph"] == "M" and row != 0 and "name" in event["args"]:
            names[row] = event["args"]["name"]
        elif event["ph"] == "B" and event["name"].startswith("NEGOTIATE_"):
            counts[names[row]] += 1
            use = Use(event["name"].removeprefix("NEGOTIATE_"), event["ts"] + start)
            uses[names[row], counts[names[row]]] = use
            open_by_row[row].append(("negotiate", use))
        elif event["ph"] == "B":
            last = uses.get((names[row], counts[names[row]]))
            open_by_row[row].append(("operation", last))
        elif event["ph"] == "E" and open_by_row[row]:
            what, ended_use = open_by_row[row].pop()
            if what == "operation" and ended_use is not None:
                ended_use.ended = event["ts"] + start
    return {key: use for key, use in uses.items() if use.ended}


def _pieces_in(events: Iterable[Event], head: Event) -> dict[PieceKey, Stages]:
    names: dict[int, str] = {}
    pieces: defaultdict[PieceKey, Stages] = defaultdict(Stages)
    start = head["start_time_since_epoch_in_micros"]
    for event in events:
        if event["ph"] == "M" and event["pid"] != 0 and "name" in event["args"]:
            names[event["pid"]] = event["args"]["name"]
        if event["ph"] != "X" or event.get("cat") != PIECE_CATEGORY:
            continue
        about = event["args"]
        one = pieces[PieceKey(about["tensor"], about["piece"], about["round"])]
        one.begun[event["name"]] = event["ts"] + start
        one.ended[event["name"]] = event["ts"] + event["dur"] + start
        one.about.update(about)
        one.name = names.get(event["pid"], "")
    return dict(pieces)


def _move(rank: Rank, by: int) -> None:
    for use in rank.uses.values():
        use.begun, use.ended = use.begun + by, use.ended + by
    for piece in rank.pieces.values():
        piece.move(by)


def _least_delay(server: Server, rank: Rank) -> int | None:
    """Return the least time from a sum to its answer, by the two clocks; None: they share none."""
    shared = server.rounds.keys() & rank.pieces.keys()
    delays = (rank.pieces[key].ended["PUSH"] - server.rounds[key].ended["SUM"] for key in shared)
    return min(delays, default=None)


def _ahead_of(base: Rank, rank: Rank, servers: Mapping[int, Server]) -> int:
    """Return how far a rank's clock is ahead: the fastest answers of a server take equally long."""
    delays = [(_least_delay(server, base), _least_delay(server, rank))
              for server in servers.values()]  # fmt: skip
    by_server = [two - one for one, two in delays if one is not None and two is not None]
    if by_server:
        return int(statistics.median(by_server))
    ahead = [use.ended - base.uses[key].ended for key, use in rank.uses.items()
             if key in base.uses]  # fmt: skip
    return int(statistics.median(ahead)) if ahead else 0


def _server_ahead(server: Server, ranks: Sequence[Rank]) -> int:
    """Return how far the server's clock is ahead of the ranks', as the pieces bound it."""
    least, most = [], []
    for key, summed in server.rounds.items():
        pieces = [rank.pieces[key] for rank in ranks if key in rank.pieces]
        if not pieces:
            continue
        most.append(summed.ended["WAIT"] - max(piece.begun["PUSH"] for piece in pieces))
        least.append(summed.ended["SUM"] - min(piece.ended["PUSH"] for piece in pieces))
    if not most:
        return 0
    return max((max(least) + min(most)) // 2, max(least))


def _lines(spans: Mapping[Key, tuple[int, int]]) -> dict[Key, int]:
    """Return for each span, of begin and end, a line in which it overlaps no other one."""
    lines: dict[Key, int] = {}
    free_at: list[int] = []  # each line
    for key, (begun, ended) in sorted(spans.items(), key=lambda item: item[1]):
        free = (line for line, moment in enumerate(free_at) if moment <= begun)
        line = next(free, len(free_at))
        if line == len(free_at):
            free_at.append(0)
        free_at[line] = max(begun, ended)
        lines[key] = line
    return lines


class _Rows:
    """The rows of one process of a viewer."""

    def __init__(self, process: int, title: str) -> None:
        self.process = process
        self._rows = 0
        self.heads: list[Event] = [
            {"name": "process_name", "ph": "M", "pid": process, "args": {"name": title}},
            {"name": "process_sort_index", "ph": "M", "pid": process,
             "args": {"sort_index": process}},
        ]  # fmt: skip

    def place(self, title: str, spans: Mapping[Key, tuple[int, int]]) -> dict[Key, int]:
        """Make rows with this title, and return that of each span."""
        first = self._rows + 1
        lines = _lines(spans)
        self._rows += max(lines.values(), default=-1) + 1
        for row in range(first, self._rows + 1):
            name = title if row == first else f"{title}, {row - first + 1}"
            self.heads += [
                {"name": "thread_name", "ph": "M", "pid": self.process, "tid": row,
                 "args": {"name": name}},
                {"name": "thread_sort_index", "ph": "M", "pid": self.process, "tid": row,
                 "args": {"sort_index": row}},
            ]  # fmt: skip
        return {key: first + line for key, line in lines.items()}


def _merged(ranks: Sequence[Rank], servers: Sequence[Server]) -> list[Event]:
    moments = [use.begun for rank in ranks for use in rank.uses.values()]
    moments += [piece.first for rank in ranks for piece in rank.pieces.values()]
    moments += [one.first for server in servers for one in server.rounds.values()]
    zero = min(moments, default=0)
    of_ranks = _Rows(_RANKS, "ranks")
    of_ranks.heads[0]["args"]["start_time_since_epoch_in_micros"] = zero
    heads, spans = of_ranks.heads, list(_of_operations(ranks, of_ranks))
    tensors, of_tensors = _of_tensors(ranks)
    heads, spans = heads + tensors, spans + of_tensors
    process = sum(1 for event in tensors if event["name"] == "process_name")
    for rank in ranks:
        if rank.pieces:
            process += 1
            rows = _Rows(process, f"pieces of rank {rank.number}")
            spans += _of_pieces(rank, rows)
            heads += rows.heads
    for server in servers:
        process += 1
        rows = _Rows(process, f"server {server.number}")
        spans += _of_rounds(server, ranks, rows)
        heads += rows.heads
    for span in spans:
        span["ts"] -= zero
    return heads + sorted(spans, key=lambda event: event["ts"])


def _last_begin(ranks: Sequence[Rank], key: tuple[str, int]) -> int:
    return max(rank.uses[key].begun for rank in ranks if key in rank.uses)


def _of_operations(ranks: Sequence[Rank], rows: _Rows) -> Iterator[Event]:
    """Return what each rank waited for, with what its pieces took in the mean."""
    for rank in ranks:
        waits = {key: (use.begun, use.ended) for key, use in rank.uses.items()}
        placed = rows.place(f"rank {rank.number}", waits)
        pieces = _pieces_by_name(rank)
        free_at: dict[str, int] = {}  # of a name: its last use may have a begin that is too late
        for key, use in rank.uses.items():
            free = free_at.get(key[0], 0)
            inside = [one for one in pieces[key[0]] if free <= one.first <= use.ended]
            free_at[key[0]] = use.ended
            args = {"waited_for_others_us": max(0, _last_begin(ranks, key) - use.begun)}
            yield {"name": key[0], "cat": use.kind, "ph": "X", "pid": rows.process,
                   "tid": placed[key], "ts": use.begun, "dur": max(0, use.ended - use.begun),
                   "args": {**args, **_means(inside)}}  # fmt: skip


def _pieces_by_name(rank: Rank) -> defaultdict[str, list[Stages]]:
    by_name: defaultdict[str, list[Stages]] = defaultdict(list)
    for piece in rank.pieces.values():
        by_name[piece.name].append(piece)
    return by_name


def _means(pieces: Sequence[Stages]) -> Event:
    """Return what a piece took in each stage, in the mean."""
    if not pieces:
        return {}
    took: defaultdict[str, int] = defaultdict(int)
    for piece in pieces:
        for stage, begun in piece.begun.items():
            took[stage] += piece.ended[stage] - begun
    means = {f"{stage.lower()}_us": round(total / len(pieces), 1) for stage, total in took.items()}
    return {"pieces": len(pieces), **means}


def _of_tensors(ranks: Sequence[Rank]) -> tuple[list[Event], list[Event]]:
    """Return a row for each tensor: when ranks came to it, and the exchange itself."""
    keys = sorted({key for rank in ranks for key in rank.uses})
    rows = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in keys), 1)}
    heads = [head for name, row in rows.items() for head in _Rows(row, name).heads]
    spans: list[Event] = []
    free_at: dict[int, int] = {}  # of a row: two uses never overlap, but clocks are not exact
    for key in keys:
        uses = {rank.number: rank.uses[key] for rank in ranks if key in rank.uses}
        row, kind = rows[key[0]], next(iter(uses.values())).kind
        first = max(min(use.begun for use in uses.values()), free_at.get(row, 0))
        last = max(max(use.begun for use in uses.values()), first)
        ended = free_at[row] = max(max(use.ended for use in uses.values()), last)
        spans += [
            {"name": f"NEGOTIATE_{kind}", "ph": "X", "pid": row, "tid": 1, "ts": first,
             "dur": last - first},
            {"name": kind, "ph": "X", "pid": row, "tid": 1, "ts": last, "dur": ended - last},
        ]  # fmt: skip
        spans += [
            {"name": str(rank), "ph": "i", "s": "p", "pid": row, "tid": 1, "ts": use.begun}
            for rank, use in uses.items()
        ]
    return heads, spans


def _of_pieces(rank: Rank, rows: _Rows) -> Iterator[Event]:
    """Return how long the pieces of each operation waited for credit, and what came then."""
    by_round: defaultdict[tuple[int, int], list[Stages]] = defaultdict(list)
    for key, piece in rank.pieces.items():
        by_round[key.tensor, key.round].append(piece)
    waits = {key: (min(one.begun["QUEUE"] for one in pieces), max(one.ended["QUEUE"]
             for one in pieces)) for key, pieces in by_round.items()}  # fmt: skip
    placed = rows.place("queue", waits)
    for one, (begun, ended) in waits.items():
        pieces = by_round[one]
        yield {"name": f"QUEUE {pieces[0].name}", "cat": "QUEUE", "ph": "X", "pid": rows.process,
               "tid": placed[one], "ts": begun, "dur": ended - begun,
               "args": _means(pieces)}  # fmt: skip
    service = {key: (piece.ended["QUEUE"], piece.last) for key, piece in rank.pieces.items()}
    rows_of = rows.place("exchange", service)
    for key, piece in rank.pieces.items():
        for stage in ("PREPARE", "PUSH", "PULL"):
            if stage in piece.begun:
                yield _span(piece, stage, piece.ended[stage], rows.process, rows_of[key])


def _of_rounds(server: Server, ranks: Sequence[Rank], rows: _Rows) -> Iterator[Event]:
    """Return how long each round waited for contributions, was summed, and was sent."""
    arrived: dict[PieceKey, int] = {}
    for key, one in server.rounds.items():
        pieces = [rank.pieces[key] for rank in ranks if key in rank.pieces]
        one.name = pieces[0].name if pieces else f"tensor {key.tensor}"
        arrived[key] = max([one.last, *(piece.last for piece in pieces)])
    placed = rows.place("rounds", {key: (one.first, arrived[key])
                                   for key, one in server.rounds.items()})  # fmt: skip
    for key, one in server.rounds.items():
        one.begun["SEND"] = one.ended["SUM"]
        for stage, ended in (("WAIT", one.ended["WAIT"]), ("SUM", one.ended["SUM"]),
                             ("SEND", arrived[key])):  # fmt: skip
            yield _span(one, stage, ended, rows.process, placed[key])


def _span(one: Stages, stage: str, ended: int, process: int, row: int) -> Event:
    begun = one.begun[stage]
    return {"name": f"{stage} {one.name}", "cat": stage, "ph": "X", "pid": process, "tid": row,
            "ts": begun, "dur": max(0, ended - begun), "args": one.about}  # fmt: skip
