/* A shard: the one decider of the pieces it owns. Inlines run inside a d_step. */

#define IS_OWNER(s, p) (OWNER(shard_epoch[s], p) == (s))
#define MEMBERS(s) view_workers[shard_epoch[s]]

inline forget_piece(s, p) {
  open_key[SP(s, p)] = 0;
  contributions[SP(s, p)] = 0;
  decided_key[SP(s, p)] = 0;
  decided[SP(s, p)] = NOTHING;
  announced[SP(s, p)] = 0;
  resynced[SP(s, p)] = 0;
  abort_key[SP(s, p)] = 0;
  asked[SP(s, p)] = 0;
  for (i_w : 0 .. NW - 1) { HELD_BY(s, p, i_w) = 0 }
}

/* `low` becomes the last key that all workers of the view are known to hold. */
inline find_watermark(s, p) {
  low = 255;
  for (i_x : 0 .. NW - 1) {
    if
    :: HAS(MEMBERS(s), i_x) && HELD_BY(s, p, i_x) < low -> low = HELD_BY(s, p, i_x)
    :: else
    fi
  }
}

inline check_stable(s, p) {
  find_watermark(s, p);
  if
  :: low >= decided_key[SP(s, p)] -> decided[SP(s, p)] = NOTHING
  :: else
  fi;
  if
  :: ACKS && low > announced[SP(s, p)] ->
     announced[SP(s, p)] = low;
     for (i_x : 0 .. NW - 1) {
       if
       :: HAS(MEMBERS(s), i_x) ->
          send_down(i_x, s, MESSAGE(STABLE, shard_epoch[s], p, low, NOTHING))
       :: else
       fi
     }
  :: else
  fi
}

/* The arguments may be fields that this changes, so they are copied first. */
inline decide(s, p, k, v) {
  d_key = k;
  d_verdict = v;
  printf("S%d decides p%d k%d = %d in e%d\n", s, p, d_key, d_verdict, shard_epoch[s]);
  decided_key[SP(s, p)] = d_key;
  decided[SP(s, p)] = d_verdict;
  if
  :: open_key[SP(s, p)] == d_key || (MUTANT == 12 && open_key[SP(s, p)] == d_key + 1) ->
     open_key[SP(s, p)] = 0;
     contributions[SP(s, p)] = 0;
     asked[SP(s, p)] = 0
  :: else
  fi;
  if
  :: abort_key[SP(s, p)] <= d_key -> abort_key[SP(s, p)] = 0
  :: else
  fi;
  for (i_x : 0 .. NW - 1) {
    if
    :: HAS(MEMBERS(s), i_x) && HELD_BY(s, p, i_x) < d_key ->
       send_down(i_x, s, MESSAGE(ANSWER, shard_epoch[s], p, d_key, d_verdict))
    :: else
    fi
  }
}

/* Rule 7. Mutant 6: an owner that is new does not wait for everybody. */
#define IS_COMPLETE(s, p)                                          \
  (contributions[SP(s, p)] != 0 &&                                 \
   (COVERS(contributions[SP(s, p)], MEMBERS(s)) ||                 \
    (MUTANT == 6 && SINCE(shard_epoch[s], p) > 1)))

/* Rule 10. */
inline decide_error_if_possible(s, p) {
  find_watermark(s, p);
  if
  :: abort_key[SP(s, p)] > decided_key[SP(s, p)] &&
     (MUTANT == 16 || low + 1 >= abort_key[SP(s, p)]) &&
     (MUTANT == 15 || COVERS(resynced[SP(s, p)], MEMBERS(s))) ->
     decide(s, p, abort_key[SP(s, p)], ERROR)
  :: else
  fi
}

/* After any event that may have completed something. */
inline settle(s, p) {
  if
  :: IS_COMPLETE(s, p) ->
     /* The sum itself says that the key before is stable. */
     if
     :: announced[SP(s, p)] < open_key[SP(s, p)] - 1 ->
        announced[SP(s, p)] = open_key[SP(s, p)] - 1
     :: else
     fi;
     decide(s, p, open_key[SP(s, p)], contributions[SP(s, p)])
  :: else
  fi;
  check_stable(s, p);
  if
  :: ERRORS && abort_key[SP(s, p)] != 0 -> decide_error_if_possible(s, p)
  :: else
  fi
}

inline note_held(s, p, w, k) {
  if
  :: HELD_BY(s, p, w) < k -> HELD_BY(s, p, w) = k
  :: else
  fi
}

inline contribute(s, w, p) {
  assert(contributions[SP(s, p)] == 0 || open_key[SP(s, p)] == m_key); /* one round at a time */
  open_key[SP(s, p)] = m_key;
  contributions[SP(s, p)] = contributions[SP(s, p)] | BIT(w)
}

inline shard_gets_push(s, w, p) {
  if
  :: m_key > decided_key[SP(s, p)] ->
     note_held(s, p, w, m_key - 1);
     contribute(s, w, p);
     settle(s, p)
  :: m_key == decided_key[SP(s, p)] && decided[SP(s, p)] != NOTHING && MUTANT != 10 ->
     send_down(w, s, MESSAGE(ANSWER, shard_epoch[s], p, m_key, decided[SP(s, p)]))
  :: else
  fi
}

/* Rule 9: a verdict in hand wins. */
inline shard_gets_verdict(s, w, p) {
  note_held(s, p, w, m_key);
  if
  :: MUTANT == 11 && m_key > decided_key[SP(s, p)] -> contribute(s, w, p)
  :: MUTANT != 11 && m_key > decided_key[SP(s, p)] -> decide(s, p, m_key, m_verdict)
  :: else ->
     find_watermark(s, p);
     if
     :: ACKS && (m_key < decided_key[SP(s, p)] || low >= m_key && announced[SP(s, p)] >= m_key) ->
        send_down(w, s, MESSAGE(STABLE, shard_epoch[s], p, m_key, NOTHING))
     :: else
     fi
  fi;
  settle(s, p)
}

inline shard_gets_abort(s, w, p) {
  if
  :: m_key > decided_key[SP(s, p)] ->
     abort_key[SP(s, p)] = m_key;
     settle(s, p)
  :: m_key == decided_key[SP(s, p)] && decided[SP(s, p)] != NOTHING ->
     send_down(w, s, MESSAGE(ANSWER, shard_epoch[s], p, m_key, decided[SP(s, p)]))
  :: else
  fi
}

inline shard_gets_resync(s, w) {
  for (i_p : 0 .. NP - 1) {
    if
    :: IS_OWNER(s, i_p) && m_epoch >= SINCE(shard_epoch[s], i_p) ->
       resynced[SP(s, i_p)] = resynced[SP(s, i_p)] | BIT(w);
       /* It has said all it holds. An answer that it does not wait for, an error of a round that it
        * has not begun, would be lost for ever with the old connection. */
       if
       :: decided[SP(s, i_p)] != NOTHING && HELD_BY(s, i_p, w) < decided_key[SP(s, i_p)] &&
          MUTANT != 27 ->
          send_down(w, s, MESSAGE(ANSWER, shard_epoch[s], i_p, decided_key[SP(s, i_p)],
                                  decided[SP(s, i_p)]))
       :: else
       fi;
       settle(s, i_p)
    :: else
    fi
  }
}

inline shard_gets_hello(s, w) {
  half_open[WS(w, s)] = 0;
  for (i_p : 0 .. NP - 1) {
    if
    :: MUTANT != 24 -> asked[SP(s, i_p)] = asked[SP(s, i_p)] & ~BIT(w)
    :: else
    fi
  }
}

#define MESSAGE_COUNTS(s)                                           \
  (IS_OWNER(s, m_piece) &&                                          \
   (MUTANT == 5 || m_epoch >= SINCE(shard_epoch[s], m_piece)))

inline shard_takes(s, w) {
  if
  :: m_kind == HELLO -> shard_gets_hello(s, w)
  :: m_kind == RESYNC -> shard_gets_resync(s, w)
  :: m_kind != HELLO && m_kind != RESYNC && MESSAGE_COUNTS(s) ->
     assert(view_generation[m_epoch] == view_generation[shard_epoch[s]] || MUTANT == 8); /* (b) */
     if
     :: m_kind == PUSH -> shard_gets_push(s, w, m_piece)
     :: m_kind == VERDICT -> shard_gets_verdict(s, w, m_piece)
     :: m_kind == HAVE || m_kind == ACK ->
        note_held(s, m_piece, w, m_key);
        settle(s, m_piece)
     :: m_kind == ABORT -> shard_gets_abort(s, w, m_piece)
     fi
  :: else
  fi
}

inline shard_receives(s, w) {
  take_up(w, s);
  printf("S%d gets %d p%d k%d v%d of e%d from W%d\n", s, m_kind, m_piece, m_key, m_verdict,
         m_epoch, w);
  if
  :: HAS(MEMBERS(s), w) -> shard_takes(s, w)
  :: MUTANT == 8 && !HAS(MEMBERS(s), w) /* dropped: not in the view it has */
  :: else -> assert(false) /* (d) nothing is taken from a worker outside the view */
  fi
}

/* Whatever the shard knew is of no use to anybody; what it sent is still on its way. */
inline end_shard(s, status) {
  shard_status[s] = status;
  for (i_p : 0 .. NP - 1) { forget_piece(s, i_p) }
  for (i_w : 0 .. NW - 1) { clear_up(i_w, s) }
}

inline fence(s) {
  for (i_x : 0 .. NW - 1) {
    if
    :: !HAS(MEMBERS(s), i_x) && MUTANT != 7 &&
       (EPOCH_AT(i_x, s) <= shard_epoch[s] || worker_status[i_x] >= DEAD) ->
       clear_up(i_x, s);
       for (i_p : 0 .. NP - 1) { HELD_BY(s, i_p, i_x) = 0 }
    :: else
    fi
  }
}

inline shard_applies(s, e) {
  if
  :: HAS(view_shards[shard_epoch[s]], s) && !HAS(view_shards[e], s) ->
     printf("S%d learns in e%d that it is out\n", s, e);
     shard_epoch[s] = e;
     end_shard(s, OUT)
  :: else ->
     printf("S%d applies e%d\n", s, e);
     old_epoch = shard_epoch[s];
     shard_epoch[s] = e;
     fence(s);
     for (i_p : 0 .. NP - 1) {
       if
       :: !IS_OWNER(s, i_p) || SINCE(e, i_p) > old_epoch ->
          forget_piece(s, i_p);
          if
          :: IS_OWNER(s, i_p) && view_generation[e] != view_generation[old_epoch] ->
             resynced[SP(s, i_p)] = ALL_WORKERS /* in a new generation nobody holds anything */
          :: else
          fi
       :: else -> settle(s, i_p)
       fi
     }
  fi
}

/* The owner names what it waits for (credit only). */
#define MISSING(s, p) (MEMBERS(s) & ~contributions[SP(s, p)] & ~asked[SP(s, p)])
#define WANTS_SOMETHING(s, p)                                                   \
  (CREDIT > 0 && MUTANT != 25 && shard_status[s] == UP && IS_OWNER(s, p) &&     \
   contributions[SP(s, p)] != 0 && MISSING(s, p) != 0)

inline ask(s, p) {
  for (i_x : 0 .. NW - 1) {
    if
    :: HAS(MISSING(s, p), i_x) ->
       send_down(i_x, s, MESSAGE(WANT, shard_epoch[s], p, open_key[SP(s, p)], NOTHING))
    :: else
    fi
  }
  printf("S%d wants p%d k%d\n", s, p, open_key[SP(s, p)]);
  asked[SP(s, p)] = asked[SP(s, p)] | MEMBERS(s)
}
