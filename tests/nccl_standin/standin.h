/* Functions by which tests tell the stand-in for NCCL what to do. The stand-in is a library with
 * NCCL's C names over the stand-in for the CUDA driver (tests/cuda_standin/). It is built for tests
 * only, and its error texts say that it is a stand-in.
 *
 * Ranks are threads of a process, or processes of one machine: a group has memory that all ranks
 * share, and a unique id says where this memory is. It goes with the last process that has it open.
 *
 * What it keeps of NCCL: collectives run later, in the order of their stream. Communicators are
 * non-blocking only: the first answer is always "in progress", and a collective gets into its
 * stream no earlier than the next answer, so that a caller that records an event before is caught.
 * A collective ends when all ranks have come to it. If a rank does not come, or if two ranks differ
 * in kind, count, type or operator, it hangs. Sums have the order of a ring, so each share of a sum
 * has another order. An abort ends what hangs on this rank, and waits for all other ranks that
 * live: each must abort or leave, too. The end of a communicator waits for all ranks, also for one
 * that was killed. Ranks of different versions, or with one GPU, refuse each other.
 * NCCL_MULTI_RANK_GPU_ENABLE=1 allows one GPU.
 *
 * The stand-in ends the process if two threads call one communicator at the same time, if a thread
 * aborts a communicator while another one is inside a call, or if a communicator is used that has
 * ended: there NCCL has no defined answer.
 *
 * What it cannot show: rates, deadlocks of real kernels, real aborts, the bits of NCCL. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes all settings of the functions below back, and the unique ids that no group has. */
void nccl_stand_in_reset(void);

/* Lets the n-th call of a function from now on return an error, n from 1. */
void nccl_stand_in_fail(const char* function, int n, int code);
/* Lets the state of every communicator of this process be an error from now on, as after a lost
 * connection. What is under way hangs. */
void nccl_stand_in_break(int code);
/* Lets calls of a function stand still, until they are let go. */
void nccl_stand_in_hold(const char* function);
void nccl_stand_in_let_go(const char* function);
/* Returns whether a thread stands still in a call of the function. */
int nccl_stand_in_is_held(const char* function);
/* Sets the version of this process: 22803 is 2.28.3. */
void nccl_stand_in_version(int code);
/* Allows ranks of the next groups to have one GPU. */
void nccl_stand_in_share_gpus(void);

typedef struct nccl_stand_in_counts {
  int communicators;    /* made and neither destroyed nor aborted */
  int ids;              /* made, and not used by all ranks yet */
  uint64_t begun;       /* collectives that got into a stream, since nccl_stand_in_reset */
  uint64_t collectives; /* that have ended on a rank of this process, since then */
  uint64_t bytes;       /* of their input */
} nccl_stand_in_counts;
nccl_stand_in_counts nccl_stand_in_count(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
