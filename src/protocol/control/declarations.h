// The coordinator's side of declarations: the first rank that uses a name fixes what it is; a rank
// that differs makes the operation fail on every rank, with both sides named.
//
// Each name has a list of decisions, one per attempt. A rank asks for its next attempt and gets
// that decision, whether it comes first or last, or again after its connection was lost; so every
// rank sees the same sequence, and a name whose declaration failed can be used again at once.
// A new generation knows no names; numbers of tensors are never used again.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/plan/piece_assigner.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Declarations {
 public:
  // Who declares.
  struct Rank {
    uint64_t incarnation = 0;
    uint32_t number = 0;
  };
  // What is to be sent, and to whom.
  struct Answer {
    uint64_t to = kServers;  // incarnation of a worker, or all servers
    wire::Message message;
  };
  static constexpr uint64_t kServers = 0;
  using Answers = std::vector<Answer>;

  // Forgets all names: a generation begins. `dealer` deals the pieces of its tensors.
  void Begin(plan::PieceAssigner dealer, uint32_t workers, uint32_t piece_bytes_max);
  // Numbers of a coordinator's tensors: `first`, and fewer than `first` + `count`.
  void Number(TensorId first, uint32_t count);

  Answers OnDeclare(const Rank& rank, const wire::Declare& declare);

  // What a worker knows from a coordinator whose memory is lost. Answers are what others know
  // wrongly: a failed attempt beats a declared one.
  Answers OnKnown(const Rank& rank, const wire::Known& known);
  // After OnKnown from every worker: goes on dealing where the latest known tensor ended.
  Status GoOnDealing();

  // For a server that joins, or is connected again; and for a worker that is: what it was told to
  // be declared and has failed since. They may know it already.
  Answers FailedForServer(uint64_t server) const;
  Answers FailedForWorker(uint64_t worker) const;

 private:
  struct Decision {
    enum class State : uint8_t { kUnknown, kDeclared, kFailed };
    State state = State::kUnknown;
    TensorId tensor = UINT32_MAX;
    wire::TensorSpec spec;
    uint32_t by = 0;  // rank that spoke first
    uint64_t round = 1;
    std::string text;
    StatusCode code = StatusCode::kMismatch;
    std::vector<uint64_t> placement;
    std::set<uint64_t> told;  // incarnations
  };
  using Decisions = std::vector<Decision>;  // of one name: attempt 0, 1, ...

  Decision Decide(const Rank& rank, const wire::Declare& declare);
  Answers Mismatch(const Rank& rank, const wire::Declare& declare, Decision& decision);
  Decision& At(const std::string& name, uint32_t attempt);
  static wire::DeclareFailed FailureOf(const std::string& name, uint32_t attempt,
                                       const Decision& decision);

  std::optional<plan::PieceAssigner> dealer_;
  uint32_t workers_ = 0;
  uint32_t piece_bytes_max_ = 0;
  TensorId next_tensor_ = 1;
  TensorId end_tensor_ = UINT32_MAX;
  std::unordered_map<std::string, Decisions> names_;
};

}  // namespace byteps::protocol
