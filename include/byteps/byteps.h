/* byteps: the C interface of the library, number 2. Plain C, no framework, no C++ types.
 *
 * Sizes. Every struct begins with `struct_size`, which its owner sets to sizeof the struct as it
 * was compiled. All other fields may be zero, unless their comments say something else. In C:
 *     byteps_request request = BYTEPS_INIT(byteps_request);
 * In C++ `byteps_request request{};` does it. The library reads only the fields that the size
 * covers, and the others count as zero, so a program that was built with an older header keeps its
 * meaning. The library writes only fields that fit. It refuses a program that is newer than itself
 * only if the program sets a field that this library does not know. An impossible size is
 * BYTEPS_INVALID_ARGUMENT.
 *
 * Threads. Every function may be called from any thread, at the same time as any other function,
 * even of the same session. The comment of a function says what it does to the others. A function
 * that may block says so and how long; all others return at once. Callbacks: see
 * byteps_on_complete.
 *
 * Memory. The library copies everything to which a request points, except `input` and `output`: it
 * borrows these until the operation is complete. Results belong to the library until
 * byteps_release.
 *
 * Errors. Functions return a byteps_code. If `error` is not null, they also write, even on success,
 * the code and a text that says what happened, where, and what to do next; `bps docs errors` lists
 * the codes. A null pointer where none is allowed, and a closed session, are errors, never a crash.
 *
 * Fork. A session belongs to the process that opened it. In a copy made by fork its functions
 * return BYTEPS_INVALID_ARGUMENT at once (byteps_poll: BYTEPS_UNKNOWN), byteps_release and
 * byteps_close do nothing, and the library calls no callback. So a child may run its destructors.
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

/* The version of this header; byteps_version and byteps_interface return the library's. */
#define BYTEPS_VERSION_MAJOR 0
#define BYTEPS_VERSION_MINOR 1
#define BYTEPS_VERSION_PATCH 0
/* The number of this interface. Programs and libraries with one number work together, even if one
 * is newer. Another number means another SONAME and another symbol version. */
#define BYTEPS_INTERFACE 2

/* The value that `struct_size` must have. C++ fills it in by itself. */
#ifdef __cplusplus
#define BYTEPS_SIZE_OF(type) = sizeof(type)
#else
#define BYTEPS_SIZE_OF(type)
#define BYTEPS_INIT(type) {.struct_size = sizeof(type)}
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

/* The library reports an impossible size on stderr, because there is no other place for it. */
typedef struct byteps_error {
  size_t struct_size BYTEPS_SIZE_OF(byteps_error);
  byteps_code code;
  char message[2048]; /* UTF-8, ends with a zero; cut between characters if it is longer */
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

/* The kinds of operations on the ranks' tensors. */
typedef enum byteps_op {
  BYTEPS_SUM = 0,
  /* sum / number of contributions, rounded once; for integers the exact quotient, rounded toward
   * minus infinity */
  BYTEPS_AVERAGE = 1,
  BYTEPS_MIN = 2,
  BYTEPS_MAX = 3,
  BYTEPS_PRODUCT = 4,
  BYTEPS_BROADCAST = 5, /* every rank gets the root's bytes, bit for bit */
  BYTEPS_ALLGATHER = 6, /* rank after rank along the first dimension, which may differ by rank */
  BYTEPS_BARRIER = 7,   /* no data; complete when every rank has started it */
  /* Each rank gets its rows of the `combine` of all tensors: rank r of n gets d / n of the d rows,
   * one more while r < d % n, in the order of ranks. */
  BYTEPS_REDUCESCATTER = 8,
  BYTEPS_ALLTOALL = 9, /* each rank gives rows to each; a rank's result is in the order of ranks */
  /* This rank has no more data. Until all ranks have joined, it takes no part in operations, and
   * the others go on without it: averages still count it as a contributor, sums and allgathers have
   * nothing from it, and broadcasts from it fail. Complete when all ranks have joined; no data. */
  BYTEPS_JOIN = 10
} byteps_op;

/* The place of a request's memory. */
typedef enum byteps_memory {
  BYTEPS_MEMORY_HOST = 0,
  BYTEPS_MEMORY_DEVICE = 1 /* of a GPU: see byteps/device.h */
} byteps_memory;

/* The answers of byteps_poll. */
typedef enum byteps_progress {
  BYTEPS_UNKNOWN = -1, /* the handle was never given or has been released; the session is closed */
  BYTEPS_RUNNING = 0,
  BYTEPS_DONE = 1,  /* complete, in order */
  BYTEPS_FAILED = 2 /* complete, with an error, which byteps_wait returns at once */
} byteps_progress;

typedef struct byteps_session byteps_session;
typedef uint64_t byteps_handle; /* 0 is never a handle */

/* The library calls such a function exactly once for each operation that byteps_start has accepted
 * with it, when the operation has ended, and tells how it ended. It is never called for an
 * operation that byteps_start has refused.
 *
 * Thread: one of the library's own, the same for all callbacks of a session, one after another. So
 * it is never called inside byteps_start or another function, nor under a lock of the library or
 * the caller. byteps_start may not have returned yet: `handle` is the one that it will give.
 *
 * Order: the operation is complete, and its memory no longer borrowed, before the call. There is no
 * order between this call and a byteps_wait or byteps_poll on another thread: the object behind
 * `context` is in use until this function returns, even if another thread has seen the end already.
 * The callbacks of a session come in the order in which its operations ended.
 *
 * byteps_release releases the handle like any other, in the callback or elsewhere: the result
 * belongs to the owner of the handle. If the handle has been released before, the call names it all
 * the same, and the library does not know it any more.
 *
 * The function should return soon, because the next callbacks wait for it; the job does not. It may
 * call all functions that do not block, byteps_start among them. Functions that block return
 * BYTEPS_INVALID_ARGUMENT here, for any session: byteps_open, byteps_serve, byteps_shutdown,
 * byteps_add_process_set, byteps_remove_process_set, and byteps_wait for an operation that has not
 * ended; byteps_close says so on stderr and does nothing. The function must not throw.
 *
 * End: byteps_shutdown ends open operations and does not wait for callbacks. byteps_close does:
 * after it no callback runs or comes. */
typedef void (*byteps_on_complete)(void* context, byteps_handle handle, byteps_code code);

typedef struct byteps_request {
  size_t struct_size BYTEPS_SIZE_OF(byteps_request);
  /* The same on every rank; required, at most 4096 bytes. No other operation may use the name until
   * this one is complete. */
  const char* name;
  byteps_op op;
  byteps_dtype dtype;
  const int64_t* shape; /* `dimensions` numbers, at most 255; null for none (a scalar) */
  size_t dimensions;
  const void* input; /* contiguous */
  /* The result's memory is as large as the input, and either the same or outside of it; allgather,
   * alltoall and barrier ignore it. Reducescatter: this rank's rows, outside the input or exactly
   * where they are in it. */
  void* output;
  int32_t root_rank; /* broadcast only */
  int32_t priority;  /* higher leaves first; equal ones by order of declaration */
  /* The following fields may be zero, or absent (struct_size). */
  byteps_op combine;     /* reducescatter only: BYTEPS_SUM to BYTEPS_PRODUCT */
  int32_t process_set;   /* the ranks that take part (byteps_add_process_set); 0: all ranks */
  const char* detail;    /* other facts that must be equal on all ranks, for people; or null */
  const int64_t* splits; /* alltoall only: rows for each rank that takes part; null: equal parts */
  size_t split_count;
  /* Not 0: the reduction has one set of contributors for the whole tensor, even if a rank is lost
   * meanwhile. */
  int32_t atomic;
  byteps_memory memory; /* of input and output */
  int32_t device;       /* the device, if the memory belongs to one; else 0 */
  int32_t reserved;     /* 0 */
  /* The device's stream: the operation comes behind what it has been given before this call (see
   * byteps/device.h). Host memory: null. */
  void* stream;
  byteps_on_complete on_complete; /* or null */
  void* context;                  /* of on_complete; the library never looks at it */
  /* The limit of the operation in milliseconds, if the user has not set the option
   * operation_timeout_s. If the user has, or for 0, the option counts. */
  int64_t limit_ms;
} byteps_request;

/* A flag of byteps_result: every layout of these ranks over machines and servers gives the same
 * bits, but for those of a NaN. Never set if that may be wrong. */
#define BYTEPS_RESULT_ANY_LAYOUT 1u

/* The caller sets struct_size; byteps_get_result writes the rest. */
typedef struct byteps_result {
  size_t struct_size BYTEPS_SIZE_OF(byteps_result);
  /* Allgather, alltoall: the rows, owned by the library until byteps_release or byteps_close. */
  const void* data;
  size_t bytes; /* of data */
  /* Allgather: rows of all ranks together. Alltoall, reducescatter: rows of this rank. Join: the
   * rank that joined last. */
  int64_t first_dimension;
  uint32_t members; /* number of ranks whose contribution is in the result */
  uint32_t flags;   /* BYTEPS_RESULT_ANY_LAYOUT, or 0 */
  /* Allgather, alltoall: the number of rows from each rank of the process set, 0 from a rank that
   * does not take part; valid as long as data. */
  const int64_t* received_splits;
  size_t received_split_count;
  /* The times when the library took the operation and when it ended, by the monotonic clock
   * (CLOCK_MONOTONIC), in nanoseconds. 0: not known, as in a job of one. */
  int64_t begun_ns;
  int64_t ended_ns;
} byteps_result;

/* Joins the job that the environment (`bps docs environment`) and `settings` describe. `settings`
 * are "option=value" texts that win over the environment. Blocks until all processes have joined,
 * at most for the option start_timeout_s; names the missing processes on stderr while it waits. */
BYTEPS_API byteps_code byteps_open(const char* const* settings, size_t count,
                                   byteps_session** session, byteps_error* error);

/* Does the same as byteps_open, and can be broken off: calls `go_on` with `context` on the calling
 * thread, several times a second and under no lock of the library. Once it returns 0 the function
 * ends with BYTEPS_SHUTDOWN. This process is not in the job then: the others wait for it as if it
 * had never come (if the job begins at that very moment, it loses this process), and it may open a
 * session again at once. If `go_on` is null, and in a job of one, which needs no other process, the
 * library asks nothing. */
BYTEPS_API byteps_code byteps_open_while(const char* const* settings, size_t count,
                                         int (*go_on)(void* context), void* context,
                                         byteps_session** session, byteps_error* error);

/* Leaves the job in order: ends open operations with BYTEPS_SHUTDOWN, and tells the other
 * processes. Threads that wait for an open operation come back. From now on byteps_start returns
 * BYTEPS_SHUTDOWN; results of complete operations can still be read. Blocks a bounded time: at most
 * 4 s; up to 10 s more while the library's own thread does not answer; and if the scheduler is away
 * and no operation is open, until it has come back and heard that this process leaves, at most for
 * the option coordinator_patience_s. Afterwards no operation is open and no memory borrowed,
 * whichever thread called; callbacks may still be on their way. There is one exception: if the
 * library's own thread has stood still all the time, it cannot be made to let go. Then this returns
 * BYTEPS_DEADLINE_EXCEEDED and byteps_poll still returns BYTEPS_RUNNING; the open operations end
 * when that thread goes on, at the latest in byteps_close. Nor can NCCL be made to let go of memory
 * of GPUs while a rank of the machine is frozen in a sum among GPUs: a warning says so, the
 * operation stays open, and its memory must stay until the process ends, also after byteps_close.
 * Idempotent: a later call waits in the same way. */
BYTEPS_API byteps_code byteps_shutdown(byteps_session* session, byteps_error* error);

/* Tells the job that this process cannot go on. `why` is the reason, for people; the library cuts
 * it after 1024 bytes. The job loses the process: operations of other ranks that need it fail with
 * this text. Does not block; byteps_shutdown should follow. */
BYTEPS_API byteps_code byteps_give_up(byteps_session* session, const char* why,
                                      byteps_error* error);

/* Shuts down if that was not done, waits for callbacks and for the library's own threads, however
 * long these stand still, and frees everything that the session has. Afterwards no memory is
 * borrowed, no result is valid and no callback runs. The caller must not hold a lock that a
 * callback takes.
 *
 * Other threads may be in any function of the session meanwhile: a byteps_wait comes back when its
 * operation ends, as byteps_shutdown says; other functions come back when they are done. A later
 * call finds a closed session and returns BYTEPS_SHUTDOWN (byteps_poll: BYTEPS_UNKNOWN);
 * byteps_release and byteps_close do nothing (a second byteps_close waits for the first). For these
 * calls the library keeps the session object itself, some hundred bytes, until the process ends.
 * Null is allowed. */
BYTEPS_API void byteps_close(byteps_session* session);

/* Return this process' place in the job; -1 for null. The numbers never change, even after
 * byteps_close and in a copy made by fork. */
BYTEPS_API int32_t byteps_rank(const byteps_session* session);
BYTEPS_API int32_t byteps_size(const byteps_session* session);
BYTEPS_API int32_t byteps_local_rank(const byteps_session* session);
BYTEPS_API int32_t byteps_local_size(const byteps_session* session);
/* Return the number of this process' machine, and the number of workers of a machine (-1 if the job
 * has no machine of this number). These never change, either. */
BYTEPS_API int32_t byteps_machine(const byteps_session* session);
BYTEPS_API int32_t byteps_machine_size(const byteps_session* session, int32_t machine);

/* Writes the ranks that take part in the job now, in the way of byteps_handle_members: the ranks of
 * the last view that this process knows, the lowest first. The job never gives a rank again. */
BYTEPS_API byteps_code byteps_members(byteps_session* session, int32_t* ranks, size_t capacity,
                                      size_t* count, byteps_error* error);

/* The fact that each process proves to the others before they trust it. It keeps strangers out of a
 * job. */
typedef enum byteps_proof {
  BYTEPS_PROOF_NONE = 0,   /* nothing: any process that reaches a port of the job can join it */
  BYTEPS_PROOF_SECRET = 1, /* it knows the job's secret */
  /* It belongs to the same user of the same machine, as the kernel tells. A job of one has this
   * proof, too. */
  BYTEPS_PROOF_ONE_USER = 2
} byteps_proof;

/* Written by byteps_get_job_info; the caller sets struct_size. */
typedef struct byteps_job_info {
  size_t struct_size BYTEPS_SIZE_OF(byteps_job_info);
  byteps_proof proof;
  /* Not 0: the program may run code from other ranks, such as pickled objects of Python, because
   * there is a proof, or because the user allows it without one (the option allow_objects). The
   * same on all ranks of a job. */
  int32_t takes_objects;
  /* The limit of operations that have no limit of their own (the option operation_timeout_s); 0: no
   * limit. */
  int64_t operation_limit_ms;
} byteps_job_info;

/* Writes facts about the job, which do not change while the session lives. */
BYTEPS_API byteps_code byteps_get_job_info(byteps_session* session, byteps_job_info* info,
                                           byteps_error* error);

/* Gives `name` its place in the order of urgency before its first use. */
BYTEPS_API byteps_code byteps_declare(byteps_session* session, const char* name,
                                      byteps_error* error);

/* Adds process set `number` (from 1; a number must not be used again) with these ranks, so that
 * operations may use it. The ranks agree on nothing here: all ranks of the set must add the same
 * ranks under the same number before they use it; a job in which they differ ends. Does not wait
 * for other ranks; blocks for a moment, at most 10 s, until the library's own thread has taken the
 * set. BYTEPS_EXHAUSTED: this rank is in 65536 sets already; removed ones do not count. */
BYTEPS_API byteps_code byteps_add_process_set(byteps_session* session, const int32_t* ranks,
                                              size_t count, int32_t number, byteps_error* error);

/* Removes a process set. Fails while an operation of the set is open on this rank. Blocks like
 * byteps_add_process_set. */
BYTEPS_API byteps_code byteps_remove_process_set(byteps_session* session, int32_t number,
                                                 byteps_error* error);

/* Starts an operation. Does not block (but carries the operation out in a job of one, which needs
 * no other process; for a GPU's memory see byteps/device.h). On success the caller must give
 * *handle to byteps_release, and the library borrows input and output until the operation is
 * complete. This function returns the errors that this rank can see alone; then nothing was
 * accepted, *handle is 0 and on_complete is never called. BYTEPS_INVALID_ARGUMENT: the request is
 * wrong. BYTEPS_DUPLICATE_NAME: an operation of this name is open. BYTEPS_UNAVAILABLE: the device
 * is broken. BYTEPS_EXHAUSTED, BYTEPS_SHUTDOWN. Errors that only other ranks can see come as the
 * operation's end. */
BYTEPS_API byteps_code byteps_start(byteps_session* session, const byteps_request* request,
                                    byteps_handle* handle, byteps_error* error);

/* Returns a byteps_progress. A complete operation borrows no memory any more. */
BYTEPS_API int byteps_poll(byteps_session* session, byteps_handle handle);

/* Blocks until the operation is complete and returns how it ended, in every call.
 * BYTEPS_DEADLINE_EXCEEDED: `timeout_ms` (0: does not block; negative: no limit of its own) has
 * passed; the operation goes on, and byteps_poll returns BYTEPS_RUNNING. (The operation may end
 * with that code itself; then byteps_poll returns BYTEPS_FAILED.) A byteps_release of the handle
 * meanwhile changes nothing. */
BYTEPS_API byteps_code byteps_wait(byteps_session* session, byteps_handle handle,
                                   int64_t timeout_ms, byteps_error* error);

/* Promises that this process starts nothing before its open operation of this name is complete, for
 * example because its only thread blocks in byteps_wait without a limit. Null, or the next
 * byteps_start, takes the promise back. With the promise, ranks that wait for each other in
 * different operations get BYTEPS_OUT_OF_STEP. Does not block. A program need not call this; its
 * ranks that wait for each other then wait until BYTEPS_OPERATION_TIMEOUT. */
BYTEPS_API byteps_code byteps_set_stuck(byteps_session* session, const char* name,
                                        byteps_error* error);

/* Writes the result of a complete operation. A failed operation has no result: the function returns
 * its error, and *result is zero. BYTEPS_INVALID_ARGUMENT: the operation is not complete. The
 * memory behind *result is valid until byteps_release of the handle or byteps_close, on any thread:
 * the caller must not call these while a thread reads the memory. */
BYTEPS_API byteps_code byteps_get_result(byteps_session* session, byteps_handle handle,
                                         byteps_result* result, byteps_error* error);

/* Writes the ranks whose contributions are in every part of the result of a complete operation, the
 * lowest first; none if it failed. Writes at most `capacity` ranks, and to *count how many there
 * are. If a rank was lost meanwhile, some pieces of a tensor may hold contributions of more
 * ranks. */
BYTEPS_API byteps_code byteps_handle_members(byteps_session* session, byteps_handle handle,
                                             int32_t* ranks, size_t capacity, size_t* count,
                                             byteps_error* error);

/* Forgets a handle and frees its result. An operation that is not complete goes on, and borrows its
 * memory until it ends; then only on_complete tells the end. Does nothing for a handle that is
 * unknown or was released before. */
BYTEPS_API void byteps_release(byteps_session* session, byteps_handle handle);

/* Memory for tensors, from byteps_alloc_shared. */
typedef struct byteps_shared_memory {
  size_t struct_size BYTEPS_SIZE_OF(byteps_shared_memory);
  void* data;   /* aligned to 64 bytes at least, all zero */
  size_t bytes; /* as many as the caller asked for */
  /* 1: other ranks of the machine read the memory in place. 0: it is the process' own. */
  int32_t shared;
  int32_t reserved;
} byteps_shared_memory;

/* Gives memory that the other ranks of the machine read in place: they sum an input in it without
 * copying it first. Any part of it may be the input, the output or both of a request. It only makes
 * operations faster: other memory works, too, and this memory works in a later session, too. So if
 * no ranks of a machine share memory (a job of one, or ranks that are members by themselves), or if
 * there is no more of it, the library gives the process' own memory instead, and `shared` is 0. The
 * caller sets struct_size. Does not block. BYTEPS_EXHAUSTED: there is no memory. */
BYTEPS_API byteps_code byteps_alloc_shared(byteps_session* session, size_t bytes,
                                           byteps_shared_memory* memory, byteps_error* error);

/* Gives memory of byteps_alloc_shared back to the machine, even if the session is closed. No
 * operation may use the memory any more. Does nothing for null, for other memory, and in a copy of
 * the process made by fork. */
BYTEPS_API void byteps_free_shared(byteps_session* session, void* data);

/* Bytes moved by complete operations and the window they were counted in. The caller sets
 * struct_size. */
typedef struct byteps_speed {
  size_t struct_size BYTEPS_SIZE_OF(byteps_speed);
  uint64_t window_ms; /* 0: nothing has been counted yet */
  double megabytes_per_second;
  uint64_t end_ms_since_epoch;
} byteps_speed;

BYTEPS_API byteps_code byteps_get_speed(byteps_session* session, byteps_speed* speed);

/* The kinds of entries of a session's timeline. */
typedef enum byteps_entry_kind {
  /* A piece of a tensor that this process has exchanged with a server. In a job on one machine
   * without servers there are none. If the ranks of a machine are one member of the job, only its
   * first rank has them. at_ns: the piece began to wait for credit; it had credit; it was pushed to
   * its shard; the answer began to come; the answer was here. */
  BYTEPS_ENTRY_PIECE = 1,
  /* An operation that was started with on_complete. at_ns: it began; it ended. */
  BYTEPS_ENTRY_OPERATION = 3
} byteps_entry_kind;

/* Written by byteps_take_timeline; the caller sets struct_size. */
typedef struct byteps_timeline_entry {
  size_t struct_size BYTEPS_SIZE_OF(byteps_timeline_entry);
  const char* name; /* of the tensor; valid until byteps_close */
  uint64_t round;
  uint64_t bytes;
  int64_t at_ns[5]; /* by CLOCK_MONOTONIC; 0: no such time */
  int32_t kind;     /* byteps_entry_kind */
  int32_t op;       /* operations: a byteps_op */
  int32_t dtype;    /* operations: a byteps_dtype */
  uint32_t tensor;  /* its number, which the files of servers have, too */
  uint32_t piece;
  uint32_t shard; /* pieces: the shard that answered */
} byteps_timeline_entry;

/* Begins (1) or ends (0) to keep entries, at most 65536. A piece or operation that began before has
 * no entry. Does not block. */
BYTEPS_API byteps_code byteps_set_timeline(byteps_session* session, int on, byteps_error* error);

/* Takes the oldest entries, at most `capacity` and at most 4096, and writes their number to *count.
 * All have the struct_size of the first one. Writes to *lost, if it is not null, how many entries
 * found no room since the last call. Blocks less than a millisecond. */
BYTEPS_API byteps_code byteps_take_timeline(byteps_session* session, byteps_timeline_entry* entries,
                                            size_t capacity, size_t* count, uint64_t* lost,
                                            byteps_error* error);

/* Runs a server or the coordinator in this process as the environment and `settings` say
 * ("role=server"). Blocks until the job is over. If the job did not end in order, `error` has the
 * reason.
 *
 * Signals: until it returns the function takes SIGTERM and SIGINT; each of them ends it with an
 * error that names the signal. It blocks them in the calling thread, and restores the mask when it
 * returns. The caller must have blocked them (pthread_sigmask) in all other threads of the process.
 * A thread that has not blocked them may take them, and the process then handles them in its usual
 * way, mostly by ending. */
BYTEPS_API byteps_code byteps_serve(const char* const* settings, size_t count, byteps_error* error);

/* Return the library's "MAJOR.MINOR.PATCH", and its BYTEPS_INTERFACE. */
BYTEPS_API const char* byteps_version(void);
BYTEPS_API int32_t byteps_interface(void);

#ifdef __cplusplus
}
#endif

#endif /* BYTEPS_BYTEPS_H_ */
