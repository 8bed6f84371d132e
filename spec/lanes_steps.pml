/* The steps of the front and of a lane, for lanes.pml. Inlines run inside a d_step. */

#define ALL_PIECES (BIT(NP) - 1)
#define LANE_OF(p) OWNER(worker_epoch[LANED], p)
#define IS_UP_TO_DATE(l) (told_epoch[l] == lane_epoch[l])

/* A step of a lane, which leaves the front's epoch as it was. */
#define LANE_STEP(l, guard, ...)                                                             \
  STEP(IS_LIVE(LANED) && (guard),                                                            \
       front_epoch = worker_epoch[LANED];                                                    \
       worker_epoch[LANED] = lane_epoch[l];                                                  \
       __VA_ARGS__;                                                                          \
       worker_epoch[LANED] = (IS_LIVE(LANED) -> front_epoch : worker_epoch[LANED]))
hidden byte front_epoch;

/* The front. While pieces are between lanes it begins nothing, and asks for no error: the lane that
 * is to have the piece would not know of it. Mutant 54 begins, mutant 55 asks. */
inline front_begins() {
  printf("front begins round %d\n", rounds_done[LANED] + 1);
  is_open = 1;
  done = 0;
  aborted_of = 0;
  for (i_p : 0 .. NP - 1) { to_lane[LANE_OF(i_p)]!BEGIN, i_p }
}

inline front_changes_view(e) {
  printf("front applies e%d\n", e);
  worker_epoch[LANED] = e;
  awaited = 3;
  clean = (MUTANT == 56 -> clean : 0);
  to_lane[0]!VIEW, e;
  to_lane[1]!VIEW, e
}

/* An operation ends when all its pieces are done: no lane touches its memory any more. */
inline front_ends() {
  printf("front ends round %d\n", rounds_done[LANED] + 1);
  assert(receiving[0] == 0 && receiving[1] == 0);
  is_open = 0;
  done = 0;
  aborted_of = 0;
  rounds_done[LANED]++
}

inline front_reads(l) {
  to_front[l]?i_mail, i_arg;
  if
  :: i_mail == DONE ->
     done = done | BIT(i_arg);
     if
     :: done == ALL_PIECES -> front_ends()
     :: else
     fi
  :: i_mail == HAND_OVER ->
     awaited = awaited & ~BIT(l);
     if
     :: awaited == 0 ->
        to_lane[0]!TAKE_OVER, 0;
        to_lane[1]!TAKE_OVER, 0
     :: else
     fi
  :: i_mail == CLEAN ->
     /* What was said before a view does not count: a piece may have come since. */
     clean = clean | (i_arg == worker_epoch[LANED] || MUTANT == 56 -> BIT(l) : 0)
  fi
}

#define FRONT_VIEW(ahead)                                                                    \
  STEP(IS_LIVE(LANED) && awaited == 0 && worker_epoch[LANED] + 1 + (ahead) <= newest,        \
       i_e = worker_epoch[LANED] + 1 + (ahead);                                              \
       front_changes_view(i_e))
#define FRONT_ABORT(p)                                                                       \
  STEP(IS_LIVE(LANED) && is_open && !HAS(done, p) && !HAS(aborted_of, p) &&                  \
         (SOMEBODY_HANGS || aborts > 0) && (awaited == 0 || MUTANT == 55),                   \
       aborts = (SOMEBODY_HANGS -> aborts : aborts - 1);                                     \
       aborted_of = aborted_of | BIT(p);                                                     \
       printf("front asks for an error of p%d\n", p);                                        \
       to_lane[LANE_OF(p)]!ASK_ERROR, p)

/* Rule 8 for this lane's shard, of pieces that came to it after `since_after`. */
inline repeat_to_shard(l, since_after) {
  moved = 0;
  for (i_p : 0 .. NP - 1) {
    if
    :: carrier[i_p] == l && OWNER(lane_epoch[l], i_p) == l &&
       SINCE(lane_epoch[l], i_p) > since_after ->
       moved = 1;
       tell(LANED, i_p, l)
    :: else
    fi
  }
  if
  :: ERRORS && (moved || since_after == 0) ->
     send_up(LANED, l, MESSAGE(RESYNC, lane_epoch[l], 0, 0, NOTHING))
  :: else
  fi
}

/* Mutant 59: a piece goes over without the verdicts that its lane has: as if it had not been
 * answered, and without the copy of the round before. */
inline leave_verdicts_behind(p) {
  if
  :: MUTANT == 59 ->
     copy[WP(LANED, p)] = NOTHING;
     verdict[WP(LANED, p)] = NOTHING;
     state[WP(LANED, p)] = (state[WP(LANED, p)] == HELD -> PUSHED : state[WP(LANED, p)])
  :: else
  fi
}

/* Nothing comes into the memory of a piece that has moved, whoever has it now. Mutant 52 lets what
 * has begun to come come to its end. */
inline lane_applies(l) {
  printf("lane %d applies e%d\n", l, i_arg);
  lane_epoch[l] = i_arg;
  worker_epoch[LANED] = i_arg;
  has_said_clean[l] = (MUTANT == 56 -> has_said_clean[l] : 0);
  if
  :: !HAS(view_shards[lane_epoch[l]], l) && lane_epoch[l] >= shard_epoch[l] ->
     clear_down(LANED, l);
     is_cut[WS(LANED, l)] = 0;
     half_open[WS(LANED, l)] = 0;
     is_fresh[l] = 0;
     receiving[l] = 0
  :: else
  fi;
  for (i_p : 0 .. NP - 1) {
    if
    :: SINCE(lane_epoch[l], i_p) > told_epoch[l] && receiving[l] == i_p + 1 && MUTANT != 52 ->
       receiving[l] = 0
    :: else
    fi;
    if
    :: carrier[i_p] == l && OWNER(lane_epoch[l], i_p) != l ->
       carrier[i_p] = ON_ITS_WAY;
       leave_verdicts_behind(i_p)
    :: else
    fi
  }
  to_front[l]!HAND_OVER, 0;
  if
  :: MUTANT == 53 && ERRORS ->
     send_up(LANED, l, MESSAGE(RESYNC, lane_epoch[l], 0, 0, NOTHING))
  :: else
  fi
}

hidden byte told_before;
inline lane_takes_over(l) {
  for (i_p : 0 .. NP - 1) {
    if
    :: carrier[i_p] == ON_ITS_WAY && OWNER(lane_epoch[l], i_p) == l ->
       printf("lane %d takes p%d over\n", l, i_p);
       carrier[i_p] = l
    :: else
    fi
  }
  told_before = (is_fresh[l] -> 0 : told_epoch[l]);
  is_fresh[l] = 0;
  repeat_to_shard(l, told_before);
  told_epoch[l] = lane_epoch[l]
}

inline lane_begins(l, p) {
  if
  :: carrier[p] == l && STAGES -> set_out[p] = 1
  :: carrier[p] == l && !STAGES -> push(LANED, p)
  :: else -> /* mutant 54: it does not know what else there is of this piece */
     assert(MUTANT == 54);
     state[WP(LANED, p)] = PUSHED;
     send_up(LANED, l, MESSAGE(PUSH, lane_epoch[l], p, key[WP(LANED, p)], NOTHING))
  fi
}

inline lane_asks_for_error(l, p) {
  if
  :: carrier[p] == l && state[WP(LANED, p)] == PUSHED && !aborted[WP(LANED, p)] ->
     aborted[WP(LANED, p)] = 1;
     send_up(LANED, l, MESSAGE(ABORT, lane_epoch[l], p, key[WP(LANED, p)], NOTHING))
  :: else -> assert(carrier[p] == l || MUTANT == 55)
  fi
}

inline lane_reads(l) {
  to_lane[l]?i_mail, i_arg;
  if
  :: i_mail == BEGIN -> lane_begins(l, i_arg)
  :: i_mail == VIEW -> lane_applies(l)
  :: i_mail == TAKE_OVER -> lane_takes_over(l)
  :: i_mail == ASK_ERROR -> lane_asks_for_error(l, i_arg)
  :: i_mail == WHEN_CLEAN -> is_asked[l] = 1
  fi
}

/* Mutant 51: the lane that had the piece goes on with it. */
#define COUNTS_IN_LANE(l) \
  (carrier[m_piece] == l && ANSWER_COUNTS(LANED, l) || MUTANT == 51 && m_kind == ANSWER)

inline lane_receives(l) {
  receiving[l] = 0;
  take_down(LANED, l);
  printf("lane %d gets %d p%d k%d v%d of e%d\n", l, m_kind, m_piece, m_key, m_verdict, m_epoch);
  if
  :: COUNTS_IN_LANE(l) ->
     if
     :: m_kind == ANSWER -> accept_answer(LANED, m_piece)
     :: m_kind == STABLE -> accept_stable(LANED, m_piece)
     :: else
     fi
  :: !COUNTS_IN_LANE(l) && MUTANT == 58 && m_kind == ANSWER && ANSWER_COUNTS(LANED, l) ->
     send_up(LANED, l, MESSAGE(ACK, lane_epoch[l], m_piece, m_key, NOTHING))
  :: else
  fi
}

#define HEAD(l) down_queue[WS(LANED, l) * CAPACITY]
#define LANDS(l)                                                                             \
  (PLACING && DOWN_IS_READY(LANED, l) && KIND_OF(HEAD(l)) == ANSWER && receiving[l] == 0 &&  \
   carrier[PIECE_OF(HEAD(l))] == l && state[WP(LANED, PIECE_OF(HEAD(l)))] == PUSHED &&       \
   key[WP(LANED, PIECE_OF(HEAD(l)))] == KEY_OF(HEAD(l)) &&                                   \
   OWNER(lane_epoch[l], PIECE_OF(HEAD(l))) == l &&                                           \
   EPOCH_OF(HEAD(l)) >= SINCE(lane_epoch[l], PIECE_OF(HEAD(l))))

/* The connection stands; but nothing goes over it before what must be repeated, and that waits
 * until the lane has taken over. Mutant 57 repeats what it has at once, and says: this is all. */
inline lane_reconnects(l) {
  printf("lane %d reconnects in e%d\n", l, lane_epoch[l]);
  is_cut[WS(LANED, l)] = 0;
  half_open[WS(LANED, l)] = 1;
  send_up(LANED, l, MESSAGE(HELLO, lane_epoch[l], 0, 0, NOTHING));
  if
  :: IS_UP_TO_DATE(l) || MUTANT == 57 -> repeat_to_shard(l, 0)
  :: else -> is_fresh[l] = 1
  fi
}

/* A stage before the push may end at any time; the push waits while the lane does. Mutant 60 pushes
 * at once: before what the owner must hear first of this piece.
 *
 * What the user gets of a piece is kept by its lane before the front hears of it (rule 12): the
 * memory is the user's then. */
#define LANE_PIECE(l, p)                                                                     \
  LANE_STEP(l, STAGES && carrier[p] == l && set_out[p] && (IS_UP_TO_DATE(l) || MUTANT == 60),\
            set_out[p] = 0; push(LANED, p))                                                  \
  LANE_STEP(l, carrier[p] == l && state[WP(LANED, p)] == HELD,                               \
            next_key(LANED, p);                                                              \
            aborted[WP(LANED, p)] = 0;                                                       \
            to_front[l]!DONE, p)

#define HOLDS_UNSTABLE(l, p) (carrier[p] == l && !IS_STABLE(LANED, p))
#if NP == 1
#define IS_CLEAN(l) (!HOLDS_UNSTABLE(l, 0))
#else
#define IS_CLEAN(l) (!HOLDS_UNSTABLE(l, 0) && !HOLDS_UNSTABLE(l, 1))
#endif
