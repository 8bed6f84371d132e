/* The control plane with contributors of two processes: who votes for them, how they are let in,
 * and what becomes of one that loses a process. README.md says what is modelled and what is not.
 *
 * The voters of control_state.pml are processes here. A contributor of two is a carrier and, under
 * the next number, its sibling; SIBLINGS says who is one. The processes in JOINERS come later.
 */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COVERS(big, small) (((small) & ~(big)) == 0)
#define STEP(guard, ...) :: d_step { guard; __VA_ARGS__; skip }

#ifndef NV
#define NV 4
#endif
#ifndef SIBLINGS
#define SIBLINGS 2 /* processes 0 and 1 are a contributor */
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 1 /* contributors that are dropped although they live */
#endif
#ifndef SIBLINGS_REPORT
#define SIBLINGS_REPORT 1 /* 0: a restarted coordinator hears carriers only, which is enough */
#endif
#ifndef REBORN
#define REBORN 0 /* 1: the joiners are processes 0 and 1, started again when they have died */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef JOINERS
#define JOINERS 0
#endif
/* Each view drops somebody, or lets the joiners in. Two coordinators may do that when the second
 * does not hear that the first one has let them in and dropped them again. */
#if JOINERS
#define CHANGES (SUSPICIONS + DEATHS + 2)
#else
#define CHANGES (SUSPICIONS + DEATHS)
#endif

#define PARTY_APPLIES(v, e) skip
#define ON_COMMIT(c) check_committed(c)
#define ON_TELL(c) note_members(c)
#define ON_READY(c) check_ready(c)

#include "control_state.pml"
#include "control_steps.pml"

#define ALL (BIT(NV) - 1)
#define FIRST (ALL & ~JOINERS)
#define WHOLE(some) ((some) | ((some) & SIBLINGS) >> 1 | ((some) << 1) & SIBLINGS)
#define CONTRIBUTOR_OF(v) WHOLE(BIT(v))
#define IS_WAITING(v) (HAS(JOINERS, v) && !IS_SILENT(v) && held_epoch[v] == 0)

byte suspicions = SUSPICIONS;
byte were_in; /* coordinators that have told a view with the joiners */
byte overlooked; /* mutant 46: processes whose end was seen while they waited */
hidden byte n_voters, n_parts, n_forgotten, n_dead_members, n_uninformed, n_outside;

/* A contributor is in a view as a whole, or not at all. */
inline check_committed(c) {
  n_parts = WHOLE(VOTERS_OF(base_view[c])) & ~base_view[c];
  assert(n_parts == 0);
  note_members(c)
}

/* Whom this coordinator has told that it is a member it does not let in again, though it may not
 * have heard that yet. */
inline note_members(c) {
  were_in = were_in | ((base_view[c] & JOINERS) != 0 && MUTANT != 49 -> BIT(c) : 0)
}

/* What a restarted coordinator has read holds every view that a living member has applied. */
inline check_ready(c) {
  n_forgotten = 0;
  for (i_n : 0 .. VIEWS) {
    n_forgotten = n_forgotten | (i_n > base_epoch[c] -> applied_by[i_n] : 0)
  }
  assert(AT_ONCE || n_forgotten == 0)
}

/* Who is lost: a contributor with any of its processes. Mutant 41 waits for the carrier's death;
 * mutant 42 drops the dead process only. */
#define SEEN_DEAD (dead & ~overlooked)
#if MUTANT == 41
#define LOST WHOLE(SEEN_DEAD & ~SIBLINGS)
#elif MUTANT == 42
#define LOST SEEN_DEAD
#else
#define LOST WHOLE(SEEN_DEAD)
#endif
#define STAYING(c) (VOTERS_OF(base_view[c]) & ~LOST)

inline propose(c) {
  proposal[c] = MAKE_VIEW(n_voters, TERM(c));
  phase[c] = PROPOSING;
  printf("C%d proposes view %d as e%d\n", c, proposal[c], base_epoch[c] + 1)
}
#define MAY_PROPOSE(c) (phase[c] == READY && base_epoch[c] < VIEWS)

#define DROP_SUSPECT(v)                                                                      \
  STEP(MAY_PROPOSE(c) && suspicions > 0 && !HAS(SIBLINGS, v) && HAS(STAYING(c), v) &&        \
         (STAYING(c) & ~CONTRIBUTOR_OF(v)) != 0,                                             \
       suspicions--; n_voters = STAYING(c) & ~CONTRIBUTOR_OF(v); propose(c))

/* A contributor is let in when all its processes wait, connected to this coordinator, so that they
 * obey no earlier one. Mutant 43 waits for its carrier only; mutant 45 puts a process that was
 * started again beside its predecessor's living sibling; mutant 49 lets in again whom it has
 * dropped before that was heard. */
#if JOINERS
#define CARRIER_OF_JOINERS LOWEST(JOINERS)
#if MUTANT == 43 || MUTANT == 45
#define EXPECTED CARRIER_OF_JOINERS
#else
#define EXPECTED JOINERS
#endif
#if MUTANT == 45
#define LET_IN_BESIDE(c) (VOTERS_OF(base_view[c]) & ~dead)
#define LET_IN_NOW CARRIER_OF_JOINERS
#else
#define LET_IN_BESIDE(c) STAYING(c)
#define LET_IN_NOW JOINERS
#endif
inline greet_joiners(c) {
  for (i_v : 0 .. NV - 1) {
    met_term[i_v] = (IS_WAITING(i_v) && met_term[i_v] < TERM(c) -> TERM(c) : met_term[i_v])
  }
}
#define NOT_WAITING(v) (IS_WAITING(v) -> 0 : BIT(v))
#if NV == 4
#define MISSING (EXPECTED & (NOT_WAITING(2) | NOT_WAITING(3)))
#elif NV == 5
#define MISSING (EXPECTED & (NOT_WAITING(3) | NOT_WAITING(4)))
#else
#define MISSING (EXPECTED & (NOT_WAITING(4) | NOT_WAITING(5)))
#endif
#define LET_IN                                                                               \
  STEP(MAY_PROPOSE(c) && (base_view[c] & JOINERS) == 0 && MISSING == 0 &&                    \
         !HAS(were_in, c) && LET_IN_BESIDE(c) != 0,                                          \
       greet_joiners(c); n_voters = LET_IN_BESIDE(c) | LET_IN_NOW; propose(c))
#define START(v)                                                                             \
  STEP(HAS(JOINERS & silent, v) && (!REBORN || HAS(dead, HAS(SIBLINGS, v))),                 \
       silent = silent & ~BIT(v); printf("V%d starts and waits\n", v))
#else
#define LET_IN
#define START(v)
#endif

/* Mutant 44: a process that was started again speaks in the place of its predecessor. */
#define REPLACES(c, v)                                                                       \
  (MUTANT == 44 && IS_WAITING(v) && HAS(VOTERS_OF(base_view[c]), HAS(SIBLINGS, v)))
#if MUTANT == 44
#define REPLACE(v)                                                                           \
  STEP(phase[c] == READING && OBEYS(v, c) && REPLACES(c, v) &&                               \
         !HAS(reported[c], HAS(SIBLINGS, v)),                                                \
       met_term[v] = TERM(c); reported[c] = reported[c] | BIT(HAS(SIBLINGS, v));             \
       printf("C%d hears V%d as V%d\n", c, v, HAS(SIBLINGS, v)))
#else
#define REPLACE(v)
#endif

#define VOTER(v)                                                                             \
  STEP(phase[c] == READING && OBEYS(v, c) && !HAS(reported[c], v) &&                         \
         (held_epoch[v] != 0 || HAS(VOTERS_OF(base_view[c]), v)) &&                          \
         (SIBLINGS_REPORT || !HAS(SIBLINGS, v)),                                             \
       hear_report(c, v))                                                                    \
  STEP(MAY_PROMISE(c, v), promise(c, v))                                                     \
  STEP(MAY_CORRECT(c, v), correct(c, v))                                                     \
  REPLACE(v)
#if CHANGES > 4
#define COMMITS(v) \
  HEAR_COMMIT(v, 2) HEAR_COMMIT(v, 3) HEAR_COMMIT(v, 4) HEAR_COMMIT(v, 5) HEAR_COMMIT(v, 6)
#elif CHANGES > 3
#define COMMITS(v) HEAR_COMMIT(v, 2) HEAR_COMMIT(v, 3) HEAR_COMMIT(v, 4) HEAR_COMMIT(v, 5)
#elif CHANGES > 2
#define COMMITS(v) HEAR_COMMIT(v, 2) HEAR_COMMIT(v, 3) HEAR_COMMIT(v, 4)
#elif CHANGES > 1
#define COMMITS(v) HEAR_COMMIT(v, 2) HEAR_COMMIT(v, 3)
#else
#define COMMITS(v) HEAR_COMMIT(v, 2)
#endif
/* A view is told to every process. Mutant 50 tells it to those only who have a vote. */
#define HEAR_COMMIT(v, e)                                                                    \
  STEP((MAY_ACT(c, v, e) ||                                                                  \
        IS_WAITING(v) && OBEYS(v, c) && HAS(VOTERS_OF(COMMIT_OF(c, e)), v)) &&               \
         (MUTANT != 50 || !HAS(SIBLINGS, v)),                                                \
       act_on_commit(c, v, e))

#define IS_ACTIVE(c) (phase[c] != NOT_STARTED && phase[c] != GONE)
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(NC - 1) && !IS_ACTIVE(1))

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
  STEP(phase[c] == PROPOSING &&
         WRITE_QUORUM(VOTERS_OF((MUTANT == 48 -> proposal[c] : base_view[c])), promises[c]),
       send_commit(c))
  STEP(MAY_PROPOSE(c) && (base_view[c] & LOST) != 0 && STAYING(c) != 0,
       n_voters = STAYING(c); propose(c))
  DROP_SUSPECT(0)
  DROP_SUSPECT(1)
  DROP_SUSPECT(2)
  DROP_SUSPECT(3)
  LET_IN
  VOTER(0)
  COMMITS(0)
  VOTER(1)
  COMMITS(1)
  VOTER(2)
  COMMITS(2)
  VOTER(3)
  COMMITS(3)
#if NV > 4
  DROP_SUSPECT(4)
  VOTER(4)
  COMMITS(4)
#endif
#if NV > 5
  DROP_SUSPECT(5)
  VOTER(5)
  COMMITS(5)
#endif
  od
}

/* Mutant 46: the end of a process that waits, or is only proposed, is forgotten. */
#define DIE(v)                                                                               \
  STEP(deaths > 0 && !IS_SILENT(v),                                                          \
       deaths--;                                                                             \
       printf("V%d dies\n", v);                                                              \
       overlooked = overlooked | (MUTANT == 46 && IS_WAITING(v) -> BIT(v) : 0);              \
       dead = dead | BIT(v);                                                                 \
       end_voter(v))

proctype Faults() {
end:
  do
  DIE(0)
  DIE(1)
  DIE(2)
  DIE(3)
  START(2)
  START(3)
#if NV > 4
  DIE(4)
  START(4)
#endif
#if NV > 5
  DIE(5)
  START(5)
#endif
  od
}

/* At rest the last coordinator is ready, or so many are dead that it can neither read nor go on
 * (rule 14). When it is ready, its view has no contributor that has lost a process, every process
 * in it knows it, and nobody else lives who was a member: those have heard that they are out. */
#define IS_LOST_QUORUM(view) (!READ_QUORUM(VOTERS_OF(view), VOTERS_OF(view) & ~dead))

inline check_ready_at_rest() {
  n_dead_members = dead & VOTERS_OF(n_view);
  n_uninformed = 0;
  n_outside = 0;
  for (i_v : 0 .. NV - 1) {
    if
    :: IS_SILENT(i_v)
    :: !IS_SILENT(i_v) && HAS(VOTERS_OF(n_view), i_v) ->
       n_uninformed = n_uninformed | (held_view[i_v] != n_view -> BIT(i_v) : 0)
    :: else -> n_outside = n_outside | (held_epoch[i_v] != 0 -> BIT(i_v) : 0)
    fi
  }
  n_dead_members = (COVERS(WHOLE(dead), VOTERS_OF(n_view)) -> 0 : n_dead_members);
  assert(n_dead_members == 0); /* unless all contributors are lost */
  assert(n_uninformed == 0);
  assert(n_outside == 0)
}

inline check_rest() {
  n_view = base_view[NC - 1];
  printf("at rest with view %d\n", n_view);
  if
  :: phase[NC - 1] == READY && !AT_ONCE -> check_ready_at_rest()
  :: else -> assert(AT_ONCE || n_view == 0 || IS_LOST_QUORUM(n_view))
  fi
}

init {
  d_step {
    for (i_v : 0 .. NV - 1) {
      if
      :: HAS(FIRST, i_v) ->
         held_epoch[i_v] = 1;
         held_view[i_v] = MAKE_VIEW(FIRST, 0)
      :: else -> silent = silent | BIT(i_v)
      fi
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
