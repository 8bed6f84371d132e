#include "src/base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace byteps::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  char text[512];
  int size = std::snprintf(text, sizeof(text), "byteps: %s:%d: a bug: not true: %s\n", file, line,
                           condition);
  if (size > 0) {
    size_t bytes =
        static_cast<size_t>(size) < sizeof(text) ? static_cast<size_t>(size) : sizeof(text) - 1;
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, bytes);
  }
  std::abort();  // tidy-allow(exit): a bug; the next step would overwrite memory.
}

}  // namespace byteps::internal
