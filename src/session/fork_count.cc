#include "src/session/fork_count.h"

#include <pthread.h>

#include <atomic>

namespace byteps::session {
namespace {

// tidy-allow(global): it counts events of the process as a whole; decision 13.
std::atomic<uint64_t> fork_count = 0;

void CountOne() { ++fork_count; }  // the only thread of the copy

}  // namespace

Status CountForks() {
  static const int result = ::pthread_atfork(nullptr, nullptr, CountOne);
  if (result == 0) return Status::Ok();
  return {StatusCode::kExhausted, "this process is out of memory"};
}

uint64_t ForkCount() { return fork_count.load(std::memory_order_relaxed); }

}  // namespace byteps::session
