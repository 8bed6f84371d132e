/* The data plane of the membership protocol: workers, shards, FIFO connections that may be cut at
 * any point, and an abstract coordinator. README.md says what is modelled and what is not.
 *
 * One step is one event at one party; it is atomic, as in the state machines of the product. There
 * are no cycles, so "no dead end" (c) is termination.
 */
#include "data_bounds.pml"
#include "data_state.pml"
#include "data_worker.pml"
#include "data_shard.pml"
#include "data_coordinator.pml"
#include "data_steps.pml"

/* Which views a party may apply next: all committed ones that are newer than its own. */
#define NEXT_OF_WORKER(w) (worker_status[w] == WAITING -> join_epoch : worker_epoch[w] + 1)
#define MAY_APPLY_WORKER(w, ahead) \
  ((worker_status[w] == LIVE || worker_status[w] == WAITING && join_epoch > 1) && \
   NEXT_OF_WORKER(w) + (ahead) <= newest && ((ahead) == 0 || SKIP))
#define MAY_APPLY_SHARD(s, ahead) \
  (shard_status[s] == UP && shard_epoch[s] + 1 + (ahead) <= newest && ((ahead) == 0 || SKIP))

#define VIEWS_OF_WORKER(w, ahead) \
  STEP(MAY_APPLY_WORKER(w, ahead), \
       i_e = NEXT_OF_WORKER(w) + (ahead); \
       worker_applies(w, i_e))
#define VIEWS_OF_SHARD(s, ahead) \
  STEP(MAY_APPLY_SHARD(s, ahead), \
       i_e = shard_epoch[s] + 1 + (ahead); \
       shard_applies(s, i_e))

proctype Worker(byte w) {
end:
  do
  WORKER_STEPS(w)
  VIEWS_OF_WORKER(w, 0)
#if SKIP && EPOCHS > 2
  VIEWS_OF_WORKER(w, 1)
#endif
#if SKIP && EPOCHS > 3
  VIEWS_OF_WORKER(w, 2)
#endif
#if SKIP && EPOCHS > 4
  VIEWS_OF_WORKER(w, 3)
#endif
  od
}

proctype Shard(byte s) {
end:
  do
  SHARD_STEPS(s)
  VIEWS_OF_SHARD(s, 0)
#if SKIP && EPOCHS > 2
  VIEWS_OF_SHARD(s, 1)
#endif
#if SKIP && EPOCHS > 3
  VIEWS_OF_SHARD(s, 2)
#endif
#if SKIP && EPOCHS > 4
  VIEWS_OF_SHARD(s, 3)
#endif
  od
}

#define DROP_WORKER(w) \
  STEP(HAS(view_workers[newest], w) && ANOTHER_WORKER(w) && \
         (worker_status[w] == DEAD || worker_status[w] == LEFT), \
       propose_without_worker(w); \
       commit()) \
  STEP(worker_suspicions > 0 && w < WORKERS_PICKED && LIVE_IN(newest, w) && ANOTHER_WORKER(w), \
       worker_suspicions--; \
       propose_without_worker(w); \
       commit())
#define DROP_SHARD(s) \
  STEP(HAS(view_shards[newest], s) && ANOTHER_SHARD(s) && shard_status[s] == DEAD, \
       propose_without_shard(s); \
       commit()) \
  STEP(shard_suspicions > 0 && UP_IN(newest, s) && ANOTHER_SHARD(s), \
       shard_suspicions--; \
       propose_without_shard(s); \
       commit())
#define MOVE_PIECE(p, s) \
  STEP(moves > 0 && OWNER(newest, p) != s && HAS(view_shards[newest], s), \
       moves--; \
       propose_move(p, s); \
       commit())

proctype Coordinator() {
end:
  do
  DROP_WORKER(0)
  DROP_WORKER(1)
#if NW > 2
  DROP_WORKER(2)
#endif
  DROP_SHARD(0)
  DROP_SHARD(1)
#if NS > 2
  DROP_SHARD(2)
#endif
#if MOVES > 0
  MOVE_PIECE(0, 0)
  MOVE_PIECE(0, 1)
#if NP > 1
  MOVE_PIECE(1, 0)
  MOVE_PIECE(1, 1)
#endif
#endif
#if SERVER_JOIN
  STEP(server_joins > 0,
       server_joins--;
       propose_server(NS - 1);
       commit())
#endif
#if JOIN
  /* Rule 13. Mutant 13 does not wait for the sync point. */
  STEP(join_epoch == 0 && (ALL_SYNCED || MUTANT == 13),
       propose_generation();
       join_epoch = newest + 1;
       commit())
  STEP(join_epoch == 0 && ALL_SYNCED, \
       printf("C says: go on\n"); \
       join_epoch = JOIN_REFUSED)
#endif
  od
}

init {
  d_step {
    begin();
    view_workers[1] = (JOIN -> ALL_WORKERS & ~BIT(NW - 1) : ALL_WORKERS);
    begin_parties();
    skip
  }
  atomic {
    run Worker(0);
    run Worker(1);
#if NW > 2
    run Worker(2);
#endif
    run Shard(0);
    run Shard(1);
#if NS > 2
    run Shard(2);
#endif
    run Coordinator();
    run Faults();
    timeout;
    d_step { check_rest(); skip }
  }
}
