/* Steps of the ranks of groups.pml. */

inline end_operation(r, o, v) {
  assert(!HAS(borrowed[o], r)); /* no launch touches the memory of the user */
  /* A rank without the sum that others have is out of the job. */
  assert(v == SUM || stage[o] < ANSWERED || !WORKS(r));
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
#define IS_LAUNCH(r) (KIND_OF(NEXT_WORD(r)) == REDUCE || KIND_OF(NEXT_WORD(r)) == GATHER)
#define HAS_INPUT(r)                                                                         \
  (MUTANT != 105 && MUTANT != 106 || IS_OPEN(r, TENSOR_OF(NEXT_WORD(r))) || HAS(quit, r))
#define MAY_HEAR(r) (WORKS(r) && heard[r] < words && (!IS_LAUNCH(r) || HAS_INPUT(r)))
inline hear(r) {
  i_o = TENSOR_OF(NEXT_WORD(r));
  if
  :: KIND_OF(NEXT_WORD(r)) == OVER -> begin_abort(r)
  :: KIND_OF(NEXT_WORD(r)) == FAILS ->
     failed[RO(r, i_o)] = failed[RO(r, i_o)] | BIT(ROUND_OF(NEXT_WORD(r)))
  :: IS_LAUNCH(r) && (MUTANT == 109 && HAS(quit, r) ||
                      MUTANT == 108 && KIND_OF(NEXT_WORD(r)) == REDUCE)
  :: IS_LAUNCH(r) && HAS(aborting, r) /* it fails at once */
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
  (IS_ALIVE(r) && !HAS(aborting, r) && done[r] < launched[r] && RUNS_ALL(r) && !IS_GATED(r))
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

/* A launch may fail at a rank and end well at another one. */
#define MAY_BREAK(r)                                                                         \
  (nccl_errors > 0 && IS_ALIVE(r) && !HAS(aborting | calling, r) && done[r] < launched[r])
inline break_group(r) {
  nccl_errors--;
  broken = broken | BIT(r);
  printf("R%d has an error of NCCL\n", r);
  begin_abort(r)
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
#define HAS_ERROR(r, o)                                                                      \
  (decided[o] == ERROR && (HAS(aborted & lost, r) ||                                         \
                           known_broken && WORKS(r) && !HAS(borrowed[o], r)))
#else
#define HAS_SUM(r, o)                                                                        \
  (by_group[o] && (HAS(gathered[o] & reduced[o], r) ||                                       \
                   MUTANT == 113 && stage[o] == ANSWERED && HAS(up[o], r)))
#define HAS_FAILED(r, o) HAS(failed[RO(r, o)], ended[RO(r, o)] + 1)
/* Mutant 118 does not wait for the end of its abort. */
#define HAS_ERROR(r, o)                                                                      \
  (HAS_FAILED(r, o) && !HAS(borrowed[o], r) || HAS(aborted & lost, r) ||                     \
   MUTANT == 118 && HAS(lost, r))
#endif

/* The job has the sum of the round, and the group has ended before this rank has it. The rank gives
 * up, and its machine is out of the job. Mutant 120 ends the operation well, mutant 124 in an
 * error. */
#define LACKS_SUM(r, o)                                                                      \
  (WORKS(r) && IS_OPEN(r, o) && by_group[o] && stage[o] >= ANSWERED && HAS(aborted, r) &&    \
   !HAS(gathered[o], r))
inline give_up(r, o) {
  dead = (MUTANT == 124 -> dead : dead | BIT(r));
  printf("R%d gives up\n", r);
  end_operation(r, o, ERROR)
}

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
#define MAY_HEAR_LOSS(r)                                                                     \
  (dead != 0 && WORKS(r) && (!HAS(calling, r) || MUTANT == 117) &&                           \
   (MUTANT != 116 || launched[r] > done[r]))
inline begin_abort(r) {
  assert(!HAS(calling, r)); /* no thread is in NCCL */
  aborting = aborting | BIT(r);
  printf("R%d aborts\n", r)
}
inline hear_loss(r) {
  lost = lost | BIT(r);
  begin_abort(r);
  for (i_o : 0 .. NT - 1) {
    decided[i_o] = (decided[i_o] == 0 -> ERROR : decided[i_o])
  }
}
inline finish_abort(r) {
  aborted = aborted | BIT(r);
  borrowed[0] = borrowed[0] & ~BIT(r);
  borrowed[1] = borrowed[1] & ~BIT(r)
}
