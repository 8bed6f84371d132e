// The C interface: checks arguments, converts, and forwards. No exception leaves it.
#include "byteps/byteps.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/config/options.h"
#include "src/session/session.h"
#include "src/session/version.h"
#include "src/session/wiring.h"

struct byteps_session {
  std::unique_ptr<byteps::session::Session> session;
  pid_t process = 0;  // that opened it
};

namespace byteps::session {
namespace {

byteps_code Say(const Status& status, byteps_error* error) {
  auto code = static_cast<byteps_code>(status.code());
  if (error == nullptr) return code;
  error->code = code;
  std::string_view text = CutText(status.message(), sizeof(error->message) - 1);
  std::memcpy(error->message, text.data(), text.size());
  error->message[text.size()] = '\0';
  return code;
}

Status OfSystem(const std::system_error& failure) {
  // By number: Asio has a category of its own, which std::errc does not know.
  int number = failure.code().value();
  if (number != EMFILE && number != ENFILE) return {StatusCode::kInternal, failure.what()};
  return {StatusCode::kExhausted,
          "no file descriptor is left for this process; raise its limit (ulimit -n)"};
}

// Runs `work` and turns what escapes from it into an error: memory can run out anywhere.
template <typename Work>
byteps_code Guard(byteps_error* error, Work work) {
  try {
    return Say(work(), error);
  } catch (const std::bad_alloc&) {
    return Say({StatusCode::kExhausted, "this process is out of memory"}, error);
  } catch (const std::system_error& failure) {
    return Say(OfSystem(failure), error);
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

Result<std::vector<uint32_t>> RanksFrom(const int32_t* ranks, size_t count, int32_t number) {
  auto invalid = [&](int32_t what, const char* why) {
    return Status(StatusCode::kInvalidArgument, "process set " + std::to_string(number) + ": " +
                                                    std::to_string(what) + " is " + why);
  };
  if (number <= 0) return invalid(number, "no number for one; they count from 1");
  std::vector<uint32_t> list;
  for (size_t i = 0; i < count; ++i) {
    if (ranks[i] < 0) return invalid(ranks[i], "no rank");
    list.push_back(static_cast<uint32_t>(ranks[i]));
  }
  return list;
}

Result<config::Options> Load(const char* const* settings, size_t count) {
  if (settings == nullptr && count > 0) return Missing("the list of settings");
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    if (settings[i] == nullptr) return Missing("a setting");
    texts.emplace_back(settings[i]);
  }
  return config::LoadOptions(config::Environment::OfProcess(), texts);
}

Status Invalid(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

// A program in C may have put any number into an enumeration; C++ must not look at such a one.
template <typename Enumeration>
int NumberIn(const Enumeration& field) {
  static_assert(sizeof(Enumeration) == sizeof(int));
  int number;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

// Names travel in control messages, which have a limit.
Status CheckName(std::string_view name) {
  if (name.empty()) return Invalid("an operation needs a name");
  if (name.size() <= wire::kNameBytesMax) return Status::Ok();
  return Invalid("the name '" + std::string(CutText(name, 64)) + "...' has " +
                 std::to_string(name.size()) + " bytes; it may have " +
                 std::to_string(wire::kNameBytesMax));
}

// What some operations need beyond a tensor.
Status ConvertRest(const byteps_request& request, protocol::Operation& operation) {
  if (request.process_set < 0) {
    return Invalid("process set " + std::to_string(request.process_set) + " of '" + operation.name +
                   "': numbers are not negative");
  }
  operation.spec.group = static_cast<uint32_t>(request.process_set);
  operation.spec.atomic = request.atomic != 0;
  if (request.detail != nullptr) operation.spec.detail = request.detail;
  if (operation.spec.op == wire::Op::kReducescatter) {
    int combine = NumberIn(request.combine);
    if (combine < 0 || combine >= wire::kReductionCount) {
      return Invalid("reducescatter of '" + operation.name +
                     "' combines by sum, average, min, max or product only");
    }
    operation.spec.combine = static_cast<wire::Op>(combine);
  }
  if (operation.spec.op != wire::Op::kAlltoall) return Status::Ok();
  if (request.split_count > 0 && request.splits == nullptr) return Missing("the request's splits");
  for (size_t i = 0; i < request.split_count; ++i) {
    if (request.splits[i] < 0) {
      return Invalid("alltoall of '" + operation.name + "': a split is negative");
    }
    operation.splits.push_back(static_cast<uint64_t>(request.splits[i]));
  }
  return Status::Ok();
}

Result<protocol::Operation> Convert(const byteps_request& request, int size) {
  if (request.name == nullptr) return Missing("the request's name");
  Status named = CheckName(request.name);
  if (!named.ok()) return named;
  const std::string of = " of '" + std::string(request.name) + "'";
  const int op = NumberIn(request.op);
  const int dtype = NumberIn(request.dtype);
  if (op < 0 || op >= wire::kOpCount) {
    return Invalid("the operation" + of + " is " + std::to_string(op) +
                   ", and byteps_op has none such");
  }
  if (dtype < 0 || dtype >= kDataTypeCount) {
    return Invalid("the dtype" + of + " is " + std::to_string(dtype) +
                   ", and byteps_dtype has none such");
  }
  if (request.dimensions > 0 && request.shape == nullptr) return Missing("the request's shape");
  if (request.dimensions > wire::kDimensionsMax) {
    return Invalid("the shape" + of + " has " + std::to_string(request.dimensions) +
                   " dimensions; it may have " + std::to_string(wire::kDimensionsMax));
  }
  protocol::Operation operation;
  operation.name = request.name;
  operation.spec.op = static_cast<wire::Op>(op);
  operation.spec.dtype = static_cast<DataType>(dtype);
  operation.input = static_cast<const std::byte*>(request.input);
  operation.output = static_cast<std::byte*>(request.output);
  operation.priority = request.priority;
  Status rest = ConvertRest(request, operation);
  if (!rest.ok()) return rest;
  if (operation.spec.op == wire::Op::kJoin) operation.spec.dtype = DataType::kInt64;
  if (operation.spec.op == wire::Op::kBarrier || operation.spec.op == wire::Op::kJoin) {
    return operation;
  }
  operation.spec.shape.assign(request.shape, request.shape + request.dimensions);
  if (operation.spec.op == wire::Op::kBroadcast) {
    if (request.root_rank < 0 || request.root_rank >= size) {
      return Invalid("broadcast of '" + operation.name + "' from rank " +
                     std::to_string(request.root_rank) + ": the job has ranks 0 to " +
                     std::to_string(size - 1));
    }
    operation.spec.root = static_cast<uint32_t>(request.root_rank);
  }
  bool own_rows =
      operation.spec.op == wire::Op::kAllgather || operation.spec.op == wire::Op::kAlltoall;
  if (own_rows) {
    if (request.dimensions == 0) {
      return Invalid(wire::NameOf(operation.spec.op) + (" of '" + operation.name) +
                     "': a scalar has no first dimension; give it the shape [1]");
    }
    if (request.shape[0] < 0) {
      return Invalid("tensor '" + operation.name + "' has a negative dimension");
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
  return byteps_open_while(settings, count, nullptr, nullptr, session, error);
}

byteps_code byteps_open_while(const char* const* settings, size_t count,
                              int (*go_on)(void* context), void* context, byteps_session** session,
                              byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the place for the session");
    *session = nullptr;
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    std::function<bool()> asks;
    if (go_on != nullptr) asks = [go_on, context] { return go_on(context) != 0; };
    Result<std::unique_ptr<Session>> opened = Session::Open(options.value(), std::move(asks));
    if (!opened.ok()) return opened.status();
    auto made = std::make_unique<byteps_session>();
    made->session = std::move(opened).value();
    made->process = ::getpid();
    *session = made.release();
    return Status::Ok();
  });
}

byteps_code byteps_shutdown(byteps_session* session, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    if (session->session->Shutdown()) return Status::Ok();
    return {StatusCode::kDeadlineExceeded,
            "this process's network thread stands still: operations that byteps_poll calls open "
            "still borrow their memory; call byteps_shutdown again, or byteps_close, which waits"};
  });
}

byteps_code byteps_give_up(byteps_session* session, const char* why, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    if (why == nullptr) return Missing("the reason");
    session->session->GiveUp(why);
    return Status::Ok();
  });
}

void byteps_close(byteps_session* session) {
  std::unique_ptr<byteps_session> owned(session);
  // A copy made by fork has no threads, and its sockets are the parent's, too: to close them in
  // order would end the parent's connections.
  if (owned != nullptr && owned->process != ::getpid()) owned->session.release();
}

int32_t byteps_rank(const byteps_session* session) {
  return session == nullptr ? -1 : session->session->rank();
}
int32_t byteps_size(const byteps_session* session) {
  return session == nullptr ? -1 : session->session->size();
}
int32_t byteps_local_rank(const byteps_session* session) {
  return session == nullptr ? -1 : session->session->local_rank();
}
int32_t byteps_local_size(const byteps_session* session) {
  return session == nullptr ? -1 : session->session->local_size();
}

byteps_code byteps_declare(byteps_session* session, const char* name, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    if (name == nullptr) return Missing("the name");
    Status named = byteps::session::CheckName(name);
    if (!named.ok()) return named;
    session->session->Declare(name);
    return Status::Ok();
  });
}

byteps_code byteps_add_process_set(byteps_session* session, const int32_t* ranks, size_t count,
                                   int32_t number, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    if (ranks == nullptr && count > 0) return Missing("the list of ranks");
    Result<std::vector<uint32_t>> list = byteps::session::RanksFrom(ranks, count, number);
    if (!list.ok()) return list.status();
    return session->session->AddGroup(static_cast<uint32_t>(number), list.value());
  });
}

byteps_code byteps_remove_process_set(byteps_session* session, int32_t number,
                                      byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    Result<std::vector<uint32_t>> checked = byteps::session::RanksFrom(nullptr, 0, number);
    if (!checked.ok()) return checked.status();
    return session->session->RemoveGroup(static_cast<uint32_t>(number));
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

byteps_code byteps_set_stuck(byteps_session* session, const char* name, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    session->session->SetStuck(name == nullptr ? "" : name);
    return Status::Ok();
  });
}

byteps_code byteps_get_result(byteps_session* session, byteps_handle handle, byteps_result* result,
                              byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr || result == nullptr) return Missing("the session or the result");
    const byteps::protocol::Outcome* outcome = session->session->Look(handle);
    if (outcome == nullptr) return Session::NotComplete(handle);
    *result = {outcome->gathered.get(),
               static_cast<size_t>(outcome->gathered_bytes),
               static_cast<int64_t>(outcome->rows),
               outcome->members,
               outcome->received_splits.data(),
               outcome->received_splits.size()};
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
