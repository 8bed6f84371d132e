/* The program of ../cpp/push_pull.cc over the plain C interface: every rank contributes a vector,
 * every rank gets the sum. ../README.md says how to build it.
 *
 * Alone, it is rank 0 of 1:          push_pull_c
 * As a job of four on one machine:   bps run -np 4 push_pull_c
 */
#include <stdio.h>

#include "byteps/byteps.h"

enum { kCount = 1 << 20 };

static float gradient[kCount];

/* Called when the sum is there, or will never be, on a thread of the library. A framework would let
 * the next step of its graph begin here. */
static void Told(void* context, byteps_handle handle, byteps_code code) {
  (void)handle;
  *(byteps_code*)context = code;
}

/* Starts to sum all ranks' `gradient`, and writes the result over it. `told` becomes how that
 * ended; it is in use until the session is closed. */
static byteps_code Start(byteps_session* session, byteps_code* told, byteps_handle* handle,
                         byteps_error* error) {
  const int64_t shape[] = {kCount};
  byteps_request request = BYTEPS_INIT(byteps_request);
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = shape;
  request.dimensions = 1;
  request.input = gradient;
  request.output = gradient;
  request.on_complete = Told;
  request.context = told;
  return byteps_start(session, &request, handle, error);
}

int main(void) {
  byteps_session* session = NULL;
  byteps_error error = BYTEPS_INIT(byteps_error);
  byteps_code told = BYTEPS_INTERNAL;
  byteps_code code = byteps_open(NULL, 0, &session, &error);
  if (code == BYTEPS_OK) {
    byteps_handle handle = 0;
    /* Rank r contributes r+1 everywhere, so the sum is 1 + 2 + ... + size. */
    for (size_t i = 0; i < kCount; ++i) gradient[i] = (float)(byteps_rank(session) + 1);
    code = Start(session, &told, &handle, &error);
    if (code == BYTEPS_OK) code = byteps_wait(session, handle, /*timeout_ms=*/-1, &error);
    byteps_release(session, handle);
  }
  if (code != BYTEPS_OK) {
    fprintf(stderr, "push_pull_c: %s\n", error.message);
  } else {
    printf("rank %d of %d: sum %.0f\n", (int)byteps_rank(session), (int)byteps_size(session),
           gradient[0]);
  }
  byteps_close(session); /* leaves the job; null is allowed. All callbacks have returned then. */
  if (code == BYTEPS_OK && told != BYTEPS_OK) {
    fprintf(stderr, "push_pull_c: the callback was told %d\n", (int)told);
    return 1;
  }
  return code == BYTEPS_OK ? 0 : 1;
}
