/* How a job begins, and why no second one does: places, processes in them, coordinators that keep
 * nothing and are not told that they start again. README.md says what is modelled and what is not.
 *
 * A view is the set of its processes; there is one proposal per coordinator, and the job that it
 * stands for is named by its founder. What happens in a job is in control_plane.pml: here it has
 * its first view only. A place is one process's at a time.
 *
 * Knocking, a report and a promise are one step of the process and the coordinator; a proposal and
 * a commit are facts that anybody may read at any later moment or never.
 */
#ifndef NP
#define NP 3 /* places; process v is for place v % NP */
#endif
#ifndef NV
#define NV 5 /* processes */
#endif
#ifndef NC
#define NC 3 /* coordinators, in the order of their terms */
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef AT_ONCE
#define AT_ONCE 0 /* 1: coordinators may live at the same time */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COVERS(big, small) (((small) & ~(big)) == 0)
#define STEP(guard, ...) :: d_step { guard; __VA_ARGS__; skip }
#define BITS(set)                                         \
  (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + \
   (((set) >> 3) & 1) + (((set) >> 4) & 1) + (((set) >> 5) & 1))
#define MAJORITY(all, some) (2 * BITS((some) & (all)) > BITS(all))

byte living;
byte started;
byte held[NV];     /* the founder of the job it is in; 0: none */
byte promised[NV]; /* the founder of the first view it has promised; 0: none */
byte promised_to[NV]; /* the term under which it did */
byte met_term[NV];
byte deaths = DEATHS;

/* Coordinator c has term c + 1, which is also the founder's number of a job that it begins. */
#define TERM(c) ((c) + 1)
#define NOT_STARTED 0
#define GATHERING 1
#define PROPOSING 2
#define LOOKING 3
#define RUNNING 4
#define GONE 5
byte phase[NC];
byte waiting[NC];  /* newcomers */
byte reported[NC]; /* to one that looks for the job that runs */
byte founder[NC];  /* of what it proposes, or of the job it has */
byte promises[NC];
bit is_committed[NC];
byte first_view[NC + 1]; /* by founder */

hidden byte i_v, n_jobs, n_jobless;

#define IS_ACTIVE(c) (phase[c] != NOT_STARTED && phase[c] != GONE)
#if NC == 2
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(1))
#else
#define NOBODY_ACTIVE (!IS_ACTIVE(0) && !IS_ACTIVE(1) && !IS_ACTIVE(2))
#endif

/* Who has promised a view, or holds one, says so. Mutant 61: only who holds one. */
#if MUTANT == 61
#define IS_NEW(v) (held[v] == 0)
#else
#define IS_NEW(v) (held[v] == 0 && promised[v] == 0)
#endif

#define OBEYS(v, c) (HAS(living, v) && met_term[v] <= TERM(c))

inline knock(c, v) {
  printf("P%d knocks at C%d, new to all\n", v, c);
  waiting[c] = waiting[c] | BIT(v)
}

/* The first one that knows of a view ends the gathering, and drops a proposal. */
inline report(c, v) {
  printf("P%d tells C%d of job %d, promised %d\n", v, c, held[v], promised[v]);
  met_term[v] = TERM(c);
  phase[c] = LOOKING;
  founder[c] = 0;
  promises[c] = 0;
  reported[c] = reported[c] | BIT(v)
}

/* Newcomers in all places. Mutant 62: all but one are enough. */
#define PLACES(set) ((set) | ((set) >> NP))
#define ALL_PLACES (BIT(NP) - 1)
#if MUTANT == 62
#define ENOUGH(set) (BITS(PLACES(set) & ALL_PLACES) >= NP - 1)
#else
#define ENOUGH(set) COVERS(PLACES(set), ALL_PLACES)
#endif
inline propose(c) {
  phase[c] = PROPOSING;
  founder[c] = TERM(c);
  first_view[TERM(c)] = waiting[c];
  printf("C%d proposes to begin job %d with %d\n", c, TERM(c), waiting[c])
}

inline promise(c, v) {
  printf("P%d promises C%d job %d\n", v, c, founder[c]);
  met_term[v] = TERM(c);
  promised[v] = founder[c];
  promised_to[v] = TERM(c);
  waiting[c] = waiting[c] & ~BIT(v);
  if
  :: phase[c] == PROPOSING -> promises[c] = promises[c] | BIT(v)
  :: else
  fi
}
#define MAY_PROMISE(c, v)                                                  \
  (founder[c] != 0 && OBEYS(v, c) && held[v] == 0 &&                       \
   HAS(first_view[founder[c]], v) &&                                       \
   (phase[c] == PROPOSING && !HAS(promises[c], v) ||                       \
    phase[c] == GONE && promised_to[v] != TERM(c)))

/* Mutant 63: most are enough. */
#if MUTANT == 63
#define ALL_PROMISED(all, some) MAJORITY(all, some)
#else
#define ALL_PROMISED(all, some) COVERS(some, all)
#endif
inline commit(c) {
  printf("C%d begins job %d\n", c, founder[c]);
  is_committed[c] = 1;
  phase[c] = RUNNING;
  promises[c] = 0;
  waiting[c] = 0
}

/* Of those that have reported, one holds a view of job f and most of that view are here; or nobody
 * holds any, all of the first view of f are here, and nobody has promised a later one. Mutant 64
 * takes most for enough in both cases. */
#define HOLDS(c, v, f) (HAS(reported[c] & living, v) && held[v] == (f))
#define ANY_HOLDS(c, f)                                                                      \
  (HOLDS(c, 0, f) || HOLDS(c, 1, f) || HOLDS(c, 2, f) || HOLDS(c, 3, f) || HOLDS(c, NV - 1, f))
#define ANY_HOLDS_ONE(c) (ANY_HOLDS(c, 1) || ANY_HOLDS(c, 2) || ANY_HOLDS(c, NC))
#define TO(c, v) (HAS(reported[c] & living, v) * promised_to[v])
#define LATEST(c, v)                                                                          \
  (TO(c, v) >= TO(c, 0) && TO(c, v) >= TO(c, 1) && TO(c, v) >= TO(c, 2) && TO(c, v) >= TO(c, 3) && \
   TO(c, v) >= TO(c, NV - 1))
inline find(c, f) {
  printf("C%d finds job %d in force\n", c, f);
  founder[c] = f;
  is_committed[c] = 1;
  reported[c] = 0;
  phase[c] = RUNNING
}
inline complete(c, f) {
  printf("C%d completes the beginning of job %d\n", c, f);
  founder[c] = f;
  reported[c] = 0;
  phase[c] = PROPOSING
}

/* The property: no two living processes are in different jobs. */
inline apply(c, v) {
  printf("P%d is in job %d\n", v, founder[c]);
  met_term[v] = TERM(c);
  held[v] = founder[c];
  n_jobs = 0;
  for (i_v : 0 .. NV - 1) {
    if
    :: HAS(living, i_v) && held[i_v] != 0 && held[i_v] != founder[c] -> n_jobs++
    :: else
    fi
  }
  assert(n_jobs == 0)
}
#define MAY_APPLY(c, v) \
  (is_committed[c] && OBEYS(v, c) && held[v] == 0 && HAS(first_view[founder[c]], v))

/* Who comes from another job is out, and ends. */
#define IS_FOREIGN(c, v) \
  (phase[c] == RUNNING && HAS(living, v) && !IS_NEW(v) && !HAS(first_view[founder[c]], v))

inline end_process(v) {
  living = living & ~BIT(v);
  held[v] = 0;
  promised[v] = 0;
  promised_to[v] = 0;
  met_term[v] = 0;
  for (i_v : 0 .. NC - 1) {
    waiting[i_v] = waiting[i_v] & ~BIT(v);
    reported[i_v] = reported[i_v] & ~BIT(v);
    if /* a beginning that waits for it is dropped; the others have promised what never is */
    :: phase[i_v] == PROPOSING && founder[i_v] == TERM(i_v) && HAS(first_view[founder[i_v]], v) &&
         !is_committed[i_v] ->
       phase[i_v] = GATHERING;
       founder[i_v] = 0;
       promises[i_v] = 0
    :: else
    fi
  }
}

/* A promise of what the same coordinator has dropped tells nothing while it gathers. */
#define TELLS_NOTHING(c, v) (held[v] == 0 && promised_to[v] == TERM(c) && phase[c] == GATHERING)

#define PARTY(v)                                                                                  \
  STEP((phase[c] == GATHERING || phase[c] == LOOKING) && HAS(living, v) && !HAS(waiting[c], v) && \
         (IS_NEW(v) || TELLS_NOTHING(c, v)) && met_term[v] <= TERM(c),                            \
       knock(c, v))                                                                               \
  STEP((phase[c] == GATHERING || phase[c] == PROPOSING && founder[c] == TERM(c) ||                \
        phase[c] == LOOKING) && OBEYS(v, c) && !IS_NEW(v) && !HAS(reported[c], v) &&              \
         (promised_to[v] != TERM(c) || phase[c] == LOOKING),                                      \
       report(c, v))                                                                              \
  STEP(MAY_PROMISE(c, v), promise(c, v))                                                          \
  STEP(MAY_APPLY(c, v), apply(c, v))                                                              \
  STEP(IS_FOREIGN(c, v), printf("P%d is sent away\n", v); end_process(v))                         \
  STEP(phase[c] == LOOKING && !ANY_HOLDS_ONE(c) && promised[v] != 0 && HAS(reported[c], v) &&     \
         LATEST(c, v) && COVERS(reported[c], first_view[promised[v]]),                            \
       complete(c, promised[v]))

#define FIND(f)                                                                     \
  STEP(phase[c] == LOOKING && ANY_HOLDS(c, f) &&                                    \
         MAJORITY(first_view[f], reported[c]),                                      \
       find(c, f))

proctype Coordinator(byte c) {
end:
  do
  STEP(phase[c] == NOT_STARTED && (c == 0 || phase[c - 1] != NOT_STARTED) &&
         (AT_ONCE || NOBODY_ACTIVE),
       printf("C%d starts\n", c);
       phase[c] = GATHERING)
  STEP(IS_ACTIVE(c) && (AT_ONCE || c < NC - 1),
       printf("C%d is gone\n", c);
       phase[c] = GONE;
       waiting[c] = 0;
       reported[c] = 0;
       promises[c] = 0)
  STEP(phase[c] == GATHERING && ENOUGH(waiting[c]), propose(c))
  STEP(phase[c] == PROPOSING && ALL_PROMISED(first_view[founder[c]], promises[c]), commit(c))
  FIND(1)
  FIND(2)
#if NC > 2
  FIND(3)
#endif
  PARTY(0)
  PARTY(1)
  PARTY(2)
#if NV > 3
  PARTY(3)
#endif
#if NV > 4
  PARTY(4)
#endif
#if NV > 5
  PARTY(5)
#endif
  od
}

/* Mutant 64: another process is started in a place whose process lives. */
#if MUTANT == 64
#define IS_FREE(v) true
#else
#define IS_FREE(v) (!HAS(living, (v) - NP))
#endif
#define REPLACE(v)                                                                \
  STEP(!HAS(started, v) && IS_FREE(v), printf("P%d starts\n", v);                 \
       started = started | BIT(v);                                                \
       living = living | BIT(v))
#define DIE(v) \
  STEP(deaths > 0 && HAS(living, v), deaths--; printf("P%d dies\n", v); end_process(v))

proctype Faults() {
end:
  do
  DIE(0)
  DIE(1)
  DIE(2)
#if NV > 3
  DIE(3)
  REPLACE(3)
#endif
#if NV > 4
  DIE(4)
  REPLACE(4)
#endif
#if NV > 5
  DIE(5)
  REPLACE(5)
#endif
  od
}

/* (c): if nobody dies, the last coordinator has the job in the end, and everybody is in it. */
inline check_rest() {
  n_jobless = 0;
  for (i_v : 0 .. NV - 1) {
    if
    :: HAS(living, i_v) && held[i_v] == 0 -> n_jobless++
    :: else
    fi
  }
  printf("at rest: %d outside\n", n_jobless);
  assert(AT_ONCE || DEATHS > 0 || MUTANT == 64 || phase[NC - 1] == RUNNING && n_jobless == 0)
}

init {
  atomic {
    living = BIT(NP) - 1;
    started = living;
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
