// Status: how an operation ended, as a value.
//
// Operating errors (a peer, the network, a file, a user's argument) are Status values; bugs are
// assertions. Nothing a peer or a user does may reach an assertion. A message says what happened,
// where, and what to do next. Status and Result are values: copyable, thread-compatible.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/check.h"

namespace byteps {

// The numbers are part of the C ABI and of the wire format: never renumber. docs/errors.md
// explains each one to users.
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 1,   // the caller's argument is wrong; nothing was sent
  kMismatch = 2,          // ranks disagree about a tensor; raised on every rank
  kDuplicateName = 3,     // the name is in flight
  kPeerLost = 4,          // a worker, server or the coordinator is gone
  kEvicted = 5,           // the other members went on without this process
  kDeadlineExceeded = 6,  // a bounded wait ended
  kShutdown = 7,          // the session was shut down
  kRefused = 8,           // the job refused this process; the message names the difference
  kProtocol = 9,          // bytes that no correct peer sends
  kUnavailable = 10,      // nobody answers at the address
  kExhausted = 11,        // a limit was reached
  kInternal = 12,         // a bug of ours
  kOutOfStep = 13,        // ranks made other calls, or another order; raised on every rank
};
inline constexpr StatusCode kLastStatusCode = StatusCode::kOutOfStep;

std::string_view StatusCodeName(StatusCode code);

// A Status goes along with every piece, so it is small: only an error has memory for a text.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_ == nullptr ? kNoMessage : *message_; }

  // Returns "mismatch: tensor 'w' ...", or "ok".
  std::string ToString() const;

  friend bool operator==(const Status& one, const Status& other) {
    return one.code_ == other.code_ && one.message() == other.message();
  }

 private:
  static const std::string kNoMessage;

  StatusCode code_ = StatusCode::kOk;
  std::shared_ptr<const std::string> message_;  // copies share the text
};

// Makes an error of a system call that failed: `what`, and the text of errno.
Status SystemError(StatusCode code, const std::string& what);

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design, like std::expected
  Result(Status status) : status_(std::move(status)) {  // NOLINT: see above
    BYTEPS_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace byteps
