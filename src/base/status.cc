#include "src/base/status.h"

#include <cerrno>
#include <cstring>

namespace byteps {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kMismatch: return "mismatch";
    case StatusCode::kDuplicateName: return "duplicate name";
    case StatusCode::kPeerLost: return "peer lost";
    case StatusCode::kEvicted: return "evicted";
    case StatusCode::kDeadlineExceeded: return "deadline exceeded";
    case StatusCode::kShutdown: return "shut down";
    case StatusCode::kRefused: return "refused";
    case StatusCode::kProtocol: return "protocol error";
    case StatusCode::kUnavailable: return "unavailable";
    case StatusCode::kExhausted: return "limit reached";
    case StatusCode::kOutOfStep: return "out of step";
    case StatusCode::kInternal: return "internal error";
  }
  return "unknown";
}

const std::string Status::kNoMessage;

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(StatusCodeName(code_)) + ": " + message();
}

Status SystemError(StatusCode code, const std::string& what) {
  return {code, what + ": " + std::strerror(errno)};
}

}  // namespace byteps
