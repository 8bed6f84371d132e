/* The header of a program that is older than this library: the smallest structs of
 * byteps/byteps.h with BYTEPS_INTERFACE 2, with fewer fields and a shorter text. Never changed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct byteps_session byteps_session;

/* tidy-allow(class): the older one */
typedef struct byteps_error {
  size_t struct_size;
  int32_t code;
  char message[116];
} byteps_error;

/* tidy-allow(class): the older one */
typedef struct byteps_request {
  size_t struct_size;
  const char* name;
  int32_t op;
  int32_t dtype;
  const int64_t* shape;
  size_t dimensions;
  const void* input;
  void* output;
  int32_t root_rank;
  int32_t priority;
} byteps_request;

/* tidy-allow(class): the older one */
typedef struct byteps_result {
  size_t struct_size;
  const void* data;
  size_t bytes;
  int64_t first_dimension;
  uint32_t members;
  uint32_t reserved;
} byteps_result;

int32_t byteps_open(const char* const* settings, size_t count, byteps_session** session,
                    byteps_error* error);
void byteps_close(byteps_session* session);
int32_t byteps_start(byteps_session* session, const byteps_request* request, uint64_t* handle,
                     byteps_error* error);
int32_t byteps_wait(byteps_session* session, uint64_t handle, int64_t timeout_ms,
                    byteps_error* error);
int32_t byteps_get_result(byteps_session* session, uint64_t handle, byteps_result* result,
                          byteps_error* error);
void byteps_release(byteps_session* session, uint64_t handle);

#ifdef __cplusplus
}
#endif
