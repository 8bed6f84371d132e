// The C interface: operations, from their start to their release. Checks arguments, converts, and
// forwards.
#include <memory>
#include <string>
#include <utility>

#include "byteps/byteps.h"
#include "src/session/c_error.h"
#include "src/session/c_request.h"
#include "src/session/c_session.h"
#include "src/session/sized_struct.h"

namespace byteps::session {
namespace {

Status Unknown(byteps_handle handle) {
  return Invalid("handle " + std::to_string(handle) + " was not created or has been released");
}

Status NotComplete(byteps_handle handle) {
  return Invalid("the operation of handle " + std::to_string(handle) +
                 " is not complete; wait for it first");
}

byteps_progress ProgressOf(StartedOperation& started) {
  switch (started.progress()) {
    case Progress::kRunning: break;
    case Progress::kDone: return BYTEPS_DONE;
    case Progress::kFailed: return BYTEPS_FAILED;
  }
  return BYTEPS_RUNNING;
}

void WriteResult(const protocol::Outcome& outcome, byteps_result* result) {
  byteps_result own{};
  own.data = outcome.gathered.get();
  own.bytes = static_cast<size_t>(outcome.gathered_bytes);
  own.first_dimension = static_cast<int64_t>(outcome.rows);
  own.members = outcome.members;
  own.flags = outcome.any_layout ? uint32_t{BYTEPS_RESULT_ANY_LAYOUT} : 0;
  own.received_splits = outcome.received_splits.data();
  own.received_split_count = outcome.received_splits.size();
  own.begun_ns = outcome.begun.time_since_epoch().count();
  own.ended_ns = outcome.ended.time_since_epoch().count();
  WriteSized(own, result);
}

}  // namespace
}  // namespace byteps::session

using byteps::Result;
using byteps::Status;
using byteps::session::Call;
using byteps::session::Guard;
using byteps::session::Missing;
using byteps::session::Session;
using byteps::session::StartedOperation;

extern "C" {

byteps_code byteps_declare(byteps_session* session, const char* name, byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (name == nullptr) return Missing("the name");
    Status named = byteps::session::CheckName(name);
    if (!named.ok()) return named;
    inner.Declare(name);
    return Status::Ok();
  });
}

byteps_code byteps_start(byteps_session* session, const byteps_request* request,
                         byteps_handle* handle, byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (request == nullptr || handle == nullptr) return Missing("the request or the handle");
    *handle = 0;
    Result<byteps_request> own = byteps::session::ReadSized(*request);
    if (!own.ok()) return own.status();
    Result<byteps::protocol::Operation> operation = byteps::session::ReadRequest(own.value());
    if (!operation.ok()) return operation.status();
    Result<byteps::session::Handle> started =
        inner.Start(std::move(operation).value(), byteps::session::PlaceOf(own.value()),
                    byteps::session::CompletionOf(own.value()));
    if (!started.ok()) return started.status();
    *handle = started.value();
    return Status::Ok();
  });
}

int byteps_poll(byteps_session* session, byteps_handle handle) {
  byteps_progress progress = BYTEPS_UNKNOWN;
  Call(session, nullptr, [&](Session& inner) {
    std::shared_ptr<StartedOperation> started = inner.Find(handle);
    if (started != nullptr) progress = byteps::session::ProgressOf(*started);
    return Status::Ok();
  });
  return progress;
}

// Waits outside of the session, which another thread may close meanwhile.
byteps_code byteps_wait(byteps_session* session, byteps_handle handle, int64_t timeout_ms,
                        byteps_error* error) {
  std::shared_ptr<StartedOperation> started;
  byteps_code found = Call(session, error, [&](Session& inner) -> Status {
    started = inner.Find(handle);
    return started == nullptr ? byteps::session::Unknown(handle) : Status::Ok();
  });
  if (found != BYTEPS_OK) return found;
  return Guard(error, [&]() -> Status {
    if (timeout_ms != 0 && started->outcome() == nullptr) {
      Status may_block = byteps::session::CheckMayBlock("byteps_wait");
      if (!may_block.ok()) return may_block;
    }
    return started->Wait(byteps::milliseconds(timeout_ms));
  });
}

byteps_code byteps_set_stuck(byteps_session* session, const char* name, byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    const std::string which = name == nullptr ? "" : name;
    Status named = which.empty() ? Status::Ok() : byteps::session::CheckName(which);
    if (named.ok()) inner.SetStuck(which);
    return named;
  });
}

byteps_code byteps_get_result(byteps_session* session, byteps_handle handle, byteps_result* result,
                              byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (result == nullptr) return Missing("the result");
    Status sized = byteps::session::CheckSize(*result);
    if (!sized.ok()) return sized;
    byteps::session::WriteSized(byteps_result{}, result);
    std::shared_ptr<StartedOperation> started = inner.Find(handle);
    if (started == nullptr) return byteps::session::Unknown(handle);
    const byteps::protocol::Outcome* outcome = started->outcome();
    if (outcome == nullptr) return byteps::session::NotComplete(handle);
    if (outcome->status.ok()) byteps::session::WriteResult(*outcome, result);
    return outcome->status;
  });
}

byteps_code byteps_handle_members(byteps_session* session, byteps_handle handle, int32_t* ranks,
                                  size_t capacity, size_t* count, byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    std::shared_ptr<StartedOperation> started = inner.Find(handle);
    if (started == nullptr) return byteps::session::Unknown(handle);
    const byteps::protocol::Outcome* outcome = started->outcome();
    if (outcome == nullptr) return byteps::session::NotComplete(handle);
    return byteps::session::WriteRanks(inner.MembersOf(*outcome), ranks, capacity, count);
  });
}

void byteps_release(byteps_session* session, byteps_handle handle) {
  if (session == nullptr) return;
  Call(session, nullptr, [&](Session& inner) {
    inner.Release(handle);
    return Status::Ok();
  });
}

}  // extern "C"
