"""The large campaign; README.md says what came out and how long it took."""

from __future__ import annotations

from runs import ASIDE, ASIDE_OF_TWO, JOINS, LEFT, Run, large

ACKS2 = "NW=2 NR=2 ACKS=1"

LOSS_ABORT = "LOSSES=1 ABORTS=1 SCRASH=1 CAPACITY=9"
LEAVE_ABORT = "ACKS=1 LEAVES=1 ABORTS=1 SCRASH=1 CAPACITY=9"

CRASHES = (
    large("L 2x1x2 worker+server, delayed", "data_plane", f"{ACKS2} DELAY=1 WCRASH=1 SCRASH=1"),
    large("L 2x1x3 worker+server", "data_plane", "NR=3 ACKS=1 WCRASH=1 SCRASH=1"),
    large("L 2x2x2 worker+server", "data_plane", "NP=2 NR=2 ACKS=1 WCRASH=1 SCRASH=1"),
    large("L 3x1x2 worker+server", "data_plane", "NW=3 ACKS=1 WCRASH=1 SCRASH=1"),
    large("L 3x1x3 worker+server, no acks", "data_plane", "NW=3 NR=3 WCRASH=1 SCRASH=1"),
    large("L 3x2x2 worker+server, no acks", "data_plane", "NW=3 NP=2 WCRASH=1 SCRASH=1"),
    large("L 3x1x2 two workers+server, no acks", "data_plane", "NW=3 WCRASH=2 SCRASH=1"),
    large("L 3x1x2 two workers+server", "data_plane", "NW=3 ACKS=1 WCRASH=2 SCRASH=1"),
    large("L 2x1x2 of 3 shards, two servers", "data_plane", f"{ACKS2} NS=3 SCRASH=2"),
    large("L 2x1x2 of 3 shards, worker+two servers", "data_plane", "NS=3 WCRASH=1 SCRASH=2"),
)

SUSPICIONS = (
    large("L 2x1x2 false, delayed", "data_plane", f"{ACKS2} DELAY=1 WFALSE=1 SFALSE=1"),
    large("L 2x1x3 false", "data_plane", "NR=3 ACKS=1 WFALSE=1 SFALSE=1"),
    large("L 3x1x2 false, no acks", "data_plane", "NW=3 WFALSE=1 SFALSE=1", hashed=True),
    large("L 2x1x2 of 3 shards, false server+server", "data_plane", "NS=3 SFALSE=1 SCRASH=1"),
    large("L 2x2x2 false, no acks", "data_plane", "NP=2 WFALSE=1 SFALSE=1", hashed=True),
)

MOVED = (
    large("L 2x1x2 moves", "data_plane", f"{ACKS2} MOVES=2 SKIP=1"),
    large("L 2x1x2 moves+worker", "data_plane", "MOVES=2 WCRASH=1 SKIP=1"),
    large("L 2x1x2 moves+server", "data_plane", "MOVES=2 SCRASH=1 SKIP=1"),
    large("L 2x1x2 moves+false server", "data_plane", "MOVES=2 SFALSE=1 SKIP=1", hashed=True),
    large("L 3x1x2 worker+server, views skipped", "data_plane", "NW=3 WCRASH=1 SCRASH=1 SKIP=1"),
    large(
        "L 2x1x2 server joins+move+server", "data_plane", f"{ACKS2} SERVER_JOIN=1 MOVES=1 SCRASH=1"
    ),
    large("L 2x1x2 join+server, skipped", "data_plane", "NW=3 ACKS=1 JOIN=1 SCRASH=1 SKIP=1"),
    large("L 2x1x2 join+both, skipped", "data_plane", "NW=3 JOIN=1 WCRASH=1 SCRASH=1 SKIP=1"),
    large("L 2x1x2 join+false, skipped", "data_plane", "NW=3 JOIN=1 WFALSE=1 SFALSE=1 SKIP=1"),
    large(
        "L 2x1x2 since-always, both",
        "data_plane",
        f"{ACKS2} SINCE_ALWAYS=1 WCRASH=1 SCRASH=1 CAPACITY=9",
    ),
    large(
        "L 2x2x2 since-always, both",
        "data_plane",
        "NP=2 SINCE_ALWAYS=1 WCRASH=1 SCRASH=1 SKIP=1 CAPACITY=9",
    ),
    large(
        "L 2x1x2 since-always, false, skipped",
        "data_plane",
        f"{ACKS2} SINCE_ALWAYS=1 WFALSE=1 SFALSE=1 SKIP=1 CAPACITY=9",
    ),
    large(
        "L 2x1x2 since-always, loss+server",
        "data_plane",
        f"{ACKS2} SINCE_ALWAYS=1 LOSSES=1 SCRASH=1 CAPACITY=9",
    ),
    large(
        "L 2x1x2 since-always, abort+false worker",
        "data_plane",
        f"{ACKS2} SINCE_ALWAYS=1 ABORTS=1 WFALSE=1 CAPACITY=9",
    ),
)

CUT = (
    large("L 2x1x2 loss+server", "data_plane", f"{ACKS2} LOSSES=1 SCRASH=1"),
    large("L 2x1x2 two losses+server", "data_plane", "LOSSES=2 SCRASH=1 CAPACITY=9"),
    large(
        "L 2x1x2 two losses+server, acks", "data_plane", f"{ACKS2} LOSSES=2 SCRASH=1 CAPACITY=12"
    ),
    large("L 2x1x2 loss+false server", "data_plane", f"{ACKS2} LOSSES=1 SFALSE=1 CAPACITY=9"),
    large("L 2x1x2 loss+move+server", "data_plane", "LOSSES=1 MOVES=1 SCRASH=1 SKIP=1 CAPACITY=9"),
)

ERRORS = (
    large("L 2x1x2 abort+both", "data_plane", f"{ACKS2} ABORTS=1 WCRASH=1 SCRASH=1 CAPACITY=9"),
    large("L 2x1x2 abort+false server", "data_plane", f"{ACKS2} ABORTS=1 SFALSE=1 CAPACITY=9"),
    large(
        "L 2x1x2 abort+loss+server", "data_plane", f"{ACKS2} ABORTS=1 LOSSES=1 SCRASH=1 CAPACITY=12"
    ),
    large("L 2x1x2 hang+server", "data_plane", f"{ACKS2} HANGS=1 SCRASH=1 RESUMES=1 CAPACITY=9"),
    large(
        "L 2x1x2 hang+loss+server", "data_plane", f"{ACKS2} HANGS=1 LOSSES=1 SCRASH=1 CAPACITY=12"
    ),
    large("L 2x1x3 hang+server", "data_plane", "NR=3 ACKS=1 HANGS=1 SCRASH=1 CAPACITY=9"),
    large("L 2x1x2 abort+move", "data_plane", f"{ACKS2} ABORTS=1 MOVES=1 SKIP=1 CAPACITY=9"),
    large("L 2x1x2 join+hang", "data_plane", "NW=3 ACKS=1 JOIN=1 HANGS=1 RESUMES=1 CAPACITY=9"),
    large(
        "L 2x1x2 hang+false",
        "data_plane",
        f"{ACKS2} HANGS=1 WFALSE=1 SFALSE=1 CAPACITY=9",
        hashed=True,
        open_end=True,
    ),
)

LEAVING = (
    large(
        "L 2x1x2 leave+loss+server", "data_plane", f"{ACKS2} LEAVES=1 LOSSES=1 SCRASH=1 CAPACITY=9"
    ),
    large("L 2x1x2 leave+both", "data_plane", f"{ACKS2} LEAVES=1 WCRASH=1 SCRASH=1 CAPACITY=9"),
    large("L 2x1x2 leave+false", "data_plane", f"{ACKS2} LEAVES=1 WFALSE=1 SFALSE=1 CAPACITY=9"),
    large("L 2x1x2 both leave+move", "data_plane", f"{ACKS2} LEAVES=2 MOVES=1 SKIP=1 CAPACITY=9"),
    large("L 3x1x2 two leave+server", "data_plane", "NW=3 ACKS=1 LEAVES=2 SCRASH=1 CAPACITY=9"),
    large("L 3x1x2 leave+both", "data_plane", "NW=3 ACKS=1 LEAVES=1 WCRASH=1 SCRASH=1 CAPACITY=9"),
    large(
        "L 2x1x2 leave+abort+server", "data_plane", f"{ACKS2} LEAVES=1 ABORTS=1 SCRASH=1 CAPACITY=9"
    ),
)

ATOMIC = (
    large("L 3x2x1 atomic, both", "data_plane", "NW=3 NP=2 NR=1 ATTEMPTS=3 WCRASH=1 SCRASH=1"),
    large("L 3x2x1 atomic, two workers", "data_plane", "NW=3 NP=2 NR=1 ATTEMPTS=4 WCRASH=2"),
    large(
        "L 3x2x1 atomic, false worker+server",
        "data_plane",
        "NW=3 NP=2 NR=1 ATTEMPTS=3 WFALSE=1 SCRASH=1",
        hashed=True,
    ),
    large("L 3x2x2 atomic, worker", "data_plane", "NW=3 NP=2 NR=2 ATTEMPTS=3 WCRASH=1"),
)

CREDIT = (
    large("L credit 2x2x1 worker+server", "credit", "NR=1 WCRASH=1 SCRASH=1"),
    large("L credit 2x2x2 server", "credit", "SCRASH=1"),
    large("L credit 2x2x2 worker+server", "credit", "WCRASH=1 SCRASH=1"),
    large("L credit 2x2x1 loss+server", "credit", "NR=1 LOSSES=1 SCRASH=1 CAPACITY=9"),
    large("L credit 2x2x1 two losses+server", "credit", "NR=1 LOSSES=2 SCRASH=1 CAPACITY=9"),
    large("L credit 2x2x2 loss", "credit", "LOSSES=1 CAPACITY=9"),
    large("L credit 2x2x1 false", "credit", "NR=1 WFALSE=1 SFALSE=1"),
    large("L credit 2x2x2 move", "credit", "MOVES=1 SKIP=1"),
    large("L credit 2x2x2 server, acks", "credit", "ACKS=1 SCRASH=1 CAPACITY=9"),
    large("L credit 3x2x1 worker+server", "credit", "NW=3 NR=1 WCRASH=1 SCRASH=1"),
)

CONTROL = (
    large("L control 3 voters, 3 coordinators", "control_plane", "NC=3"),
    large("L control 3 voters, 3 changes", "control_plane", "CHANGES=3"),
    large("L control 3 voters, two at once", "control_plane", "STRICT=1 AT_ONCE=1"),
    large("L control 4 voters", "control_plane", "NV=4"),
    large("L control 4 voters, 2 deaths", "control_plane", "NV=4 DEATHS=2"),
    large("L control 4 voters, 3 changes", "control_plane", "NV=4 CHANGES=3", hashed=True),
    large("L control 4 voters, evicted report", "control_plane", "NV=4 EVICTED=2"),
    large(
        "L control 4 voters, two at once", "control_plane", "NV=4 STRICT=1 AT_ONCE=1", hashed=True
    ),
)

LANES = (
    large("L lanes 2x1x2 worker+server", "lanes", "ACKS=1 WCRASH=1 SCRASH=1"),
    large("L lanes 2x2x2 worker+server", "lanes", "NP=2 WCRASH=1 SCRASH=1"),
    large("L lanes 2x1x1 false", "lanes", "NR=1 ACKS=1 WFALSE=1 SFALSE=1"),
    large("L lanes 2x1x2 false", "lanes", "ACKS=1 WFALSE=1 SFALSE=1"),
    large("L lanes 2x1x2 move", "lanes", "ACKS=1 PLACING=1 MOVES=1 CAPACITY=9"),
    large("L lanes 2x1x2 two moves, skipped", "lanes", "PLACING=1 MOVES=2 SKIP=1 CAPACITY=9"),
    large("L lanes 2x1x2 two moves, stages", "lanes", "STAGES=1 MOVES=2 SKIP=1 CAPACITY=9"),
    large("L lanes 2x2x1 two moves", "lanes", "NP=2 NR=1 PLACING=1 MOVES=2 CAPACITY=9"),
    large("L lanes 2x1x2 move+server", "lanes", "ACKS=1 MOVES=1 SCRASH=1 CAPACITY=9"),
    large("L lanes 2x1x2 loss+server", "lanes", "ACKS=1 LOSSES=1 SCRASH=1 CAPACITY=9"),
    large("L lanes 2x1x1 loss+abort+server", "lanes", f"NR=1 {LOSS_ABORT}"),
    large("L lanes 2x1x1 loss+move", "lanes", "NR=1 ACKS=1 LOSSES=1 MOVES=1 CAPACITY=9"),
    large("L lanes 2x1x1 abort+move", "lanes", "NR=1 ACKS=1 ABORTS=1 MOVES=1 CAPACITY=9"),
    large("L lanes 2x1x2 hang+server", "lanes", "ACKS=1 HANGS=1 SCRASH=1 CAPACITY=9"),
    large("L lanes 2x1x2 leave+move", "lanes", "ACKS=1 LEAVES=1 MOVES=1 CAPACITY=9"),
    large("L lanes 2x1x1 leave+both", "lanes", "NR=1 ACKS=1 LEAVES=1 MOVES=1 SCRASH=1 CAPACITY=9"),
    large("L lanes 2x1x1 leave+abort+server", "lanes", f"NR=1 {LEAVE_ABORT}"),
)

CONTRIBUTORS = (
    large("L contributors 3 votes, 3 coordinators", "contributors", "NC=3"),
    large("L contributors two of two", "contributors", "NV=5 SIBLINGS=10"),
    large("L contributors 4 votes", "contributors", "NV=5"),
    large("L contributors, two at once", "contributors", "STRICT=1 AT_ONCE=1"),
    large("L contributors, carriers report", "contributors", f"{JOINS} SIBLINGS_REPORT=0"),
    large("L contributors, one joins, suspicion", "contributors", JOINS),
    large(
        "L contributors, one joins three",
        "contributors",
        "NV=6 SIBLINGS=34 JOINERS=48 SUSPICIONS=0",
    ),
    large(
        "L contributors, one reborn, suspicion",
        "contributors",
        "NV=6 SIBLINGS=34 JOINERS=48 REBORN=1 DEATHS=2",
        hashed=True,
        open_end=True,
    ),
)

COUPLED = (
    large("L coupled 2x1x2 worker+server", "coupled", "ACKS=1 WCRASH=1 SCRASH=1"),
    large("L coupled 2x1x1 false worker+server", "coupled", "NR=1 WFALSE=1 SCRASH=1"),
    large("L coupled 2x1x1 false", "coupled", "NR=1 WFALSE=1 SFALSE=1"),
    large("L coupled 2x1x2 worker+false server", "coupled", "WCRASH=1 SFALSE=1"),
    large("L coupled 2x1x2 server, 3 coordinators", "coupled", "NC=3 SCRASH=1"),
    large("L coupled 2x1x1 both, 3 coordinators", "coupled", "NC=3 NR=1 WCRASH=1 SCRASH=1"),
    large("L coupled 3x1x1 worker+server", "coupled", "NW=3 NR=1 WCRASH=1 SCRASH=1", hashed=True),
    large("L coupled 2x1x1 evicted report", "coupled", "NR=1 WFALSE=1 SCRASH=1 EVICTED=2"),
)

# What does not fit today's memory or patience; how far it got is said.
OPEN = (
    large(
        "L 3x2x2 worker+server",
        "data_plane",
        "NW=3 NP=2 ACKS=1 WCRASH=1 SCRASH=1 CAPACITY=9",
        hashed=True,
        open_end=True,
    ),
    large(
        "L 3x1x2 false", "data_plane", "NW=3 ACKS=1 WFALSE=1 SFALSE=1", hashed=True, open_end=True
    ),
    large(
        "L credit 2x2x2 loss+server, acks",
        "credit",
        "ACKS=1 LOSSES=1 SCRASH=1 CAPACITY=12",
        hashed=True,
        open_end=True,
    ),
    large(
        "L 2x2x2 two moves+server",
        "data_plane",
        "NP=2 MOVES=2 SCRASH=1 SKIP=1",
        hashed=True,
        open_end=True,
    ),
    large("L control 5 voters", "control_plane", "NV=5", hashed=True, open_end=True),
)

WINDOW = (
    large("L collect, all in all, frozen", "collect", "SET_A=15 SET_B=15 FREEZES=1 FROZEN=3"),
    large("L collect, two rounds, shard lost", "collect", "NR=2 LOSSES=1"),
    large("L collect, two rounds, other set, thaws", "collect", f"{ASIDE} NR=2 THAWS=1"),
    large("L collect, frozen in two blocks", "collect", ASIDE_OF_TWO),
    large("L collect, any freezes, given up", "collect", "FREEZES=1 FROZEN=7 THAWS=1 GIVE_UPS=1"),
    large("L collect, left, shard lost, given up", "collect", LEFT),
    large("L collect, left, shard lost, thaws", "collect", f"SET_B=3 {LEFT} THAWS=1"),
    large("L collect, two rounds, errors", "collect", "NR=2 ABORTS=2"),
    large("L collect, error, frozen, thaws", "collect", "ABORTS=1 FREEZES=1 FROZEN=2 THAWS=1"),
)

GROUPS = (
    large("L groups, two rounds, shut down", "groups", "NR=2 QUITS=1"),
    large("L groups, two rounds, errors", "groups", "NR=2 ERRORS=2"),
    large("L groups, killed, any order", "groups", "NG=3 KILLS=1 CALLS=1 HANGS=1"),
    large("L groups, alone, killed, any order", "groups", "NG=3 ALONE=1 KILLS=1 CALLS=1"),
    large("L groups, NCCL fails, two rounds", "groups", "NR=2 NCCL_ERRORS=2 ERRORS=1 CALLS=1"),
    large("L groups, NCCL fails, any order", "groups", "NG=3 NCCL_ERRORS=2 CALLS=1"),
    large("L groups, alone, NCCL fails, any order", "groups", "NG=3 ALONE=1 NCCL_ERRORS=2 CALLS=1"),
)

LARGE: tuple[Run, ...] = (
    *COUPLED,
    *CREDIT,
    *CRASHES,
    *MOVED,
    *CUT,
    *ERRORS,
    *LEAVING,
    *ATOMIC,
    *CONTROL,
    *CONTRIBUTORS,
    *LANES,
    *WINDOW,
    *GROUPS,
    *SUSPICIONS,
    *OPEN,
)
