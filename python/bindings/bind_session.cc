#include "python/bindings/bind_session.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "byteps/byteps.h"
#include "byteps/sums.h"
#include "python/bindings/bind_error.h"
#include "python/bindings/ending.h"
#include "python/bindings/followers.h"
#include "python/bindings/settings.h"
#include "python/bindings/submission.h"
#include "python/bindings/ticket.h"
#include "python/bindings/without_interpreter.h"

namespace byteps::python {
namespace nb = nanobind;
namespace {

// A wait stays away from the interpreter for so long at a time, so Ctrl-C may come so late. The
// wait itself ends at once when the operation does.
constexpr int64_t kSignalCheckMs = 100;

// The most entries of a timeline that are taken at once.
constexpr size_t kEntriesAtOnce = 4096;

// Python's reference to an object that threads without Python share. These threads can let go of
// the object without the interpreter.
template <typename T>
struct Shared {
  const std::shared_ptr<T> own = std::make_shared<T>();
};

// The opening of a session, in which one thread waits and which another one may break off. Any
// thread.
class Opening {
 public:
  void BreakOff() { go_on_ = false; }

  // Answers byteps_open_while. Does not need the interpreter, which may be ending.
  static int Ask(void* opening) noexcept { return static_cast<Opening*>(opening)->go_on_ ? 1 : 0; }

 private:
  std::atomic<bool> go_on_{true};
};

// Owns a byteps_session. Any thread; methods that block release the interpreter lock. A process
// that was forked after the session was opened owns nothing, because the threads stayed with the
// parent.
class Session {
 public:
  Session(const std::vector<std::string>& settings, Opening& opening) : process_(getpid()) {
    const std::vector<const char*> texts = PointersTo(settings);
    byteps_error error{};
    byteps_code code;
    {
      const WithoutInterpreter released;
      code =
          byteps_open_while(texts.data(), texts.size(), &Opening::Ask, &opening, &session_, &error);
    }
    RaiseIfFailed(code, error);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (getpid() != process_) return;
    const WithoutInterpreter released;
    byteps_close(session_);
  }

  // Returns the session for engines of frameworks, which start operations without Python. The
  // library knows whether it is closed.
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(session_); }

  int32_t rank() const { return byteps_rank(session_); }
  int32_t size() const { return byteps_size(session_); }
  int32_t local_rank() const { return byteps_local_rank(session_); }
  int32_t local_size() const { return byteps_local_size(session_); }
  int32_t machine() const { return byteps_machine(session_); }
  std::vector<int32_t> machine_sizes() const {
    std::vector<int32_t> sizes;
    for (int32_t machine = 0;; ++machine) {
      const int32_t size = byteps_machine_size(session_, machine);
      if (size < 0) return sizes;
      sizes.push_back(size);
    }
  }

  bool takes_objects() const { return JobInfo().takes_objects != 0; }
  int64_t operation_limit_ms() const { return JobInfo().operation_limit_ms; }

  // Returns what bits of sums depend on, as a byteps_sum_bits and a sentence.
  std::pair<int, std::string> Sums() const {
    byteps_sums sums{};
    byteps_error error{};
    RaiseIfFailed(byteps_get_sums(session_, &sums, &error), error);
    return {static_cast<int>(sums.bits), sums.text};
  }

  void Declare(const std::string& name) {
    CheckProcess();
    byteps_error error{};
    byteps_code code;
    {
      const WithoutInterpreter released;
      code = byteps_declare(session_, name.c_str(), &error);
    }
    RaiseIfFailed(code, error);
  }

  uint64_t Start(const std::string& name, int operation, int dtype,
                 const std::vector<int64_t>& shape, uintptr_t input, uintptr_t output,
                 int32_t root_rank, int32_t priority, int combine, int32_t process_set,
                 const std::string& detail, const std::optional<std::vector<int64_t>>& splits,
                 bool atomic, int64_t limit_ms, std::optional<int32_t> device, uintptr_t stream,
                 const std::shared_ptr<Ending>& ending, Shared<Ticket>* ticket,
                 Shared<Followers>* followers) {
    CheckProcess();
    const Submission submission{name,      operation, dtype,   shape,       input,  output,
                                root_rank, priority,  combine, process_set, detail, splits,
                                atomic,    limit_ms,  device,  stream};
    const byteps_request request = submission.Request();
    byteps_handle handle = 0;
    byteps_error error{};
    byteps_code code;
    if (followers != nullptr) {
      if (ticket == nullptr) throw nb::value_error("followers need the ticket of the first");
      code = followers->own->Begin(session_, request, ticket->own, &error);
      handle = ticket->own->handle();
    } else if (ending != nullptr) {
      code = StartFor(ending, session_, request, &handle, &error);
    } else {
      code = byteps_start(session_, &request, &handle, &error);
      if (ticket != nullptr) ticket->own->Start(handle);
    }
    RaiseIfFailed(code, error);
    return handle;
  }

  // Blocks until all followers have started, or the time is over. Returns whether they have. Raises
  // the error of the first follower that was refused.
  bool WaitForFollowers(Shared<Followers>& shared, int64_t timeout_ms) {
    CheckProcess();
    const std::shared_ptr<Followers> followers = shared.own;
    bool is_over = false;
    for (;;) {
      const bool last = timeout_ms >= 0 && timeout_ms <= kSignalCheckMs;
      const int64_t slice_ms = last ? timeout_ms : kSignalCheckMs;
      {
        const WithoutInterpreter released;
        is_over = followers->WaitFor(std::chrono::milliseconds(slice_ms));
      }
      if (is_over || last) break;
      if (timeout_ms >= 0) timeout_ms -= slice_ms;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    if (!is_over) return false;
    byteps_error error{};
    RaiseIfFailed(followers->problem(&error), error);
    return true;
  }

  void AddProcessSet(const std::vector<int32_t>& ranks, int32_t number) {
    CheckProcess();
    byteps_error error{};
    byteps_code code;
    {
      const WithoutInterpreter released;
      code = byteps_add_process_set(session_, ranks.data(), ranks.size(), number, &error);
    }
    RaiseIfFailed(code, error);
  }

  void RemoveProcessSet(int32_t number) {
    CheckProcess();
    byteps_error error{};
    byteps_code code;
    {
      const WithoutInterpreter released;
      code = byteps_remove_process_set(session_, number, &error);
    }
    RaiseIfFailed(code, error);
  }

  int Poll(uint64_t handle) { return byteps_poll(session_, handle); }

  void Wait(uint64_t handle, int64_t timeout_ms) {
    CheckProcess();
    byteps_error error{};
    for (;;) {
      const bool last = timeout_ms >= 0 && timeout_ms <= kSignalCheckMs;
      const int64_t slice_ms = last ? timeout_ms : kSignalCheckMs;
      byteps_code code = WaitSlice(handle, slice_ms, &error);
      // The operation may have ended while this thread waited for the interpreter.
      const bool ended = code == BYTEPS_DEADLINE_EXCEEDED && byteps_poll(session_, handle) != 0;
      if (ended) code = byteps_wait(session_, handle, 0, &error);
      if (code != BYTEPS_DEADLINE_EXCEEDED || ended || last) {
        RaiseIfFailed(code, error);
        return;
      }
      if (timeout_ms >= 0) timeout_ms -= slice_ms;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }

  void SetStuck(const std::optional<std::string>& name) {
    CheckProcess();
    byteps_error error{};
    RaiseIfFailed(byteps_set_stuck(session_, name.has_value() ? name->c_str() : nullptr, &error),
                  error);
  }

  std::tuple<uint64_t, int64_t, uint32_t> Result(uint64_t handle) {
    const byteps_result result = GetResult(handle);
    return {result.bytes, result.first_dimension, result.members};
  }

  bool IsOfAnyLayout(uint64_t handle) {
    return (GetResult(handle).flags & BYTEPS_RESULT_ANY_LAYOUT) != 0;
  }

  std::tuple<int64_t, int64_t> Times(uint64_t handle) {
    const byteps_result result = GetResult(handle);
    return {result.begun_ns, result.ended_ns};
  }

  void SetTimeline(bool on) {
    CheckProcess();
    byteps_error error{};
    const byteps_code code = byteps_set_timeline(session_, on ? 1 : 0, &error);
    RaiseIfFailed(code, error);
  }

  // (name, kind, op, dtype, tensor, piece, round, shard, bytes, moments in ns), and how many of
  // them were lost.
  using Entry = std::tuple<std::string, int32_t, int32_t, int32_t, uint32_t, uint32_t, uint64_t,
                           uint32_t, uint64_t, std::vector<int64_t>>;
  std::tuple<std::vector<Entry>, uint64_t> TakeTimeline() {
    CheckProcess();
    std::vector<byteps_timeline_entry> taken(kEntriesAtOnce);
    size_t count = 0;
    uint64_t lost = 0;
    byteps_error error{};
    const byteps_code code =
        byteps_take_timeline(session_, taken.data(), taken.size(), &count, &lost, &error);
    RaiseIfFailed(code, error);
    taken.resize(count);
    std::vector<Entry> entries;
    for (const byteps_timeline_entry& one : taken) {
      entries.emplace_back(one.name, one.kind, one.op, one.dtype, one.tensor, one.piece, one.round,
                           one.shard, one.bytes,
                           std::vector<int64_t>(std::begin(one.at_ns), std::end(one.at_ns)));
    }
    return {std::move(entries), lost};
  }

  std::vector<int64_t> ReceivedSplits(uint64_t handle) {
    const byteps_result result = GetResult(handle);
    return {result.received_splits, result.received_splits + result.received_split_count};
  }

  std::vector<int32_t> HandleMembers(uint64_t handle) {
    return Ranks([&](int32_t* ranks, size_t capacity, size_t* count, byteps_error* error) {
      return byteps_handle_members(session_, handle, ranks, capacity, count, error);
    });
  }

  std::vector<int32_t> Members() {
    CheckProcess();
    return Ranks([&](int32_t* ranks, size_t capacity, size_t* count, byteps_error* error) {
      return byteps_members(session_, ranks, capacity, count, error);
    });
  }

  void CopyResult(uint64_t handle, uintptr_t target, size_t size_bytes) {
    const byteps_result result = GetResult(handle);
    if (result.bytes != size_bytes) {
      throw nb::value_error("the room for the result has not the size of the result");
    }
    const WithoutInterpreter released;
    if (size_bytes > 0) std::memcpy(reinterpret_cast<void*>(target), result.data, size_bytes);
  }

  void Release(uint64_t handle) {
    if (getpid() != process_) return;
    byteps_release(session_, handle);
  }

  // Returns the address of the memory, and whether other ranks read it there.
  std::tuple<uintptr_t, bool> AllocShared(size_t size_bytes) {
    CheckProcess();
    byteps_shared_memory memory{};
    byteps_error error{};
    byteps_code code;
    {
      const WithoutInterpreter released;
      code = byteps_alloc_shared(session_, size_bytes, &memory, &error);
    }
    RaiseIfFailed(code, error);
    return {reinterpret_cast<uintptr_t>(memory.data), memory.shared != 0};
  }

  std::tuple<uint64_t, double, uint64_t> Speed() {
    byteps_speed speed{};
    byteps_get_speed(session_, &speed);
    return {speed.window_ms, speed.megabytes_per_second, speed.end_ms_since_epoch};
  }

  void GiveUp(const std::string& why) {
    if (getpid() != process_) return;
    byteps_error error{};
    const byteps_code code = byteps_give_up(session_, why.c_str(), &error);
    RaiseIfFailed(code, error);
  }

  void Shutdown() {
    if (getpid() != process_) return;
    byteps_error error{};
    byteps_code code;
    {
      const WithoutInterpreter released;
      code = byteps_shutdown(session_, &error);
    }
    RaiseIfFailed(code, error);
  }

 private:
  byteps_job_info JobInfo() const {
    byteps_job_info info{};
    byteps_error error{};
    RaiseIfFailed(byteps_get_job_info(session_, &info, &error), error);
    return info;
  }

  void CheckProcess() const {
    if (getpid() == process_) return;
    byteps_error error{};
    std::strncpy(error.message,
                 "this process was forked after bps.init(); only the process that called init can "
                 "exchange tensors. Call init in each process, or use them in the parent only.",
                 sizeof(error.message) - 1);
    RaiseError(BYTEPS_INVALID_ARGUMENT, error);
  }

  // Waits at most `slice_ms`. An operation can itself end with BYTEPS_DEADLINE_EXCEEDED, and it can
  // end between the wait and the poll. So the caller waits again, without blocking, to learn how it
  // really ended.
  byteps_code WaitSlice(uint64_t handle, int64_t slice_ms, byteps_error* error) {
    const WithoutInterpreter released;
    return byteps_wait(session_, handle, slice_ms, error);
  }

  // Asks for ranks, and asks again if there was not enough room for them.
  template <typename Ask>
  std::vector<int32_t> Ranks(const Ask& ask) {
    std::vector<int32_t> ranks(static_cast<size_t>(size()));
    size_t count = 0;
    do {
      if (count > ranks.size()) ranks.resize(count);
      byteps_error error{};
      const byteps_code code = ask(ranks.data(), ranks.size(), &count, &error);
      RaiseIfFailed(code, error);
    } while (count > ranks.size());
    ranks.resize(count);
    return ranks;
  }

  byteps_result GetResult(uint64_t handle) {
    byteps_result result{};
    byteps_error error{};
    const byteps_code code = byteps_get_result(session_, handle, &result, &error);
    RaiseIfFailed(code, error);
    return result;
  }

  byteps_session* session_ = nullptr;
  const pid_t process_;
};

// Adds an operation to those that follow another one.
void AddFollower(Shared<Followers>& followers, Shared<Ticket>& ticket, const std::string& name,
                 int operation, int dtype, const std::vector<int64_t>& shape, uintptr_t input,
                 uintptr_t output, int32_t root_rank, int32_t priority, int combine,
                 int32_t process_set, const std::string& detail,
                 const std::optional<std::vector<int64_t>>& splits, bool atomic, int64_t limit_ms,
                 std::optional<int32_t> device, uintptr_t stream) {
  followers.own->Add({name, operation, dtype, shape, input, output, root_rank, priority, combine,
                      process_set, detail, splits, atomic, limit_ms, device, stream},
                     ticket.own);
}

// Frees memory of the session at `address`, which may be closed, because memory outlives it.
void FreeShared(uintptr_t address, uintptr_t data) {
  const WithoutInterpreter released;
  byteps_free_shared(reinterpret_cast<byteps_session*>(address), reinterpret_cast<void*>(data));
}

}  // namespace

void BindSession(nb::module_& module) {
  nb::class_<Opening>(module, "Opening").def(nb::init<>()).def("break_off", &Opening::BreakOff);
  nb::class_<Shared<Ticket>>(module, "Ticket")
      .def(nb::init<>())
      .def_prop_ro("handle", [](const Shared<Ticket>& ticket) { return ticket.own->handle(); })
      .def_prop_ro("is_held", [](const Shared<Ticket>& ticket) { return ticket.own->is_held(); });
  nb::class_<Shared<Followers>>(module, "Followers")
      .def(nb::init<>())
      .def("add", &AddFollower, nb::arg("ticket"), nb::arg("name"), nb::arg("operation"),
           nb::arg("dtype"), nb::arg("shape"), nb::arg("input_pointer"), nb::arg("output_pointer"),
           nb::arg("root_rank"), nb::arg("priority"), nb::arg("combine") = 0,
           nb::arg("process_set") = 0, nb::arg("detail") = "", nb::arg("splits") = nb::none(),
           nb::arg("atomic") = false, nb::arg("limit_ms") = 0, nb::arg("device") = nb::none(),
           nb::arg("stream") = 0);
  nb::class_<Session>(module, "Session")
      .def(nb::init<const std::vector<std::string>&, Opening&>(), nb::arg("settings"),
           nb::arg("opening"))
      .def_prop_ro("address", &Session::address)
      .def_prop_ro("rank", &Session::rank)
      .def_prop_ro("size", &Session::size)
      .def_prop_ro("local_rank", &Session::local_rank)
      .def_prop_ro("local_size", &Session::local_size)
      .def_prop_ro("machine", &Session::machine)
      .def_prop_ro("machine_sizes", &Session::machine_sizes)
      .def_prop_ro("takes_objects", &Session::takes_objects)
      .def_prop_ro("operation_limit_ms", &Session::operation_limit_ms)
      .def("declare", &Session::Declare, nb::arg("name"))
      .def("start", &Session::Start, nb::arg("name"), nb::arg("operation"), nb::arg("dtype"),
           nb::arg("shape"), nb::arg("input_pointer"), nb::arg("output_pointer"),
           nb::arg("root_rank"), nb::arg("priority"), nb::arg("combine") = 0,
           nb::arg("process_set") = 0, nb::arg("detail") = "", nb::arg("splits") = nb::none(),
           nb::arg("atomic") = false, nb::arg("limit_ms") = 0, nb::arg("device") = nb::none(),
           nb::arg("stream") = 0, nb::arg("ending") = nb::none(), nb::arg("ticket") = nb::none(),
           nb::arg("followers") = nb::none())
      .def("wait_for_followers", &Session::WaitForFollowers, nb::arg("followers"),
           nb::arg("timeout_ms"))
      .def("add_process_set", &Session::AddProcessSet, nb::arg("ranks"), nb::arg("number"))
      .def("remove_process_set", &Session::RemoveProcessSet, nb::arg("number"))
      .def("poll", &Session::Poll, nb::arg("handle"))
      .def("wait", &Session::Wait, nb::arg("handle"), nb::arg("timeout_ms"))
      .def("set_stuck", &Session::SetStuck, nb::arg("name").none())
      .def("result", &Session::Result, nb::arg("handle"))
      .def("times", &Session::Times, nb::arg("handle"))
      .def("set_timeline", &Session::SetTimeline, nb::arg("on"))
      .def("take_timeline", &Session::TakeTimeline)
      .def("received_splits", &Session::ReceivedSplits, nb::arg("handle"))
      .def("handle_members", &Session::HandleMembers, nb::arg("handle"))
      .def("members", &Session::Members)
      .def("sums", &Session::Sums)
      .def("is_of_any_layout", &Session::IsOfAnyLayout, nb::arg("handle"))
      .def("copy_result", &Session::CopyResult, nb::arg("handle"), nb::arg("pointer"),
           nb::arg("size_bytes"))
      .def("release", &Session::Release, nb::arg("handle"))
      .def("alloc_shared", &Session::AllocShared, nb::arg("size_bytes"))
      .def("speed", &Session::Speed)
      .def("give_up", &Session::GiveUp, nb::arg("why"))
      .def("shutdown", &Session::Shutdown);
  module.def("free_shared", &FreeShared, nb::arg("session"), nb::arg("data"));
}

}  // namespace byteps::python
