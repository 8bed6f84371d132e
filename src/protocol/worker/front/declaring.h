// Declares the names of this worker at the coordinator, and keeps the coordinator's answers: the
// tensor that a name stands for, or that the ranks disagree (control/names/declarations.h is the
// other side). One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/worker/exchange/front_rules.h"
#include "src/protocol/worker/front/idle_tensors.h"
#include "src/protocol/worker/front/joins.h"
#include "src/protocol/worker/front/names.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Declaring {
 public:
  using Send = std::function<void(const wire::Message&)>;
  Declaring(Names& names, const Joins& joins, const FrontRules& rules, const IdleTensors& idle,
            Send send)
      : names_(names), joins_(joins), rules_(rules), send_(std::move(send)), idle_(idle) {}

  // Forgets failures and idle tensors, because a generation begins.
  void Clear();

  // Fixes the place of a name in the order, before its first use. The place is lost if the first
  // use does not come for long.
  void Reserve(const std::string& name);

  // Begins the next use of the tensor's name. Returns false if the use waits for the coordinator's
  // answer. REQUIRES: the tensor's lifetime does not fail, or fails in a later round.
  bool BeginUse(Tensor& tensor);
  // Ends the use. `well`: it ended without an error.
  void EndUse(const Tensor& tensor, bool well);
  // Says which use the failure of a lifetime ends.
  enum class Failure : unsigned char {
    kNone,   // the lifetime has not failed
    kPast,   // a use that this rank had joined for, or that had ended here in another error
    kNext,   // the use that begins next
    kLater,  // a later use; the others have ended the next use in an error
  };
  Failure FailureOf(const Lifetime& lifetime) const;

  // Returns the open tensor whose use begins now, or null if no tensor waits for this answer.
  // `replaced`: the ids that the open tensor had before, if all ranks have let go of them and this
  // rank has not heard so.
  Tensor* OnDeclared(const wire::Declared& message, std::vector<TensorId>& replaced) const;
  // Returns the lifetime that fails from now on, or that fails in an earlier round than this rank
  // knew. Returns null if this rank knew of the failure, or does not use the name. The failure ends
  // the operation of its round, but no earlier operation, whose answers are still coming in.
  Lifetime* OnFailed(const wire::DeclareFailed& message);

  // Begins the next attempt, here and in all lifetimes that have failed together with this one. The
  // failure of the lifetime has been raised, or the open operation will raise it. The library
  // raises one failure once, even if several process sets are told of it. Returns the ids that are
  // unknown from now on. REQUIRES: the lifetime fails.
  std::vector<TensorId> EndAttempt(Lifetime& lifetime);
  // Begins the next attempt of a lifetime whose failure is past, so that this rank does not raise
  // it. Returns the ids that are unknown from now on.
  std::vector<TensorId> SkipFailure(Lifetime& lifetime) { return BeginAttempt(lifetime); }

  // Lets go of all tensors of this process set, because this rank never uses the set again.
  void LetGoOf(uint32_t process_set) const;
  // Forgets the tensors that all ranks have let go of. Returns the ids that are unknown from now
  // on.
  std::vector<TensorId> OnForgotten(const wire::Forgotten& message);

  // Known returns, in messages of bounded size, what a restarted coordinator must know. AskAgain
  // repeats the questions that the coordinator has not answered.
  std::vector<wire::Known> Known() const;
  void AskAgain() const;

 private:
  void Ask(const Tensor& tensor) const;
  void LetGo(const std::vector<TensorId>& tensors) const;
  void Forget(const wire::LifetimeNumber& over);
  void DropUnused();
  bool IsInUse(const Tensor& tensor) const;
  void ForgetFailures(const std::string& name, const wire::Use& use);
  std::vector<TensorId> BeginAttempt(Lifetime& lifetime);

  Names& names_;
  const Joins& joins_;
  const FrontRules& rules_;
  const Send send_;
  std::vector<wire::DeclareFailed> failures_;  // failures that were told, of courses that go on
  IdleTensors idle_;
  // The reserved places in the order, each behind the number of the operation before which it was
  // reserved.
  std::deque<std::pair<uint64_t, uint32_t>> reserved_;
};

}  // namespace byteps::protocol
