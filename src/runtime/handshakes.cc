#include "src/runtime/handshakes.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace byteps::runtime {

// Allows more than the connections of a job's members that come at the same moment, and never most
// of the descriptors.
size_t UnprovenMax() {
  constexpr size_t kLeast = 16;
  constexpr size_t kMost = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return std::clamp<size_t>(limit.rlim_cur / 4, kLeast, kMost);
}

Handshakes::Handshakes(transport::Loop& loop, const JobIdentity& identity, size_t unproven_max,
                       HandshakeAcceptor::Decide decide, Done done)
    : loop_(loop),
      identity_(identity),
      unproven_max_(unproven_max),
      decide_(std::move(decide)),
      done_(std::move(done)) {}

void Handshakes::Accept(std::unique_ptr<transport::Connection> connection) {
  MakeRoom();
  uint64_t attempt = next_attempt_++;
  all_[attempt] = std::make_unique<HandshakeAcceptor>(
      loop_, std::move(connection), identity_, decide_,
      [this, attempt](Result<std::unique_ptr<transport::Connection>> bound,
                      const wire::Hello& hello) { OnDone(attempt, std::move(bound), hello); });
}

void Handshakes::MakeRoom() {
  auto unproven = [](const auto& entry) { return !entry.second->proven(); };
  auto count = static_cast<size_t>(std::ranges::count_if(all_, unproven));
  if (count >= unproven_max_) all_.erase(std::ranges::find_if(all_, unproven));
}

void Handshakes::OnDone(uint64_t attempt, Result<std::unique_ptr<transport::Connection>> connection,
                        const wire::Hello& hello) {
  auto finished = all_.extract(attempt);
  done_(std::move(connection), hello, finished.mapped()->peer());
}

}  // namespace byteps::runtime
