// How a worker leaves in order: it says so when nobody depends any more on what it holds, or when
// that takes too long; then it is out once the others have taken note. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "src/wire/control.h"

namespace byteps::protocol {

class Leaving {
 public:
  enum class Phase : uint8_t { kIn, kSettling, kSaid, kOut };

  Phase phase() const { return phase_; }
  bool wants() const { return phase_ != Phase::kIn; }

  // The worker wants to leave. False: it did already.
  bool Begin() {
    if (phase_ != Phase::kIn) return false;
    phase_ = Phase::kSettling;
    return true;
  }
  // What it holds has settled, or that took too long: what to tell the coordinator; nothing if it
  // has been told. With operations open nothing may be taken from shards any more: what this worker
  // would then hold, and others lack, it could not pass on.
  std::optional<wire::Leave> Say(size_t open_operations) {
    if (phase_ != Phase::kSettling) return std::nullopt;
    phase_ = Phase::kSaid;
    said_.clean = open_operations == 0;
    return said_;
  }
  // Again, for a coordinator that has not answered.
  std::optional<wire::Leave> SayAgain() const {
    if (phase_ != Phase::kSaid) return std::nullopt;
    return said_;
  }
  // It is in force, or nobody waits for that.
  void End() { phase_ = Phase::kOut; }

 private:
  Phase phase_ = Phase::kIn;
  wire::Leave said_;
};

}  // namespace byteps::protocol
