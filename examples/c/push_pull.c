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

/* Waits for the sum of all ranks' `gradient`, which is written over it. */
static byteps_code Sum(byteps_session* session, byteps_error* error) {
  const int64_t shape[] = {kCount};
  byteps_request request = {0};
  byteps_handle handle = 0;
  byteps_code code;
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = shape;
  request.dimensions = 1;
  request.input = gradient;
  request.output = gradient;
  code = byteps_start(session, &request, &handle, error);
  if (code != BYTEPS_OK) return code;
  code = byteps_wait(session, handle, /*timeout_ms=*/-1, error);
  byteps_release(session, handle);
  return code;
}

int main(void) {
  byteps_session* session = NULL;
  byteps_error error = {BYTEPS_OK, ""};
  byteps_code code = byteps_open(NULL, 0, &session, &error);
  if (code == BYTEPS_OK) {
    /* Rank r contributes r+1 everywhere, so the sum is 1 + 2 + ... + size. */
    for (size_t i = 0; i < kCount; ++i) gradient[i] = (float)(byteps_rank(session) + 1);
    code = Sum(session, &error);
  }
  if (code != BYTEPS_OK) {
    fprintf(stderr, "push_pull_c: %s\n", error.message);
  } else {
    printf("rank %d of %d: sum %.0f\n", (int)byteps_rank(session), (int)byteps_size(session),
           gradient[0]);
  }
  byteps_close(session); /* leaves the job; null is allowed */
  return code == BYTEPS_OK ? 0 : 1;
}
