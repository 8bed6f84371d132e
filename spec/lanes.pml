/* A worker with a front and two lanes, beside one as in data_plane.pml. Each lane has the
 * connection to one shard; front and lanes tell each other things by mail that may be late. When a
 * view moves a piece to the other shard it changes its lane: both lanes hand over what leaves them,
 * the front passes it on when both have, and then only a lane says to its shard what must be
 * repeated.
 *
 * To the shards this worker is worker 0, and its pieces are what any worker's are: data_worker.pml
 * is used for both. A step of a lane sees the lane's own epoch, which worker_epoch[0] is for its
 * time.
 */
#define LANED 0
#define EPOCH_AT(w, s) (w == LANED -> lane_epoch[s] : worker_epoch[w])
/* Until a lane has taken over, a message of the new view waits. Mutant 58 takes it; what it says of
 * a piece that is not here is dropped, and counted as received. */
#define READS_AT(w, s) \
  (w == LANED && MUTANT != 58 -> told_epoch[s] : EPOCH_AT(w, s))
#ifndef PLACING
#define PLACING 0 /* 1: bytes of an answer come into the user's memory for a while */
#endif
#ifndef STAGES
#define STAGES 0 /* 1: a piece that has begun is pushed later, after a stage before that */
#endif

#include "data_bounds.pml"
#undef WORKERS_PICKED
#define WORKERS_PICKED NW
#include "data_state.pml"

/* Lanes; lane l has the connection to shard l. */
byte lane_epoch[2]; /* of the view that it has applied */
byte told_epoch[2]; /* and for which it has repeated what it must: behind while it awaits pieces */
byte receiving[2];  /* the piece, plus 1, into whose memory an answer comes just now */
bit is_fresh[2];    /* its connection is new, and nothing has been repeated over it */
bit set_out[NP];    /* the piece is before its push */
bit is_asked[2];    /* this worker wants to leave: say when nothing unstable is held */
bit has_said_clean[2];

/* The front; its epoch is worker_epoch[LANED]. */
byte awaited;    /* lanes that have not handed over */
bit is_open;     /* an operation is */
byte done;       /* pieces of it that lanes have let go of */
byte aborted_of; /* those of which it has asked for an error */
byte clean;      /* lanes that hold nothing unstable */

/* Who carries a piece. */
#define ON_ITS_WAY 2
byte carrier[NP];

/* Mail: what, and of which piece or epoch. */
#define BEGIN 1
#define VIEW 2
#define TAKE_OVER 3
#define ASK_ERROR 4
#define WHEN_CLEAN 5
#define DONE 6
#define HAND_OVER 7
#define CLEAN 8
chan to_lane[2] = [4] of { byte, byte };
chan to_front[2] = [4] of { byte, byte };
hidden byte i_mail, i_arg, i_l;

#include "data_worker.pml"
#include "data_shard.pml"
#include "data_coordinator.pml"
#include "data_steps.pml"

#include "lanes_steps.pml"

proctype Front() {
end:
  do
  STEP(IS_LIVE(LANED) && !is_open && rounds_done[LANED] < NR && !leaving[LANED] &&
         !hung[LANED] && (awaited == 0 || MUTANT == 54),
       front_begins())
  STEP(IS_LIVE(LANED) && nempty(to_front[0]), front_reads(0))
  STEP(IS_LIVE(LANED) && nempty(to_front[1]), front_reads(1))
  FRONT_VIEW(0)
#if SKIP
  FRONT_VIEW(1)
#endif
#if ERRORS
  FRONT_ABORT(0)
#if NP > 1
  FRONT_ABORT(1)
#endif
#endif
#if LEAVES > 0
  STEP(IS_LIVE(LANED) && !is_open && rounds_done[LANED] > 0 && leaves > 0 && !leaving[LANED],
       leaves--;
       leaving[LANED] = 1;
       to_lane[0]!WHEN_CLEAN, 0;
       to_lane[1]!WHEN_CLEAN, 0)
  STEP(IS_LIVE(LANED) && leaving[LANED] && clean == 3 && (awaited == 0 || MUTANT == 56),
       printf("W%d leaves in order\n", LANED);
       end_worker(LANED, LEFT))
#endif
  od
}

proctype Lane(byte l) {
end:
  do
  LANE_STEP(l, nempty(to_lane[l]), lane_reads(l))
  LANE_STEP(l, LANDS(l), receiving[l] = PIECE_OF(HEAD(l)) + 1)
  LANE_STEP(l, DOWN_IS_READY(LANED, l) && !LANDS(l), lane_receives(l))
  LANE_PIECE(l, 0)
#if NP > 1
  LANE_PIECE(l, 1)
#endif
#if LOSSES > 0
  LANE_STEP(l, is_cut[WS(LANED, l)] && HAS(view_shards[lane_epoch[l]], l) &&
                 shard_status[l] == UP,
            lane_reconnects(l))
#endif
#if LEAVES > 0
  LANE_STEP(l, is_asked[l] && !has_said_clean[l] && (IS_UP_TO_DATE(l) || MUTANT == 56) &&
                 IS_CLEAN(l),
            has_said_clean[l] = 1; to_front[l]!CLEAN, lane_epoch[l])
#endif
  od
}

proctype Worker() {
end:
  do
  WORKER_STEPS(1)
  STEP(IS_LIVE(1) && worker_epoch[1] < newest,
       i_e = worker_epoch[1] + 1;
       worker_applies(1, i_e))
  od
}

proctype Shard(byte s) {
end:
  do
  SHARD_STEPS(s)
  STEP(shard_status[s] == UP && shard_epoch[s] < newest,
       i_e = shard_epoch[s] + 1;
       shard_applies(s, i_e))
  od
}

#define DROP_SHARD(s)                                                                        \
  STEP(HAS(view_shards[newest], s) && ANOTHER_SHARD(s) && shard_status[s] == DEAD,           \
       propose_without_shard(s); commit())                                                   \
  STEP(shard_suspicions > 0 && UP_IN(newest, s) && ANOTHER_SHARD(s),                         \
       shard_suspicions--; propose_without_shard(s); commit())
#define MOVE_PIECE(p, s)                                                                     \
  STEP(moves > 0 && OWNER(newest, p) != s && HAS(view_shards[newest], s),                    \
       moves--; propose_move(p, s); commit())

proctype Coordinator() {
end:
  do
  STEP(HAS(view_workers[newest], LANED) && worker_status[LANED] == LEFT && ANOTHER_WORKER(LANED),
       propose_without_worker(LANED); commit())
  STEP(HAS(view_workers[newest], 1) && ANOTHER_WORKER(1) &&
         (worker_status[1] == DEAD || worker_status[1] == LEFT),
       propose_without_worker(1); commit())
  STEP(worker_suspicions > 0 && LIVE_IN(newest, 1) && ANOTHER_WORKER(1),
       worker_suspicions--; propose_without_worker(1); commit())
  DROP_SHARD(0)
  DROP_SHARD(1)
#if MOVES > 0
  MOVE_PIECE(0, 0)
  MOVE_PIECE(0, 1)
#if NP > 1
  MOVE_PIECE(1, 0)
  MOVE_PIECE(1, 1)
#endif
#endif
  od
}

#define LANE_CUT(s, kept)                                                                    \
  STEP(losses > 0 && IS_LIVE(LANED) && shard_status[s] == UP && !is_cut[WS(LANED, s)] &&     \
         HAS(view_shards[lane_epoch[s]], s) && HAS(MEMBERS(s), LANED) &&                     \
         up_length[WS(LANED, s)] >= kept,                                                    \
       losses--;                                                                             \
       printf("connection of lane %d is lost, %d messages arrive\n", s, kept);               \
       for (i_x : kept .. CAPACITY - 1) { up_queue[WS(LANED, s) * CAPACITY + i_x] = 0 }      \
       up_length[WS(LANED, s)] = kept;                                                       \
       clear_down(LANED, s);                                                                 \
       receiving[s] = 0;                                                                     \
       is_cut[WS(LANED, s)] = 1)

/* The worker with lanes does not die: to all others that is the death of any worker. */
proctype LaneFaults() {
end:
  do
  KILL_WORKER(1)
  KILL_SHARD(0)
  KILL_SHARD(1)
#if LOSSES > 0
  LANE_CUT(0, 0)
  LANE_CUT(0, 1)
  LANE_CUT(0, 2)
  LANE_CUT(1, 0)
  LANE_CUT(1, 1)
  LANE_CUT(1, 2)
#endif
  od
}

init {
  d_step {
    begin();
    view_workers[1] = ALL_WORKERS;
    lane_epoch[0] = 1;
    lane_epoch[1] = 1;
    told_epoch[0] = 1;
    told_epoch[1] = 1;
    for (i_l : 0 .. NP - 1) { carrier[i_l] = OWNER(1, i_l) }
    begin_parties();
    is_open = (state[WP(LANED, 0)] == PUSHED);
    skip
  }
  atomic {
    run Front();
    run Lane(0);
    run Lane(1);
    run Worker();
    run Shard(0);
    run Shard(1);
    run Coordinator();
    run LaneFaults();
    timeout;
    d_step { check_rest(); skip }
  }
}
