// byteps in C++20: one header over the C interface (byteps.h), so that it works with any compiler
// and standard library. docs/environment.md lists the options.
//
//   byteps::Session session;                       // joins the job that the environment describes
//   std::vector<float> gradient = ...;
//   session.PushPull("gradient", gradient);        // now the average over all ranks
//
// Errors are exceptions of type byteps::Error. In a copy of the process made by fork the objects of
// the parent are useless but harmless: methods throw at once, and destructors do nothing to the
// job.
#pragma once

#if __cplusplus < 202002L
#error "byteps.hpp needs C++20: compile with -std=c++20 or newer"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "byteps/byteps.h"
#include "byteps/sums.h"

namespace byteps {

// What went wrong, and what to do next (what()). docs/errors.md explains the codes.
class Error : public std::runtime_error {
 public:
  explicit Error(const byteps_error& error)
      : std::runtime_error(error.message), code_(error.code) {}

  byteps_code code() const { return code_; }

 private:
  byteps_code code_;
};

namespace internal {

template <typename T>
inline constexpr int kDtypeOf = -1;
template <>
inline constexpr int kDtypeOf<float> = BYTEPS_FLOAT32;
template <>
inline constexpr int kDtypeOf<double> = BYTEPS_FLOAT64;
template <>
inline constexpr int kDtypeOf<int8_t> = BYTEPS_INT8;
template <>
inline constexpr int kDtypeOf<int16_t> = BYTEPS_INT16;
template <>
inline constexpr int kDtypeOf<int32_t> = BYTEPS_INT32;
template <>
inline constexpr int kDtypeOf<int64_t> = BYTEPS_INT64;
template <>
inline constexpr int kDtypeOf<uint8_t> = BYTEPS_UINT8;
template <>
inline constexpr int kDtypeOf<bool> = BYTEPS_BOOL;

// Throws what `call` reports. `call` gets the place for the error's text.
template <typename Call>
void Check(Call&& call) {
  byteps_error error = {};
  const byteps_code code = call(&error);
  if (code == BYTEPS_OK) return;
  error.code = code;
  if (error.message[0] == '\0') {
    std::snprintf(error.message, sizeof(error.message), "byteps error %d", static_cast<int>(code));
  }
  throw Error(error);
}

// The ranks that `ask` writes; it is asked again when there are more than there was room for.
template <typename Ask>
std::vector<int> Ranks(const Ask& ask) {
  std::vector<int32_t> ranks(16);
  size_t count = 0;
  do {
    if (count > ranks.size()) ranks.resize(count);
    Check([&](byteps_error* error) { return ask(ranks.data(), ranks.size(), &count, error); });
  } while (count > ranks.size());
  return {ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(count)};
}

// What byteps_open_while asks; `context` is the function.
inline int Ask(void* context) noexcept {
  return (*static_cast<const std::function<bool()>*>(context))() ? 1 : 0;
}

// What byteps_on_complete is; `context` is the function, which this call owns.
inline void Tell(void* context, byteps_handle, byteps_code code) noexcept {
  const std::unique_ptr<std::function<void(byteps_code)>> function(
      static_cast<std::function<void(byteps_code)>*>(context));
  (*function)(code);
}

inline std::vector<const char*> Pointers(const std::vector<std::string>& settings) {
  std::vector<const char*> pointers;
  pointers.reserve(settings.size());
  for (const std::string& setting : settings) pointers.push_back(setting.c_str());
  return pointers;
}

}  // namespace internal

// A type whose values byteps can combine. For float16 and bfloat16, which C++20 has not, fill in a
// byteps_request and call Session::Start.
template <typename T>
concept Element = internal::kDtypeOf<T> >= 0;

// A vector, array, span ... of such values that byteps may write to.
template <typename R>
concept MutableData = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                      Element<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// The same, or one that byteps only reads.
template <typename R>
concept ReadableData = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       Element<std::ranges::range_value_t<R>>;

// Called exactly once when an operation that was started with it has ended, with how it ended, on a
// thread of the library that it shares with all others of the session: it should return soon. It
// must not throw, and not block: no Wait for an operation that has not ended, no handle of one
// destroyed, no session opened, left or destroyed. byteps_on_complete has the whole contract.
using OnComplete = std::function<void(byteps_code)>;

// An operation that has been started. Move only; one that was moved from may only be destroyed or
// assigned to. One thread at a time may use it.
class Handle {
 public:
  Handle(Handle&& other) noexcept
      : session_(std::move(other.session_)), handle_(std::exchange(other.handle_, 0)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      Release();
      session_ = std::move(other.session_);
      handle_ = std::exchange(other.handle_, 0);
    }
    return *this;
  }
  // Waits until the operation is complete, because its buffers are in use until then.
  ~Handle() { Release(); }

  // True when the operation is complete, also with an error. Does not block.
  bool IsComplete() const { return byteps_poll(session_.get(), handle_) != BYTEPS_RUNNING; }

  // True when it is complete with an error, which Wait throws. Does not block.
  bool HasFailed() const { return byteps_poll(session_.get(), handle_) == BYTEPS_FAILED; }

  // Blocks until the operation is complete. Throws how it ended if not in order.
  void Wait() {
    internal::Check(
        [&](byteps_error* error) { return byteps_wait(session_.get(), handle_, -1, error); });
  }

  // The same for at most `time`; false when the operation is not complete by then.
  bool WaitFor(std::chrono::milliseconds time) {
    byteps_error error = {};
    const int64_t time_ms = time.count() < 0 ? 0 : time.count();
    const byteps_code code = byteps_wait(session_.get(), handle_, time_ms, &error);
    if (code == BYTEPS_OK) return true;
    // The deadline may be this one or the operation's own.
    if (code == BYTEPS_DEADLINE_EXCEEDED && !IsComplete()) return false;
    Wait();
    return true;
  }

  // Blocks like Wait. Valid as long as the handle.
  byteps_result GetResult() {
    Wait();
    byteps_result result = {};
    internal::Check([&](byteps_error* error) {
      return byteps_get_result(session_.get(), handle_, &result, error);
    });
    return result;
  }

  // Blocks like Wait. The ranks whose contributions are in every part of the result.
  std::vector<int> Members() {
    Wait();
    return internal::Ranks(
        [&](int32_t* ranks, size_t capacity, size_t* count, byteps_error* error) {
          return byteps_handle_members(session_.get(), handle_, ranks, capacity, count, error);
        });
  }

 private:
  friend class Session;
  Handle(std::shared_ptr<byteps_session> session, byteps_handle handle)
      : session_(std::move(session)), handle_(handle) {}

  void Release() noexcept {
    if (handle_ == 0) return;
    byteps_wait(session_.get(), handle_, -1, nullptr);
    byteps_release(session_.get(), std::exchange(handle_, 0));
    session_.reset();
  }

  std::shared_ptr<byteps_session> session_;  // see Session
  byteps_handle handle_;
};

// Membership in a job. Move only, with the same rule; the destructor leaves the job. All methods
// but the move may be called from any thread. Methods throw Error.
//
// `name` identifies a tensor and must be the same on every rank, with the same type, size and
// operation; a rank that differs makes the operation fail on all of them. It may be used again when
// its last operation is complete.
class Session {
 public:
  // Joins the job that the environment and `settings` ("num_server=2", ...) describe; settings win.
  // Blocks until all processes have joined, at most the option start_timeout_s.
  explicit Session(const std::vector<std::string>& settings = {}) {
    const std::vector<const char*> pointers = internal::Pointers(settings);
    byteps_session* session = nullptr;
    internal::Check([&](byteps_error* error) {
      return byteps_open(pointers.data(), pointers.size(), &session, error);
    });
    session_ = std::shared_ptr<byteps_session>(session, byteps_close);
  }
  // The same, until `go_on` returns false: that ends the joining with BYTEPS_SHUTDOWN, and this
  // process is not in the job. It is asked several times a second, on this thread, and must not
  // throw.
  Session(const std::vector<std::string>& settings, const std::function<bool()>& go_on) {
    const std::vector<const char*> pointers = internal::Pointers(settings);
    byteps_session* session = nullptr;
    internal::Check([&](byteps_error* error) {
      return byteps_open_while(pointers.data(), pointers.size(), internal::Ask,
                               const_cast<std::function<bool()>*>(&go_on), &session, error);
    });
    session_ = std::shared_ptr<byteps_session>(session, byteps_close);
  }
  Session(Session&&) noexcept = default;
  Session& operator=(Session&& other) noexcept {
    if (this != &other) {
      Leave();
      session_ = std::move(other.session_);
    }
    return *this;
  }
  // Leaves the job as Shutdown does, and says nothing about errors. If an exception destroys the
  // session, the job loses this process, as after GiveUp: the others hear that it ended so. For the
  // text of the exception, catch it while the session lives, and call GiveUp.
  ~Session() {
    if (session_ != nullptr && std::uncaught_exceptions() > exceptions_) {
      byteps_give_up(session_.get(), "a C++ exception ended its session", nullptr);
    }
    Leave();
  }

  int Rank() const { return byteps_rank(session_.get()); }
  int Size() const { return byteps_size(session_.get()); }
  int LocalRank() const { return byteps_local_rank(session_.get()); }
  int LocalSize() const { return byteps_local_size(session_.get()); }

  // Which machine of the job this process is on.
  int Machine() const { return byteps_machine(session_.get()); }
  // How many workers each machine has.
  std::vector<int> MachineSizes() const {
    std::vector<int> sizes;
    for (int machine = 0;; ++machine) {
      const int size = byteps_machine_size(session_.get(), machine);
      if (size < 0) return sizes;
      sizes.push_back(size);
    }
  }

  // The ranks that take part in the job now: those of the last view that this process knows.
  std::vector<int> Members() const {
    return internal::Ranks(
        [&](int32_t* ranks, size_t capacity, size_t* count, byteps_error* error) {
          return byteps_members(session_.get(), ranks, capacity, count, error);
        });
  }

  // What the bits of sums depend on in the job as it is now.
  byteps_sums Sums() const {
    byteps_sums sums{};
    internal::Check(
        [&](byteps_error* error) { return byteps_get_sums(session_.get(), &sums, error); });
    return sums;
  }

  // Leaves the job in order; open operations fail with BYTEPS_SHUTDOWN. Blocks a bounded time. May
  // be called again.
  void Shutdown() {
    internal::Check([&](byteps_error* error) { return byteps_shutdown(session_.get(), error); });
  }

  // Tells the job that this process cannot go on. `why` is the reason, for people; 1024 bytes of it
  // count. The job loses the process: operations of other ranks that need it fail with this text.
  // Does not block; the end of the session should follow.
  void GiveUp(const std::string& why) {
    internal::Check(
        [&](byteps_error* error) { return byteps_give_up(session_.get(), why.c_str(), error); });
  }

  // Gives `name` its place in the order of urgency before its first use.
  void Declare(const std::string& name) {
    internal::Check(
        [&](byteps_error* error) { return byteps_declare(session_.get(), name.c_str(), error); });
  }

  // Starts any operation. Does not block. The request's buffers must stay valid until the handle
  // says that it is complete, or is gone; the request itself need not.
  [[nodiscard]] Handle Start(const byteps_request& request) {
    byteps_handle handle = 0;
    internal::Check([&](byteps_error* error) {
      return byteps_start(session_.get(), &request, &handle, error);
    });
    return Handle(session_, handle);
  }

  // The same with a function that is called when the operation has ended, instead of the request's.
  // It may be called before this returns; when this throws it is not.
  [[nodiscard]] Handle Start(byteps_request request, OnComplete on_complete) {
    if (on_complete == nullptr) return Start(request);
    auto function = std::make_unique<OnComplete>(std::move(on_complete));
    request.on_complete = internal::Tell;
    request.context = function.get();
    Handle handle = Start(request);
    (void)function.release();  // it belongs to the call now
    return handle;
  }

  // Starts to combine `data` over all ranks, in place. Does not block; `data` must stay valid and
  // untouched until the handle is complete or gone. Higher `priority` leaves first.
  template <MutableData R>
  [[nodiscard]] Handle StartPushPull(const std::string& name, R&& data,
                                     byteps_op op = BYTEPS_AVERAGE, int priority = 0,
                                     OnComplete on_complete = nullptr) {
    return StartInPlace(name, op, std::span(data), 0, priority, std::move(on_complete));
  }

  // Combines `data` over all ranks, in place. Blocks. Returns how many ranks are in the result.
  template <MutableData R>
  uint32_t PushPull(const std::string& name, R&& data, byteps_op op = BYTEPS_AVERAGE) {
    return StartPushPull(name, data, op).GetResult().members;
  }

  // Gives every rank the root's `data`, bit for bit. Blocks.
  template <MutableData R>
  void Broadcast(const std::string& name, R&& data, int root_rank = 0) {
    StartInPlace(name, BYTEPS_BROADCAST, std::span(data), root_rank, 0, nullptr).Wait();
  }

  // All ranks' values, rank after rank; their number may differ by rank. Blocks.
  template <ReadableData R>
  std::vector<std::ranges::range_value_t<R>> Allgather(const std::string& name, const R& data) {
    using T = std::ranges::range_value_t<R>;
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no memory; gather uint8_t");
    const std::span<const T> values(data);
    const int64_t count = static_cast<int64_t>(values.size());
    byteps_request request = RequestOf(name, BYTEPS_ALLGATHER, internal::kDtypeOf<T>, &count);
    request.input = values.data();
    Handle handle = Start(request);
    const byteps_result result = handle.GetResult();
    std::vector<T> gathered(result.bytes / sizeof(T));
    if (!gathered.empty()) std::memcpy(gathered.data(), result.data, gathered.size() * sizeof(T));
    return gathered;
  }

  // Blocks until every rank has come here.
  void Barrier(const std::string& name = "byteps.barrier") {
    byteps_request request = RequestOf(name, BYTEPS_BARRIER, BYTEPS_UINT8, nullptr);
    Start(request).Wait();
  }

  // Bytes moved in the last complete window; window_ms is 0 when there is none yet.
  byteps_speed Speed() const {
    byteps_speed speed = {};
    const byteps_code code = byteps_get_speed(session_.get(), &speed);
    internal::Check([&](byteps_error*) { return code; });
    return speed;
  }

 private:
  // `count` is the only dimension; null for a scalar.
  static byteps_request RequestOf(const std::string& name, byteps_op op, int dtype,
                                  const int64_t* count) {
    byteps_request request = {};
    request.name = name.c_str();
    request.op = op;
    request.dtype = static_cast<byteps_dtype>(dtype);
    request.shape = count;
    request.dimensions = count == nullptr ? 0 : 1;
    return request;
  }

  template <typename T, size_t N>
  Handle StartInPlace(const std::string& name, byteps_op op, std::span<T, N> data, int root_rank,
                      int priority, OnComplete on_complete) {
    const int64_t count = static_cast<int64_t>(data.size());
    byteps_request request = RequestOf(name, op, internal::kDtypeOf<T>, &count);
    request.input = data.data();
    request.output = data.data();
    request.root_rank = root_rank;
    request.priority = priority;
    return Start(request, std::move(on_complete));
  }

  void Leave() noexcept {
    if (session_ != nullptr) byteps_shutdown(session_.get(), nullptr);
    session_.reset();
  }

  // Shared with the handles: the session's memory must outlive them, in whatever order the user's
  // objects go.
  std::shared_ptr<byteps_session> session_;
  // Counts the exceptions that were on their way when the session began.
  int exceptions_ = std::uncaught_exceptions();
};

// Runs a server or the coordinator in this process ("role=server"). Blocks until the job is over;
// throws why it ended if not in order.
inline void Serve(const std::vector<std::string>& settings = {}) {
  const std::vector<const char*> pointers = internal::Pointers(settings);
  internal::Check(
      [&](byteps_error* error) { return byteps_serve(pointers.data(), pointers.size(), error); });
}

// Of the library, which may be another than that of this header (BYTEPS_INTERFACE).
inline std::string Version() { return byteps_version(); }
inline int Interface() { return byteps_interface(); }

}  // namespace byteps
