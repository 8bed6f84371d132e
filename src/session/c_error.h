// Passes errors through the C interface, as a code and a text in the caller's struct. No exception
// passes.
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

// Returns whether `error` is null or has a possible size. If not, says so on stderr.
bool CanHold(const byteps_error* error);

// Reports for functions that have no place for a text.
void SayOnStderr(const std::string& text);

// Returns an error for a system resource that this process lacks, or for a bug.
Status OfSystem(const std::system_error& failure);

// Runs `work`, which returns a Status, and reports that status, or an exception of `work`: memory
// can run out anywhere.
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
