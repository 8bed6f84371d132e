// The steps in which a worker leaves in order. It says that it leaves when no member depends any
// more on what it holds, or when that takes too long. It is out once the others have taken note.
// One thread at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "src/wire/membership.h"

namespace byteps::protocol {

class Leaving {
 public:
  enum class Phase : uint8_t { kIn, kSettling, kSaid, kOut };

  Phase phase() const { return phase_; }
  bool wants() const { return phase_ != Phase::kIn; }

  // Notes that the worker wants to leave. Returns false if it already wanted to.
  bool Begin() {
    if (phase_ != Phase::kIn) return false;
    phase_ = Phase::kSettling;
    return true;
  }
  // Returns the message to the coordinator, because what the worker holds has settled or because
  // that took too long. Returns nothing if the message was sent before. If operations are open, the
  // worker may not take anything from shards any more: it could not pass on a verdict that it would
  // then hold and others lack.
  std::optional<wire::Leave> Say(size_t open_operations) {
    if (phase_ != Phase::kSettling) return std::nullopt;
    phase_ = Phase::kSaid;
    said_.clean = open_operations == 0;
    return said_;
  }
  // Returns the message again, for a coordinator that has not answered.
  std::optional<wire::Leave> SayAgain() const {
    if (phase_ != Phase::kSaid) return std::nullopt;
    return said_;
  }
  // Notes that the leave is in force, or that the worker does not wait for it.
  void End() { phase_ = Phase::kOut; }

 private:
  Phase phase_ = Phase::kIn;
  wire::Leave said_;
};

}  // namespace byteps::protocol
