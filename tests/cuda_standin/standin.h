/* Functions by which tests tell the stand-in for the CUDA driver what to do. The stand-in is a
 * library with the driver's C names over host memory. It is built for tests only, and everything in
 * it says that it is a stand-in.
 *
 * What it keeps of the real driver: streams run later, on threads of their own, with delays from a
 * seed. The default stream waits for all blocking streams, and they wait for it. A processor that
 * touches device memory gets SIGSEGV. A copy fails outside of one allocation. Copies with memory
 * that is not pinned are counted, and block. Each thread has a current context of its own, and
 * streams and events belong to one context. A broken context stays broken, also after an error of a
 * "kernel" that a test has wanted once. Whoever allocates or frees host memory waits for all
 * streams; a thread that tells others of the end of copies must not do it, so the stand-in aborts
 * there. A child of fork gets CUDA_ERROR_NOT_INITIALIZED. Calls of a thread that has
 * not exchanged its mode break a capture of another thread. The driver has one lock.
 *
 * What it cannot show: rates of a GPU, and when the real driver takes its lock. */
#pragma once

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define STAND_IN_DEVICES 2

#ifdef __cplusplus
extern "C" {
#endif

/* Takes all settings of the functions below back. */
void stand_in_reset(void);

/* Lets streams wait before each item, at most so long. */
void stand_in_delay(uint64_t seed, uint64_t microseconds_max);

/* Lets copies of each device take at least as long as a link of this rate needs for them, in each
 * direction. 0: as long as memory needs. This is emulation: it shows what a rate does to a job, and
 * nothing of a GPU. Collectives of the stand-in for NCCL take what a ring sends over these links.
 */
void stand_in_rate(double bytes_per_second);
/* The same for one link to the host that all devices of this process share, beside their own. */
void stand_in_shared_rate(double bytes_per_second);

/* Lets copies that have begun wait, until `hold` is 0 again, as if the device were busy. */
void stand_in_hold_copies(int hold);

/* Lets the n-th call of a function from now on fail, n from 1; if `for_ever`, all later calls, too.
 * An error of a kernel, such as CUDA_ERROR_LAUNCH_FAILED, breaks the contexts. */
void stand_in_fail(const char* function, int n, CUresult code, int for_ever);

/* The calling thread takes the driver's lock, or gives it back. Calls of other threads wait
 * meanwhile. */
void stand_in_lock(void);
void stand_in_unlock(void);
/* Returns whether a thread has the driver's lock now. */
int stand_in_is_locked(void);
/* Lets the first call of each function from now on take the driver's lock, until stand_in_unlock.
 */
void stand_in_stop_each_call(void);
/* Returns whether such a call stands still now. */
int stand_in_is_stopped(void);
/* Loads a "kernel": holds the driver's lock until all streams are empty. */
void stand_in_load_kernel(void);

/* Says that the devices of this process are not the first ones of the machine: their uuids and
 * addresses are those from `number` on. So ranks in several processes may have a GPU each. */
void stand_in_first_gpu(int number);

/* Breaks all contexts, until stand_in_reset. */
void stand_in_break(CUresult code);

/* Gives `work` to a stream: a "kernel". */
void stand_in_kernel(CUstream stream, void (*work)(void* context), void* context);
/* Gives a stream a "kernel" that runs until it is let go. Each hold needs one stand_in_let_go. */
void stand_in_hold(CUstream stream);
void stand_in_let_go(CUstream stream);
/* Blocks until all streams are empty. */
void stand_in_drain(void);
/* Returns where a kernel finds the bytes of device memory; null if the address is none. */
unsigned char* stand_in_bytes(CUdeviceptr address);

typedef struct stand_in_counts {
  int contexts; /* retained */
  int streams;  /* created and not destroyed; so for the others */
  int events;
  size_t pinned_bytes;
  size_t device_bytes;
  uint64_t copies;          /* since stand_in_reset */
  uint64_t pageable_copies; /* the same, with host memory that is not pinned */
  size_t failures;          /* calls of stand_in_fail whose failure has not come */
} stand_in_counts;
stand_in_counts stand_in_count(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
