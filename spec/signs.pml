/* When the carrier of a machine without servers may sleep although ranks have words for it: three
 * ranks, of which rank 0 is the carrier's, begin two rounds in any order. Both rounds have the same
 * place among the signs, which is the worst case. Rank 1 may ask for an error, and rank 2 may join.
 * README.md says what is modelled. Each access to shared memory is a step of its own.
 */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef ABORTS
#define ABORTS 0
#endif
#ifndef JOINS
#define JOINS 0
#endif

#ifndef SET_B
#define SET_B 3 /* ranks that take part in round 1 */
#endif

#define NR 3
#define SET_OF(k) ((k) == 0 -> 7 : SET_B)

/* Words in a ring, as a set: rounds that are begun, rounds that shall end in an error, joined. */
#define ABORT_OF(k) (4 << (k))
#define JOINED_WORD 16
byte ring[NR];
byte sign[NR]; /* 0, the number of a round plus 1, or SEVERAL */
#define SEVERAL 3
byte excused;
bit keeps_errors;
bit news; /* an event of the carrier since it has looked */

/* Of the ranks. */
byte begun[NR];
byte ended[NR];
byte told[NR]; /* by the carrier: rounds that have ended */
byte aborts = ABORTS;
byte joins = JOINS;
byte gone; /* ranks that have joined */

/* Of the carrier. */
byte heard[2]; /* ranks that have begun the round */
byte joined;
byte over; /* rounds that were complete */
byte failed;
byte done; /* failed rounds of which no rank is missing */

inline put_sign(r, k) {
  d_step {
    if
    :: MUTANT != 97 && (begun[r] & ~ended[r] & ~BIT(k)) != 0 -> sign[r] = SEVERAL
    :: else -> sign[r] = k + 1
    fi
  }
}

inline put_word(r, word) {
  ring[r] = ring[r] | (word)
}

inline see(r, k, other) {
  if
  :: HAS(SET_OF(k), other) && other != r && sign[other] != k + 1 && sign[other] != SEVERAL ->
    wakes = 0
  :: else
  fi
}

inline look(r, k) {
  d_step { wakes = 1; see(r, k, 0) };
  d_step { see(r, k, 1) };
  d_step { see(r, k, 2) };
  d_step { wakes = wakes || (MUTANT != 98 && excused != 0) };
  d_step { wakes = wakes || (MUTANT != 99 && keeps_errors) }
}

inline begin(r, k) {
  begun[r] = begun[r] | BIT(k);
  if
  :: MUTANT == 95 -> put_sign(r, k); look(r, k); put_word(r, BIT(k))
  :: MUTANT == 96 -> put_word(r, BIT(k)); look(r, k); put_sign(r, k)
  :: else -> put_word(r, BIT(k)); put_sign(r, k); look(r, k)
  fi;
  d_step { news = news || wakes; wakes = 0 }
}

inline end_round(r, k) {
  d_step {
    ended[r] = ended[r] | BIT(k);
    if
    :: (begun[r] & ~ended[r]) == 0 -> sign[r] = 0
    :: else
    fi
  }
}

proctype Rank(byte r) {
  bit wakes;
end:
  do
  :: !HAS(gone, r) && !HAS(begun[r], 0) -> begin(r, 0)
  :: !HAS(gone, r) && HAS(SET_B, r) && !HAS(begun[r], 1) -> begin(r, 1)
  :: HAS(told[r] & ~ended[r], 0) -> end_round(r, 0)
  :: HAS(told[r] & ~ended[r], 1) -> end_round(r, 1)
  :: aborts > 0 && r == 1 && HAS(begun[r] & ~ended[r], 0) ->
    aborts--;
    put_word(r, ABORT_OF(0));
    news = 1
  :: joins > 0 && r == 2 && !HAS(gone, r) ->
    joins--;
    gone = gone | BIT(r);
    excused = excused | BIT(r);
    put_word(r, JOINED_WORD);
    news = 1
  od
}

inline tell(k) {
  i = 0;
  do
  :: i < NR ->
    if
    :: HAS(heard[k], i) -> told[i] = told[i] | BIT(k)
    :: else
    fi;
    i++
  :: else -> i = 0; break
  od
}

/* The words of rank r about round k. */
inline take(r, k) {
  if
  :: HAS(words, k) ->
    heard[k] = heard[k] | BIT(r);
    if
    :: HAS(failed, k) -> told[r] = told[r] | BIT(k)
    :: else
    fi
  :: else
  fi;
  if
  :: (words & ABORT_OF(k)) != 0 && HAS(heard[k], r) && !HAS(over | failed, k) ->
    failed = failed | BIT(k);
    keeps_errors = 1;
    tell(k)
  :: else
  fi;
  if
  :: (SET_OF(k) & ~(heard[k] | joined)) == 0 && HAS(failed, k) -> done = done | BIT(k)
  :: (SET_OF(k) & ~(heard[k] | joined)) == 0 && !HAS(failed | over, k) ->
    over = over | BIT(k);
    tell(k)
  :: else
  fi
}

inline hear(r) {
  d_step {
    words = ring[r];
    ring[r] = 0;
    did = did || words != 0;
    if
    :: (words & JOINED_WORD) != 0 -> joined = joined | BIT(r)
    :: else
    fi;
    take(r, 0);
    take(r, 1);
    words = 0;
    if
    :: failed == done -> keeps_errors = 0
    :: else
    fi
  }
}

/* Its user's thread does its work while it sleeps. */
inline begin_own(k) {
  begun[0] = begun[0] | BIT(k);
  put_word(0, BIT(k));
  put_sign(0, k)
}

proctype Carrier() {
  byte words, i;
  bit did;
  do
  :: d_step { news = 0; did = 0 };
    hear(1);
    hear(2);
    hear(0);
    if
    :: did
    :: else ->
end:  if
      :: news
      :: !HAS(begun[0], 0) -> begin_own(0)
      :: !HAS(begun[0], 1) -> begin_own(1)
      :: HAS(told[0] & ~ended[0], 0) -> end_round(0, 0)
      :: HAS(told[0] & ~ended[0], 1) -> end_round(0, 1)
      fi
    fi
  od
}

proctype Check() {
  timeout;
  assert(ended[0] == begun[0] && ended[1] == begun[1] && ended[2] == begun[2])
}

init {
  atomic { run Carrier(); run Rank(1); run Rank(2); run Check() }
}
