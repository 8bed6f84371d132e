// Assertions that stay in release builds: what guards memory that others write to. A bug, never
// anything that a peer, a file, a user or the network can bring about.
#pragma once

namespace byteps::internal {

// Writes one line to stderr, past every log, and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace byteps::internal

#define BYTEPS_CHECK(condition)                      \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::byteps::internal::CheckFailed(#condition, __FILE__, __LINE__))
