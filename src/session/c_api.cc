// The C interface: checks arguments, converts, and forwards. No exception leaves it.
#include "byteps/byteps.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "src/config/options.h"
#include "src/session/session.h"
#include "src/session/version.h"
#include "src/session/wiring.h"

struct byteps_session {
  std::unique_ptr<byteps::session::Session> session;
};

namespace byteps::session {
namespace {

byteps_code Say(const Status& status, byteps_error* error) {
  auto code = static_cast<byteps_code>(status.code());
  if (error == nullptr) return code;
  error->code = code;
  size_t length = std::min(status.message().size(), sizeof(error->message) - 1);
  std::memcpy(error->message, status.message().data(), length);
  error->message[length] = '\0';
  return code;
}

// Runs `work` and turns what escapes from it into an error: memory can run out anywhere.
template <typename Work>
byteps_code Guard(byteps_error* error, Work work) {
  try {
    return Say(work(), error);
  } catch (const std::bad_alloc&) {
    return Say({StatusCode::kExhausted, "out of memory"}, error);
  } catch (const std::exception& failure) {
    return Say({StatusCode::kInternal, failure.what()}, error);
  }
}

Status Missing(const char* what) {
  return {StatusCode::kInvalidArgument, std::string(what) + " is null"};
}

Status WriteRanks(const std::vector<uint32_t>& from, int32_t* ranks, size_t capacity,
                  size_t* count) {
  if (count == nullptr) return Missing("the place for the number of ranks");
  if (ranks == nullptr && capacity > 0) return Missing("the place for the ranks");
  *count = from.size();
  for (size_t i = 0; i < std::min(capacity, from.size()); ++i) {
    ranks[i] = static_cast<int32_t>(from[i]);
  }
  return Status::Ok();
}

Result<config::Options> Load(const char* const* settings, size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.emplace_back(settings[i]);
  return config::LoadOptions(config::Environment::OfProcess(), texts);
}

Result<protocol::Operation> Convert(const byteps_request& request, int size) {
  auto invalid = [](const std::string& text) { return Status(StatusCode::kInvalidArgument, text); };
  if (request.name == nullptr) return Missing("the request's name");
  if (request.op < 0 || request.op >= wire::kOpCount) return invalid("unknown operation");
  if (request.dtype < 0 || request.dtype >= kDataTypeCount) return invalid("unknown dtype");
  if (request.dimensions > 0 && request.shape == nullptr) return Missing("the request's shape");
  protocol::Operation operation;
  operation.name = request.name;
  operation.spec.op = static_cast<wire::Op>(request.op);
  operation.spec.dtype = static_cast<DataType>(request.dtype);
  operation.input = static_cast<const std::byte*>(request.input);
  operation.output = static_cast<std::byte*>(request.output);
  operation.priority = request.priority;
  if (operation.spec.op == wire::Op::kBarrier) return operation;
  operation.spec.shape.assign(request.shape, request.shape + request.dimensions);
  if (operation.spec.op == wire::Op::kBroadcast) {
    if (request.root_rank < 0 || request.root_rank >= size) {
      return invalid("broadcast of '" + operation.name + "' from rank " +
                     std::to_string(request.root_rank) + ": the job has ranks 0 to " +
                     std::to_string(size - 1));
    }
    operation.spec.root = static_cast<uint32_t>(request.root_rank);
  }
  if (operation.spec.op == wire::Op::kAllgather) {
    if (request.dimensions == 0) {
      return invalid("allgather of '" + operation.name +
                     "': a scalar has no first dimension; give it the shape [1]");
    }
    if (request.shape[0] < 0) {
      return invalid("tensor '" + operation.name + "' has a negative dimension");
    }
    operation.rows = static_cast<uint64_t>(request.shape[0]);
    operation.spec.shape.erase(operation.spec.shape.begin());
  }
  return operation;
}

}  // namespace
}  // namespace byteps::session

using byteps::Result;
using byteps::Status;
using byteps::StatusCode;
using byteps::session::Guard;
using byteps::session::Missing;
using byteps::session::Session;

extern "C" {

byteps_code byteps_open(const char* const* settings, size_t count, byteps_session** session,
                        byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the place for the session");
    *session = nullptr;
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    Result<std::unique_ptr<Session>> opened = Session::Open(options.value());
    if (!opened.ok()) return opened.status();
    auto made = std::make_unique<byteps_session>();
    made->session = std::move(opened).value();
    *session = made.release();
    return Status::Ok();
  });
}

byteps_code byteps_shutdown(byteps_session* session, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    session->session->Shutdown();
    return Status::Ok();
  });
}

void byteps_close(byteps_session* session) { std::unique_ptr<byteps_session> owned(session); }

int32_t byteps_rank(const byteps_session* session) { return session->session->rank(); }
int32_t byteps_size(const byteps_session* session) { return session->session->size(); }
int32_t byteps_local_rank(const byteps_session* session) { return session->session->local_rank(); }
int32_t byteps_local_size(const byteps_session* session) { return session->session->local_size(); }

byteps_code byteps_declare(byteps_session* session, const char* name, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    if (name == nullptr) return Missing("the name");
    session->session->Declare(name);
    return Status::Ok();
  });
}

byteps_code byteps_start(byteps_session* session, const byteps_request* request,
                         byteps_handle* handle, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    if (request == nullptr || handle == nullptr) return Missing("the request or the handle");
    *handle = 0;
    Result<byteps::protocol::Operation> operation =
        byteps::session::Convert(*request, session->session->size());
    if (!operation.ok()) return operation.status();
    Result<byteps::session::Handle> started = session->session->Start(std::move(operation).value());
    if (!started.ok()) return started.status();
    *handle = started.value();
    return Status::Ok();
  });
}

int byteps_poll(byteps_session* session, byteps_handle handle) {
  if (session == nullptr) return -1;
  switch (session->session->Poll(handle)) {
    case Session::Progress::kRunning: return 0;
    case Session::Progress::kComplete: return 1;
    case Session::Progress::kUnknown: break;
  }
  return -1;
}

byteps_code byteps_wait(byteps_session* session, byteps_handle handle, int64_t timeout_ms,
                        byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    return session->session->Wait(handle, byteps::milliseconds(timeout_ms));
  });
}

byteps_code byteps_get_result(byteps_session* session, byteps_handle handle, byteps_result* result,
                              byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr || result == nullptr) return Missing("the session or the result");
    const byteps::protocol::Outcome* outcome = session->session->Look(handle);
    if (outcome == nullptr) return Session::NotComplete(handle);
    *result = {outcome->gathered.get(), static_cast<size_t>(outcome->gathered_bytes),
               static_cast<int64_t>(outcome->rows), outcome->members};
    return Status::Ok();
  });
}

byteps_code byteps_handle_members(byteps_session* session, byteps_handle handle, int32_t* ranks,
                                  size_t capacity, size_t* count, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    Result<std::vector<uint32_t>> members = session->session->MembersOf(handle);
    if (!members.ok()) return members.status();
    return byteps::session::WriteRanks(members.value(), ranks, capacity, count);
  });
}

byteps_code byteps_members(byteps_session* session, int32_t* ranks, size_t capacity, size_t* count,
                           byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    return byteps::session::WriteRanks(session->session->Members(), ranks, capacity, count);
  });
}

void byteps_release(byteps_session* session, byteps_handle handle) {
  if (session != nullptr) session->session->Release(handle);
}

byteps_code byteps_get_speed(byteps_session* session, byteps_speed* speed) {
  return Guard(nullptr, [&]() -> Status {
    if (session == nullptr || speed == nullptr) return Missing("the session or the speed");
    byteps::session::SpeedMeter::Sample sample = session->session->Speed();
    *speed = {sample.window_ms, sample.megabytes_per_second, sample.end_ms_since_epoch};
    return Status::Ok();
  });
}

byteps_code byteps_serve(const char* const* settings, size_t count, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    return byteps::session::Serve(options.value());
  });
}

const char* byteps_version(void) { return byteps::session::kVersion; }

}  // extern "C"
