// The coordinator's side of names. It knows what each name stands for, and finds out whether the
// ranks agree.
//
// The ranks of each process set use a name by and by with any number of specs; each spec is a
// tensor. A rank asks for a tensor when it first uses a name with that spec. Later the rank speaks
// only when an operation does not end. Either time it says which tensor it means in which round of
// the name, that is, in which use. If two ranks of a process set mean different tensors in one
// round, they disagree, whenever they say so. Then the attempt at the name fails for the process
// set from that round on, on every rank. The next attempt begins with no tensors and round 1.
//
// A rank asks for its next attempt and gets that attempt's answer, whether the rank comes first or
// last, or again after its connection was lost. So every rank sees the same sequence of failures.
//
// Ranks let go of tensors that they do not use. The coordinator forgets a tensor that no rank
// holds, and a name that has no tensor left. So memory grows with the names in use, not with all
// names that ever were. A rank lets go only after a use that ended well. Every rank of the process
// set has taken part in that use, except ranks that had joined. So all ranks agree how often the
// name was used, and the coordinator can forget that, too. A rank that asks with a lifetime that is
// over hears so, and asks again as for a new name.
//
// A new generation knows no names. Numbers of tensors and lifetimes are never used again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/plan/piece_assigner.h"
#include "src/protocol/control/names/attempt.h"
#include "src/protocol/control/names/lifetimes.h"
#include "src/protocol/control/names/tensor_dealer.h"
#include "src/protocol/control/names/wait_circles.h"
#include "src/protocol/control/views/coordinator_rules.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Declarations {
 public:
  explicit Declarations(const CoordinatorRules& rules = kCoordinatorRules);
  Declarations(const Declarations&) = delete;
  Declarations& operator=(const Declarations&) = delete;

  // A rank that declares.
  struct Rank {
    uint64_t incarnation = 0;
    uint32_t number = 0;
  };
  // A message, and its receiver.
  struct Answer {
    uint64_t to = kServers;  // the incarnation of a worker, or all servers
    wire::Message message;
  };
  static constexpr uint64_t kServers = 0;
  using Answers = std::vector<Answer>;

  // The number of specs that a name may have in one process set. One more, and the name fails.
  static constexpr size_t kVariantsMax = 16384;

  // Forgets all names, because a generation of so many ranks begins. `dealer` deals the pieces of
  // its tensors.
  void Begin(plan::PieceAssigner dealer, uint32_t ranks, uint32_t piece_bytes_max);
  // Sets the numbers of this coordinator's tensors and lifetimes: from `first` on, below `first` +
  // `count`.
  void Number(TensorId first, uint32_t count);

  Answers OnDeclare(const Rank& rank, const wire::Declare& declare);

  // Notes that the rank does not use these tensors any more, until it asks again.
  Answers OnLetGo(const Rank& rank, const wire::LetGo& let_go);
  // Forgets all tensors that no rank holds. After a restart, do not call it before OnAllKnown.
  Answers ForgetUnheld() { return Forget(lifetimes_.Unheld()); }

  // Takes the operations of a rank that do not end, and finds out whether other ranks mean
  // something else.
  Answers OnOverdue(const Rank& rank, const wire::Overdue& overdue);
  // Takes the answer of a stuck rank: the uses that it has not begun. If this returns true,
  // JudgeStuck should follow a little later. Other stuck ranks have answered by then, too, and all
  // of them get the same error.
  bool OnUnbegun(const Rank& rank, const wire::Unbegun& answer);
  Answers JudgeStuck();
  // Forgets what ranks wait for for which `gone` is true, by incarnation. They say it again, or
  // nobody waits for them any more.
  void ForgetOverdue(const std::function<bool(uint64_t)>& gone);
  // Forgets the same, and also what these ranks meant and held, because they are not in the job any
  // more.
  void ForgetLost(const std::function<bool(uint64_t)>& gone);

  // Takes what a worker knows from a coordinator whose memory is lost. The answers correct what
  // others know wrongly: a failed attempt beats a declared one.
  Answers OnKnown(const Rank& rank, const wire::Known& known);
  // Returns the names of these tensors, as far as they are known.
  std::map<TensorId, std::string> NamesOf(const std::vector<TensorId>& tensors) const;
  // Counts the known tensors.
  size_t known() const { return lifetimes_.tensor_count(); }

  // Goes on dealing where the latest known tensor ended. Comes after OnKnown from every worker.
  Status OnAllKnown();
  // Tells which tensors of earlier coordinators a worker knows; nothing before OnAllKnown. The
  // workers that knew other tensors are gone, so nobody would ever take what servers keep of these.
  Answers StillKnown(uint64_t to) const;

  // The first is for a server that joins or is connected again: the failed attempts, and
  // StillKnown. The second is for a worker that is connected again: the attempts that have failed
  // since the worker was told of them. Both may know this already.
  Answers ForServer(uint64_t server) const;
  Answers FailedForWorker(uint64_t worker) const;

 private:
  void Note(const Rank& rank) { incarnations_[rank.number] = rank.incarnation; }
  NameLifetime* Meet(const Rank& rank, const wire::LifetimeNumber& known, Answers& answers);
  bool IsReplaced(const Rank& rank, const NameLifetime& lifetime, const wire::KnownTensor& known,
                  Answers& answers);
  std::set<uint64_t> ToldOfFailuresWith(const NameLifetime& lifetime);
  Answers Forget(const std::vector<TensorId>& tensors);
  std::string What(const wire::NamedUse& use, TensorId tensor);
  Answers AnswerAfterFailure(NameLifetime& lifetime, const Rank& rank,
                             const wire::Declare& declare);
  static wire::Declared Word(const wire::Declare& declare, const NameLifetime& lifetime,
                             const Attempt::Entry& entry);
  Result<Attempt::Variant> Deal(const Attempt& attempt, const wire::TensorSpec& spec);
  static wire::DeclareFailed Mismatch(const std::string& name, const wire::Use& use,
                                      const Attempt& attempt, const Rank& rank,
                                      const wire::TensorSpec& spec);
  Answers Fail(wire::DeclareFailed failed);
  Answers FailAll(const WaitCircles::Mismatch& mismatch);
  Answers CheckUse(const Rank& rank, const wire::OverdueUse& use);
  Answers AskAbout(const Rank& rank, const std::string& name);

  const CoordinatorRules& rules_;
  TensorDealer dealer_;
  Lifetimes lifetimes_;
  uint32_t next_lifetime_ = 1;
  std::map<uint32_t, uint64_t> incarnations_;  // of ranks that have said something
  WaitCircles circles_;
};

}  // namespace byteps::protocol
