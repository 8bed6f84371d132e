"""The table of runs: which model, at which bounds, with what must come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Model = Literal[
    "data_plane",
    "lanes",
    "credit",
    "control_plane",
    "contributors",
    "founding",
    "coupled",
    "collect",
    "signs",
    "lifetimes",
    "groups",
]
Expected = Literal["pass", "violation"]


@dataclass(frozen=True)
class Run:
    """One search of one model. `hashed`: states are kept as 64-bit hashes, to get further."""

    name: str
    model: Model
    defines: str
    expected: Expected = "pass"
    large: bool = False
    hashed: bool = False
    may_be_unfinished: bool = False

    def flags(self) -> list[str]:
        """The bounds as options of spin."""
        return [f"-D{word}" for word in self.defines.split()]


def small(name: str, model: Model, defines: str) -> Run:
    return Run(name, model, defines)


def large(
    name: str, model: Model, defines: str, hashed: bool = False, open_end: bool = False
) -> Run:
    return Run(name, model, defines, large=True, hashed=hashed, may_be_unfinished=open_end)


def mutant(number: int, model: Model, defines: str, note: str) -> Run:
    words = f"MUTANT={number} {defines}"
    return Run(f"mutant-{number:02} {note}", model, words, expected="violation")


# A contributor of two that is let in: beside one of two and one of one; and when the first
# contributor has died and its processes were started again.
JOINS = "NV=5 SIBLINGS=18 JOINERS=24"
REBORN = "NV=6 SIBLINGS=34 JOINERS=48 REBORN=1 DEATHS=2 SUSPICIONS=0"
# A rank that is no carrier freezes while others have a tensor of their own: with a block that it
# holds, and with two.
ASIDE = "SET_B=5 FREEZES=1 FROZEN=2 CREDIT=2"
ASIDE_OF_TWO = "NT=3 SET_C=5 FREEZES=1 FROZEN=2 CREDIT=3"
# A carrier freezes and is given up; and another rank of its machine may have left, and the shard be
# lost.
GIVEN_UP = "FREEZES=1 FROZEN=1 GIVE_UPS=1"
LEFT = f"LOSSES=1 LEAVES=1 {GIVEN_UP}"
# One of three ranks of a group is killed. The two others begin one tensor after the other.
KILLED = "NG=3 KILLS=1 SYNC=5"

SMALL = (
    small("data 2x1x2", "data_plane", "NW=2 NR=2 ACKS=1"),
    small("data 2x1x2 worker+server", "data_plane", "NW=2 NR=2 ACKS=1 WCRASH=1 SCRASH=1"),
    small("data 2x1x2 false suspicions", "data_plane", "NW=2 NR=2 ACKS=1 WFALSE=1 SFALSE=1"),
    small("data 2x2x2 worker+server", "data_plane", "NW=2 NP=2 NR=2 WCRASH=1 SCRASH=1"),
    small("data 3x1x2 worker+server", "data_plane", "NW=3 NR=2 WCRASH=1 SCRASH=1"),
    small("data 2x1x1 moves, views skipped", "data_plane", "NW=2 NR=1 MOVES=2 SKIP=1 WCRASH=1"),
    small("data 2x1x2 loss+server", "data_plane", "NW=2 NR=2 ACKS=1 LOSSES=1 SCRASH=1"),
    small("data 2x1x1 abort+server", "data_plane", "NW=2 NR=1 ACKS=1 ABORTS=1 SCRASH=1 WCRASH=1"),
    small("data 2x1x2 hang+loss", "data_plane", "NW=2 NR=2 ACKS=1 HANGS=1 LOSSES=1 CAPACITY=9"),
    small("data 2x1x2 leave+server", "data_plane", "NW=2 NR=2 ACKS=1 LEAVES=1 SCRASH=1"),
    small("data 3x1x2 join+server", "data_plane", "NW=3 NR=2 JOIN=1 SCRASH=1"),
    small("data 2x1x2 server joins", "data_plane", "NW=2 NR=2 SERVER_JOIN=1 MOVES=1"),
    small("data 3x2x1 atomic+worker", "data_plane", "NW=3 NP=2 NR=1 ATTEMPTS=3 WCRASH=1"),
    small("lanes 2x1x2 worker+server", "lanes", "WCRASH=1 SCRASH=1"),
    small("lanes 2x1x2 move", "lanes", "PLACING=1 MOVES=1"),
    small("lanes 2x1x1 false", "lanes", "NR=1 WFALSE=1 SFALSE=1"),
    small("lanes 2x2x2 server", "lanes", "NP=2 PLACING=1 SCRASH=1"),
    small("lanes 2x1x2 loss+server", "lanes", "STAGES=1 LOSSES=1 SCRASH=1 CAPACITY=9"),
    small("lanes 2x1x1 abort+server", "lanes", "NR=1 ACKS=1 ABORTS=1 SCRASH=1"),
    small("lanes 2x1x2 leave+server", "lanes", "ACKS=1 LEAVES=1 SCRASH=1"),
    small("credit 2x2x1 server", "credit", "NR=1 SCRASH=1"),
    small("credit 2x2x1 two losses", "credit", "NR=1 LOSSES=2"),
    small("control 3 voters", "control_plane", ""),
    small("control 3 voters, strict", "control_plane", "STRICT=1 AT_ONCE=1 DEATHS=0"),
    small("contributors 3 votes", "contributors", ""),
    small("contributors, one joins", "contributors", f"{JOINS} SUSPICIONS=0"),
    small("contributors, one reborn", "contributors", REBORN),
    small("founding 3 places", "founding", ""),
    small("founding, nobody dies", "founding", "NV=4 DEATHS=0"),
    small("founding, two coordinators", "founding", "AT_ONCE=1 NC=2"),
    small("collect, opposite orders", "collect", "SET_A=15 SET_B=15"),
    small("collect, some wait for their first", "collect", "SET_A=15 SET_B=15 SYNC=10"),
    small("collect, set without its carrier", "collect", "SET_B=6"),
    small("collect, carrier has joined", "collect", "JOINED=1"),
    small("collect, frozen, other set", "collect", ASIDE),
    small("collect, frozen, set of one rank", "collect", "SET_B=1 FREEZES=1 FROZEN=2 CREDIT=2"),
    small("collect, frozen in two blocks", "collect", ASIDE_OF_TWO.replace("SET_C=5", "SET_C=1")),
    small("collect, frozen elsewhere", "collect", "SET_A=15 SET_B=12 FREEZES=1 FROZEN=2 CREDIT=2"),
    small("collect, given up", "collect", GIVEN_UP),
    small("collect, error", "collect", "SET_B=3 ABORTS=1 FREEZES=1 FROZEN=2 THAWS=1"),
    small("collect, hung user", "collect", "HUNG=2"),
    small("collect, shard lost", "collect", "LOSSES=1"),
    small("collect, rank leaves", "collect", "NR=2 LEAVES=1"),
    small("collect, alone", "collect", "ALONE=1 NR=2 ABORTS=1 FREEZES=1 THAWS=1"),
    small("signs", "signs", ""),
    small("signs, a rank joins", "signs", "SET_B=1 JOINS=1"),
    small("signs, an error", "signs", "SET_B=1 ABORTS=1"),
    small("lifetimes", "lifetimes", "CALLS=5"),
    small("lifetimes, all faults", "lifetimes", "CALLS=4 RESTARTS=2 CUTS=1 ERRORS=1"),
    small("groups, two rounds", "groups", "NR=2 IN_TURN=1"),
    small("groups, host memory", "groups", "HOSTS=2"),
    small("groups, a rank has joined", "groups", "JOINED=2"),
    small("groups, ranks meet", "groups", "NR=2 MEETS=1 SYNC=1"),
    small("groups, a rank shuts down", "groups", "QUITS=1"),
    small("groups, an error", "groups", "NR=2 ERRORS=1 SYNC=1"),
    small("groups, a rank is killed", "groups", f"{KILLED} CALLS=1"),
    small("groups, an abort hangs", "groups", f"{KILLED} HANGS=1"),
    small("groups, alone, a rank is killed", "groups", f"{KILLED} ALONE=1"),
    small("groups, NCCL fails", "groups", "NR=2 SYNC=1 NCCL_ERRORS=1 CALLS=1"),
    small("groups, NCCL fails at several ranks", "groups", "NG=3 SYNC=5 NCCL_ERRORS=2"),
    small("groups, NCCL fails, a rank is killed", "groups", f"{KILLED} NCCL_ERRORS=1"),
    small("groups, NCCL fails, a rank shuts down", "groups", "NCCL_ERRORS=1 QUITS=1"),
    small("groups, alone, NCCL fails", "groups", "NG=3 SYNC=5 NCCL_ERRORS=2 ALONE=1"),
    small("coupled 2x1x1 worker+server", "coupled", "NW=2 NR=1 WCRASH=1 SCRASH=1"),
)

MUTANTS = (
    mutant(1, "data_plane", "SCRASH=1", "no copy"),
    mutant(2, "data_plane", "SCRASH=1", "previous verdict not repeated"),
    mutant(3, "data_plane", "NR=1 SCRASH=1", "present verdict not repeated"),
    mutant(4, "data_plane", "NR=1 WFALSE=1 SFALSE=1", "former owner listened to"),
    mutant(5, "data_plane", "NR=1 WCRASH=1 MOVES=2", "owner-since ignored"),
    mutant(6, "data_plane", "NR=1 SCRASH=1", "new owner sums early"),
    mutant(7, "data_plane", "NR=1 WFALSE=1", "no fence"),
    mutant(8, "data_plane", "NR=1 SCRASH=1", "newer epoch does not wait"),
    mutant(9, "data_plane", "SCRASH=1 LOSSES=1", "verdicts not repeated after reconnect"),
    mutant(10, "data_plane", "NR=1 LOSSES=1", "repeated push not answered"),
    mutant(11, "data_plane", "NW=3 NR=1 WCRASH=1 SCRASH=1", "verdict counted as contribution"),
    mutant(12, "data_plane", "SCRASH=1 ACKS=1", "verdict drops next round"),
    mutant(13, "data_plane", "NW=3 JOIN=1", "join without sync point"),
    mutant(14, "data_plane", "NR=1 LEAVES=1 SCRASH=1 ACKS=1", "leave while unstable"),
    mutant(15, "data_plane", "NR=1 ABORTS=1 SCRASH=1 ACKS=1", "error without resync"),
    mutant(16, "data_plane", "ABORTS=1 SCRASH=1 ACKS=1", "error while previous unstable"),
    mutant(17, "data_plane", "SCRASH=1 ACKS=1", "no have"),
    mutant(18, "control_plane", "", "promised proposal ignored"),
    mutant(19, "control_plane", "", "dead discounted when reading"),
    mutant(20, "control_plane", "", "no quorum"),
    mutant(21, "control_plane", "NV=4 CHANGES=3", "not read again"),
    mutant(22, "control_plane", "STRICT=1 AT_ONCE=1", "dead discounted with two coordinators"),
    mutant(23, "credit", "NR=1 SCRASH=1", "recovery waits for credit"),
    mutant(24, "credit", "NR=1 LOSSES=2", "want not repeated after reconnect"),
    mutant(25, "credit", "NR=1", "no wants"),
    mutant(26, "data_plane", "HANGS=1 SCRASH=1 ACKS=1", "abort not repeated"),
    mutant(27, "data_plane", "HANGS=1 LOSSES=1 ACKS=1 CAPACITY=9", "error not repeated"),
    mutant(28, "credit", "SCRASH=1", "verdicts wait for credit"),
    mutant(29, "control_plane", "", "members act on propose"),
    mutant(30, "control_plane", "STRICT=1 AT_ONCE=1", "lower term obeyed"),
    mutant(31, "control_plane", "", "newer view not reported to proposer"),
    mutant(32, "coupled", "NR=1 SCRASH=1", "restarted coordinator tells nobody"),
    mutant(33, "control_plane", "EVICTED=1", "evicted process lives and is silent"),
    mutant(
        34, "data_plane", "ACKS=1 LEAVES=1 ABORTS=1 SCRASH=1 CAPACITY=9", "leaver forgets an error"
    ),
    mutant(35, "data_plane", "HANGS=1 ACKS=1", "early error dropped"),
    mutant(36, "credit", "NR=1 CREDIT=2 SERVER_JOIN=1", "who cannot write does not read"),
    mutant(37, "data_plane", "NR=3 HANGS=1 ACKS=1", "second early error dropped"),
    mutant(38, "contributors", "", "any process promises for its contributor"),
    mutant(39, "contributors", "", "any process reports for its contributor"),
    mutant(40, "contributors", "", "living carrier of a lost contributor discounted"),
    mutant(41, "contributors", "", "contributor outlives a process"),
    mutant(42, "contributors", "", "contributor evicted in part"),
    mutant(43, "contributors", REBORN, "let in before all its processes wait"),
    mutant(44, "contributors", REBORN, "reborn process speaks for its predecessor"),
    mutant(45, "contributors", REBORN, "reborn process beside its predecessor's sibling"),
    mutant(46, "contributors", REBORN, "end of a waiting process forgotten"),
    mutant(47, "contributors", REBORN, "all that live are enough to read"),
    mutant(48, "contributors", REBORN, "promises counted in the next view"),
    mutant(49, "contributors", JOINS, "dropped unheard, let in again"),
    mutant(50, "contributors", "", "view told to voters only"),
    mutant(51, "lanes", "NR=1 WFALSE=1 MOVES=1", "moved piece answered in its old lane"),
    mutant(52, "lanes", "NR=1 PLACING=1 MOVES=1", "operation ends while a lane receives"),
    mutant(53, "lanes", "NR=1 ABORTS=1 SCRASH=1", "resync before the hand-over is complete"),
    mutant(54, "lanes", "SCRASH=1", "front begins while pieces change lanes"),
    mutant(55, "lanes", "HANGS=1 SCRASH=1 ACKS=1", "abort while pieces change lanes"),
    mutant(56, "lanes", "ACKS=1 LEAVES=1 SCRASH=1", "leaves with a piece between lanes"),
    mutant(57, "lanes", "NR=1 LOSSES=1 ABORTS=1 SCRASH=1", "reconnect does not wait"),
    mutant(58, "lanes", "NR=1 ACKS=1 SCRASH=1", "answer counted before the piece is here"),
    mutant(59, "lanes", "NR=1 SCRASH=1", "piece goes over without its verdicts"),
    mutant(60, "lanes", "STAGES=1 MOVES=2 SKIP=1", "push before the take-over"),
    mutant(61, "founding", "NV=4 DEATHS=0", "who has promised knocks as a newcomer"),
    mutant(62, "founding", "", "job begun with a place open"),
    mutant(63, "founding", "", "first view promised by most"),
    mutant(64, "founding", "", "a second process in a living one's place"),
    mutant(65, "collect", "SYNC=10", "begins before the last rank has"),
    mutant(66, "collect", "", "ranks choose what they fill"),
    mutant(67, "collect", "SET_B=6", "carries only for its own sets"),
    mutant(68, "collect", "JOINED=1", "stops to carry when joined"),
    mutant(
        69,
        "collect",
        "SET_A=15 SET_B=12 FREEZES=1 FROZEN=2 CREDIT=2",
        "block held until the answer",
    ),
    mutant(70, "collect", "FREEZES=1 FROZEN=2", "block waits for credit"),
    mutant(71, "collect", "FREEZES=1 FROZEN=1", "block held until stable"),
    mutant(72, "collect", "", "block held until the user asks"),
    mutant(73, "collect", ASIDE, "no reserve"),
    mutant(74, "collect", ASIDE_OF_TWO, "reserve given to a frozen rank's piece"),
    mutant(75, "collect", "FREEZES=1 FROZEN=2 THAWS=1", "block used again after a time"),
    mutant(76, "collect", "", "what ranks say names no round"),
    mutant(77, "collect", "ABORTS=1 FREEZES=1 FROZEN=2 THAWS=1", "withdrawn block cleared"),
    mutant(78, "collect", ASIDE, "lane does not read beside a block"),
    mutant(79, "collect", ASIDE, "copies under a lock"),
    mutant(80, "collect", "FREEZES=1 FROZEN=2", "goes on without a frozen rank"),
    mutant(81, "collect", "FREEZES=1 FROZEN=4 GIVE_UPS=1", "every rank judges the verdict"),
    mutant(82, "collect", "ABORTS=1", "rank gives up alone"),
    mutant(83, "collect", "ABORTS=1", "error not kept for later ranks"),
    mutant(84, "collect", "LOSSES=1", "sum not kept until decided"),
    mutant(85, "collect", "LOSSES=1", "answer not kept until stable"),
    mutant(86, "collect", LEFT, "rank leaves before stable"),
    mutant(87, "collect", "NR=2 LEAVES=1", "who has left is waited for"),
    mutant(88, "collect", "NR=2 LEAVES=1", "pushed without who has left"),
    mutant(89, "collect", f"{GIVEN_UP} THAWS=1", "carrier writes into others' tensors"),
    mutant(90, "collect", "ALONE=1 ABORTS=1", "error decided beside a sum"),
    mutant(91, "collect", "HUNG=2", "abort opens no round"),
    mutant(92, "collect", "SET_B=1 FREEZES=1 FROZEN=2 CREDIT=2", "reserve for wanted pieces only"),
    mutant(93, "collect", "NR=2 LEAVES=1", "error overtakes the answer before"),
    mutant(94, "collect", "ABORTS=1", "lent memory taken back before the use is decided"),
    mutant(95, "signs", "", "sign shown before the word can be heard"),
    mutant(96, "signs", "", "looks at others before it shows its own sign"),
    mutant(97, "signs", "", "second round takes the place of the first"),
    mutant(98, "signs", "SET_B=1 JOINS=1", "waits for who has joined"),
    mutant(99, "signs", "SET_B=1 ABORTS=1", "errors kept without a sign"),
    mutant(100, "lifetimes", "ERRORS=1", "lets go after an error"),
    mutant(101, "lifetimes", "", "uses what it has let go of"),
    mutant(102, "lifetimes", "", "counts on in a new lifetime"),
    mutant(103, "lifetimes", "RESTARTS=1", "a restarted coordinator does not hear who let go"),
    mutant(104, "lifetimes", "", "forgets what one rank holds"),
    mutant(105, "groups", "SYNC=1", "launch said when one rank has begun"),
    mutant(106, "groups", "JOINED=2", "launch said to who has joined"),
    mutant(107, "groups", "HOSTS=2", "launch said for host memory"),
    mutant(108, "groups", "", "ranks launch in their own order"),
    mutant(109, "groups", "QUITS=1", "who has shut down launches no more"),
    mutant(110, "groups", "IN_TURN=1", "stream waits for the network"),
    mutant(111, "groups", "", "block filled before the unit is reduced"),
    mutant(112, "groups", "", "gather said before all homes have copied"),
    mutant(113, "groups", "", "operation ends before its last launch"),
    mutant(114, "groups", "", "any number of units under way"),
    mutant(115, "groups", "NR=2 MEETS=1", "way decided anew when all have met"),
    mutant(116, "groups", KILLED, "only concerned ranks abort"),
    mutant(117, "groups", f"{KILLED} CALLS=1", "abort beside a call"),
    mutant(118, "groups", KILLED, "operation ends before the abort is over"),
    mutant(119, "groups", f"{KILLED} ALONE=1", "rank keeps what it has summed"),
    mutant(120, "groups", "NCCL_ERRORS=1", "ends well although its gather has failed"),
    mutant(121, "groups", "NCCL_ERRORS=1", "error told behind the abort"),
    mutant(122, "groups", "NCCL_ERRORS=1", "carrier does not tell the others to abort"),
    mutant(123, "groups", "NCCL_ERRORS=1", "rounds under way go on"),
    mutant(124, "groups", "NCCL_ERRORS=1", "rank without the sum goes on"),
    mutant(125, "groups", "NCCL_ERRORS=1 ALONE=1", "round broken off beside its sum"),
)
