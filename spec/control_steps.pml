/* Steps of coordinators and voters. Inlines run inside a d_step.
 *
 * Who includes this says what a party does when it applies a view, PARTY_APPLIES, what a commit
 * means, ON_COMMIT, a view that is told again, ON_TELL, and a coordinator that has read enough,
 * ON_READY.
 */
#ifndef ON_TELL
#define ON_TELL(c) skip
#endif
#ifndef ON_READY
#define ON_READY(c) skip
#endif

#define TERM(c) ((c) + 1)
#define IS_SILENT(v) HAS(dead | silent, v)
#define BITS(set) \
  (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + \
   (((set) >> 3) & 1) + (((set) >> 4) & 1) + (((set) >> 5) & 1))
#define LOWEST(set) ((set) & (255 - (set) + 1))
#define MAJORITY(all, some) \
  (2 * BITS((some) & (all)) > BITS(all) || \
   2 * BITS((some) & (all)) == BITS(all) && (LOWEST(all) & (some)) != 0)

/* A contributor has one vote, and its carrier casts it. Its sibling follows the carrier by number.
 * Mutant 38: a promise of any process counts as its contributor's; mutant 39: a report does. */
#define VOTES(all) ((all) & ~SIBLINGS)
#define CARRIERS(some) (((some) & SIBLINGS) >> 1)
#if MUTANT == 38
#define MAY_VOTE(v) true
#define PROMISED(some) ((some) | CARRIERS(some))
#else
#define MAY_VOTE(v) (!HAS(SIBLINGS, v))
#define PROMISED(some) (some)
#endif
#if MUTANT == 39
#define REPORTED(some) ((some) | CARRIERS(some))
#else
#define REPORTED(some) (some)
#endif

/* Rule 2: whose vote is not counted, a contributor whose carrier is dead. One that has lost another
 * process goes on voting until a view drops it. Mutant 40 does not count it either: nobody reads
 * then what the others have decided without it, for its carrier still reports. Mutant 22 discounts
 * the dead although two coordinators may live. */
#if STRICT && MUTANT != 22
#define DISCOUNTED 0
#elif MUTANT == 40
#define DISCOUNTED (dead | CARRIERS(dead))
#else
#define DISCOUNTED dead
#endif
#if MUTANT == 20
#define WRITE_QUORUM(all, some) true
#else
#define WRITE_QUORUM(all, some) MAJORITY(VOTES(all) & ~DISCOUNTED, PROMISED(some))
#endif

/* Rule 3: stricter than the write quorum. Mutant 19 discounts here too. With contributors and
 * joiners the dead count, as in the product: all that has a vote and is left of a view may be one
 * that the next view dropped, without its knowing, while those live in the next view who were let
 * in then, or whose carrier has died. Mutant 47 takes all that live for enough there, too. */
#define MORE_THAN_HALF(all, some) (2 * BITS((some) & (all)) > BITS(all))
#if STRICT && MUTANT != 22 || (SIBLINGS || JOINERS) && MUTANT != 47
#define READ_QUORUM(all, some) MAJORITY(VOTES(all), REPORTED(some))
#elif MUTANT == 19
#define READ_QUORUM(all, some) \
  (MORE_THAN_HALF(all, some) || COVERS(some, (all) & ~dead) || MAJORITY((all) & ~dead, some))
#else
#define READ_QUORUM(all, some) \
  (MORE_THAN_HALF(VOTES(all), some) || COVERS(some, VOTES(all) & ~dead))
#endif

/* Only the highest term is obeyed. Mutant 30 obeys any. */
#define OBEYS(v, c) (!IS_SILENT(v) && (met_term[v] <= TERM(c) || MUTANT == 30))

/* The property: no two living members ever applied different views under one epoch. Who only
 * learns from a view that it is out is no member; nor is a sibling whose carrier has died. */
#define IS_CARRIED(v) (!HAS(SIBLINGS, v) || !HAS(dead << 1, v))
inline check_view(v) {
  if
  :: applied_by[n_epoch] != 0 -> assert(applied[n_epoch] == n_view)
  :: else -> applied[n_epoch] = n_view
  fi;
  applied_by[n_epoch] = applied_by[n_epoch] | BIT(v)
}

inline apply_view(v, e, view) {
  n_epoch = e;
  n_view = view;
  held_epoch[v] = n_epoch;
  held_view[v] = n_view;
  promised_term[v] = 0;
  promised_view[v] = 0;
  printf("V%d applies view %d of e%d\n", v, n_view, n_epoch);
  PARTY_APPLIES(v, n_epoch);
  if
  :: HAS(VOTERS_OF(n_view), v) && IS_CARRIED(v) -> check_view(v)
  :: !HAS(VOTERS_OF(n_view), v) -> stop_voter(v)
  :: else
  fi
}

/* What a voter does that learns that it is out. */
inline stop_voter(v) {
  printf("V%d is out\n", v);
  if
  :: EVICTED == EVICTED_EXITS ->
     dead = dead | BIT(v); /* the launcher sees that */
     end_voter(v)
  :: EVICTED == EVICTED_IS_SILENT ->
     silent = silent | BIT(v);
     end_voter(v)
  :: else /* it goes on to say to coordinators what it knows */
  fi
}

inline end_voter(v) {
  held_epoch[v] = 0;
  held_view[v] = 0;
  met_term[v] = 0;
  promised_term[v] = 0;
  promised_view[v] = 0;
  for (i_n : 0 .. VIEWS) {
    applied_by[i_n] = applied_by[i_n] & ~(BIT(v) | (BIT(v) << 1) & SIBLINGS);
    if
    :: applied_by[i_n] == 0 -> applied[i_n] = 0
    :: else
    fi
  }
}

inline start_reading(c) {
  phase[c] = READING;
  reported[c] = 0;
  heard_term[c] = 0;
  heard_view[c] = 0;
  promises[c] = 0;
  completes[c] = 0
}

/* REPORT: the committed view, and what was promised beyond it. */
inline hear_report(c, v) {
  printf("C%d hears V%d: e%d view %d, promised view %d of term %d\n", c, v, held_epoch[v],
         held_view[v], promised_view[v], promised_term[v]);
  met_term[v] = TERM(c);
  reported[c] = reported[c] | BIT(v);
  if
  :: held_epoch[v] > base_epoch[c] ->
     base_epoch[c] = held_epoch[v];
     base_view[c] = held_view[v];
     heard_term[c] = 0;
     heard_view[c] = 0
  :: else
  fi;
  if
  :: held_epoch[v] == base_epoch[c] && promised_term[v] > heard_term[c] && MUTANT != 18 ->
     heard_term[c] = promised_term[v];
     heard_view[c] = promised_view[v]
  :: else
  fi
}

/* Enough was heard: a promised proposal is completed first. The committed view is told again to
 * all, for the coordinator that committed it may have told one member only, and what it sent to the
 * others is not obeyed any more. Mutant 32 forgets that. */
inline finish_reading(c) {
  reported[c] = 0;
  if
  :: base_epoch[c] > 1 && MUTANT != 32 ->
     COMMIT_OF(c, base_epoch[c]) = base_view[c];
     ON_TELL(c)
  :: else
  fi;
  if
  :: heard_term[c] != 0 ->
     printf("C%d completes view %d of term %d\n", c, heard_view[c], heard_term[c]);
     phase[c] = PROPOSING;
     proposal[c] = heard_view[c];
     completes[c] = 1;
     heard_term[c] = 0;
     heard_view[c] = 0
  :: else ->
     printf("C%d is ready with e%d view %d\n", c, base_epoch[c], base_view[c]);
     ON_READY(c);
     phase[c] = READY
  fi
}

inline promise(c, v) {
  printf("V%d promises view %d of e%d to C%d\n", v, proposal[c], base_epoch[c] + 1, c);
  met_term[v] = TERM(c);
  if
  :: held_epoch[v] < base_epoch[c] -> apply_view(v, base_epoch[c], base_view[c])
  :: else
  fi;
  promised_term[v] = TERM(c);
  promised_view[v] = proposal[c];
  if
  :: phase[c] == PROPOSING -> promises[c] = promises[c] | BIT(v)
  :: else
  fi
}

#define MAY_PROMISE(c, v)                                                     \
  (proposal[c] != 0 && MAY_VOTE(v) &&                                         \
   OBEYS(v, c) && HAS(VOTERS_OF(base_view[c]), v) &&                          \
   held_epoch[v] <= base_epoch[c] &&                                          \
   (phase[c] == PROPOSING && !HAS(promises[c], v) ||                          \
    phase[c] == GONE && promised_term[v] != TERM(c)))

/* A member that holds a newer committed view than the proposal's present one says so: the commit of
 * an earlier coordinator has reached it in the meantime, and it will never promise what it has left
 * behind. The coordinator takes that view and reads again. Mutant 31 leaves it unanswered. */
#define MAY_CORRECT(c, v) \
  (phase[c] == PROPOSING && OBEYS(v, c) && held_epoch[v] > base_epoch[c] && MUTANT != 31)
inline correct(c, v) {
  printf("V%d tells C%d that it holds e%d\n", v, c, held_epoch[v]);
  met_term[v] = TERM(c);
  base_epoch[c] = held_epoch[v];
  base_view[c] = held_view[v];
  proposal[c] = 0;
  start_reading(c)
}

inline send_commit(c) {
  base_epoch[c]++;
  base_view[c] = proposal[c];
  COMMIT_OF(c, base_epoch[c]) = proposal[c];
  printf("C%d commits view %d of e%d\n", c, base_view[c], base_epoch[c]);
  ON_COMMIT(c);
  proposal[c] = 0;
  promises[c] = 0;
  if
  :: completes[c] && MUTANT != 21 -> start_reading(c) /* rule 3: read again */
  :: else ->
     completes[c] = 0;
     phase[c] = READY
  fi
}

/* Mutant 29: members act on PROPOSE. */
inline act_on_commit(c, v, e) {
  met_term[v] = TERM(c);
  apply_view(v, e, COMMIT_OF(c, e))
}
#define MAY_ACT(c, v, e)                                                      \
  (OBEYS(v, c) && COMMIT_OF(c, e) != 0 && held_epoch[v] < (e) && held_epoch[v] > 0)

inline end_coordinator(c) {
  printf("C%d is gone\n", c);
  phase[c] = GONE;
  reported[c] = 0;
  promises[c] = 0;
  completes[c] = 0;
  heard_term[c] = 0;
  heard_view[c] = 0;
  if
  :: proposal[c] == 0 ->
     base_epoch[c] = 0;
     base_view[c] = 0
  :: else
  fi
}
