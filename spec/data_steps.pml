/* The steps of workers, shards and faults that do not depend on where views come from, and what
 * must hold when nothing can happen any more.
 */
#define IS_STABLE(w, p) \
  (copy[WP(w, p)] == NOTHING && \
   (state[WP(w, p)] != HELD || known_stable[WP(w, p)]) && \
   (failed_ahead[WP(w, p)] == 0 || ahead_is_stable[WP(w, p)] || MUTANT == 34))
#if NP == 1
#define ALL_HELD(w) (state[WP(w, 0)] == HELD)
#define ALL_EQUAL(w) true
#define NOTHING_UNSTABLE(w) IS_STABLE(w, 0)
#define OUTSTANDING(w) (state[WP(w, 0)] == PUSHED)
#elif NP == 2
#define ALL_HELD(w) (state[WP(w, 0)] == HELD && state[WP(w, 1)] == HELD)
#define ALL_EQUAL(w) (verdict[WP(w, 0)] == verdict[WP(w, 1)])
#define NOTHING_UNSTABLE(w) (IS_STABLE(w, 0) && IS_STABLE(w, 1))
#define OUTSTANDING(w) ((state[WP(w, 0)] == PUSHED) + (state[WP(w, 1)] == PUSHED))
#endif
#define IS_LIVE(w) (worker_status[w] == LIVE)
#define HAS_CREDIT(w) (CREDIT == 0 || OUTSTANDING(w) < CREDIT)
#define MAY_HAND_OVER(w) (IS_LIVE(w) && rounds_done[w] < NR && ALL_HELD(w))
#define SOMEBODY_HANGS (HANGS > 0 && hangs == 0)

#define CONNECTION_STEPS(w, s) \
  STEP(DOWN_IS_READY(w, s), worker_receives(w, s)) \
  STEP(LOSSES > 0 && IS_LIVE(w) && is_cut[WS(w, s)] && \
         HAS(view_shards[worker_epoch[w]], s) && shard_status[s] == UP, \
       reconnect(w, s))

#if PUSH_LATER
#define LATE_PUSH(w, p) \
  STEP(IS_LIVE(w) && WANTS_PUSH(w, p) && (HAS_CREDIT(w) || wanted[WP(w, p)] == key[WP(w, p)]), \
       push(w, p)) \
  STEP(IS_LIVE(w) && ack_due[WP(w, p)], acknowledge(w, p))
#else
#define LATE_PUSH(w, p)
#endif

/* A deadline: the worker asks the owner for an error, once. */
#if ERRORS
#define ASK_FOR_ERROR(w, p) \
  STEP(IS_LIVE(w) && state[WP(w, p)] == PUSHED && !aborted[WP(w, p)] && \
         (SOMEBODY_HANGS || aborts > 0 && w < WORKERS_PICKED), \
       aborts = (SOMEBODY_HANGS -> aborts : aborts - 1); \
       aborted[WP(w, p)] = 1; \
       printf("W%d asks for an error of p%d k%d\n", w, p, key[WP(w, p)]); \
       send_up(w, OWNER(worker_epoch[w], p), \
               MESSAGE(ABORT, worker_epoch[w], p, key[WP(w, p)], NOTHING)))
#else
#define ASK_FOR_ERROR(w, p)
#endif

#if MUTANT == 23 || MUTANT == 28
#define WITHHELD(w, p) \
  STEP(IS_LIVE(w) && withheld[WP(w, p)] && HAS_CREDIT(w), \
       repeat_withheld(w, p))
#else
#define WITHHELD(w, p)
#endif

#define PIECE_STEPS(w, p) \
  LATE_PUSH(w, p) \
  ASK_FOR_ERROR(w, p) \
  WITHHELD(w, p)
#if NP == 1
#define ALL_PIECE_STEPS(w) PIECE_STEPS(w, 0)
#else
#define ALL_PIECE_STEPS(w) PIECE_STEPS(w, 0) PIECE_STEPS(w, 1)
#endif
#if NS == 2
#define ALL_CONNECTION_STEPS(w) CONNECTION_STEPS(w, 0) CONNECTION_STEPS(w, 1)
#else
#define ALL_CONNECTION_STEPS(w) \
  CONNECTION_STEPS(w, 0) CONNECTION_STEPS(w, 1) CONNECTION_STEPS(w, 2)
#endif

#if ATTEMPTS > 1
#define ATTEMPT_STEP(w) STEP(MAY_HAND_OVER(w) && !ALL_EQUAL(w), repeat_larger(w))
#else
#define ATTEMPT_STEP(w)
#endif

#if JOIN
#define SYNC_STEP(w) \
  STEP(IS_LIVE(w) && synced[w] && join_epoch == JOIN_REFUSED, \
       synced[w] = 0; \
       begin_round(w))
#else
#define SYNC_STEP(w)
#endif

#if RESUMES
#define RESUME_STEP(w) STEP(IS_LIVE(w) && hung[w], hung[w] = 0)
#else
#define RESUME_STEP(w)
#endif

/* Rule 12. Mutant 14 does not wait; mutant 34 forgets a verdict of a round it never began. */
#if LEAVES > 0
#define LEAVE_STEPS(w) \
  STEP(MAY_HAND_OVER(w) && leaves > 0 && w < WORKERS_PICKED, \
       leaves--; \
       hand_over(w); \
       leaving[w] = 1) \
  STEP(IS_LIVE(w) && leaving[w] && (NOTHING_UNSTABLE(w) || MUTANT == 14), \
       printf("W%d leaves in order\n", w); \
       end_worker(w, LEFT))
#else
#define LEAVE_STEPS(w)
#endif

#define WORKER_STEPS(w) \
  STEP(MAY_HAND_OVER(w) && (ATTEMPTS == 1 || ALL_EQUAL(w)), \
       hand_over(w); \
       begin_round(w)) \
  ALL_CONNECTION_STEPS(w) \
  ALL_PIECE_STEPS(w) \
  ATTEMPT_STEP(w) \
  SYNC_STEP(w) \
  RESUME_STEP(w) \
  LEAVE_STEPS(w)

#if CREDIT > 0
#define ASK_STEP(s, p) STEP(WANTS_SOMETHING(s, p), ask(s, p))
#else
#define ASK_STEP(s, p)
#endif
#if NP == 1
#define ASK_STEPS(s) ASK_STEP(s, 0)
#else
#define ASK_STEPS(s) ASK_STEP(s, 0) ASK_STEP(s, 1)
#endif
#define RECEIVE_STEP(s, w) STEP(UP_IS_READY(w, s), shard_receives(s, w))
#if NW == 2
#define SHARD_STEPS(s) RECEIVE_STEP(s, 0) RECEIVE_STEP(s, 1) ASK_STEPS(s)
#else
#define SHARD_STEPS(s) RECEIVE_STEP(s, 0) RECEIVE_STEP(s, 1) RECEIVE_STEP(s, 2) ASK_STEPS(s)
#endif

/* The control plane counts its voters. */
#if COUPLED
#define ON_DEATH(v) dead = dead | BIT(v); end_voter(v)
#else
#define ON_DEATH(v) skip
#endif

#define KILL_WORKER(w) \
  STEP(worker_crashes > 0 && w < WORKERS_PICKED && LIVE_IN(newest, w) && ANOTHER_WORKER(w), \
       worker_crashes--; \
       printf("W%d dies\n", w); \
       end_worker(w, DEAD); \
       forget_acceptances(w); \
       ON_DEATH(w)) \
  STEP(hangs > 0 && w < WORKERS_PICKED && IS_LIVE(w) && rounds_done[w] < NR, \
       hangs--; \
       printf("W%d: its user hangs\n", w); \
       hung[w] = 1)
#define KILL_SHARD(s) \
  STEP(shard_crashes > 0 && UP_IN(newest, s) && ANOTHER_SHARD(s), \
       shard_crashes--; \
       printf("S%d dies\n", s); \
       end_shard(s, DEAD); \
       ON_DEATH(NW + s))

/* The connection breaks: what the shard still reads of the old one is any prefix. */
#define CUT(w, s, kept) \
  STEP(losses > 0 && w < WORKERS_PICKED && IS_LIVE(w) && shard_status[s] == UP && \
         !is_cut[WS(w, s)] && HAS(view_shards[worker_epoch[w]], s) && \
         HAS(MEMBERS(s), w) && up_length[WS(w, s)] >= kept, \
       losses--; \
       printf("connection W%d S%d is lost, %d messages arrive\n", w, s, kept); \
       for (i_x : kept .. CAPACITY - 1) { up_queue[WS(w, s) * CAPACITY + i_x] = 0 } \
       up_length[WS(w, s)] = kept; \
       clear_down(w, s); \
       is_cut[WS(w, s)] = 1)
#define CUTS(w, s) CUT(w, s, 0) CUT(w, s, 1) CUT(w, s, 2) CUT(w, s, 3)

proctype Faults() {
end:
  do
  KILL_WORKER(0)
  KILL_WORKER(1)
#if NW > 2
  KILL_WORKER(2)
#endif
  KILL_SHARD(0)
  KILL_SHARD(1)
#if LOSSES > 0
  CUTS(0, 0)
  CUTS(0, 1)
  CUTS(1, 0)
  CUTS(1, 1)
#endif
  od
}

inline begin() {
  view_shards[1] = (SERVER_JOIN -> ALL_SHARDS & ~BIT(NS - 1) : ALL_SHARDS);
  for (i_p : 0 .. NP - 1) {
    OWNER(1, i_p) = (SERVER_JOIN -> 0 : i_p % NS);
    SINCE(1, i_p) = 1
  }
}

inline begin_parties() {
  for (i_s : 0 .. NS - 1) {
    shard_status[i_s] = UP;
    shard_epoch[i_s] = 1;
    for (i_p : 0 .. NP - 1) {
      resynced[SP(i_s, i_p)] = (OWNER(1, i_p) == i_s -> ALL_WORKERS : 0)
    }
  }
  for (i_w : 0 .. NW - 1) {
    if
    :: HAS(view_workers[1], i_w) ->
       worker_status[i_w] = LIVE;
       worker_epoch[i_w] = 1;
       for (i_p : 0 .. NP - 1) { key[WP(i_w, i_p)] = 1 }
       begin_round(i_w)
    :: else
    fi
  }
}

/* (c) and (e), when nothing can happen any more. A worker whose user hangs for ever has nothing to
 * finish, and what it may still ask for must be kept. */
#if HANGS > 0
#define NOBODY_HANGS (!hung[0] && !hung[1] && !hung[NW - 1])
#else
#define NOBODY_HANGS true
#endif

inline check_worker_at_rest(w) {
  assert(rounds_done[w] == NR && !leaving[w] || hung[w]); /* (c) */
  for (i_p : 0 .. NP - 1) {
    assert(!ACKS || !NOBODY_HANGS || copy[WP(w, i_p)] == NOTHING) /* (e) */
  }
}

inline check_shard_at_rest(s) {
  for (i_p : 0 .. NP - 1) {
    if
    :: IS_OWNER(s, i_p) ->
       assert(!ACKS || !NOBODY_HANGS || decided[SP(s, i_p)] == NOTHING);     /* (e) */
       assert(!ACKS || !NOBODY_HANGS || contributions[SP(s, i_p)] == 0)      /* (e) */
    :: else
    fi
  }
}

inline check_rest() {
  printf("at rest\n");
  for (i_w : 0 .. NW - 1) {
    if
    :: LIVE_IN(newest, i_w) -> check_worker_at_rest(i_w)
    :: else
    fi
  }
  for (i_s : 0 .. NS - 1) {
    if
    :: UP_IN(newest, i_s) && (LIVE_IN(newest, 0) || LIVE_IN(newest, 1) || NW > 2) ->
       check_shard_at_rest(i_s)
    :: else
    fi
  }
}
