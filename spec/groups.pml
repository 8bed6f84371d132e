/* GPUs of a machine that sum among themselves, with NCCL, before anything goes to the host: the
 * ranks of one group, and their carrier. src/machine/ has the code. README.md says what is
 * modelled.
 *
 * Two tensors of one unit each, of which every rank is the home of a piece. The carrier writes
 * words, and each rank reads them in order, at any later moment. A launch is an item of a rank's
 * stream. It runs when all ranks have launched the same one at that place. What ranks tell their
 * carrier is shared memory, and seen at once, but for a shutdown and an error of NCCL. ALONE: no
 * servers, and one launch sums for all.
 */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COVERS(big, small) (((small) & ~(big)) == 0)
#define STEP(guard, ...) :: d_step { guard; __VA_ARGS__; skip }

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef NG
#define NG 2 /* ranks; rank 0 has the carrier */
#endif
#ifndef NR
#define NR 1 /* rounds of each tensor */
#endif
#ifndef ALONE
#define ALONE 0
#endif
#ifndef SYNC
#define SYNC 0 /* ranks that begin their second tensor when the first has ended */
#endif
#ifndef IN_TURN
#define IN_TURN 0 /* another machine pushes tensor 0 when tensor 1 is answered */
#endif
#ifndef HOSTS
#define HOSTS 0 /* ranks whose tensor 1 is in host memory */
#endif
#ifndef JOINED
#define JOINED 0 /* ranks without data */
#endif
#ifndef MEETS
#define MEETS 0 /* 1: ranks meet before the first round, or fail to; a limit may pass */
#endif
#ifndef QUITS
#define QUITS 0 /* ranks that shut down in order while others go on */
#endif
#ifndef ERRORS
#define ERRORS 0 /* answers that are errors */
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef HANGS
#define HANGS 0 /* aborts that never end */
#endif
#ifndef NCCL_ERRORS
#define NCCL_ERRORS 0 /* launches that fail at one rank */
#endif
#ifndef CALLS
#define CALLS 0 /* 1: a launch is a call that takes time */
#endif

#define NT 2
#define LAUNCHED_MAX 1 /* units that are launched and not reduced */
#define EVERYBODY (BIT(NG) - 1)
#define DATA_RANKS (EVERYBODY & ~(JOINED))
#define RO(r, o) ((r) * NT + (o))
/* Odd ranks begin tensor 1 first. */
#define FIRST_OF(r) ((r) & 1)

/* Words, and items of streams: a kind and a tensor; 0: none. OVER is for all tensors. */
#define OVER 0
#define REDUCE 1
#define GATHER 2
#define FAILS 3
#define WORD(kind, o, k) ((kind) + 4 * (o) + 8 * (k))
#define KIND_OF(word) ((word) & 3)
#define TENSOR_OF(word) (((word) >> 2) & 1)
#define ROUND_OF(word) ((word) >> 3)
#define NWORDS (3 * NT * NR + NCCL_ERRORS)
#define NITEMS (2 * NT * NR)
#define ITEM(r, i) item[(r) * NITEMS + (i)]

/* Of the ranks. */
byte begun[NG * NT]; /* rounds */
byte ended[NG * NT];
byte failed[NG * NT]; /* rounds of which the rank has heard that they failed, as a set */
byte result[NG * NT]; /* of the last ended round: checked, never read by a rank */
byte heard[NG];       /* words */
byte item[NG * NITEMS];
byte launched[NG]; /* items of its stream */
byte done[NG];
byte reduced[NT]; /* ranks at which the unit of the present round is reduced; so for the others */
byte gathered[NT];
byte borrowed[NT]; /* ranks whose stream may touch the operation's memory */
byte calling;      /* ranks in a call of NCCL */
byte met, unmet;   /* ranks that have met the others, or failed to */
byte quit, dead, hung;
byte lost;              /* ranks that have heard that another one is dead: they are over */
byte aborting, aborted; /* ranks that end the group at once, and that have */
byte broken;            /* ranks at which a launch has failed */

/* Of the carrier. */
byte word[NWORDS];
byte words;
#define UNDECIDED 0
#define GROUP 1
#define WINDOW 2
byte way = (MEETS -> UNDECIDED : GROUP);
byte first_way[NT]; /* checked, never read by the carrier */
#define IDLE 0
#define COLLECTING 1 /* homes fill blocks, or, in the window, ranks */
#define PUSHED 2
#define ANSWERED 3
#define GATHERING 4
byte stage[NT];
bit by_group[NT];
byte told[NG * NT]; /* rounds that a rank has begun, as the carrier has heard */
byte filled[NT]; /* ranks that have filled their block */
byte up[NT];     /* homes that have copied their piece of the answer to the GPU */
byte decided[NT]; /* ALONE: the window's word */
byte in_flight;  /* units that are said and not reduced at rank 0 */
byte known_quit;
bit known_broken;
byte over[NT]; /* rounds */

#define SUM 1
#define ERROR 2

byte quits = QUITS, errors = ERRORS, kills = KILLS, hangs = HANGS, limits = MEETS;
byte nccl_errors = NCCL_ERRORS;
hidden byte i_r, i_o, i_set;

#define IS_ALIVE(r) (!HAS(dead, r))
#define WORKS(r) (!HAS(dead | lost, r))
#define IS_OPEN(r, o) (begun[RO(r, o)] > ended[RO(r, o)])
#define CARRIES WORKS(0)
/* Every rank of a round must be able to launch: all have data, on the device. */
#define MAY_LAUNCH(o)                                                                        \
  (way == GROUP && (JOINED == 0 || MUTANT == 106) &&                                         \
   ((HOSTS) == 0 || (o) == 0 || MUTANT == 107))
#define HAS_TOLD(r, o) (told[RO(r, o)] > over[o])
#if NG > 2
#define SOME_BEGAN(o) (HAS_TOLD(0, o) || HAS_TOLD(1, o) || HAS_TOLD(2, o))
#define ALL_BEGAN(o) (BEGAN(0, o) && BEGAN(1, o) && BEGAN(2, o))
#else
#define SOME_BEGAN(o) (HAS_TOLD(0, o) || HAS_TOLD(1, o))
#define ALL_BEGAN(o) (BEGAN(0, o) && BEGAN(1, o))
#endif
#define BEGAN(r, o) (HAS_TOLD(r, o) || HAS(JOINED, r))
/* Mutant 105 says a launch when the first rank has begun. */
#define HAVE_BEGUN(o) (ALL_BEGAN(o) || MUTANT == 105 && SOME_BEGAN(o))

#include "groups_steps.pml"

#define RANK_DOES(r, o)                                                                      \
  BEGIN(r, o)                                                                                \
  STEP(MAY_FILL(r, o), fill(r, o))                                                           \
  STEP(WORKS(r) && stage[o] == ANSWERED && !HAS(up[o], r) && IS_OPEN(r, o), copy_up(r, o))   \
  STEP(IS_ALIVE(r) && IS_OPEN(r, o) && HAS_SUM(r, o),                                        \
       assert(ALONE || gathered[o] >> r & 1); end_operation(r, o, SUM))                      \
  STEP(MUTANT == 120 && LACKS_SUM(r, o),                                                     \
       assert(gathered[o] >> r & 1); end_operation(r, o, SUM))                               \
  STEP(LACKS_SUM(r, o), give_up(r, o))                                                       \
  STEP(IS_ALIVE(r) && IS_OPEN(r, o) && HAS_ERROR(r, o), end_operation(r, o, ERROR))

proctype Rank(byte r) {
end:
  do
  RANK_DOES(r, 0)
  RANK_DOES(r, 1)
#if CALLS
  STEP(MAY_HEAR(r) && IS_LAUNCH(r) && !HAS(calling, r), calling = calling | BIT(r))
  STEP(HAS(calling, r) && IS_ALIVE(r), calling = calling & ~BIT(r); hear(r))
  STEP(MAY_HEAR(r) && !IS_LAUNCH(r), hear(r))
#else
  STEP(MAY_HEAR(r), hear(r))
#endif
  STEP(MAY_RUN(r), run_item(r))
#if MEETS
  STEP(!HAS(met | unmet, r), met = met | BIT(r))
  STEP(!HAS(met | unmet, r), unmet = unmet | BIT(r))
#endif
#if QUITS > 0
  STEP(MAY_SHUT_DOWN(r), shut_down(r))
#endif
#if KILLS > 0
  STEP(kills > 0 && r == 1, kills--; dead = dead | BIT(r); printf("R%d is killed\n", r))
#endif
#if NCCL_ERRORS > 0
  STEP(MAY_BREAK(r), break_group(r))
#endif
#if KILLS > 0 || NCCL_ERRORS > 0
  STEP(MAY_HEAR_LOSS(r), hear_loss(r))
  STEP(HAS(aborting & ~(aborted | hung), r) && COVERS(aborting | dead, EVERYBODY),
       finish_abort(r))
  STEP(hangs > 0 && HAS(aborting & ~(aborted | hung), r), hangs--; hung = hung | BIT(r))
#endif
  od
}

inline note_way(o, which) {
  /* A tensor's bits do not change, but behind an error of NCCL, once. */
  assert(first_way[o] == 0 || first_way[o] == which || known_broken && which == WINDOW);
  first_way[o] = which;
  by_group[o] = (which == GROUP);
  gathered[o] = 0;
  up[o] = 0;
  stage[o] = COLLECTING
}

inline fail(o) {
  say(FAILS, o);
  finish_round(o)
}

#define CARRY(o)                                                                             \
  STEP(CARRIES && stage[o] == IDLE && over[o] < NR && HAVE_BEGUN(o) && MAY_LAUNCH(o) &&      \
         known_quit == 0 && !known_broken && (in_flight < LAUNCHED_MAX || MUTANT == 114),    \
       note_way(o, GROUP);                                                                   \
       say(REDUCE, o);                                                                       \
       in_flight++;                                                                          \
       assert(in_flight <= LAUNCHED_MAX); /* an urgent tensor waits for no more */           \
       if                                                                                    \
       :: MUTANT == 110 -> say(GATHER, o)                                                    \
       :: else                                                                               \
       fi)                                                                                   \
  STEP(CARRIES && (!ALONE || known_broken) && stage[o] == IDLE && over[o] < NR && ALL_BEGAN(o) && \
         way != UNDECIDED && !MAY_LAUNCH(o) && known_quit == 0,                              \
       note_way(o, WINDOW))                                                                  \
  STEP(CARRIES && (!ALONE || !by_group[o]) && stage[o] == PUSHED &&                          \
         (!IN_TURN || (o) == 1 || over[1] > over[0] || stage[1] > PUSHED),                   \
       stage[o] = ANSWERED;                                                                  \
       printf("t%d is answered\n", o))                                                       \
  STEP(CARRIES && !ALONE && errors > 0 && stage[o] == PUSHED, errors--; fail(o))             \
  STEP(CARRIES && stage[o] == ANSWERED && by_group[o] &&                                     \
         !known_broken && (up[o] == EVERYBODY || MUTANT == 112),                             \
       stage[o] = GATHERING;                                                                 \
       if                                                                                    \
       :: MUTANT != 110 -> say(GATHER, o)                                                    \
       :: else                                                                               \
       fi)                                                                                   \
  STEP(CARRIES && known_quit != 0 && stage[o] <= COLLECTING && over[o] < NR && SOME_BEGAN(o), \
       fail(o))                                                                              \
  STEP(CARRIES && known_broken && IS_UNDER_WAY(o) && MUTANT != 123,                          \
       if                                                                                    \
       :: ALONE -> decided[o] = ERROR                                                        \
       :: else -> fail(o)                                                                    \
       fi)

/* Rounds that the carrier ends behind an error of NCCL. If the servers have answered, they are over
 * for the others; ALONE, if the window has decided. Mutant 123 lets them go on, mutant 125 does not
 * ask the window. */
#define IS_UNDER_WAY(o)                                                                      \
  (by_group[o] && (stage[o] == COLLECTING || stage[o] == PUSHED) &&                          \
   (!ALONE || decided[o] == 0 || MUTANT == 125 && decided[o] == SUM))
/* A rank tells its error at once: its abort waits for the others, which only the carrier can tell.
 * Mutant 121 tells it behind the abort; with mutant 122 the carrier tells nobody. */
#define SEES_BROKEN                                                                          \
  (CARRIES && !known_broken && (MUTANT == 121 -> (broken & aborted) : broken) != 0)
inline end_groups() {
  known_broken = 1;
  way = WINDOW;
  word[words] = (MUTANT == 122 -> WORD(FAILS, 0, 0) : WORD(OVER, 0, 1));
  words++;
  printf("carrier ends the groups\n")
}

/* Mutant 115 decides anew when all have met after the limit. */
proctype Carrier() {
end:
  do
  CARRY(0)
  CARRY(1)
#if MEETS
  STEP(way == UNDECIDED && met == EVERYBODY, way = GROUP)
  STEP(way == UNDECIDED && unmet != 0, way = WINDOW)
  STEP(way == UNDECIDED && limits > 0, limits--; way = WINDOW)
  STEP(MUTANT == 115 && way == WINDOW && met == EVERYBODY, way = GROUP)
#endif
  STEP(CARRIES && quit != known_quit, known_quit = quit)
#if NCCL_ERRORS > 0
  STEP(SEES_BROKEN, end_groups())
#endif
  od
}

/* At rest every operation has ended, but that of a rank whose abort never ends. Without a loss,
 * every rank has launched all that was said, if its group has not ended. */
inline check_rest() {
  for (i_r : 0 .. NG - 1) {
    for (i_o : 0 .. NT - 1) {
      assert(HAS(dead | hung, i_r) || !IS_OPEN(i_r, i_o));
      assert(HAS(dead | hung, i_r) || !HAS(borrowed[i_o], i_r));
      assert(dead != 0 || HAS(quit, i_r) || !HAS(DATA_RANKS, i_r) || ended[RO(i_r, i_o)] == NR)
    }
    assert(dead != 0 ||
           heard[i_r] == words && (done[i_r] == launched[i_r] || HAS(aborting, i_r)))
  }
}

init {
  atomic {
    run Rank(0);
    run Rank(1);
#if NG > 2
    run Rank(2);
#endif
    run Carrier();
    timeout;
    d_step { check_rest(); skip }
  }
}
