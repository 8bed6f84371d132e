// How errors cross the C interface: as a code, and a text in the caller's struct. No exception
// does.
#pragma once

#include <new>
#include <string>
#include <system_error>

#include "byteps/byteps.h"
#include "src/base/status.h"

namespace byteps::session {

inline Status Invalid(std::string text) { return {StatusCode::kInvalidArgument, std::move(text)}; }
inline Status Missing(const char* what) { return Invalid(std::string(what) + " is null"); }

// Writes code and text where `error` is not null. REQUIRES: CanHold(error).
byteps_code Say(const Status& status, byteps_error* error);

// Whether `error` is null or of a size that can be. If not, says so on stderr.
bool CanHold(const byteps_error* error);

// For what has no place for a text.
void SayOnStderr(const std::string& text);

// What this process lacks, or a bug.
Status OfSystem(const std::system_error& failure);

// Runs `work`, which returns a Status, and says what it returns or what escapes from it: memory can
// run out anywhere.
template <typename Work>
byteps_code Guard(byteps_error* error, Work work) {
  if (!CanHold(error)) return BYTEPS_INVALID_ARGUMENT;
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

}  // namespace byteps::session
