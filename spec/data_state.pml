/* State of the data plane: views, workers, shards, connections, and the record of what was
 * accepted. Everything is global so that a step of one party and the checks can see it; a party
 * reads only what is its own.
 */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

/* One event at one party: a guard, and what happens. The skip is there because a d_step must not
 * end with a loop. */
#define STEP(guard, ...) :: d_step { guard; __VA_ARGS__; skip }

#define ALL_WORKERS (BIT(NW) - 1)
#define ALL_SHARDS (BIT(NS) - 1)
#define COVERS(big, small) (((small) & ~(big)) == 0)

/* A verdict is its receipt, the set of workers in the sum: the sum of a given set is always the
 * same bits. ERROR is the one typed error. */
#define NOTHING 0
#define ERROR 8

/* Messages, packed into 15 bits: kind, epoch of the sender, piece, key, verdict. */
#define PUSH 1
#define VERDICT 2
#define HAVE 3
#define RESYNC 4
#define ACK 5
#define ABORT 6
#define HELLO 7
#define ANSWER 8
#define STABLE 9
#define WANT 10
#define MESSAGE(kind, epoch, p, k, v) \
  ((kind) | ((epoch) << 4) | ((p) << 7) | ((k) << 8) | ((v) << 11))
#define KIND_OF(m) ((m) & 15)
#define EPOCH_OF(m) (((m) >> 4) & 7)
#define PIECE_OF(m) (((m) >> 7) & 1)
#define KEY_OF(m) (((m) >> 8) & 7)
#define VERDICT_OF(m) (((m) >> 11) & 15)

#if NW > 3 || NP > 2 || KEYS > 7 || EPOCHS > 7
#error "a message has no room for these bounds"
#endif

/* What a run never changes is kept out of the state, where it would only cost memory. */
#if ERRORS
#define IF_ERRORS
#else
#define IF_ERRORS hidden
#endif
#if CREDIT > 0
#define IF_CREDIT
#else
#define IF_CREDIT hidden
#endif
#if LOSSES > 0
#define IF_LOSSES
#else
#define IF_LOSSES hidden
#endif

/* Views, by epoch, as the coordinator committed them. */
byte newest = 1;
byte view_workers[EPOCHS + 1];
byte view_shards[EPOCHS + 1];
byte view_generation[EPOCHS + 1];
byte view_owner[(EPOCHS + 1) * NP];
byte view_since[(EPOCHS + 1) * NP]; /* "present owner since" */
#define OWNER(e, p) view_owner[(e) * NP + (p)]
#define SINCE(e, p) view_since[(e) * NP + (p)]

/* Workers. */
#define WAITING 0 /* the joiner, until it is in a view */
#define LIVE 1
#define DEAD 2
#define LEFT 3
#define OUT 4 /* knows that it was evicted */
byte worker_status[NW];
byte worker_epoch[NW];
byte rounds_done[NW]; /* tensors handed over to the user */
bit synced[NW];       /* waits at the sync point */
bit leaving[NW];      /* begins no further round */
IF_ERRORS byte hung[NW];         /* its user hands nothing over */

/* Of each worker and piece. */
#define WP(w, p) ((w) * NP + (p))
#define IDLE 0
#define PUSHED 1
#define HELD 2 /* the buffer holds the verdict instead of the input */
byte key[NW * NP];
byte state[NW * NP];
byte verdict[NW * NP];
bit known_stable[NW * NP]; /* the verdict of this key */
byte copy[NW * NP];        /* the verdict of the key before, while not known stable */
bit ack_due[NW * NP];
IF_ERRORS byte aborted[NW * NP]; /* this worker asked for an error */
/* The last key beyond what the user has begun whose error is known; all keys up to it failed. */
IF_ERRORS byte failed_ahead[NW * NP];
IF_ERRORS byte ahead_is_stable[NW * NP];
IF_CREDIT byte wanted[NW * NP]; /* the owner waits for this key: it passes the credit */
IF_CREDIT byte withheld[NW * NP]; /* mutant 23: a recovery verdict that waits for credit */

/* Shards. */
#define UP 1
byte shard_status[NS];
byte shard_epoch[NS];

/* Of each shard and piece. */
#define SP(s, p) ((s) * NP + (p))
byte open_key[NS * NP];      /* the key whose contributions are here; 0 when there are none */
byte contributions[NS * NP]; /* of which workers */
byte decided_key[NS * NP];
byte decided[NS * NP];   /* the kept verdict; NOTHING once it is stable */
byte announced[NS * NP]; /* the stable watermark that was sent */
IF_ERRORS byte resynced[NS * NP];  /* workers that have said all they hold to this owner */
IF_ERRORS byte abort_key[NS * NP]; /* somebody asked for an error of this key */
IF_CREDIT byte asked[NS * NP];     /* workers that have a want of the open key */
byte held_by[NS * NP * NW]; /* the last key that each worker is known to hold */
#define HELD_BY(s, p, w) held_by[((s) * NP + (p)) * NW + (w)]

/* Connections: one queue per direction. A cut connection loses what is sent; so does, towards the
 * worker, one whose HELLO the shard has not read yet. */
#define WS(w, s) ((w) * NS + (s))
short up_queue[NW * NS * CAPACITY];
byte up_length[NW * NS];
short down_queue[NW * NS * CAPACITY];
byte down_length[NW * NS];
IF_LOSSES byte is_cut[NW * NS];
IF_LOSSES byte half_open[NW * NS];

/* What was accepted: of each piece and key the verdict, and the living members and orderly leavers
 * that have it. All of them have the same one, or the check in accept() has failed. */
byte accepted[NP * (KEYS + 1)];
byte accepted_by[NP * (KEYS + 1)];
#define PK(p, k) ((p) * (KEYS + 1) + (k))

/* Budgets of the faults. */
byte worker_crashes = WCRASH;
byte shard_crashes = SCRASH;
byte worker_suspicions = WFALSE;
byte shard_suspicions = SFALSE;
byte moves = MOVES;
byte losses = LOSSES;
byte aborts = ABORTS;
byte hangs = HANGS;
byte leaves = LEAVES;
byte server_joins = SERVER_JOIN;
byte join_epoch = 0; /* of the view that let the joiner in */
#define JOIN_REFUSED 1

/* Scratch of d_steps, not part of the state. Each name is used at one level of nesting. */
hidden byte i_e, i_w, i_s, i_p, i_k, i_x, i_q;
hidden byte m_kind, m_epoch, m_piece, m_key, m_verdict;
hidden short m_all;
hidden byte d_key, d_verdict;
hidden byte old_epoch, low, common;
hidden byte is_new_generation, moved;

/* The epoch of a worker at its connection to a shard: with lanes each lane has its own. */
#ifndef EPOCH_AT
#define EPOCH_AT(w, s) worker_epoch[w]
#define READS_AT(w, s) worker_epoch[w]
#endif

/* A party that left closes its sockets; the other end of a fence does the same. */
#define UP_IS_OPEN(w, s)                                                                \
  (shard_status[s] == UP && !is_cut[WS(w, s)] &&                                        \
   (MUTANT == 7 || EPOCH_AT(w, s) > shard_epoch[s] || HAS(view_workers[shard_epoch[s]], w)))
#define DOWN_IS_OPEN(w, s)                                                               \
  (worker_status[w] <= LIVE && !is_cut[WS(w, s)] && !half_open[WS(w, s)] &&              \
   (shard_epoch[s] > EPOCH_AT(w, s) || HAS(view_shards[EPOCH_AT(w, s)], s)))

inline send_up(w, s, message) {
  if
  :: UP_IS_OPEN(w, s) ->
     assert(up_length[WS(w, s)] < CAPACITY);
     up_queue[WS(w, s) * CAPACITY + up_length[WS(w, s)]] = message;
     up_length[WS(w, s)]++
  :: else
  fi
}

inline send_down(w, s, message) {
  if
  :: DOWN_IS_OPEN(w, s) ->
     assert(down_length[WS(w, s)] < CAPACITY);
     down_queue[WS(w, s) * CAPACITY + down_length[WS(w, s)]] = message;
     down_length[WS(w, s)]++
  :: else
  fi
}

inline clear_up(w, s) {
  for (i_q : 0 .. CAPACITY - 1) { up_queue[WS(w, s) * CAPACITY + i_q] = 0 }
  up_length[WS(w, s)] = 0
}

inline clear_down(w, s) {
  for (i_q : 0 .. CAPACITY - 1) { down_queue[WS(w, s) * CAPACITY + i_q] = 0 }
  down_length[WS(w, s)] = 0
}

inline unpack() {
  m_kind = KIND_OF(m_all);
  m_epoch = EPOCH_OF(m_all);
  m_piece = PIECE_OF(m_all);
  m_key = KEY_OF(m_all);
  m_verdict = VERDICT_OF(m_all)
}

inline take_up(w, s) {
  m_all = up_queue[WS(w, s) * CAPACITY];
  unpack();
  up_length[WS(w, s)]--;
  for (i_q : 0 .. CAPACITY - 2) {
    up_queue[WS(w, s) * CAPACITY + i_q] = up_queue[WS(w, s) * CAPACITY + i_q + 1]
  }
  up_queue[WS(w, s) * CAPACITY + CAPACITY - 1] = 0
}

inline take_down(w, s) {
  m_all = down_queue[WS(w, s) * CAPACITY];
  unpack();
  down_length[WS(w, s)]--;
  for (i_q : 0 .. CAPACITY - 2) {
    down_queue[WS(w, s) * CAPACITY + i_q] = down_queue[WS(w, s) * CAPACITY + i_q + 1]
  }
  down_queue[WS(w, s) * CAPACITY + CAPACITY - 1] = 0
}

/* A message of a newer epoch waits on its connection until the receiver has applied that view
 * (rule 1). Mutant 8 judges it by the view it has. Mutant 36 does not read while what it writes to
 * the same connection waits. */
#define UP_IS_READY(w, s)                                                 \
  (shard_status[s] == UP && up_length[WS(w, s)] > 0 &&                    \
   (MUTANT != 36 || down_length[WS(w, s)] == 0) &&                        \
   (MUTANT == 8 || EPOCH_OF(up_queue[WS(w, s) * CAPACITY]) <= shard_epoch[s]))
#define DOWN_IS_READY(w, s)                                               \
  (worker_status[w] == LIVE && down_length[WS(w, s)] > 0 &&               \
   (MUTANT != 36 || up_length[WS(w, s)] == 0) &&                          \
   (MUTANT == 8 || EPOCH_OF(down_queue[WS(w, s) * CAPACITY]) <= READS_AT(w, s)))
