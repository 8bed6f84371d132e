/* A worker: what it says and what it accepts. Inlines run inside a d_step. */

#define IN_NEWEST(w) HAS(view_workers[newest], w)
#define WANTS_PUSH(w, p) \
  (state[WP(w, p)] == IDLE && rounds_done[w] < NR && !leaving[w] && !synced[w] && !hung[w])

/* Properties (a) and (b), at every acceptance by a member of the newest view. What an evicted
 * worker accepts before it knows is nobody's agreement. */
inline check_acceptance(w, p, k, v) {
  if
  :: IN_NEWEST(w) ->
     if
     :: accepted_by[PK(p, k)] -> assert(accepted[PK(p, k)] == v) /* (a) */
     :: else -> accepted[PK(p, k)] = v
     fi;
     accepted_by[PK(p, k)] = accepted_by[PK(p, k)] | BIT(w);
     assert(v == ERROR || state[WP(w, p)] == PUSHED); /* (b) nobody sums without this worker */
     assert(v == ERROR || COVERS(v, view_workers[newest]) ||
            view_generation[newest] != view_generation[worker_epoch[w]]) /* (b) */
  :: else
  fi
}

/* The record of a worker that is no member any more. */
inline forget_acceptances(w) {
  for (i_k : 0 .. NP * (KEYS + 1) - 1) {
    accepted_by[i_k] = accepted_by[i_k] & ~BIT(w);
    if
    :: accepted_by[i_k] == 0 -> accepted[i_k] = NOTHING
    :: else
    fi
  }
}

/* Mutant 23: recovery waits for the credit of new pushes. Mutant 28: only repeated verdicts do. */
#define WITHHOLDS (MUTANT == 23 || MUTANT == 28)

/* Tells shard s about one piece, in the order of rule 8. */
inline tell(w, p, s) {
  if
  :: copy[WP(w, p)] != NOTHING && MUTANT != 2 && !WITHHOLDS ->
     send_up(w, s, MESSAGE(VERDICT, worker_epoch[w], p, key[WP(w, p)] - 1, copy[WP(w, p)]))
  :: else
  fi;
  if
  :: failed_ahead[WP(w, p)] != 0 && !ahead_is_stable[WP(w, p)] ->
     send_up(w, s, MESSAGE(VERDICT, worker_epoch[w], p, failed_ahead[WP(w, p)], ERROR))
  :: failed_ahead[WP(w, p)] != 0 && ahead_is_stable[WP(w, p)] ->
     send_up(w, s, MESSAGE(HAVE, worker_epoch[w], p, failed_ahead[WP(w, p)], NOTHING))
  :: failed_ahead[WP(w, p)] == 0 && state[WP(w, p)] == HELD && !known_stable[WP(w, p)] ->
     if
     :: MUTANT != 3 && !WITHHOLDS ->
        send_up(w, s, MESSAGE(VERDICT, worker_epoch[w], p, key[WP(w, p)], verdict[WP(w, p)]))
     :: else
     fi
  :: failed_ahead[WP(w, p)] == 0 && state[WP(w, p)] == PUSHED && MUTANT != 23 ->
     send_up(w, s, MESSAGE(PUSH, worker_epoch[w], p, key[WP(w, p)], NOTHING))
  :: ACKS && MUTANT != 17 && failed_ahead[WP(w, p)] == 0 && state[WP(w, p)] == HELD &&
     known_stable[WP(w, p)] ->
     send_up(w, s, MESSAGE(HAVE, worker_epoch[w], p, key[WP(w, p)], NOTHING))
  :: ACKS && MUTANT != 17 && failed_ahead[WP(w, p)] == 0 && state[WP(w, p)] == IDLE &&
     copy[WP(w, p)] == NOTHING && key[WP(w, p)] > 1 ->
     send_up(w, s, MESSAGE(HAVE, worker_epoch[w], p, key[WP(w, p)] - 1, NOTHING))
  :: else
  fi;
  if
  :: aborted[WP(w, p)] && state[WP(w, p)] != HELD && MUTANT != 26 ->
     send_up(w, s, MESSAGE(ABORT, worker_epoch[w], p, key[WP(w, p)], NOTHING))
  :: else
  fi;
  withheld[WP(w, p)] =
    (WITHHOLDS && (copy[WP(w, p)] != NOTHING || state[WP(w, p)] == HELD ||
                   MUTANT == 23 && state[WP(w, p)] == PUSHED));
  ack_due[WP(w, p)] = 0 /* said by the above */
}

/* The user begins a round that is known to have failed. */
inline take_known_error(w, p) {
  printf("W%d finds that p%d k%d has failed\n", w, p, key[WP(w, p)]);
  state[WP(w, p)] = HELD;
  verdict[WP(w, p)] = ERROR;
  if
  :: failed_ahead[WP(w, p)] > key[WP(w, p)] -> known_stable[WP(w, p)] = 1
  :: else ->
     known_stable[WP(w, p)] = ahead_is_stable[WP(w, p)];
     failed_ahead[WP(w, p)] = 0;
     ahead_is_stable[WP(w, p)] = 0
  fi
}

inline push(w, p) {
  if
  :: failed_ahead[WP(w, p)] >= key[WP(w, p)] -> take_known_error(w, p)
  :: else ->
     state[WP(w, p)] = PUSHED;
     printf("W%d pushes p%d k%d in e%d to S%d\n", w, p, key[WP(w, p)], worker_epoch[w],
            OWNER(worker_epoch[w], p));
     send_up(w, OWNER(worker_epoch[w], p),
             MESSAGE(PUSH, worker_epoch[w], p, key[WP(w, p)], NOTHING))
  fi
}

inline begin_round(w) {
  for (i_p : 0 .. NP - 1) {
    if
    :: !PUSH_LATER && WANTS_PUSH(w, i_p) -> push(w, i_p)
    :: else
    fi
  }
}

/* Drops all state of a worker whose process is gone; what it sent is still on its way. */
inline end_worker(w, status) {
  worker_status[w] = status;
  rounds_done[w] = 0;
  leaving[w] = 0;
  hung[w] = 0;
  for (i_p : 0 .. NP - 1) {
    key[WP(w, i_p)] = 0;
    state[WP(w, i_p)] = IDLE;
    verdict[WP(w, i_p)] = NOTHING;
    known_stable[WP(w, i_p)] = 0;
    copy[WP(w, i_p)] = NOTHING;
    ack_due[WP(w, i_p)] = 0;
    aborted[WP(w, i_p)] = 0;
    failed_ahead[WP(w, i_p)] = 0;
    ahead_is_stable[WP(w, i_p)] = 0;
    wanted[WP(w, i_p)] = 0;
    withheld[WP(w, i_p)] = 0
  }
  for (i_s : 0 .. NS - 1) {
    clear_down(w, i_s);
    is_cut[WS(w, i_s)] = 0;
    half_open[WS(w, i_s)] = 0
  }
}

/* Rule 13: everybody has everything, so nothing of the old generation is needed. */
inline begin_generation(w) {
  if
  :: worker_status[w] == WAITING ->
     worker_status[w] = LIVE;
     rounds_done[w] = SYNC_AFTER
  :: else
  fi;
  synced[w] = 0;
  for (i_p : 0 .. NP - 1) {
    key[WP(w, i_p)] = 1;
    state[WP(w, i_p)] = IDLE;
    known_stable[WP(w, i_p)] = 0;
    copy[WP(w, i_p)] = NOTHING;
    ack_due[WP(w, i_p)] = 0;
    failed_ahead[WP(w, i_p)] = 0;
    ahead_is_stable[WP(w, i_p)] = 0;
    wanted[WP(w, i_p)] = 0
  }
}

inline close_left_shards(w) {
  for (i_s : 0 .. NS - 1) {
    if
    :: !HAS(view_shards[worker_epoch[w]], i_s) && MUTANT != 4 &&
       worker_epoch[w] >= shard_epoch[i_s] ->
       clear_down(w, i_s);
       is_cut[WS(w, i_s)] = 0;
       half_open[WS(w, i_s)] = 0
    :: else
    fi
  }
}

inline tell_new_owners(w) {
  for (i_s : 0 .. NS - 1) {
    moved = 0;
    for (i_p : 0 .. NP - 1) {
      if
      :: OWNER(worker_epoch[w], i_p) == i_s && SINCE(worker_epoch[w], i_p) > old_epoch ->
         moved = 1;
         tell(w, i_p, i_s)
      :: else
      fi
    }
    if
    :: moved && ERRORS -> send_up(w, i_s, MESSAGE(RESYNC, worker_epoch[w], 0, 0, NOTHING))
    :: else
    fi
  }
}

inline worker_applies(w, e) {
  if
  :: !HAS(view_workers[e], w) ->
     printf("W%d learns in e%d that it is out\n", w, e);
     worker_epoch[w] = e;
     end_worker(w, OUT)
  :: else ->
     printf("W%d applies e%d\n", w, e);
     old_epoch = worker_epoch[w];
     is_new_generation =
       (old_epoch == 0 || view_generation[e] != view_generation[old_epoch]);
     worker_epoch[w] = e;
     close_left_shards(w);
     if
     :: is_new_generation ->
        begin_generation(w);
        begin_round(w)
     :: else -> tell_new_owners(w)
     fi
  fi
}

/* Owners that went away are not listened to (rule 6). */
#define ANSWER_COUNTS(w, s)                                            \
  ((MUTANT == 4 || OWNER(worker_epoch[w], m_piece) == s) &&            \
   (MUTANT == 4 || MUTANT == 5 || m_epoch >= SINCE(worker_epoch[w], m_piece)))

/* A worker takes an error also for rounds that it has not begun: as long as it lacks that verdict,
 * the next round cannot fail (rule 10). All verdicts before it are stable. Mutant 35 takes only
 * what it waits for, mutant 37 also the next round, but not one after that. */
inline accept_error_ahead(w, p) {
  check_acceptance(w, p, m_key, m_verdict);
  failed_ahead[WP(w, p)] = m_key;
  ahead_is_stable[WP(w, p)] = 0;
  copy[WP(w, p)] = NOTHING;
  known_stable[WP(w, p)] = (state[WP(w, p)] == HELD);
  if
  :: ACKS ->
     send_up(w, OWNER(worker_epoch[w], p), MESSAGE(ACK, worker_epoch[w], p, m_key, NOTHING))
  :: else
  fi
}
#define IS_AHEAD(w, p)                                                              \
  (m_verdict == ERROR && MUTANT != 35 && m_key > failed_ahead[WP(w, p)] &&          \
   (m_key > key[WP(w, p)] && (MUTANT != 37 || failed_ahead[WP(w, p)] == 0) ||       \
    m_key == key[WP(w, p)] && state[WP(w, p)] == IDLE))

inline accept_answer(w, p) {
  if
  :: IS_AHEAD(w, p) -> accept_error_ahead(w, p)
  :: m_key == key[WP(w, p)] && state[WP(w, p)] == PUSHED ->
     check_acceptance(w, p, m_key, m_verdict);
     verdict[WP(w, p)] = m_verdict;
     state[WP(w, p)] = HELD;
     known_stable[WP(w, p)] = 0;
     aborted[WP(w, p)] = 0;
     wanted[WP(w, p)] = 0;
     /* A sum needed everybody's push, so everybody has the verdict before it. An error needed that
      * verdict to be stable (rule 10), so it proves the same. */
     copy[WP(w, p)] = NOTHING;
     if
     :: ACKS && DELAY -> ack_due[WP(w, p)] = 1
     :: ACKS && !DELAY -> acknowledge(w, p)
     :: else
     fi
  :: m_key == key[WP(w, p)] && state[WP(w, p)] == HELD ->
     assert(!IN_NEWEST(w) || verdict[WP(w, p)] == m_verdict) /* (a) */
  :: else /* a repetition of what was handed over */
  fi
}

inline acknowledge(w, p) {
  ack_due[WP(w, p)] = 0;
  send_up(w, OWNER(worker_epoch[w], p),
          MESSAGE(ACK, worker_epoch[w], p, key[WP(w, p)], NOTHING))
}

inline accept_stable(w, p) {
  if
  :: m_key >= key[WP(w, p)] - 1 -> copy[WP(w, p)] = NOTHING
  :: else
  fi;
  if
  :: m_key >= key[WP(w, p)] && state[WP(w, p)] == HELD -> known_stable[WP(w, p)] = 1
  :: else
  fi;
  if
  :: failed_ahead[WP(w, p)] != 0 && m_key >= failed_ahead[WP(w, p)] ->
     ahead_is_stable[WP(w, p)] = 1
  :: else
  fi
}

inline worker_receives(w, s) {
  take_down(w, s);
  printf("W%d gets %d p%d k%d v%d of e%d from S%d\n", w, m_kind, m_piece, m_key, m_verdict,
         m_epoch, s);
  if
  :: ANSWER_COUNTS(w, s) ->
     if
     :: m_kind == ANSWER -> accept_answer(w, m_piece)
     :: m_kind == STABLE -> accept_stable(w, m_piece)
     :: m_kind == WANT && m_key >= key[WP(w, m_piece)] -> wanted[WP(w, m_piece)] = m_key
     :: else
     fi
  :: else
  fi
}

/* The user gets the tensor and may overwrite the buffer at once: from here on only the copy can
 * repeat the verdict (rule 12). */
inline next_key(w, p) {
  copy[WP(w, p)] = ((known_stable[WP(w, p)] || MUTANT == 1) -> NOTHING : verdict[WP(w, p)]);
  if
  :: ack_due[WP(w, p)] -> acknowledge(w, p)
  :: else
  fi;
  key[WP(w, p)]++;
  state[WP(w, p)] = IDLE;
  verdict[WP(w, p)] = NOTHING;
  known_stable[WP(w, p)] = 0;
  wanted[WP(w, p)] = (wanted[WP(w, p)] < key[WP(w, p)] -> 0 : wanted[WP(w, p)])
}

inline hand_over(w) {
  printf("W%d hands round %d over\n", w, rounds_done[w] + 1);
  for (i_p : 0 .. NP - 1) { next_key(w, i_p) }
  rounds_done[w]++;
  if
  :: JOIN && rounds_done[w] == SYNC_AFTER && view_generation[worker_epoch[w]] == 0 ->
     synced[w] = 1
  :: else
  fi
}

/* Receipts differ: the pieces whose receipt is larger than what all have in common are pushed once
 * more, from the kept inputs. */
inline repeat_larger(w) {
  common = ALL_WORKERS;
  for (i_p : 0 .. NP - 1) { common = common & verdict[WP(w, i_p)] }
  printf("W%d repeats for receipt %d\n", w, common);
  for (i_p : 0 .. NP - 1) {
    if
    :: verdict[WP(w, i_p)] != common ->
       next_key(w, i_p);
       assert(key[WP(w, i_p)] <= KEYS);
       push(w, i_p)
    :: else
    fi
  }
}

inline reconnect(w, s) {
  printf("W%d reconnects to S%d in e%d\n", w, s, worker_epoch[w]);
  is_cut[WS(w, s)] = 0;
  half_open[WS(w, s)] = 1;
  send_up(w, s, MESSAGE(HELLO, worker_epoch[w], 0, 0, NOTHING));
  for (i_p : 0 .. NP - 1) {
    if
    :: OWNER(worker_epoch[w], i_p) == s ->
       if
       :: MUTANT == 9 && state[WP(w, i_p)] == PUSHED ->
          send_up(w, s, MESSAGE(PUSH, worker_epoch[w], i_p, key[WP(w, i_p)], NOTHING))
       :: MUTANT != 9 -> tell(w, i_p, s)
       :: else
       fi
    :: else
    fi
  }
  if
  :: ERRORS -> send_up(w, s, MESSAGE(RESYNC, worker_epoch[w], 0, 0, NOTHING))
  :: else
  fi
}

inline repeat_withheld(w, p) {
  withheld[WP(w, p)] = 0;
  if
  :: copy[WP(w, p)] != NOTHING ->
     send_up(w, OWNER(worker_epoch[w], p),
             MESSAGE(VERDICT, worker_epoch[w], p, key[WP(w, p)] - 1, copy[WP(w, p)]))
  :: else
  fi;
  if
  :: state[WP(w, p)] == HELD ->
     send_up(w, OWNER(worker_epoch[w], p),
             MESSAGE(VERDICT, worker_epoch[w], p, key[WP(w, p)], verdict[WP(w, p)]))
  :: state[WP(w, p)] == PUSHED ->
     send_up(w, OWNER(worker_epoch[w], p),
             MESSAGE(PUSH, worker_epoch[w], p, key[WP(w, p)], NOTHING))
  :: else
  fi
}
