#include "tests/fake_byteps.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "byteps/device.h"
#include "byteps/sums.h"

using byteps::testing::FakeJob;
using byteps::testing::FakeOperation;

// tidy-allow(class): a program has this in place of the library's
struct byteps_session {
  explicit byteps_session(FakeJob* fake) : job(fake) {}
  FakeJob* job;
};

namespace {

constexpr const char kJobSetting[] = "fake_job=";

byteps_code Fail(byteps_error* error, byteps_code code, const char* text) {
  if (code != BYTEPS_OK && error != nullptr) {
    error->code = code;
    std::snprintf(error->message, sizeof(error->message), "%s", text);
  }
  return code;
}

byteps_code GiveRanks(const std::vector<int32_t>& from, int32_t* ranks, size_t capacity,
                      size_t* count) {
  *count = from.size();
  for (size_t i = 0; i < capacity && i < from.size(); ++i) ranks[i] = from[i];
  return BYTEPS_OK;
}

FakeOperation& Find(byteps_session* session, byteps_handle handle) {
  return session->job->operations.at(handle);
}

}  // namespace

std::string FakeJob::Setting() const {
  char text[64];
  std::snprintf(text, sizeof(text), "%s%p", kJobSetting, static_cast<const void*>(this));
  return text;
}

void FakeJob::Complete(byteps_handle handle, byteps_code outcome) {
  FakeOperation& operation = operations.at(handle);
  if (operation.complete) return;
  operation.complete = true;
  operation.outcome = outcome;
  if (operation.on_complete != nullptr) {
    operation.on_complete(operation.context, handle, outcome);
  }
}

byteps_code byteps_open(const char* const* settings, size_t count, byteps_session** session,
                        byteps_error* error) {
  return byteps_open_while(settings, count, nullptr, nullptr, session, error);
}

byteps_code byteps_open_while(const char* const* settings, size_t count,
                              int (*go_on)(void* context), void* context, byteps_session** session,
                              byteps_error* error) {
  void* job = nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (std::strncmp(settings[i], kJobSetting, sizeof(kJobSetting) - 1) != 0) continue;
    std::sscanf(settings[i] + sizeof(kJobSetting) - 1, "%p", &job);
  }
  auto* fake = static_cast<FakeJob*>(job);
  if (fake == nullptr) return Fail(error, BYTEPS_INVALID_ARGUMENT, "no fake job");
  if (fake->refuse_with != BYTEPS_OK) return Fail(error, fake->refuse_with, "refused");
  if (go_on != nullptr && go_on(context) == 0) return Fail(error, BYTEPS_SHUTDOWN, "broken off");
  fake->settings.assign(settings, settings + count);
  *session = std::make_unique<byteps_session>(fake).release();
  return BYTEPS_OK;
}

byteps_code byteps_shutdown(byteps_session* session, byteps_error*) {
  ++session->job->shutdowns;
  for (const auto& [handle, operation] : session->job->operations) {
    session->job->Complete(handle, BYTEPS_SHUTDOWN);
  }
  return BYTEPS_OK;
}

void byteps_close(byteps_session* session) {
  if (session == nullptr) return;
  const std::unique_ptr<byteps_session> owned(session);
  FakeJob& job = *owned->job;
  ++job.closes;
  std::vector<byteps_handle> handles;
  for (const auto& [handle, operation] : job.operations) handles.push_back(handle);
  for (const byteps_handle handle : handles) job.Complete(handle, BYTEPS_SHUTDOWN);
}

int32_t byteps_rank(const byteps_session*) { return 3; }
int32_t byteps_size(const byteps_session*) { return 4; }
int32_t byteps_local_rank(const byteps_session*) { return 1; }
int32_t byteps_local_size(const byteps_session*) { return 2; }
int32_t byteps_machine(const byteps_session*) { return 1; }
int32_t byteps_machine_size(const byteps_session*, int32_t machine) { return machine < 2 ? 2 : -1; }

byteps_code byteps_declare(byteps_session* session, const char* name, byteps_error*) {
  session->job->declared.emplace_back(name);
  return BYTEPS_OK;
}

byteps_code byteps_alloc_shared(byteps_session*, size_t, byteps_shared_memory*,
                                byteps_error* error) {
  return Fail(error, BYTEPS_EXHAUSTED, "there is no memory");
}

void byteps_free_shared(byteps_session*, void*) {}

byteps_code byteps_start(byteps_session* session, const byteps_request* request,
                         byteps_handle* handle, byteps_error* error) {
  FakeJob& job = *session->job;
  if (request->struct_size != sizeof(byteps_request)) {
    return Fail(error, BYTEPS_INVALID_ARGUMENT, "no request has that size");
  }
  if (job.refuse_with != BYTEPS_OK) return Fail(error, job.refuse_with, "not started");
  *handle = job.operations.size() + 1;
  job.operations[*handle] = {
      .name = request->name,
      .op = request->op,
      .dtype = request->dtype,
      .shape = {request->shape, request->shape + request->dimensions},
      .input = request->input,
      .output = request->output,
      .root_rank = request->root_rank,
      .priority = request->priority,
      .on_complete = request->on_complete,
      .context = request->context,
  };
  if (job.complete_at_once) job.Complete(*handle);
  return BYTEPS_OK;
}

int byteps_poll(byteps_session* session, byteps_handle handle) {
  const FakeOperation& operation = Find(session, handle);
  if (!operation.complete) return BYTEPS_RUNNING;
  return operation.outcome == BYTEPS_OK ? BYTEPS_DONE : BYTEPS_FAILED;
}

byteps_code byteps_wait(byteps_session* session, byteps_handle handle, int64_t timeout_ms,
                        byteps_error* error) {
  FakeOperation& operation = Find(session, handle);
  if (!operation.complete && timeout_ms >= 0) {
    return Fail(error, BYTEPS_DEADLINE_EXCEEDED, "not yet");
  }
  session->job->Complete(handle);  // the test cannot complete it meanwhile
  return Fail(error, operation.outcome, "it failed");
}

byteps_code byteps_set_stuck(byteps_session*, const char*, byteps_error*) { return BYTEPS_OK; }

byteps_code byteps_get_result(byteps_session* session, byteps_handle handle, byteps_result* result,
                              byteps_error* error) {
  const FakeOperation& operation = Find(session, handle);
  if (operation.outcome != BYTEPS_OK) return Fail(error, operation.outcome, "it failed");
  *result = {};
  result->members = 4;
  if (operation.op == BYTEPS_ALLGATHER && operation.dtype == BYTEPS_INT32) {
    result->data = operation.input;
    result->bytes = static_cast<size_t>(operation.shape[0]) * sizeof(int32_t);
    result->first_dimension = operation.shape[0];
    result->received_splits = operation.received_splits.data();
    result->received_split_count = operation.received_splits.size();
  }
  return BYTEPS_OK;
}

byteps_code byteps_handle_members(byteps_session* session, byteps_handle handle, int32_t* ranks,
                                  size_t capacity, size_t* count, byteps_error* error) {
  const FakeOperation& operation = Find(session, handle);
  if (!operation.complete) return Fail(error, BYTEPS_INVALID_ARGUMENT, "not complete");
  return GiveRanks({0, 2, 3}, ranks, capacity, count);
}

byteps_code byteps_members(byteps_session*, int32_t* ranks, size_t capacity, size_t* count,
                           byteps_error*) {
  // Returns one rank more than byteps_size says: a rank may have joined later.
  return GiveRanks({0, 2, 3, 4, 5}, ranks, capacity, count);
}

byteps_code byteps_give_up(byteps_session* session, const char* why, byteps_error* error) {
  if (session->job->shutdowns > 0) return Fail(error, BYTEPS_SHUTDOWN, "the session was shut down");
  session->job->reasons.emplace_back(why);
  return BYTEPS_OK;
}

byteps_code byteps_add_process_set(byteps_session*, const int32_t*, size_t count, int32_t number,
                                   byteps_error* error) {
  if (count > 0 && number > 0) return BYTEPS_OK;
  return Fail(error, BYTEPS_INVALID_ARGUMENT, "no process set");
}

byteps_code byteps_remove_process_set(byteps_session*, int32_t number, byteps_error* error) {
  return number > 0 ? BYTEPS_OK : Fail(error, BYTEPS_INVALID_ARGUMENT, "no process set");
}

void byteps_release(byteps_session* session, byteps_handle handle) {
  FakeOperation& operation = Find(session, handle);
  if (operation.released) std::abort();
  operation.released = true;
}

byteps_code byteps_get_job_info(byteps_session* session, byteps_job_info* info, byteps_error*) {
  *info = {};
  info->proof = BYTEPS_PROOF_SECRET;
  info->takes_objects = 1;
  info->operation_limit_ms = 1800000;
  return session->job->refuse_with;
}

byteps_code byteps_get_sums(byteps_session* session, byteps_sums* sums, byteps_error*) {
  *sums = {};
  sums->bits = BYTEPS_SUM_BITS_MACHINES;
  std::strcpy(sums->text, "sums of float16 depend on machines");
  return session->job->refuse_with;
}

byteps_code byteps_foresee_sums(const char* const*, size_t, byteps_sums* sums, byteps_error*) {
  *sums = {};
  return BYTEPS_OK;
}

byteps_code byteps_get_speed(byteps_session* session, byteps_speed* speed) {
  if (session->job->refuse_with != BYTEPS_OK) return session->job->refuse_with;
  *speed = {};
  speed->window_ms = 10;
  speed->megabytes_per_second = 2.5;
  speed->end_ms_since_epoch = 99;
  return BYTEPS_OK;
}

byteps_code byteps_set_timeline(byteps_session* session, int, byteps_error*) {
  return session->job->refuse_with;
}

// Gives one piece.
byteps_code byteps_take_timeline(byteps_session*, byteps_timeline_entry* entries, size_t capacity,
                                 size_t* count, uint64_t* lost, byteps_error*) {
  *count = *lost = capacity == 0 ? 0 : 1;
  if (*count == 0) return BYTEPS_OK;
  *entries = {};
  entries->name = "byteps.w";
  entries->kind = BYTEPS_ENTRY_PIECE;
  entries->tensor = 7;
  entries->piece = 2;
  entries->round = 9;
  entries->shard = 1;
  entries->bytes = 64;
  for (int i = 0; i < 5; ++i) entries->at_ns[i] = 1000 * (i + 1);
  return BYTEPS_OK;
}

byteps_code byteps_serve(const char* const* settings, size_t count, byteps_error* error) {
  if (count == 1 && std::strcmp(settings[0], "role=server") == 0) return BYTEPS_OK;
  return Fail(error, BYTEPS_INVALID_ARGUMENT, "only a server can be served here");
}

const char* byteps_version(void) { return "fake"; }

int32_t byteps_interface(void) { return BYTEPS_INTERFACE; }

byteps_code byteps_foresee_device_sums(const char* const*, size_t, byteps_device_sums*,
                                       byteps_error* error) {
  return Fail(error, BYTEPS_UNAVAILABLE, "the fake has no device");
}

byteps_code byteps_get_device_info(const char* const*, size_t, int32_t, byteps_device_info*,
                                   byteps_error* error) {
  return Fail(error, BYTEPS_UNAVAILABLE, "the fake has no device");
}

byteps_code byteps_get_nccl_info(const char* const*, size_t, byteps_nccl_info*,
                                 byteps_error* error) {
  return Fail(error, BYTEPS_UNAVAILABLE, "the fake has no NCCL");
}
