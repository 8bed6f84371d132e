/* byteps: the C interface of the library. Plain C, no framework, no C++ types.
 *
 * Threads: every function may be called from any thread. Functions that block say so and take a
 * time limit. The input and output of byteps_start must stay valid until the operation is complete
 * (byteps_wait returned how it ended, or byteps_poll said so); the rest of the request is copied.
 *
 * Errors: functions return a byteps_code; with `error` not null they also write a text that says
 * what happened, where, and what to do next. docs/errors.md lists the codes.
 */
#ifndef BYTEPS_BYTEPS_H_
#define BYTEPS_BYTEPS_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BYTEPS_API __attribute__((visibility("default")))
#else
#define BYTEPS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum byteps_code {
  BYTEPS_OK = 0,
  BYTEPS_INVALID_ARGUMENT = 1,
  BYTEPS_MISMATCH = 2,
  BYTEPS_DUPLICATE_NAME = 3,
  BYTEPS_PEER_LOST = 4,
  BYTEPS_EVICTED = 5,
  BYTEPS_DEADLINE_EXCEEDED = 6,
  BYTEPS_SHUTDOWN = 7,
  BYTEPS_REFUSED = 8,
  BYTEPS_PROTOCOL = 9,
  BYTEPS_UNAVAILABLE = 10,
  BYTEPS_EXHAUSTED = 11,
  BYTEPS_INTERNAL = 12,
  BYTEPS_OUT_OF_STEP = 13
} byteps_code;

typedef struct byteps_error {
  byteps_code code;
  char message[2048];
} byteps_error;

typedef enum byteps_dtype {
  BYTEPS_FLOAT32 = 0,
  BYTEPS_FLOAT64 = 1,
  BYTEPS_FLOAT16 = 2,
  BYTEPS_BFLOAT16 = 3,
  BYTEPS_INT8 = 4,
  BYTEPS_INT16 = 5,
  BYTEPS_INT32 = 6,
  BYTEPS_INT64 = 7,
  BYTEPS_UINT8 = 8,
  BYTEPS_BOOL = 9
} byteps_dtype;

/* What an operation does with the ranks' tensors. */
typedef enum byteps_op {
  BYTEPS_SUM = 0,
  /* sum / number of contributions, rounded once; of integers the exact sum, rounded toward minus
   * infinity */
  BYTEPS_AVERAGE = 1,
  BYTEPS_MIN = 2,
  BYTEPS_MAX = 3,
  BYTEPS_PRODUCT = 4,
  BYTEPS_BROADCAST = 5, /* everybody gets the root's bytes, bit for bit */
  BYTEPS_ALLGATHER = 6, /* rank after rank along the first dimension, which may differ by rank */
  BYTEPS_BARRIER = 7,   /* no data; complete when every rank has started it */
  /* `combine` of all tensors, of which each rank gets its rows: rank r of n gets d / n of the d
   * rows, one more while r < d % n, in the order of ranks. */
  BYTEPS_REDUCESCATTER = 8,
  BYTEPS_ALLTOALL = 9, /* each rank gives rows to each; a rank's result is in the order of ranks */
  /* This rank has no more data: until all ranks have joined it takes no part in the others'
   * operations. They go on without it; averages still divide by it, sums and allgathers have
   * nothing of it, broadcasts from it fail. Complete when all have; no data. */
  BYTEPS_JOIN = 10
} byteps_op;

typedef struct byteps_session byteps_session;
typedef uint64_t byteps_handle; /* 0 is never a handle */

typedef struct byteps_request {
  /* The same on every rank; required, at most 4096 bytes; taken until the operation is complete. */
  const char* name;
  byteps_op op;
  byteps_dtype dtype;
  const int64_t* shape; /* `dimensions` numbers, at most 255; null for none (a scalar) */
  size_t dimensions;
  const void* input; /* contiguous */
  /* As large as input, either the same or nowhere in it; ignored by allgather, alltoall and
   * barrier. Reducescatter: this rank's rows, outside the input or exactly where they are in it. */
  void* output;
  int32_t root_rank; /* broadcast only */
  int32_t priority;  /* higher leaves first; equal ones by order of declaration */
  /* What follows may be zero. */
  byteps_op combine;     /* reducescatter only: BYTEPS_SUM to BYTEPS_PRODUCT */
  int32_t process_set;   /* who takes part (byteps_add_process_set); 0: all ranks */
  const char* detail;    /* what else must be equal on all ranks, as a text for people; or null */
  const int64_t* splits; /* alltoall only: rows for each rank that takes part; null: equal parts */
  size_t split_count;
  int32_t atomic; /* not 0: a reduction with one set of contributors for the whole tensor, also
                   * when a rank is lost meanwhile */
} byteps_request;

typedef struct byteps_result {
  /* Allgather, alltoall: the rows, owned by the library until byteps_release. */
  const void* data;
  size_t bytes; /* of data */
  /* Allgather: rows of all ranks together. Alltoall, reducescatter: of this one. Join: the rank
   * that joined last. */
  int64_t first_dimension;
  uint32_t members; /* number of ranks whose contribution is in the result */
  /* Allgather, alltoall: the rows from each rank of the process set, none from one that does not
   * take part; as long-lived as data. */
  const int64_t* received_splits;
  size_t received_split_count;
} byteps_result;

/* Joins the job that the environment (docs/environment.md) and `settings` describe. `settings` are
 * "option=value" texts that win over the environment. Blocks until all have joined, at most the
 * option start_timeout_s; says on stderr who is missing while it waits. */
BYTEPS_API byteps_code byteps_open(const char* const* settings, size_t count,
                                   byteps_session** session, byteps_error* error);

/* byteps_open that can be broken off: on the thread that calls it, several times a second and under
 * no lock of the library, `go_on` is asked with `context`; once it returns 0 the joining ends with
 * BYTEPS_SHUTDOWN. This process is not in the job then: the others wait for it as if it had never
 * come (if the job begins at that very moment, it loses this process), and it may open a session
 * again at once. Null: nothing is asked, nor in a job of one, which needs nobody. */
BYTEPS_API byteps_code byteps_open_while(const char* const* settings, size_t count,
                                         int (*go_on)(void* context), void* context,
                                         byteps_session** session, byteps_error* error);

/* Leaves the job in order: fails open operations with BYTEPS_SHUTDOWN, tells the others. Blocks a
 * bounded time: 4 s at most; up to 10 s more while the library's own thread does not answer; and
 * while the scheduler is away and nothing is open, until it has come back and heard of it, at most
 * the option coordinator_patience_s. Then no operation is open and no memory borrowed, whichever
 * thread called. There is one exception: a thread that has stood still all the time cannot be made
 * to let go. Then this returns BYTEPS_DEADLINE_EXCEEDED and byteps_poll still says 0; what is open
 * ends when the thread goes on, at the latest in byteps_close. Idempotent: a later call waits in
 * the same way. The session object stays valid for byteps_close. */
BYTEPS_API byteps_code byteps_shutdown(byteps_session* session, byteps_error* error);

/* This process cannot go on; `why` says what happened, for people. The job loses it: operations of
 * the others that need it fail with this text. Does not block; byteps_shutdown should follow. */
BYTEPS_API byteps_code byteps_give_up(byteps_session* session, const char* why,
                                      byteps_error* error);

/* Shuts down if that was not done, waits for the library's own thread, however long that stands
 * still, and frees the session: no memory is borrowed afterwards. Null is allowed. In a copy of the
 * process made by fork it does nothing: the session is the parent's. */
BYTEPS_API void byteps_close(byteps_session* session);

/* -1 for null. */
BYTEPS_API int32_t byteps_rank(const byteps_session* session);
BYTEPS_API int32_t byteps_size(const byteps_session* session);
BYTEPS_API int32_t byteps_local_rank(const byteps_session* session);
BYTEPS_API int32_t byteps_local_size(const byteps_session* session);

/* The ranks that take part in the job now, the lowest first, as byteps_handle_members writes them:
 * those of the last view that this process knows. Ranks are never given anew. */
BYTEPS_API byteps_code byteps_members(byteps_session* session, int32_t* ranks, size_t capacity,
                                      size_t* count, byteps_error* error);

/* Gives `name` its place in the order of urgency before its first use. */
BYTEPS_API byteps_code byteps_declare(byteps_session* session, const char* name,
                                      byteps_error* error);

/* From now on operations may be of process set `number` (from 1; numbers are never used again),
 * which has these ranks. Nothing is agreed on here: all ranks in it must add the same ranks under
 * the same number before they use it; a job in which they differ ends. Does not wait for others.
 * BYTEPS_EXHAUSTED: this rank is in 65536 already; removed ones do not count. */
BYTEPS_API byteps_code byteps_add_process_set(byteps_session* session, const int32_t* ranks,
                                              size_t count, int32_t number, byteps_error* error);

/* Fails while an operation of it is open on this rank. */
BYTEPS_API byteps_code byteps_remove_process_set(byteps_session* session, int32_t number,
                                                 byteps_error* error);

/* Starts an operation; does not block. On success *handle must be given to byteps_release. */
BYTEPS_API byteps_code byteps_start(byteps_session* session, const byteps_request* request,
                                    byteps_handle* handle, byteps_error* error);

/* 1 when complete (also with an error), 0 when not, -1 when the handle is unknown. */
BYTEPS_API int byteps_poll(byteps_session* session, byteps_handle handle);

/* Blocks until the operation is complete and returns how it ended. BYTEPS_DEADLINE_EXCEEDED after
 * `timeout_ms` (negative: no limit of its own): the operation goes on. */
BYTEPS_API byteps_code byteps_wait(byteps_session* session, byteps_handle handle,
                                   int64_t timeout_ms, byteps_error* error);

/* A promise: this process starts nothing before its open operation of this name is complete, as
 * when its only thread blocks in byteps_wait without a limit. Null, or the next byteps_start, takes
 * it back. Ranks that wait for each other in different operations then get
 * BYTEPS_OUT_OF_STEP. Does not block. Without it nothing is lost but that error. */
BYTEPS_API byteps_code byteps_set_stuck(byteps_session* session, const char* name,
                                        byteps_error* error);

/* The result of a complete operation; valid until byteps_release. */
BYTEPS_API byteps_code byteps_get_result(byteps_session* session, byteps_handle handle,
                                         byteps_result* result, byteps_error* error);

/* The ranks whose contributions are in every part of the result of a complete operation, the lowest
 * first; none when it failed. Writes at most `capacity` of them, and to *count how many there are.
 * A tensor of several pieces may hold more in some of them, when a rank was lost meanwhile. */
BYTEPS_API byteps_code byteps_handle_members(byteps_session* session, byteps_handle handle,
                                             int32_t* ranks, size_t capacity, size_t* count,
                                             byteps_error* error);

/* Forgets a handle. An operation that is not complete is completed first, in the background. */
BYTEPS_API void byteps_release(byteps_session* session, byteps_handle handle);

/* Bytes moved by complete operations and the window they were counted in. */
typedef struct byteps_speed {
  uint64_t window_ms; /* 0: nothing has been counted yet */
  double megabytes_per_second;
  uint64_t end_ms_since_epoch;
} byteps_speed;

BYTEPS_API byteps_code byteps_get_speed(byteps_session* session, byteps_speed* speed);

/* Runs a server or the coordinator in this process as the environment and `settings` say
 * ("role=server"). Blocks until the job is over; `error` says why it ended if not in order. */
BYTEPS_API byteps_code byteps_serve(const char* const* settings, size_t count, byteps_error* error);

BYTEPS_API const char* byteps_version(void);

#ifdef __cplusplus
}
#endif

#endif /* BYTEPS_BYTEPS_H_ */
