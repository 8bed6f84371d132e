/* Steps of ranks, carriers and the shard of collect.pml. */

/* The user begins its tensors in turn, odd ranks the second one first, and a further round when
 * both have ended. */
#define CAN_WORK(r) (!HAS(frozen | out | left, r))
#define FIRST_OF(r) ((r) & 1)
#define IS_PAST(r, o, k)                                                                     \
  (!TAKES_PART(r, o) || (HAS(SYNC, r) -> ended[RO(r, o)] : begun[RO(r, o)]) >= k)
#define HAS_ENDED(r, o, k) (!TAKES_PART(r, o) || ended[RO(r, o)] >= k)
#define MAY_BEGIN(r, o)                                                                      \
  (begun[RO(r, o)] < NR && HAS_ENDED(r, 0, begun[RO(r, o)]) &&                               \
   HAS_ENDED(r, 1, begun[RO(r, o)]) && HAS_ENDED(r, NT - 1, begun[RO(r, o)]) &&              \
   (o == FIRST_OF(r) || IS_PAST(r, FIRST_OF(r), begun[RO(r, o)] + 1)) &&                     \
   (o < 2 || IS_PAST(r, 1 - FIRST_OF(r), begun[RO(r, o)] + 1)))

/* Which ranks of the machine are behind: have not begun round k. Mutant 65 looks at the carrier
 * only; mutant 80 goes on without who is frozen, mutant 88 without who has left. */
#define IS_BEHIND(r, o, k) (TAKES_PART(r, o) && begun[RO(r, o)] < k)
#define BEHIND(m, o, k)                                                                      \
  ((IS_BEHIND(2 * (m), o, k) -> BIT(2 * (m)) : 0) |                                          \
   (IS_BEHIND(2 * (m) + 1, o, k) -> BIT(2 * (m) + 1) : 0))
#if MUTANT == 65
#define ALL_HAVE_BEGUN(m, o, k) \
  ((BEHIND(m, o, k) & BIT(CARRIER(m))) == 0 && BEHIND(m, o, k) != CONCERNED(m, o))
#elif MUTANT == 88
#define ALL_HAVE_BEGUN(m, o, k) COVERS(left, BEHIND(m, o, k))
#elif MUTANT == 80
#define ALL_HAVE_BEGUN(m, o, k) COVERS(frozen, BEHIND(m, o, k))
#else
#define ALL_HAVE_BEGUN(m, o, k) (BEHIND(m, o, k) == 0)
#endif
#if MUTANT == 88
#define AWAITED(m, b) (USERS(m, b) & ~left)
#elif MUTANT == 80
#define AWAITED(m, b) (USERS(m, b) & ~frozen)
#else
#define AWAITED(m, b) USERS(m, b)
#endif

/* A piece that may have a block: credit or a want is a further condition. Mutant 67 does not carry
 * for sets that the carrier is not in, mutant 68 not when it has joined. */
#if MUTANT == 67
#define CARRIES(m, o) HAS(SET_OF(o), CARRIER(m))
#elif MUTANT == 68
#define CARRIES(m, o) (!HAS(JOINED, CARRIER(m)))
#else
#define CARRIES(m, o) 1
#endif
#define MAY_COLLECT(m, o)                                                                    \
  (stage[MO(m, o)] == IDLE && CONCERNED(m, o) != 0 && rounds[MO(m, o)] < NR &&               \
   asked[MO(m, o)] <= rounds[MO(m, o)] && CARRIES(m, o) &&                                   \
   ALL_HAVE_BEGUN(m, o, rounds[MO(m, o)] + 1))
#define COUNTS(m, o) \
  ((stage[MO(m, o)] == COLLECTING || stage[MO(m, o)] == SUMMED) && !passed_credit[MO(m, o)])
#define IN_FLIGHT(m) (COUNTS(m, 0) + COUNTS(m, 1) + (NT > 2 -> COUNTS(m, NT - 1) : 0))
#define BY_CREDIT(m, o) (ALONE || IN_FLIGHT(m) < CREDIT || MUTANT == 70)
/* The shard has another's contribution and not this one's. */
#define IS_WANTED(m, o)                                                                      \
  (!ALONE && rounds[MO(m, o)] == rounds_decided[o] && contributions[o] != 0)

/* The reserve is for a piece none of whose ranks owes another block anything. Mutant 73 has none,
 * mutant 74 gives it away to whom it likes, mutant 92 only for pieces that a shard wants; mutant 75
 * takes a block again after a time. */
#define NO_BLOCK 2
#define IS_UNUSED(m, b) (use_of[BL(m, b)] == 0 || MUTANT == 75 && b == ORDINARY)
#if MUTANT == 73
#define MAY_RESERVE(m, o) 0
#elif MUTANT == 74
#define MAY_RESERVE(m, o) 1
#elif MUTANT == 92
#define MAY_RESERVE(m, o) IS_WANTED(m, o)
#else
#define MAY_RESERVE(m, o) ((OWING(m, ORDINARY) & CONCERNED(m, o)) == 0)
#endif
#define BLOCK_FOR(m, o)                                                                      \
  (IS_UNUSED(m, ORDINARY) -> ORDINARY                                                        \
                          : (IS_UNUSED(m, RESERVE) && MAY_RESERVE(m, o) -> RESERVE : NO_BLOCK))

/* A use begins with nothing said about it: what ranks say names the use. Mutant 76 leaves what they
 * said of the use before. */
inline clear_block(i) {
  use_of[i] = 0;
  filled[i] = (MUTANT == 76 -> filled[i] : 0);
  summed[i] = (MUTANT == 76 -> summed[i] : 0);
  released[i] = 0;
  decided[i] = 0;
  brought[i] = 0
}
inline use_block(m, o, kind, k) {
  i_m = BL(m, BLOCK_FOR(m, o));
  clear_block(i_m);
  use_of[i_m] = USE(kind, o, k)
}

inline admit(m, o, wanted) {
  printf("M%d gives t%d round %d a block, wanted %d\n", m, o, rounds[MO(m, o)] + 1, wanted);
  passed_credit[MO(m, o)] = wanted;
  stage[MO(m, o)] = COLLECTING;
  use_block(m, o, COLLECT, rounds[MO(m, o)] + 1)
}

/* A rank fills at once, or takes the answer. Mutant 79 copies under a lock of the machine; mutant
 * 81 has each rank judge whether a verdict counts, by the view it has heard of. */
#define OTHER(r) ((r) ^ 1)
#if MUTANT == 79
#define IS_UNLOCKED(r) (busy[OTHER(r)] == 0)
#else
#define IS_UNLOCKED(r) 1
#endif
#if MUTANT == 81
#define IS_GOOD(r, use) \
  (KIND_OF(use) == COLLECT || (answer[MO(MACHINE(r), TENSOR_OF(use))] & gone) == 0)
#else
#define IS_GOOD(r, use) 1
#endif
#define HAS_BEGUN_USE(r, use) (begun[RO(r, TENSOR_OF(use))] >= ROUND_OF(use))
#define TO_FILL(r, b)                                                                        \
  (KIND_OF(use_of[BL(MACHINE(r), b)]) == COLLECT && !HAS(filled[BL(MACHINE(r), b)], r))
#if ALONE
#define TO_READ(r, b) (decided[BL(0, b)] == 1)
#else
#define TO_READ(r, b) (KIND_OF(use_of[BL(MACHINE(r), b)]) == SPREAD)
#endif
#define MAY_COPY(r, b)                                                                       \
  (CAN_WORK(r) && busy[r] == 0 && HAS(HOLDERS(MACHINE(r), b), r) &&                          \
   decided[BL(MACHINE(r), b)] != ERROR && (TO_FILL(r, b) || TO_READ(r, b)) &&                \
   HAS_BEGUN_USE(r, use_of[BL(MACHINE(r), b)]) && IS_UNLOCKED(r) &&                          \
   IS_GOOD(r, use_of[BL(MACHINE(r), b)]) && (MUTANT != 89 || !TO_READ(r, b) || !(r & 1)))

/* Mutant 66: a rank fills what it began first, not what the carrier says. */
inline start_copy(r, b) {
  busy[r] = b + 1;
  copies[r] = use_of[BL(MACHINE(r), b)];
#if MUTANT == 66
  copies[r] = (KIND_OF(copies[r]) == COLLECT && ended[RO(r, FIRST_OF(r))] == 0
                 -> USE(COLLECT, FIRST_OF(r), 1) : copies[r]);
#endif
  printf("R%d copies, block %d use %d\n", r, b, copies[r])
}

/* Alone, the last share decides, unless the error has. Ranks may lend their memory in place of
 * filling a part: a sum that counts is read before an operation of a rank that brings it has ended,
 * for then its user has the memory again. */
#define HAS_TAKEN_BACK(r, use)                                                               \
  (TAKES_PART(r, TENSOR_OF(use)) && ended[RO(r, TENSOR_OF(use))] >= ROUND_OF(use))
#define MAY_SUM(r, b)                                                                        \
  (HAS(HOLDERS(MACHINE(r), b) & ~summed[BL(MACHINE(r), b)], r) &&                            \
   KIND_OF(use_of[BL(MACHINE(r), b)]) == COLLECT && decided[BL(MACHINE(r), b)] != ERROR &&   \
   COVERS(filled[BL(MACHINE(r), b)], AWAITED(MACHINE(r), b)))
inline sum_shares(m, b, who) {
  i_m = BL(m, b);
  i_lent = decided[i_m] == ERROR || !HAS_TAKEN_BACK(2 * (m), use_of[i_m]) &&
             !HAS_TAKEN_BACK(2 * (m) + 1, use_of[i_m]);
  assert(i_lent);
  summed[i_m] = summed[i_m] | (USERS(m, b) & (who));
  printf("M%d sums, block %d use %d by %d\n", m, b, use_of[i_m], summed[i_m]);
#if ALONE
  if
  :: COVERS(summed[i_m], USERS(0, b)) ->
     i_set = USERS(0, b);
     assert(brought[i_m] == i_set);
     decided[i_m] = 1
  :: else
  fi
#elif MUTANT != 69
  released[i_m] = summed[i_m]
#endif
}

/* Mutant 72 does not let go of a result before its user asks for it, in the order of its calls. */
#if MUTANT == 72
#define MAY_LET_GO(r, use)                                                                   \
  (KIND_OF(use) == COLLECT || TENSOR_OF(use) == FIRST_OF(r) ||                               \
   HAS_ENDED(r, FIRST_OF(r), ROUND_OF(use)))
#else
#define MAY_LET_GO(r, use) 1
#endif
#define MAY_FINISH(r, b) MAY_LET_GO(r, copies[r])
#define MAY_FINISH_SOON(r, b) MAY_LET_GO(r, use_of[BL(MACHINE(r), b)])
inline finish_copy(r, b) {
  i_use = copies[r];
  busy[r] = 0;
  copies[r] = 0;
  printf("R%d has copied, block %d use %d\n", r, b, i_use);
  assert(use_of[BL(MACHINE(r), b)] == i_use); /* no other use is disturbed */
  if
  :: TO_FILL(r, b) ->
     filled[BL(MACHINE(r), b)] = filled[BL(MACHINE(r), b)] | BIT(r);
     brought[BL(MACHINE(r), b)] = brought[BL(MACHINE(r), b)] | BIT(r);
     if
     :: COVERS(filled[BL(MACHINE(r), b)], AWAITED(MACHINE(r), b)) &&
          (STEADY_RANKS & AWAITED(MACHINE(r), b)) != 0 ->
        sum_shares(MACHINE(r), b, STEADY_RANKS)
     :: else
     fi
  :: else ->
     released[BL(MACHINE(r), b)] = released[BL(MACHINE(r), b)] | BIT(r);
     end_operation(r, TENSOR_OF(i_use), (ALONE -> 1 : answer[MO(MACHINE(r), TENSOR_OF(i_use))]))
#if MUTANT == 89
     ;
     assert(!HAS(out, OTHER(r))); /* the memory of an operation that has ended */
     if
     :: HAS(USERS(MACHINE(r), b), OTHER(r)) ->
        released[BL(MACHINE(r), b)] = released[BL(MACHINE(r), b)] | BIT(OTHER(r));
        end_operation(OTHER(r), TENSOR_OF(i_use), answer[MO(MACHINE(r), TENSOR_OF(i_use))])
     :: else
     fi
#endif
  fi
}

/* Everybody else who has ended this round and is in the job, or has left in order, has the same. */
#define DIFFERS(q, o, k, v)                                                                  \
  (ended[RO(q, o)] >= k && (!HAS(gone, MACHINE(q)) || HAS(left, q)) && RESULT(q, o, k) != v)
inline end_operation(r, o, v) {
  ended[RO(r, o)]++;
  RESULT(r, o, ended[RO(r, o)]) = v;
  printf("R%d ends t%d round %d with %d\n", r, o, ended[RO(r, o)], v);
  for (i_r : 0 .. 3) {
    assert(HAS(gone, MACHINE(r)) ||
           !DIFFERS(i_r, o, ended[RO(r, o)], RESULT(r, o, ended[RO(r, o)])))
  }
}

/* The sum goes into the carrier's own memory, and the block is free. Mutant 69 leaves it there
 * until it is answered, mutant 70 until it has credit. */
#if ALONE
#define IS_COLLECTED(m, b) 0
#elif MUTANT == 69
#define IS_COLLECTED(m, b)                                                                   \
  (KIND_OF(use_of[BL(m, b)]) == COLLECT && COVERS(summed[BL(m, b)], AWAITED(m, b)) &&        \
   stage[MO(m, TENSOR_OF(use_of[BL(m, b)]))] == COLLECTING)
#else
#define IS_COLLECTED(m, b)                                                                   \
  (KIND_OF(use_of[BL(m, b)]) == COLLECT && COVERS(summed[BL(m, b)], AWAITED(m, b)) &&        \
   decided[BL(m, b)] != ERROR && (MUTANT != 70 || IN_FLIGHT(m) <= CREDIT))
#endif
inline take_sum(m, b) {
  i_o = TENSOR_OF(use_of[BL(m, b)]);
  i_set = CONCERNED(m, i_o);
  assert(brought[BL(m, b)] == i_set); /* all ranks, of this round */
  stage[MO(m, i_o)] = SUMMED;
  printf("M%d pushes t%d round %d\n", m, i_o, rounds[MO(m, i_o)] + 1);
#if MUTANT != 69
  clear_block(BL(m, b))
#endif
}

/* Mutant 71 keeps the answer in the block until it is stable. */
#if ALONE
#define IS_DONE_WITH(m, b) (decided[BL(m, b)] != 0)
#else
#define IS_DONE_WITH(m, b) (KIND_OF(use_of[BL(m, b)]) == SPREAD || decided[BL(m, b)] == ERROR)
#endif
#define IS_FREE(m, b)                                                                        \
  (COVERS(released[BL(m, b)], AWAITED(m, b)) && IS_DONE_WITH(m, b) &&                        \
   (MUTANT != 71 || !keeps[MO(m, TENSOR_OF(use_of[BL(m, b)]))]))
inline free_block(m, b) {
  i_o = TENSOR_OF(use_of[BL(m, b)]);
#if ALONE
  i_k = ROUND_OF(use_of[BL(m, b)]);
  rounds[MO(m, i_o)] = (rounds[MO(m, i_o)] < i_k -> i_k : rounds[MO(m, i_o)]);
  stage[MO(m, i_o)] = IDLE;
#else
  stage[MO(m, i_o)] = (KIND_OF(use_of[BL(m, b)]) == SPREAD -> IDLE : stage[MO(m, i_o)]);
#endif
  clear_block(BL(m, b))
}

/* A carrier that cannot freeze sees at once that a block is collected or free. */
inline carrier_follows(m, b) {
  if
  :: use_of[BL(m, b)] != 0 && AT_WORK(m) && !MAY_FREEZE(CARRIER(m)) && IS_COLLECTED(m, b) ->
     take_sum(m, b)
  :: use_of[BL(m, b)] != 0 && AT_WORK(m) && !MAY_FREEZE(CARRIER(m)) && IS_FREE(m, b) ->
     free_block(m, b)
  :: else
  fi
}

/* Answers of a tensor are taken one after the other, the next when the ranks have read the one
 * before; mutant 93 takes an error at once. */
#define IS_READ(m, o) \
  (stage[MO(m, o)] != ANSWERED && stage[MO(m, o)] != SPREADING || MUTANT == 93)
#if ALONE
#define IS_ANSWERED(m, o) 0
#else
#define IS_ANSWERED(m, o)                                                                    \
  (rounds_decided[o] > rounds[MO(m, o)] && !HAS(gone, m) && IS_READ(m, o) &&                 \
   (verdict[o] == ERROR || stage[MO(m, o)] == SUMMED))
#endif
/* Mutant 78: the lane waits for the block to be used, and does not read meanwhile. */
#if MUTANT == 78
#define LANE_READS(m) (use_of[BL(m, 0)] == 0 && use_of[BL(m, 1)] == 0)
#else
#define LANE_READS(m) 1
#endif

/* A block that is being filled for a round that has failed is withdrawn, and used again when its
 * ranks have released it. Mutant 77 clears what they say; mutant 94 lets ranks take back what they
 * have lent without that. */
inline withdraw(m, o, b) {
  if
  :: use_of[BL(m, b)] == USE(COLLECT, o, rounds[MO(m, o)]) ->
     decided[BL(m, b)] = (MUTANT == 94 -> decided[BL(m, b)] : ERROR);
     use_of[BL(m, b)] = (MUTANT == 77 -> 0 : use_of[BL(m, b)])
  :: else
  fi
}

#define KEEPING (MUTANT != 85 && (LOSSES > 0 || LEAVES > 0 || MUTANT == 71))
inline take_answer(m, o) {
  rounds[MO(m, o)]++;
  answer[MO(m, o)] = verdict[o];
  keeps[MO(m, o)] = KEEPING;
  passed_credit[MO(m, o)] = 0;
  printf("M%d takes %d for t%d round %d\n", m, verdict[o], o, rounds[MO(m, o)]);
  if
  :: verdict[o] == ERROR ->
     failed[MO(m, o)] = rounds[MO(m, o)];
     stage[MO(m, o)] = IDLE;
     withdraw(m, o, 0);
     withdraw(m, o, 1)
#if MUTANT == 83
     ; /* only who has begun hears of it */
     failed[MO(m, o)] = (BEHIND(m, o, rounds[MO(m, o)]) == 0 -> failed[MO(m, o)] : 0);
     for (i_r : 2 * m .. 2 * m + 1) {
       if
       :: TAKES_PART(i_r, o) && begun[RO(i_r, o)] == rounds[MO(m, o)] &&
            failed[MO(m, o)] == 0 && busy[i_r] == 0 ->
          ended[RO(i_r, o)]++;
          RESULT(i_r, o, ended[RO(i_r, o)]) = ERROR
       :: else
       fi
     }
#endif
  :: else ->
     stage[MO(m, o)] = ANSWERED
#if MUTANT == 69
     ;
     for (i_r : 0 .. 1) {
       if
       :: use_of[BL(m, i_r)] == USE(COLLECT, o, rounds[MO(m, o)]) ->
          stage[MO(m, o)] = SPREADING;
          use_of[BL(m, i_r)] = USE(SPREAD, o, rounds[MO(m, o)]);
          released[BL(m, i_r)] = 0
       :: else
       fi
     }
#endif
  fi
}

inline spread(m, o) {
  printf("M%d spreads t%d round %d\n", m, o, rounds[MO(m, o)]);
  stage[MO(m, o)] = SPREADING;
  use_block(m, o, SPREAD, rounds[MO(m, o)])
}

/* An answer is stable when every machine in the view that takes part has it. */
#define HAS_ROUND(m, o, k) \
  (!HAS(MACHINES_OF(o) & ~gone, m) || rounds[MO(m, o)] >= k)
#define IS_STABLE(m, o) \
  (HAS_ROUND(0, o, rounds[MO(m, o)]) && HAS_ROUND(1, o, rounds[MO(m, o)]))
#define ALL_HAVE_NEXT(o)                                                                     \
  ((MACHINES_OF(o) & ~gone) != 0 && HAS_ROUND(0, o, rounds_decided[o] + 1) &&                \
   HAS_ROUND(1, o, rounds_decided[o] + 1))
#define ALL_HAVE_LAST(o) \
  (HAS_ROUND(0, o, rounds_decided[o]) && HAS_ROUND(1, o, rounds_decided[o]))

/* A deadline; or a rank of the set has left and will not begin this round. Mutant 87 waits for who
 * has left. */
#define LEFT_BEHIND(m, o) ((BEHIND(m, o, rounds[MO(m, o)] + 1) & left) != 0 && MUTANT != 87)
#define SOMEBODY_BEGAN(m, o) (BEHIND(m, o, rounds[MO(m, o)] + 1) != CONCERNED(m, o))
#define MAY_ABORT(m, o)                                                                      \
  (CONCERNED(m, o) != 0 && rounds[MO(m, o)] < NR && asked[MO(m, o)] <= rounds[MO(m, o)] &&   \
   (SOMEBODY_BEGAN(m, o) && (aborts > 0 || HUNG & SET_OF(o)) && MUTANT != 82 ||              \
    LEFT_BEHIND(m, o) && (SOMEBODY_BEGAN(m, o) || IS_WANTED(m, o))))
inline ask_error(m, o) {
  aborts = (aborts > 0 && !LEFT_BEHIND(m, o) && (HUNG & SET_OF(o)) == 0 -> aborts - 1 : aborts);
  asked[MO(m, o)] = rounds[MO(m, o)] + 1;
  printf("M%d asks for the error of t%d round %d\n", m, o, asked[MO(m, o)]);
#if ALONE
  i_set = 0; /* whether a sum was first */
  for (i_r : 0 .. 1) {
    if
    :: use_of[BL(0, i_r)] == USE(COLLECT, o, asked[MO(m, o)]) ->
       i_set = (decided[BL(0, i_r)] == 1 && MUTANT != 90 -> 1 : i_set);
       decided[BL(0, i_r)] = (i_set -> 1 : ERROR)
    :: else
    fi
  }
  failed[MO(m, o)] = (i_set -> failed[MO(m, o)] : asked[MO(m, o)]);
  rounds[MO(m, o)] = (i_set -> rounds[MO(m, o)] : asked[MO(m, o)])
#endif
}

/* The shard. A machine in the view that takes part has pushed, or its round does not end. Mutant 84
 * forgets the sum when it is pushed. */
#define MAY_DECIDE(o)                                                                        \
  (contributions[o] != 0 && COVERS(contributions[o] | gone, MACHINES_OF(o)))
inline read_push(m, o) {
  contributions[o] = contributions[o] | BIT(m);
  dropped[MO(m, o)] = (MUTANT == 84);
  printf("shard has t%d round %d of M%d\n", o, rounds_decided[o] + 1, m)
}
inline decide(o, v) {
  verdict[o] = v;
  printf("shard has %d for t%d round %d\n", verdict[o], o, rounds_decided[o] + 1);
  contributions[o] = 0;
  rounds_decided[o]++
}

/* Of what the lost shard held only a verdict that not all have matters: others do not repeat it
 * who do not have it. */
inline lose_shard() {
  printf("the shard is lost\n");
  for (i_o : 0 .. NT - 1) {
    contributions[i_o] = 0;
    rounds_decided[i_o] = (rounds_decided[i_o] > 0 && !ALL_HAVE_LAST(i_o)
                             -> rounds_decided[i_o] - 1 : rounds_decided[i_o])
  }
}

inline give_up(m) {
  give_ups--;
  gone = gone | BIT(m);
  printf("M%d is given up\n", m)
}

/* A rank that is in the view leaves between rounds, when its contributor holds nothing unstable
 * that it was given; mutant 86 does not wait for that. */
#define OWES(r, o) \
  (TAKES_PART(r, o) && keeps[MO(MACHINE(r), o)] && MUTANT != 86)
#define IS_BETWEEN(r, o) (ended[RO(r, o)] == begun[RO(r, o)])
#define MAY_LEAVE(r)                                                                         \
  (!HAS(gone, MACHINE(r)) && busy[r] == 0 && NT == 2 && IS_BETWEEN(r, 0) &&                  \
   IS_BETWEEN(r, 1) && ended[RO(r, 0)] + ended[RO(r, 1)] > 0 &&                              \
   !HAS(HOLDERS(MACHINE(r), 0) | HOLDERS(MACHINE(r), 1), r) && !OWES(r, 0) && !OWES(r, 1))

/* At rest, a rank that works has ended its rounds, unless one of their ranks, or one that carries
 * for them, is frozen and not given up. And no block is held where no rank is
 * frozen: the window waits for the machine's engines only. */
#define HALTED (frozen & ~((HAS(gone, 0) -> 3 : 0) | (HAS(gone, 1) -> 12 : 0)))
#define CARRIERS_OF(o) ((HAS(MACHINES_OF(o), 0) -> 1 : 0) | (HAS(MACHINES_OF(o), 1) -> 4 : 0))
#define IS_HINDERED(o) (((SET_OF(o) | CARRIERS_OF(o)) & HALTED) != 0)
/* Nor can one begin who waits for a tensor that is hindered. */
#define IS_PASSED(r, o) (!TAKES_PART(r, o) || !IS_HINDERED(o))
#define IS_REACHED(r, o)                                                                     \
  (NR == 1 && (o == FIRST_OF(r) || !HAS(SYNC, r)) ||                                         \
   IS_PASSED(r, 0) && IS_PASSED(r, 1) && IS_PASSED(r, NT - 1))
inline check_rest() {
  for (i_r : 0 .. 2 * NM - 1) {
    for (i_o : 0 .. NT - 1) {
      if
      :: TAKES_PART(i_r, i_o) && CAN_WORK(i_r) && !HAS(HUNG, i_r) &&
           !HAS(gone, MACHINE(i_r)) && !IS_HINDERED(i_o) && IS_REACHED(i_r, i_o) ->
         assert(ended[RO(i_r, i_o)] == NR)
      :: else
      fi
    }
  }
  for (i_r : 0 .. 2 * NM - 1) {
    assert(use_of[i_r] == 0 || HAS(gone, MACHINE(i_r)) || (frozen & RANKS_OF(MACHINE(i_r))) != 0)
  }
}
