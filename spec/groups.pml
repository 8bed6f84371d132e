/* GPUs of a machine that sum among themselves, with NCCL, before anything goes to the host: the
 * ranks of one group, and their carrier. src/machine/ has the code. README.md says what is
 * modelled.
 *
 * Two tensors of one unit each, of which every rank is the home of a piece. The carrier writes
 * words, and each rank reads them in order, at any later moment. A launch is an item of a rank's
 * stream. It runs when all ranks have launched the same one at that place. What ranks tell their
 * carrier is shared memory, and seen at once, but for a shutdown. ALONE: no servers, and one launch
 * sums for all.
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

/* Words, and items of streams: a kind and a tensor; 0: none. */
#define REDUCE 1
#define GATHER 2
#define FAILS 3
#define WORD(kind, o, k) ((kind) + 4 * (o) + 8 * (k))
#define KIND_OF(word) ((word) & 3)
#define TENSOR_OF(word) (((word) >> 2) & 1)
#define ROUND_OF(word) ((word) >> 3)
#define NWORDS (3 * NT * NR)
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
byte quit, dead, aborting, aborted, hung;

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
byte over[NT]; /* rounds */

#define SUM 1
#define ERROR 2

byte quits = QUITS, errors = ERRORS, kills = KILLS, hangs = HANGS, limits = MEETS;
hidden byte i_r, i_o, i_set;

#define IS_ALIVE(r) (!HAS(dead, r))
#define WORKS(r) (!HAS(dead | aborting, r))
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

inline end_operation(r, o, v) {
  assert(!HAS(borrowed[o], r)); /* no launch touches the memory of the user */
  ended[RO(r, o)]++;
  result[RO(r, o)] = v;
  reduced[o] = reduced[o] & ~BIT(r);
  printf("R%d ends t%d with %d\n", r, o, v);
  for (i_r : 0 .. NG - 1) {
    assert(result[RO(i_r, o)] == v || ended[RO(i_r, o)] != ended[RO(r, o)] ||
           HAS(dead | quit, i_r) || dead != 0 && !ALONE)
  }
}

inline say(kind, o) {
  word[words] = WORD(kind, o, over[o] + 1);
  words++;
  printf("carrier says %d of t%d\n", kind, o)
}

inline put(r, what) {
  ITEM(r, launched[r]) = what;
  launched[r]++;
  borrowed[TENSOR_OF(what)] =
    (IS_OPEN(r, TENSOR_OF(what)) -> borrowed[TENSOR_OF(what)] | BIT(r)
                                  : borrowed[TENSOR_OF(what)]);
  printf("R%d launches %d\n", r, what)
}

#define BEGIN(r, o)                                                                          \
  STEP(WORKS(r) && HAS(DATA_RANKS & ~quit, r) && !IS_OPEN(r, o) && begun[RO(r, o)] < NR &&   \
         ((o) == FIRST_OF(r) ||                                                              \
          begun[RO(r, FIRST_OF(r))] > begun[RO(r, o)] &&                                     \
            (!HAS(SYNC, r) || ended[RO(r, FIRST_OF(r))] > begun[RO(r, o)])),                 \
       begun[RO(r, o)]++;                                                                    \
       told[RO(r, o)]++;                                                                     \
       printf("R%d begins t%d\n", r, o);                                                     \
       if                                                                                    \
       :: MUTANT == 108 -> put(r, WORD(REDUCE, o, begun[RO(r, o)]))                          \
       :: else                                                                               \
       fi)

/* The next word. With mutants 105 and 106 a rank waits for an input that it does not have; with
 * mutant 108 it launches when it begins, and with mutant 109 not if it has shut down. */
#define NEXT_WORD(r) word[heard[r]]
#define IS_LAUNCH(r) (KIND_OF(NEXT_WORD(r)) != FAILS)
#define HAS_INPUT(r)                                                                         \
  (MUTANT != 105 && MUTANT != 106 || IS_OPEN(r, TENSOR_OF(NEXT_WORD(r))) || HAS(quit, r))
#define MAY_HEAR(r) (WORKS(r) && heard[r] < words && (!IS_LAUNCH(r) || HAS_INPUT(r)))
inline hear(r) {
  i_o = TENSOR_OF(NEXT_WORD(r));
  if
  :: !IS_LAUNCH(r) -> failed[RO(r, i_o)] = failed[RO(r, i_o)] | BIT(ROUND_OF(NEXT_WORD(r)))
  :: IS_LAUNCH(r) && (MUTANT == 109 && HAS(quit, r) ||
                      MUTANT == 108 && KIND_OF(NEXT_WORD(r)) == REDUCE)
  :: else ->
     assert(i_o == 0 || !HAS(HOSTS, r)); /* the memory is on the device */
     put(r, NEXT_WORD(r))
  fi;
  heard[r]++
}

/* An item runs at a rank when every other has launched it, or has gone on. */
#define RUNS_AT(q, r)                                                                        \
  (done[q] > done[r] || launched[q] > done[r] && IS_ALIVE(q) && !HAS(aborted, q) &&          \
                          ITEM(q, done[r]) == ITEM(r, done[r]))
#if NG > 2
#define RUNS_ALL(r) (RUNS_AT(0, r) && RUNS_AT(1, r) && RUNS_AT(2, r))
#else
#define RUNS_ALL(r) (RUNS_AT(0, r) && RUNS_AT(1, r))
#endif
/* Mutant 110 lets the stream wait for the network. */
#define IS_GATED(r)                                                                          \
  (MUTANT == 110 && KIND_OF(ITEM(r, done[r])) == GATHER &&                                   \
   up[TENSOR_OF(ITEM(r, done[r]))] != EVERYBODY)
#define MAY_RUN(r)                                                                           \
  (IS_ALIVE(r) && !HAS(aborted, r) && done[r] < launched[r] && RUNS_ALL(r) && !IS_GATED(r))
inline run_item(r) {
  i_o = TENSOR_OF(ITEM(r, done[r]));
  if
  :: KIND_OF(ITEM(r, done[r])) == REDUCE ->
     reduced[i_o] = (HAS(borrowed[i_o], r) -> reduced[i_o] | BIT(r) : reduced[i_o]);
     in_flight = (r == 0 -> in_flight - 1 : in_flight)
  :: else ->
     assert(HAS(quit, r) || up[i_o] == EVERYBODY); /* every home has its piece of the answer */
     gathered[i_o] = gathered[i_o] | BIT(r)
  fi;
  borrowed[i_o] = borrowed[i_o] & ~BIT(r);
  done[r]++;
  printf("R%d has %d\n", r, done[r]);
  if
  :: stage[i_o] == GATHERING && COVERS(gathered[i_o], EVERYBODY & ~quit) -> finish_round(i_o)
  :: else
  fi
}

inline finish_round(o) {
  stage[o] = IDLE;
  over[o]++;
  filled[o] = 0
}

/* A home fills its block when its unit is reduced. Mutant 111 does not wait. ALONE, the block has
 * no bytes, and its word decides. */
#define MAY_FILL(r, o)                                                                       \
  (WORKS(r) && stage[o] == COLLECTING && !HAS(filled[o], r) && IS_OPEN(r, o) &&              \
   (!by_group[o] || HAS(reduced[o], r) || MUTANT == 111))
inline fill(r, o) {
  assert(!by_group[o] || HAS(reduced[o], r)); /* the bytes of all ranks */
  filled[o] = filled[o] | BIT(r);
  printf("R%d fills t%d\n", r, o);
  if
  :: COVERS(filled[o], DATA_RANKS) ->
     stage[o] = PUSHED;
     decided[o] = (decided[o] == 0 -> SUM : decided[o])
  :: else
  fi
}

/* In the window a rank that has copied its result has ended; in a group it has more to come. */
inline copy_up(r, o) {
  up[o] = up[o] | BIT(r);
  printf("R%d copies up t%d\n", r, o);
  if
  :: !by_group[o] ->
     end_operation(r, o, SUM);
     if
     :: COVERS(up[o], DATA_RANKS) -> finish_round(o); up[o] = 0
     :: else
     fi
  :: else
  fi
}

/* Mutant 113 ends an operation before its last launch. Mutant 119 ends it when its own launch is
 * done, whatever the others have. */
#if ALONE
#define HAS_SUM(r, o) (HAS(reduced[o], r) && (decided[o] == SUM || MUTANT == 119))
#define HAS_ERROR(r, o) (decided[o] == ERROR && HAS(aborted, r))
#else
#define HAS_SUM(r, o)                                                                        \
  (by_group[o] && (HAS(gathered[o] & reduced[o], r) ||                                       \
                   MUTANT == 113 && stage[o] == ANSWERED && HAS(up[o], r)))
#define HAS_FAILED(r, o) HAS(failed[RO(r, o)], ended[RO(r, o)] + 1)
/* Mutant 118 does not wait for the end of its abort. */
#define HAS_ERROR(r, o)                                                                      \
  (HAS_FAILED(r, o) && !HAS(borrowed[o], r) || HAS(aborted, r) || MUTANT == 118 && HAS(aborting, r))
#endif

inline shut_down(r) {
  quits--;
  quit = quit | BIT(r);
  for (i_o : 0 .. NT - 1) {
    ended[RO(r, i_o)] = begun[RO(r, i_o)];
    reduced[i_o] = reduced[i_o] & ~BIT(r)
  }
  printf("R%d shuts down\n", r)
}
#define MAY_SHUT_DOWN(r)                                                                     \
  (quits > 0 && WORKS(r) && r != 0 && !HAS(borrowed[0] | borrowed[1], r) &&                  \
   !HAS(filled[0] | filled[1], r))

/* All ranks abort when one is lost: the communicator is theirs together. Mutant 116 leaves it out
 * if nothing of its own is under way, mutant 117 does not wait for its own call. */
#define MAY_ABORT(r)                                                                         \
  (dead != 0 && WORKS(r) && (!HAS(calling, r) || MUTANT == 117) &&                           \
   (MUTANT != 116 || launched[r] > done[r]))
inline begin_abort(r) {
  assert(!HAS(calling, r)); /* no thread is in NCCL */
  aborting = aborting | BIT(r);
  printf("R%d aborts\n", r);
  for (i_o : 0 .. NT - 1) {
    decided[i_o] = (decided[i_o] == 0 -> ERROR : decided[i_o])
  }
}
inline finish_abort(r) {
  aborted = aborted | BIT(r);
  borrowed[0] = borrowed[0] & ~BIT(r);
  borrowed[1] = borrowed[1] & ~BIT(r)
}

#define RANK_DOES(r, o)                                                                      \
  BEGIN(r, o)                                                                                \
  STEP(MAY_FILL(r, o), fill(r, o))                                                           \
  STEP(WORKS(r) && stage[o] == ANSWERED && !HAS(up[o], r) && IS_OPEN(r, o), copy_up(r, o))   \
  STEP(IS_ALIVE(r) && IS_OPEN(r, o) && HAS_SUM(r, o),                                        \
       assert(ALONE || gathered[o] >> r & 1); end_operation(r, o, SUM))                      \
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
  STEP(MAY_ABORT(r), begin_abort(r))
  STEP(HAS(aborting & ~(aborted | hung), r) && COVERS(aborting | dead, EVERYBODY),
       finish_abort(r))
  STEP(hangs > 0 && HAS(aborting & ~(aborted | hung), r), hangs--; hung = hung | BIT(r))
#endif
  od
}

inline note_way(o, which) {
  assert(first_way[o] == 0 || first_way[o] == which); /* a tensor's bits do not change */
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
         known_quit == 0 && (in_flight < LAUNCHED_MAX || MUTANT == 114),                     \
       note_way(o, GROUP);                                                                   \
       say(REDUCE, o);                                                                       \
       in_flight++;                                                                          \
       assert(in_flight <= LAUNCHED_MAX); /* an urgent tensor waits for no more */           \
       if                                                                                    \
       :: MUTANT == 110 -> say(GATHER, o)                                                    \
       :: else                                                                               \
       fi)                                                                                   \
  STEP(CARRIES && !ALONE && stage[o] == IDLE && over[o] < NR && ALL_BEGAN(o) &&              \
         way != UNDECIDED && !MAY_LAUNCH(o) && known_quit == 0,                              \
       note_way(o, WINDOW))                                                                  \
  STEP(CARRIES && !ALONE && stage[o] == PUSHED && (!IN_TURN || (o) == 1 || over[1] > over[0] || \
                                                     stage[1] > PUSHED),                     \
       stage[o] = ANSWERED; printf("t%d is answered\n", o))                                  \
  STEP(CARRIES && !ALONE && errors > 0 && stage[o] == PUSHED, errors--; fail(o))             \
  STEP(CARRIES && stage[o] == ANSWERED && by_group[o] &&                                     \
         (up[o] == EVERYBODY || MUTANT == 112),                                              \
       stage[o] = GATHERING;                                                                 \
       if                                                                                    \
       :: MUTANT != 110 -> say(GATHER, o)                                                    \
       :: else                                                                               \
       fi)                                                                                   \
  STEP(CARRIES && known_quit != 0 && stage[o] <= COLLECTING && over[o] < NR && SOME_BEGAN(o), \
       fail(o))

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
  od
}

/* At rest every operation has ended, but that of a rank whose abort never ends. Without a loss,
 * every rank has launched all that was said. */
inline check_rest() {
  for (i_r : 0 .. NG - 1) {
    for (i_o : 0 .. NT - 1) {
      assert(HAS(dead | hung, i_r) || !IS_OPEN(i_r, i_o));
      assert(HAS(dead | hung, i_r) || !HAS(borrowed[i_o], i_r));
      assert(dead != 0 || HAS(quit, i_r) || !HAS(DATA_RANKS, i_r) || ended[RO(i_r, i_o)] == NR)
    }
    assert(dead != 0 || heard[i_r] == words && done[i_r] == launched[i_r])
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
