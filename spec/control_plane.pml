/* The control plane of the membership protocol: views that survive the coordinator, and quorums.
 * README.md says what is modelled and what is not.
 */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COVERS(big, small) (((small) & ~(big)) == 0)
#define STEP(guard, ...) :: d_step { guard; __VA_ARGS__; skip }

#define PARTY_APPLIES(v, e) skip
#define ON_COMMIT(c) skip

#include "control_state.pml"
#include "control_steps.pml"

#define IS_ACTIVE(c) (phase[c] != NOT_STARTED && phase[c] != GONE)
#if NC == 2
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(1))
#else
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(1) && !IS_ACTIVE(2))
#endif

#define HEAR(v) \
  STEP(phase[c] == READING && OBEYS(v, c) && !HAS(reported[c], v), hear_report(c, v))
#define PROMISE(v)                              \
  STEP(MAY_PROMISE(c, v), promise(c, v))        \
  STEP(MAY_CORRECT(c, v), correct(c, v))
#define ACT(v, e) STEP(MAY_ACT(c, v, e), act_on_commit(c, v, e))
#if CHANGES > 2
#define VOTER(v) HEAR(v) PROMISE(v) ACT(v, 2) ACT(v, 3) ACT(v, 4)
#elif CHANGES > 1
#define VOTER(v) HEAR(v) PROMISE(v) ACT(v, 2) ACT(v, 3)
#else
#define VOTER(v) HEAR(v) PROMISE(v) ACT(v, 2)
#endif

/* A change drops one voter or two, dead or only suspected, and leaves one. */
#define PROPOSE(some)                                                                           \
  STEP(phase[c] == READY && changes > 0 && COVERS(VOTERS_OF(base_view[c]), some) &&             \
         VOTERS_OF(base_view[c]) != (some),                                                     \
       changes--;                                                                               \
       proposal[c] = MAKE_VIEW(VOTERS_OF(base_view[c]) & ~(some), TERM(c));                     \
       printf("C%d proposes view %d as e%d\n", c, proposal[c], base_epoch[c] + 1);              \
       if                                                                                       \
       :: MUTANT == 29 -> COMMIT_OF(c, base_epoch[c] + 1) = proposal[c]                         \
       :: else                                                                                  \
       fi;                                                                                      \
       phase[c] = PROPOSING)

proctype Coordinator(byte c) {
end:
  do
  STEP(phase[c] == NOT_STARTED && (c == 0 || phase[c - 1] != NOT_STARTED) &&
         (AT_ONCE || NOBODY_ACTIVE),
       printf("C%d starts\n", c);
       start_reading(c))
  STEP(IS_ACTIVE(c) && (AT_ONCE || c < NC - 1), end_coordinator(c))
  STEP(phase[c] == READING && base_epoch[c] != 0 &&
         READ_QUORUM(VOTERS_OF(base_view[c]), reported[c]),
       finish_reading(c))
  STEP(phase[c] == PROPOSING && WRITE_QUORUM(VOTERS_OF(base_view[c]), promises[c]),
       send_commit(c))
  PROPOSE(1)
  PROPOSE(2)
  PROPOSE(4)
  PROPOSE(3)
  PROPOSE(5)
  PROPOSE(6)
#if NV > 3
  PROPOSE(8)
  PROPOSE(9)
  PROPOSE(10)
  PROPOSE(12)
#endif
#if NV > 4
  PROPOSE(16)
  PROPOSE(17)
  PROPOSE(18)
  PROPOSE(20)
  PROPOSE(24)
#endif
  VOTER(0)
  VOTER(1)
  VOTER(2)
#if NV > 3
  VOTER(3)
#endif
#if NV > 4
  VOTER(4)
#endif
  od
}

#define DIE(v)                                     \
  STEP(deaths > 0 && !IS_SILENT(v), deaths--;      \
       printf("V%d dies\n", v);                    \
       dead = dead | BIT(v);                       \
       end_voter(v))

proctype Faults() {
end:
  do
  DIE(0)
  DIE(1)
  DIE(2)
#if NV > 3
  DIE(3)
#endif
#if NV > 4
  DIE(4)
#endif
  od
}

#define KNOWS_NEWEST(v) (HAS(dead, v) || !HAS(VOTERS_OF(n_view), v) || held_view[v] == n_view)

/* The last coordinator never gets stuck where the launcher is trusted, as long as a member of its
 * view lives: every voter that is not proven dead answers some time. And all living members of that
 * view know it in the end. A commit that only the dead have seen does not count. */
inline check_rest() {
  n_view = base_view[NC - 1];
  printf("at rest with view %d\n", n_view);
  assert(STRICT || AT_ONCE || COVERS(dead, VOTERS_OF(n_view)) || phase[NC - 1] == READY);
  assert(STRICT || AT_ONCE ||
         KNOWS_NEWEST(0) && KNOWS_NEWEST(1) && KNOWS_NEWEST(2) && KNOWS_NEWEST(NV - 1))
}

init {
  d_step {
    for (i_v : 0 .. NV - 1) {
      held_epoch[i_v] = 1;
      held_view[i_v] = MAKE_VIEW(BIT(NV) - 1, 0)
    }
    skip
  }
  atomic {
    run Coordinator(0);
    run Coordinator(1);
#if NC > 2
    run Coordinator(2);
#endif
    run Faults();
    timeout;
    d_step { check_rest(); skip }
  }
}
