// Assertions that stay in release builds, because they guard memory that others write to. A failed
// check is a bug: no peer, file, user or network can cause one.
#pragma once

namespace byteps::internal {

// Writes one line to stderr, past every log, and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace byteps::internal

#define BYTEPS_CHECK(condition)                      \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::byteps::internal::CheckFailed(#condition, __FILE__, __LINE__))
