/* Two machines of two ranks each, whose windows have one block and the reserve; two tensors of one
 * piece (or three), of process sets that are given; one shard. Ranks begin the tensors in opposite
 * orders, may freeze in the middle of a copy, thaw, be given up, and leave. README.md says what is
 * modelled and what is not. ALONE: one machine without servers.
 *
 * Machine m has ranks 2m, its carrier, and 2m + 1. What a rank reads of its machine (who has begun
 * what, the blocks, errors) is shared memory and so up to date; machines and shard read each other
 * at any later moment.
 */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COVERS(big, small) (((small) & ~(big)) == 0)
#define STEP(guard, ...) :: d_step { guard; __VA_ARGS__; skip }

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef ALONE
#define ALONE 0 /* 1: one machine, no shard: the block's own word decides */
#endif
#ifndef NR
#define NR 1 /* rounds of each tensor */
#endif
#ifndef NT
#define NT 2 /* tensors */
#endif
#ifndef CREDIT
#define CREDIT 1 /* pieces between push and answer */
#endif
#ifndef SET_A
#define SET_A (ALONE -> 3 : 7) /* ranks that take part in tensor 0 */
#endif
#ifndef SET_B
#define SET_B (ALONE -> 3 : 7)
#endif
#ifndef SET_C
#define SET_C SET_B /* with NT = 3; begun last */
#endif
#ifndef JOINED
#define JOINED 0 /* ranks without data: the others' rounds go on without them */
#endif
#ifndef SYNC
#define SYNC 0 /* ranks that begin their second tensor when the first has ended */
#endif
#ifndef HUNG
#define HUNG 0 /* ranks whose user begins nothing; others then have a deadline */
#endif
#ifndef ABORTS
#define ABORTS 0 /* deadlines although everybody works */
#endif
#ifndef FREEZES
#define FREEZES 0 /* ranks that may freeze */
#endif
#ifndef FROZEN
#define FROZEN 15 /* and who they may be */
#endif
#ifndef THAWS
#define THAWS 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0 /* frozen ranks that are given up, with their machines */
#endif
#ifndef LEAVES
#define LEAVES 0 /* of ranks that are no carriers, in order */
#endif
#ifndef LOSSES
#define LOSSES 0 /* of the shard with all that it holds; another takes its place */
#endif

#define NM (2 - ALONE)
#define MACHINE(r) ((r) / 2)
#define CARRIER(m) (2 * (m))
#define RANKS_OF(m) (3 << (2 * (m)))
#define SET_OF(o) ((o) == 0 -> SET_A : ((o) == 1 -> SET_B : SET_C))
#define TAKES_PART(r, o) HAS(SET_OF(o) & ~JOINED, r)
#define CONCERNED(m, o) (SET_OF(o) & ~JOINED & RANKS_OF(m))
#define MACHINES_OF(o) \
  ((CONCERNED(0, o) != 0 -> 1 : 0) | (NM > 1 && CONCERNED(1, o) != 0 -> 2 : 0))

/* A verdict is its receipt, a set of machines, or the error. */
#define ERROR 8

/* Ranks. */
byte frozen, out, left; /* sets; out: has heard that its machine is out of the view */
byte busy[4];           /* the block, plus 1, of the copy in which it is */
byte copies[4];         /* for which use of it */
byte begun[4 * NT];     /* rounds, by rank and tensor */
byte ended[4 * NT];
byte results[4 * NT * NR]; /* checked, never read by a rank */
#define RO(r, o) ((r) * NT + (o))
#define RESULT(r, o, k) results[RO(r, o) * NR + (k) - 1]

/* Blocks. A use names kind, tensor and round; 0: free. */
#define COLLECT 0
#define SPREAD 1
#define USE(kind, o, k) ((o) + 4 * (kind) + 8 * (k))
#define TENSOR_OF(use) ((use) & 3)
#define KIND_OF(use) (((use) >> 2) & 1)
#define ROUND_OF(use) ((use) >> 3)
byte use_of[4];
byte filled[4];   /* ranks that say they have filled it */
byte summed[4];   /* ranks that say they have summed their share */
byte released[4]; /* ranks that say they are done with it */
byte decided[4];  /* withdrawn: ERROR; alone also that the sum counts */
byte brought[4];  /* ranks whose bytes of this use are in it: checked, never read */
#define BL(m, b) ((m) * 2 + (b))
/* A rank that cannot freeze copies in one step, and sums in that which completes the block. */
#define MAY_FREEZE(r) (FREEZES > 0 && HAS(FROZEN, r))
#define STEADY_RANKS (FREEZES > 0 -> ~(FROZEN) & 15 : 15)
#define ORDINARY 0
#define RESERVE 1
#define USERS(m, b) CONCERNED(m, TENSOR_OF(use_of[BL(m, b)]))
#define HOLDERS(m, b) (use_of[BL(m, b)] == 0 -> 0 : USERS(m, b) & ~released[BL(m, b)])
/* Who has something to do in it just now. */
#define IS_FILLED(m, b) COVERS(filled[BL(m, b)], USERS(m, b))
#define OWING(m, b)                                                                          \
  (HOLDERS(m, b) & ~(KIND_OF(use_of[BL(m, b)]) == COLLECT && !IS_FILLED(m, b) &&             \
                         decided[BL(m, b)] != ERROR                                          \
                       -> filled[BL(m, b)] : 0))

/* Carriers: of each tensor. */
#define IDLE 0
#define COLLECTING 1
#define SUMMED 2   /* the sum is in the carrier's memory, and pushed */
#define ANSWERED 3 /* the answer is in the carrier's memory, and goes to a block when one is free */
#define SPREADING 4
byte stage[2 * NT];
byte rounds[2 * NT];       /* that have their answer */
byte answer[2 * NT];       /* of the last of them */
bit keeps[2 * NT];         /* it may be unstable */
bit passed_credit[2 * NT]; /* it does not count: a shard wanted it */
byte failed[2 * NT];       /* the last round that ended in the error */
byte asked[2 * NT];        /* the round of which the error is asked */
bit dropped[2 * NT];       /* mutant 84 */
#define MO(m, o) ((m) * NT + (o))
#define AT_WORK(m) (!HAS(frozen | out, CARRIER(m)))

/* The shard; contributions are machines that have pushed the round after the last decided one. */
byte rounds_decided[NT];
byte verdict[NT];
byte contributions[NT];
byte gone; /* machines that are out of the view */

byte aborts = ABORTS, freezes = FREEZES, thaws = THAWS;
byte give_ups = GIVE_UPS, leaves = LEAVES, losses = LOSSES;
hidden byte i_r, i_o, i_m, i_k, i_set, i_use, i_lent;

#include "collect_steps.pml"

#define USER(r, o)                                                                           \
  STEP(CAN_WORK(r) && TAKES_PART(r, o) && !HAS(HUNG, r) && MAY_BEGIN(r, o),                  \
       begun[RO(r, o)]++; printf("R%d begins t%d round %d\n", r, o, begun[RO(r, o)]))        \
  STEP(CAN_WORK(r) && TAKES_PART(r, o) && ended[RO(r, o)] < begun[RO(r, o)] &&               \
         failed[MO(MACHINE(r), o)] > ended[RO(r, o)] && busy[r] == 0,                        \
       end_operation(r, o, ERROR))                                                           \
  STEP(MUTANT == 82 && CAN_WORK(r) && aborts > 0 && begun[RO(r, o)] > ended[RO(r, o)] &&     \
         busy[r] == 0,                                                                       \
       aborts--; end_operation(r, o, ERROR))

#define COPY(r, b)                                                                           \
  STEP(MAY_COPY(r, b) && MAY_FREEZE(r), start_copy(r, b))                                    \
  STEP(CAN_WORK(r) && busy[r] == (b) + 1 && MAY_FINISH(r, b),                                \
       finish_copy(r, b); carrier_follows(MACHINE(r), b))                                    \
  STEP(MAY_COPY(r, b) && !MAY_FREEZE(r) && MAY_FINISH_SOON(r, b),                            \
       start_copy(r, b); finish_copy(r, b); carrier_follows(MACHINE(r), b))                  \
  STEP(CAN_WORK(r) && busy[r] == 0 && MAY_SUM(r, b),                                         \
       sum_shares(MACHINE(r), b, BIT(r)); carrier_follows(MACHINE(r), b))                    \
  STEP(CAN_WORK(r) && busy[r] == 0 && HAS(HOLDERS(MACHINE(r), b), r) &&                      \
         decided[BL(MACHINE(r), b)] == ERROR,                                                \
       released[BL(MACHINE(r), b)] = released[BL(MACHINE(r), b)] | BIT(r))

proctype Rank(byte r) {
end:
  do
  USER(r, 0)
  USER(r, 1)
#if NT > 2
  USER(r, 2)
#endif
  COPY(r, ORDINARY)
  COPY(r, RESERVE)
#if GIVE_UPS > 0
  STEP(CAN_WORK(r) && HAS(gone, MACHINE(r)) && (busy[r] == 0 || MUTANT == 89),
       out = out | BIT(r); printf("R%d hears that it is out\n", r))
#endif
#if LEAVES > 0
  STEP(CAN_WORK(r) && (r & 1) && leaves > 0 && MAY_LEAVE(r),
       leaves--; left = left | BIT(r); printf("R%d leaves\n", r))
#endif
  od
}

#define CARRY(m, o)                                                                          \
  STEP(AT_WORK(m) && MAY_COLLECT(m, o) && BY_CREDIT(m, o) && BLOCK_FOR(m, o) != NO_BLOCK,    \
       admit(m, o, 0))                                                                       \
  STEP(AT_WORK(m) && MAY_COLLECT(m, o) && IS_WANTED(m, o) && BLOCK_FOR(m, o) != NO_BLOCK,    \
       admit(m, o, 1))                                                                       \
  STEP(AT_WORK(m) && IS_ANSWERED(m, o) && LANE_READS(m), take_answer(m, o))                  \
  STEP(AT_WORK(m) && stage[MO(m, o)] == ANSWERED && BLOCK_FOR(m, o) != NO_BLOCK,             \
       spread(m, o))                                                                         \
  STEP(AT_WORK(m) && keeps[MO(m, o)] && IS_STABLE(m, o), keeps[MO(m, o)] = 0)                \
  STEP(AT_WORK(m) && MAY_ABORT(m, o), ask_error(m, o))
#define BLOCK(m, b)                                                                          \
  STEP(AT_WORK(m) && use_of[BL(m, b)] != 0 && IS_COLLECTED(m, b), take_sum(m, b))            \
  STEP(AT_WORK(m) && use_of[BL(m, b)] != 0 && IS_FREE(m, b), free_block(m, b))

proctype Carrier(byte m) {
end:
  do
  CARRY(m, 0)
  CARRY(m, 1)
#if NT > 2
  CARRY(m, 2)
#endif
  BLOCK(m, ORDINARY)
  BLOCK(m, RESERVE)
  od
}

#define DECIDE(o)                                                                            \
  STEP(MAY_DECIDE(o), decide(o, contributions[o]))                                           \
  STEP(LOSSES > 0 && ALL_HAVE_NEXT(o), rounds_decided[o]++; contributions[o] = 0)            \
  READ_MACHINE(0, o)                                                                         \
  READ_MACHINE(1, o)
#define READ_MACHINE(m, o)                                                                   \
  STEP(stage[MO(m, o)] == SUMMED && rounds[MO(m, o)] == rounds_decided[o] &&                 \
         !HAS(contributions[o], m) && !dropped[MO(m, o)] && !HAS(gone, m),   \
       read_push(m, o))                                                                      \
  STEP(asked[MO(m, o)] > rounds_decided[o] && !HAS(gone, m) && ALL_HAVE_LAST(o) &&           \
         (MUTANT != 91 || contributions[o] != 0),                                            \
       decide(o, ERROR))                                                                     \
  STEP(keeps[MO(m, o)] && rounds[MO(m, o)] > rounds_decided[o] && !HAS(gone, m),             \
       decide(o, answer[MO(m, o)]))

proctype Shard() {
end:
  do
  DECIDE(0)
  DECIDE(1)
#if NT > 2
  DECIDE(2)
#endif
  od
}

#define FREEZE(r)                                                                            \
  STEP(freezes > 0 && HAS(FROZEN, r) && CAN_WORK(r),                                         \
       freezes--; frozen = frozen | BIT(r); printf("R%d freezes\n", r))                      \
  STEP(thaws > 0 && HAS(frozen, r),                                                          \
       thaws--; frozen = frozen & ~BIT(r); printf("R%d thaws\n", r))                         \
  STEP(give_ups > 0 && HAS(frozen, r) && !HAS(gone, MACHINE(r)), give_up(MACHINE(r)))

proctype Faults() {
end:
  do
#if FREEZES > 0
  FREEZE(0)
  FREEZE(1)
  FREEZE(2)
  FREEZE(3)
#endif
  STEP(losses > 0, losses--; lose_shard())
  od
}

init {
  atomic {
    run Rank(0);
    run Rank(1);
    run Carrier(0);
#if !ALONE
    run Rank(2);
    run Rank(3);
    run Carrier(1);
    run Shard();
#endif
    run Faults();
    timeout;
    d_step { check_rest(); skip }
  }
}
