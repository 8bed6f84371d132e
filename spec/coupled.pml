/* Both planes in one model: the data plane, with views that a coordinator brings into force in two
 * steps and that survive it. Workers are the first voters, shards the others.
 *
 * What the abstract coordinator of data_plane.pml takes for granted, one total order of views, is
 * checked here; and so is that the data plane reaches its end although the coordinator dies at any
 * point and a commit has reached any subset of the members.
 */
#define COUPLED 1
#include "data_bounds.pml"
#include "data_state.pml"
#include "data_worker.pml"
#include "data_shard.pml"
#include "data_coordinator.pml"

#define NV (NW + NS)
#define CHANGES (EPOCHS - 1)
#define SHARD_OF(v) ((v) - NW)
#define WORKERS_OF(view) (VOTERS_OF(view) & ALL_WORKERS)
#define SHARDS_OF(view) (VOTERS_OF(view) >> NW)

hidden byte i_party;
#include "control_state.pml"

#define PARTY_APPLIES(v, e) apply_in_data_plane(v, e)
#define ON_COMMIT(c) commit_in_data_plane(c)

/* The newest view, as far as the checks are concerned, is the newest that a living member applied:
 * a commit that only the dead and the dropped have seen may be forgotten, and then another view has
 * its number. */
inline note_applied(e) {
  if
  :: e > newest ->
     newest = e;
     for (i_w : 0 .. NW - 1) {
       if
       :: !HAS(view_workers[newest], i_w) -> forget_acceptances(i_w)
       :: else
       fi
     }
  :: else
  fi
}

inline apply_in_data_plane(v, e) {
  if
  :: HAS(VOTERS_OF(n_view), v) -> note_applied(e)
  :: else
  fi;
  if
  :: v < NW -> worker_applies(v, e)
  :: else ->
     i_party = SHARD_OF(v);
     shard_applies(i_party, e)
  fi
}

/* What the view says beyond its voters follows from the view before it. */
inline commit_in_data_plane(c) {
  i_e = base_epoch[c];
  view_workers[i_e] = WORKERS_OF(base_view[c]);
  view_shards[i_e] = SHARDS_OF(base_view[c]);
  for (i_p : 0 .. NP - 1) {
    if
    :: HAS(view_shards[i_e], OWNER(i_e - 1, i_p)) ->
       OWNER(i_e, i_p) = OWNER(i_e - 1, i_p);
       SINCE(i_e, i_p) = SINCE(i_e - 1, i_p)
    :: else ->
       OWNER(i_e, i_p) = 1 - OWNER(i_e - 1, i_p);
       SINCE(i_e, i_p) = i_e
    fi
  }
}

#include "control_steps.pml"
#include "data_steps.pml"

#if NC == 2
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(1))
#else
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(1) && !IS_ACTIVE(2))
#endif
#define IS_ACTIVE(c) (phase[c] != NOT_STARTED && phase[c] != GONE)

#define CONTROL_STEPS(c, v)                                                                 \
  STEP(phase[c] == READING && OBEYS(v, c) && !HAS(reported[c], v), hear_report(c, v))       \
  STEP(MAY_PROMISE(c, v), promise(c, v))                                                    \
  STEP(MAY_CORRECT(c, v), correct(c, v))                                                    \
  STEP(MAY_ACT(c, v, 2), act_on_commit(c, v, 2))                                            \
  LATER_VIEWS(c, v)
#if EPOCHS > 3
#define LATER_VIEWS(c, v)                                                                   \
  STEP(MAY_ACT(c, v, 3), act_on_commit(c, v, 3))                                            \
  STEP(MAY_ACT(c, v, 4), act_on_commit(c, v, 4))
#elif EPOCHS > 2
#define LATER_VIEWS(c, v) STEP(MAY_ACT(c, v, 3), act_on_commit(c, v, 3))
#else
#define LATER_VIEWS(c, v)
#endif
#if NC == 2
#define ALL_CONTROL_STEPS(v) CONTROL_STEPS(0, v) CONTROL_STEPS(1, v)
#else
#define ALL_CONTROL_STEPS(v) CONTROL_STEPS(0, v) CONTROL_STEPS(1, v) CONTROL_STEPS(2, v)
#endif

proctype Worker(byte w) {
end:
  do
  WORKER_STEPS(w)
  ALL_CONTROL_STEPS(w)
  od
}

proctype Shard(byte s) {
end:
  do
  SHARD_STEPS(s)
  ALL_CONTROL_STEPS((NW + s))
  od
}

/* Both the dead and the suspected, one at a time. */
#define PROPOSE_WITHOUT(v)                                                                  \
  phase[c] = PROPOSING;                                                                     \
  proposal[c] = MAKE_VIEW(VOTERS_OF(base_view[c]) & ~BIT(v), TERM(c));                      \
  printf("C%d proposes view %d as e%d\n", c, proposal[c], base_epoch[c] + 1)
#define MAY_PROPOSE_WITHOUT(v) \
  (phase[c] == READY && base_epoch[c] < EPOCHS && HAS(VOTERS_OF(base_view[c]), v))
#define DROP_WORKER(w)                                                                      \
  STEP(MAY_PROPOSE_WITHOUT(w) && HAS(dead, w) && WORKERS_OF(base_view[c]) != BIT(w),        \
       PROPOSE_WITHOUT(w))                                                                  \
  STEP(MAY_PROPOSE_WITHOUT(w) && worker_suspicions > 0 && w < WORKERS_PICKED &&             \
         !HAS(dead, w) && (WORKERS_OF(base_view[c]) & ~dead) != BIT(w),                     \
       worker_suspicions--; PROPOSE_WITHOUT(w))
#define DROP_SHARD(s)                                                                       \
  STEP(MAY_PROPOSE_WITHOUT(NW + s) && HAS(dead, NW + s) &&                                  \
         SHARDS_OF(base_view[c]) != BIT(s),                                                 \
       PROPOSE_WITHOUT(NW + s))                                                             \
  STEP(MAY_PROPOSE_WITHOUT(NW + s) && shard_suspicions > 0 && !HAS(dead, NW + s) &&         \
         (SHARDS_OF(base_view[c]) & ~(dead >> NW)) != BIT(s),                               \
       shard_suspicions--; PROPOSE_WITHOUT(NW + s))

proctype Coordinator(byte c) {
end:
  do
  STEP(phase[c] == NOT_STARTED && (c == 0 || phase[c - 1] != NOT_STARTED) && NOBODY_ACTIVE,
       printf("C%d starts\n", c); start_reading(c))
  STEP(IS_ACTIVE(c) && c < NC - 1, end_coordinator(c))
  STEP(phase[c] == READING && base_epoch[c] != 0 &&
         READ_QUORUM(VOTERS_OF(base_view[c]), reported[c]),
       finish_reading(c))
  STEP(phase[c] == PROPOSING && WRITE_QUORUM(VOTERS_OF(base_view[c]), promises[c]),
       send_commit(c))
  DROP_WORKER(0)
  DROP_WORKER(1)
#if NW > 2
  DROP_WORKER(2)
#endif
  DROP_SHARD(0)
  DROP_SHARD(1)
  od
}

/* A worker and a shard of the view in which the last coordinator rests, if it has one. */
#define LIVING (base_view[NC - 1] & ~dead)
#define SOMEBODY_IS_LEFT \
  (base_view[NC - 1] == 0 || WORKERS_OF(LIVING) != 0 && SHARDS_OF(LIVING) != 0)

init {
  d_step {
    begin();
    view_workers[1] = ALL_WORKERS;
    begin_parties();
    for (i_v : 0 .. NV - 1) {
      held_epoch[i_v] = 1;
      held_view[i_v] = MAKE_VIEW(BIT(NV) - 1, 0)
    }
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
    run Coordinator(0);
    run Coordinator(1);
#if NC > 2
    run Coordinator(2);
#endif
    run Faults();
    timeout;
    d_step {
      if
      :: SOMEBODY_IS_LEFT ->
         assert(phase[NC - 1] == READY);
         assert(newest == base_epoch[NC - 1]);
         check_rest()
      :: else /* rule 14 */
      fi;
      skip
    }
  }
}
