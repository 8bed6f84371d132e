/* byteps: the C interface of the library, second edition. Plain C, no framework, no C++ types.
 *
 * Sizes. Every struct begins with `struct_size`, which its owner sets to sizeof the struct as it
 * was compiled; the rest may be zero where nothing else is said. In C:
 *     byteps_request request = BYTEPS_INIT(byteps_request);
 * In C++ `byteps_request request{};` does it. The library reads only what the size covers: fields
 * that are not there count as zero, so a program that was built with an older header keeps its
 * meaning. It writes only what fits. A program newer than the library is refused only if it sets a
 * field that this library does not know. A size that cannot be is BYTEPS_INVALID_ARGUMENT.
 *
 * Threads. Every function may be called from any thread, at the same time as any other, of the same
 * session, too; what each does to the others is said with it. A function that may block says so and
 * how long; all others return at once. Callbacks: see byteps_on_complete.
 *
 * Memory. The library copies what a request points to, except `input` and `output`: these are
 * borrowed until the operation is complete. Results belong to the library until byteps_release.
 *
 * Errors. Functions return a byteps_code; with `error` not null they also write, on success too,
 * the code and a text that says what happened, where, and what to do next. docs/errors.md lists the
 * codes. A null pointer where none is allowed, and a closed session, are errors and never a crash.
 *
 * Fork. A session belongs to the process that opened it. In a copy made by fork its functions
 * return BYTEPS_INVALID_ARGUMENT at once (byteps_poll: BYTEPS_UNKNOWN), byteps_release and
 * byteps_close do nothing, and no callback is called. So a child may run its destructors.
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

/* Of this header; byteps_version and byteps_interface say what the library is. */
#define BYTEPS_VERSION_MAJOR 0
#define BYTEPS_VERSION_MINOR 1
#define BYTEPS_VERSION_PATCH 0
/* The edition of this interface. Programs and libraries of one edition work together, whichever is
 * newer. The next edition gets another number, another SONAME and another symbol version. */
#define BYTEPS_INTERFACE 2

/* What `struct_size` must be. C++ fills it in by itself. */
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

/* A size that cannot be is said on stderr: there is no other place for it. */
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

/* Where the memory of a request lies. */
typedef enum byteps_memory {
  BYTEPS_MEMORY_HOST = 0,
  BYTEPS_MEMORY_DEVICE = 1 /* this library refuses it: copy to host memory first */
} byteps_memory;

/* What byteps_poll says. */
typedef enum byteps_progress {
  BYTEPS_UNKNOWN = -1, /* the handle was never given or has been released; the session is closed */
  BYTEPS_RUNNING = 0,
  BYTEPS_DONE = 1,  /* complete, in order */
  BYTEPS_FAILED = 2 /* complete, with an error: byteps_wait says which, at once */
} byteps_progress;

typedef struct byteps_session byteps_session;
typedef uint64_t byteps_handle; /* 0 is never a handle */

/* Called exactly once for each operation that byteps_start has accepted with it, when it has ended,
 * with how it ended; never for one that byteps_start has refused.
 *
 * Thread: one of the library's own, the same for all callbacks of a session, one after another. So
 * never inside byteps_start or another function, and under no lock of the library or the caller.
 * byteps_start may not have returned yet: `handle` is what it will give.
 *
 * Order: the operation is complete, and its memory no longer borrowed, before this is called.
 * Between this call and a byteps_wait or byteps_poll on another thread there is no order: what
 * `context` points to is in use until this returns, whoever has seen the end already. Callbacks of
 * a session come in the order in which its operations ended.
 *
 * The handle is released by byteps_release as any other, in the callback or elsewhere: the result
 * belongs to whoever has the handle. One that has been released before is named here all the same,
 * and unknown to the library.
 *
 * It should return soon, as the next ones wait for it; the job does not. It may call all functions
 * that do not block, byteps_start among them. Those that block return BYTEPS_INVALID_ARGUMENT here,
 * of whatever session: byteps_open, byteps_serve, byteps_shutdown, byteps_add_process_set,
 * byteps_remove_process_set, and byteps_wait for an operation that has not ended; byteps_close says
 * so on stderr and does nothing. It must not throw.
 *
 * End: byteps_shutdown ends what is open and does not wait for callbacks. byteps_close does: after
 * it none runs or comes. */
typedef void (*byteps_on_complete)(void* context, byteps_handle handle, byteps_code code);

typedef struct byteps_request {
  size_t struct_size BYTEPS_SIZE_OF(byteps_request);
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
  /* What follows may be zero, or not be there (struct_size). */
  byteps_op combine;     /* reducescatter only: BYTEPS_SUM to BYTEPS_PRODUCT */
  int32_t process_set;   /* who takes part (byteps_add_process_set); 0: all ranks */
  const char* detail;    /* what else must be equal on all ranks, as a text for people; or null */
  const int64_t* splits; /* alltoall only: rows for each rank that takes part; null: equal parts */
  size_t split_count;
  /* Not 0: a reduction with one set of contributors for the whole tensor, also when a rank is lost
   * meanwhile. */
  int32_t atomic;
  byteps_memory memory; /* of input and output; host memory only, as yet */
  int32_t device;       /* which device, if the memory is one's; else 0 */
  int32_t reserved;     /* 0 */
  /* An event of the device after which the input may be read and the output written, valid until
   * the operation is complete; null: at once. For host memory null only, as yet. */
  void* ready;
  byteps_on_complete on_complete; /* or null */
  void* context;                  /* of on_complete; the library never looks at it */
  /* How long the operation may take, in milliseconds, where the user has not set the option
   * operation_timeout_s, which counts then; 0: as long as that says. */
  int64_t limit_ms;
} byteps_request;

/* The caller sets struct_size; byteps_get_result writes the rest. */
typedef struct byteps_result {
  size_t struct_size BYTEPS_SIZE_OF(byteps_result);
  /* Allgather, alltoall: the rows, owned by the library until byteps_release or byteps_close. */
  const void* data;
  size_t bytes; /* of data */
  /* Allgather: rows of all ranks together. Alltoall, reducescatter: of this one. Join: the rank
   * that joined last. */
  int64_t first_dimension;
  uint32_t members; /* number of ranks whose contribution is in the result */
  uint32_t reserved;
  /* Allgather, alltoall: the rows from each rank of the process set, none from one that does not
   * take part; as long-lived as data. */
  const int64_t* received_splits;
  size_t received_split_count;
  /* By the monotonic clock (CLOCK_MONOTONIC), in nanoseconds: when the library took the operation,
   * and when it ended. 0: not known, as in a job of one. */
  int64_t begun_ns;
  int64_t ended_ns;
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

/* Leaves the job in order: fails open operations with BYTEPS_SHUTDOWN, tells the others. Other
 * threads that wait for one of these come back; byteps_start is refused with BYTEPS_SHUTDOWN from
 * now on, and what is complete can still be looked at. Blocks a bounded time: 4 s at most; up to
 * 10 s more while the library's own thread does not answer; and while the scheduler is away and
 * nothing is open, until it has come back and heard of it, at most the option
 * coordinator_patience_s. Then no operation is open and no memory borrowed, whichever thread
 * called; callbacks may still be on their way. There is one exception: a thread that has stood
 * still all the time cannot be made to let go. Then this returns BYTEPS_DEADLINE_EXCEEDED and
 * byteps_poll still says BYTEPS_RUNNING; what is open ends when the thread goes on, at the latest
 * in byteps_close. Idempotent: a later call waits in the same way. */
BYTEPS_API byteps_code byteps_shutdown(byteps_session* session, byteps_error* error);

/* This process cannot go on; `why` says what happened, for people (of more than 1024 bytes the
 * rest is left out). The job loses it: operations of the others that need it fail with this text.
 * Does not block; byteps_shutdown should follow. */
BYTEPS_API byteps_code byteps_give_up(byteps_session* session, const char* why,
                                      byteps_error* error);

/* Shuts down if that was not done, waits for callbacks and for the library's own threads, however
 * long these stand still, and frees what the session has: no memory is borrowed, no result is valid
 * and no callback runs afterwards. Do not hold a lock that a callback takes.
 *
 * Other threads may be in any function of the session meanwhile: a byteps_wait comes back when its
 * operation ends, as byteps_shutdown says, the rest when it is done. What is called later finds a
 * closed session: BYTEPS_SHUTDOWN, of byteps_poll BYTEPS_UNKNOWN, and byteps_release and
 * byteps_close do nothing (a second byteps_close waits for the first). For that the session object
 * itself, some hundred bytes, is kept until the process ends. Null is allowed. */
BYTEPS_API void byteps_close(byteps_session* session);

/* -1 for null. The same for ever, also after byteps_close and in a copy made by fork. */
BYTEPS_API int32_t byteps_rank(const byteps_session* session);
BYTEPS_API int32_t byteps_size(const byteps_session* session);
BYTEPS_API int32_t byteps_local_rank(const byteps_session* session);
BYTEPS_API int32_t byteps_local_size(const byteps_session* session);
/* Which machine of the job this process is on, and how many workers a machine has (-1 if the job
 * has no machine of this number). As above. */
BYTEPS_API int32_t byteps_machine(const byteps_session* session);
BYTEPS_API int32_t byteps_machine_size(const byteps_session* session, int32_t machine);

/* The ranks that take part in the job now, the lowest first, as byteps_handle_members writes them:
 * those of the last view that this process knows. Ranks are never given anew. */
BYTEPS_API byteps_code byteps_members(byteps_session* session, int32_t* ranks, size_t capacity,
                                      size_t* count, byteps_error* error);

/* What keeps strangers out of a job: each process proves it to the others before they believe it
 * anything. */
typedef enum byteps_proof {
  BYTEPS_PROOF_NONE = 0,   /* nothing: whoever reaches a port of the job can join it */
  BYTEPS_PROOF_SECRET = 1, /* that it knows the job's secret */
  /* That it belongs to the same user of the same machine; the kernel says so. Also of a job of
   * one. */
  BYTEPS_PROOF_ONE_USER = 2
} byteps_proof;

/* Written by byteps_get_job_info; the caller sets struct_size. */
typedef struct byteps_job_info {
  size_t struct_size BYTEPS_SIZE_OF(byteps_job_info);
  byteps_proof proof;
  /* Not 0: the program may run what other ranks have sent it, such as pickled objects of Python,
   * because there is a proof, or because the user allows it without one (the option allow_objects).
   * The same on all ranks of a job. */
  int32_t takes_objects;
  /* How long an operation may take that has no limit of its own (the option operation_timeout_s);
   * 0: for ever. */
  int64_t operation_limit_ms;
} byteps_job_info;

/* What this process knows of its job; does not change while the session lives. */
BYTEPS_API byteps_code byteps_get_job_info(byteps_session* session, byteps_job_info* info,
                                           byteps_error* error);

/* Gives `name` its place in the order of urgency before its first use. */
BYTEPS_API byteps_code byteps_declare(byteps_session* session, const char* name,
                                      byteps_error* error);

/* From now on operations may be of process set `number` (from 1; numbers are never used again),
 * which has these ranks. Nothing is agreed on here: all ranks in it must add the same ranks under
 * the same number before they use it; a job in which they differ ends. Does not wait for others;
 * blocks for a moment, at most 10 s, until the library's own thread has taken it.
 * BYTEPS_EXHAUSTED: this rank is in 65536 already; removed ones do not count. */
BYTEPS_API byteps_code byteps_add_process_set(byteps_session* session, const int32_t* ranks,
                                              size_t count, int32_t number, byteps_error* error);

/* Fails while an operation of it is open on this rank. Blocks like byteps_add_process_set. */
BYTEPS_API byteps_code byteps_remove_process_set(byteps_session* session, int32_t number,
                                                 byteps_error* error);

/* Starts an operation; does not block (but in a job of one, which needs nobody, carries it out). On
 * success *handle must be given to byteps_release, and input and output are borrowed until the
 * operation is complete. What this rank can see alone is refused here, and then nothing was
 * accepted, *handle is 0 and on_complete is never called: BYTEPS_INVALID_ARGUMENT for what the
 * request says, BYTEPS_DUPLICATE_NAME while an operation of this name is open, BYTEPS_EXHAUSTED,
 * BYTEPS_SHUTDOWN. What it takes others to know is how the operation ends. */
BYTEPS_API byteps_code byteps_start(byteps_session* session, const byteps_request* request,
                                    byteps_handle* handle, byteps_error* error);

/* A byteps_progress. Complete means that no memory is borrowed any more. */
BYTEPS_API int byteps_poll(byteps_session* session, byteps_handle handle);

/* Blocks until the operation is complete and returns how it ended, as often as it is asked. After
 * `timeout_ms` (0: does not block; negative: no limit of its own) BYTEPS_DEADLINE_EXCEEDED: the
 * operation goes on, byteps_poll says BYTEPS_RUNNING. (It may end with that code itself; then it
 * says BYTEPS_FAILED.) A byteps_release of the handle meanwhile changes nothing. */
BYTEPS_API byteps_code byteps_wait(byteps_session* session, byteps_handle handle,
                                   int64_t timeout_ms, byteps_error* error);

/* A promise: this process starts nothing before its open operation of this name is complete, as
 * when its only thread blocks in byteps_wait without a limit. Null, or the next byteps_start, takes
 * it back. Ranks that wait for each other in different operations then get
 * BYTEPS_OUT_OF_STEP. Does not block. A program need not call this. Its ranks that wait for each
 * other then wait until BYTEPS_OPERATION_TIMEOUT. */
BYTEPS_API byteps_code byteps_set_stuck(byteps_session* session, const char* name,
                                        byteps_error* error);

/* The result of a complete operation. Of one that has failed there is none: how it ended is
 * returned, and *result is zero. BYTEPS_INVALID_ARGUMENT while it runs. What *result points to is
 * valid until byteps_release of the handle or byteps_close, on whatever thread: it is the caller
 * who sees to it that nobody calls these while somebody reads. */
BYTEPS_API byteps_code byteps_get_result(byteps_session* session, byteps_handle handle,
                                         byteps_result* result, byteps_error* error);

/* The ranks whose contributions are in every part of the result of a complete operation, the lowest
 * first; none when it failed. Writes at most `capacity` of them, and to *count how many there are.
 * A tensor of several pieces may hold more in some of them, when a rank was lost meanwhile. */
BYTEPS_API byteps_code byteps_handle_members(byteps_session* session, byteps_handle handle,
                                             int32_t* ranks, size_t capacity, size_t* count,
                                             byteps_error* error);

/* Forgets a handle and frees its result. An operation that is not complete goes on, and borrows its
 * memory until it ends, which only on_complete tells then. Nothing happens for a handle that is
 * unknown or was released before. */
BYTEPS_API void byteps_release(byteps_session* session, byteps_handle handle);

/* Memory for tensors, from byteps_alloc_shared. */
typedef struct byteps_shared_memory {
  size_t struct_size BYTEPS_SIZE_OF(byteps_shared_memory);
  void* data;   /* aligned to 64 bytes at least, all zero */
  size_t bytes; /* as many as were asked for */
  /* 1: other ranks of the machine read it where it lies. 0: it is the process' own. */
  int32_t shared;
  int32_t reserved;
} byteps_shared_memory;

/* Memory that the other ranks of the machine read where it lies: an input in it is summed without
 * being copied first. Any part of it may be the input, the output or both of a request. It is a
 * matter of speed alone: other memory works as well, and this memory works in a later session, too.
 * So where no ranks of a machine share memory (a job of one, or ranks that are members by
 * themselves), and where no more of it can be had, the process' own memory is given instead, and
 * `shared` says so. The caller sets struct_size. Does not block. BYTEPS_EXHAUSTED: there is no
 * memory. */
BYTEPS_API byteps_code byteps_alloc_shared(byteps_session* session, size_t bytes,
                                           byteps_shared_memory* memory, byteps_error* error);

/* Gives memory of byteps_alloc_shared back to the machine, also when the session is closed. No
 * operation may use it any more. Nothing happens for null, for what was not given, and in a copy of
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

/* What a timeline shows of the inside of a session. */
typedef enum byteps_entry_kind {
  /* A piece of a tensor that this process has exchanged with a server. In a job on one machine
   * without servers there are none, and where the ranks of a machine are one member of the job only
   * its first rank has them. at_ns: it began to wait for credit; it had credit; it was pushed to
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
  int64_t at_ns[5]; /* by CLOCK_MONOTONIC; 0 where there is none */
  int32_t kind;     /* byteps_entry_kind */
  int32_t op;       /* operations: a byteps_op */
  int32_t dtype;    /* the same: a byteps_dtype */
  uint32_t tensor;  /* its number, which the files of servers have, too */
  uint32_t piece;
  uint32_t shard; /* pieces: who answered */
} byteps_timeline_entry;

/* Begins (1) or ends (0) to keep entries, 65536 at most. What began before is never in it. Does not
 * block. */
BYTEPS_API byteps_code byteps_set_timeline(byteps_session* session, int on, byteps_error* error);

/* Takes the oldest entries, at most `capacity` of them and of 4096, and writes to *count how many.
 * All have the struct_size of the first one. *lost, if it is not null: how many found no room since
 * the last call. Blocks less than a millisecond. */
BYTEPS_API byteps_code byteps_take_timeline(byteps_session* session, byteps_timeline_entry* entries,
                                            size_t capacity, size_t* count, uint64_t* lost,
                                            byteps_error* error);

/* Runs a server or the coordinator in this process as the environment and `settings` say
 * ("role=server"). Blocks until the job is over; `error` says why it ended if not in order.
 *
 * Signals: until it returns it takes SIGTERM and SIGINT, each of which ends it with an error that
 * names the signal. It blocks them in the thread that calls it, and restores that when it returns.
 * The caller must have blocked them (pthread_sigmask) in all other threads of the process: one that
 * has not may take them, and does with them what the process does with signals, as a rule end. */
BYTEPS_API byteps_code byteps_serve(const char* const* settings, size_t count, byteps_error* error);

/* Of the library: "MAJOR.MINOR.PATCH", and its BYTEPS_INTERFACE. */
BYTEPS_API const char* byteps_version(void);
BYTEPS_API int32_t byteps_interface(void);

#ifdef __cplusplus
}
#endif

#endif /* BYTEPS_BYTEPS_H_ */
