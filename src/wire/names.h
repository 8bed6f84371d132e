// Messages about what names stand for: declarations, their failures, operations that wait for other
// ranks, and names that nobody uses any more. Values.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/wire/tensor_spec.h"

namespace byteps::wire {

// The ranks of a process set may use a name with any number of specs over time; each spec is a
// tensor of its own. Uses are counted together, over all specs, and the round of an operation is
// the number of its use (data.h). All ranks of the set must use the same tensor in one round.
//
// A name has one lifetime after the other in a process set. The coordinator numbers lifetimes, in
// ascending order. When all ranks have let go of all tensors of a lifetime, the coordinator forgets
// it, and the next use of the name begins another lifetime. 0: the rank does not know the name.
//
// A Use is one use of a name. `attempt` counts the failures in the lifetime; each attempt begins
// with round 1 and without tensors.
struct Use {
  uint32_t process_set = 0;
  uint32_t attempt = 0;
  uint64_t round = 1;
  uint32_t lifetime = 0;
  friend bool operator==(const Use&, const Use&) = default;
  // Uses of an earlier lifetime come before all uses of a later one.
  friend std::strong_ordering operator<=>(const Use& a, const Use& b) {
    return std::tie(a.process_set, a.lifetime, a.attempt, a.round) <=>
           std::tie(b.process_set, b.lifetime, b.attempt, b.round);
  }
};
struct NamedUse {
  std::string name;
  Use use;
  friend auto operator<=>(const NamedUse&, const NamedUse&) = default;
};

// A worker uses a name with this spec for the first time in this attempt, in this round.
struct Declare {
  std::string name;
  uint32_t attempt = 0;
  TensorSpec spec;
  uint64_t round = 1;
  uint32_t lifetime = 0;
  friend bool operator==(const Declare&, const Declare&) = default;
};

// Answers a Declare. All workers deal the pieces from `placement` (plan::PieceAssigner::State).
struct Declared {
  std::string name;
  uint32_t process_set = 0;
  uint32_t attempt = 0;
  TensorId tensor = 0;
  std::vector<uint64_t> placement;
  uint32_t lifetime = 0;
  friend bool operator==(const Declared&, const Declared&) = default;
};

// The attempt fails on every rank of the process set, from the round of `use` on, and its tensors
// retire. `also` has uses of this name in other sets, or of other names, with the same failure: a
// rank that has raised it in one of them has raised it in all.
struct DeclareFailed {
  std::string name;
  Use use;
  std::vector<TensorId> tensors;
  StatusCode code = StatusCode::kMismatch;
  std::string text;
  std::vector<NamedUse> also;
  friend bool operator==(const DeclareFailed&, const DeclareFailed&) = default;
};

// A worker tells once of each operation that has not ended for a while. A rank that goes back to a
// spec that it knows asks nobody, so only these messages show a difference then.
struct OverdueUse {
  std::string name;
  Use use;
  TensorId tensor = UINT32_MAX;  // UINT32_MAX: told before, and ended in an error since
  std::vector<Use> elsewhere;    // the sender's last uses of this name in other process sets
  bool stuck = false;            // the sender can begin nothing before it has ended
  friend bool operator==(const OverdueUse&, const OverdueUse&) = default;
};
struct ProcessSetRanks {
  uint32_t number = 0;
  std::vector<uint32_t> ranks;
  friend bool operator==(const ProcessSetRanks&, const ProcessSetRanks&) = default;
};
struct Overdue {
  std::vector<OverdueUse> uses;
  std::vector<ProcessSetRanks> process_sets;  // sets of `uses`, without 0: all ranks
  friend bool operator==(const Overdue&, const Overdue&) = default;
};

// The coordinator asks a stuck worker which of `uses` it has not begun, and the worker answers with
// these. It may have begun an earlier use of the same name, and no later one.
struct Unbegun {
  NamedUse stuck;
  std::vector<NamedUse> uses;
  friend bool operator==(const Unbegun&, const Unbegun&) = default;
};

// A worker tells its declarations to a coordinator that has lost them. The messages come before the
// worker's Report, in as many parts as necessary.
struct KnownTensor {
  Declared declared;
  TensorSpec spec;
  bool let_go = false;  // the worker has let go of it
  friend bool operator==(const KnownTensor&, const KnownTensor&) = default;
};
struct Known {
  std::vector<KnownTensor> tensors;
  std::vector<DeclareFailed> failed;
  friend bool operator==(const Known&, const Known&) = default;
};

// A restarted coordinator, which has heard from every worker, tells servers: from `first` to before
// `end`, numbers that it does not give itself, no member of the job knows other tensors than these.
struct StillKnown {
  TensorId first = 0;
  TensorId end = 0;
  std::vector<TensorId> tensors;
  friend bool operator==(const StillKnown&, const StillKnown&) = default;
};

// A worker lets go of tensors that it has not used for long and whose last use ended well. It asks
// again (Declare) before it uses one of them.
struct LetGo {
  std::vector<TensorId> tensors;
  friend bool operator==(const LetGo&, const LetGo&) = default;
};
// The coordinator tells that all ranks have let go of these tensors. It also tells workers this of
// all tensors of these lifetimes, so that the next use of the name is the first one.
struct LifetimeNumber {
  std::string name;
  uint32_t process_set = 0;
  uint32_t number = 0;
  friend bool operator==(const LifetimeNumber&, const LifetimeNumber&) = default;
};
struct Forgotten {
  std::vector<TensorId> tensors;
  std::vector<LifetimeNumber> lifetimes;
  friend bool operator==(const Forgotten&, const Forgotten&) = default;
};

}  // namespace byteps::wire
