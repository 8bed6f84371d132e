// What names this worker has declared at the coordinator, and what it was told of them: which
// tensor is meant, or that the ranks disagree (control/declarations.h is the other side). One
// thread at a time.
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

  // A generation begins.
  void Clear();

  // Fixes the place of a name in the order, before its first use; it is lost if that does not come
  // for long.
  void Reserve(const std::string& name);

  // The next use of the tensor's name begins. False: it waits for the coordinator's word.
  // REQUIRES: its course does not fail, or in a later round.
  bool BeginUse(Tensor& tensor);
  // It has ended.
  void EndUse(const Tensor& tensor, bool well);
  // Which use the failure of a course ends.
  enum class Failure : unsigned char {
    kNone,   // it has not failed
    kPast,   // one that this rank had joined for, or that had ended here in another error
    kNext,   // the one that begins next
    kLater,  // a later one; the others have ended the next one in an error
  };
  Failure FailureOf(const Course& course) const;

  // The open tensor whose use begins now; null: none waits for this word. `replaced`: what it stood
  // for before, if all have let go of that and this rank has not heard so.
  Tensor* OnDeclared(const wire::Declared& message, std::vector<TensorId>& replaced) const;
  // The course that fails from now on, or from an earlier round than this rank knew; null: this
  // rank knew that, or does not use the name. The failure ends the operation of its round and no
  // earlier one, whose answers are still coming in.
  Course* OnFailed(const wire::DeclareFailed& message);

  // The failure of this course has been raised, or will be by what is open: the next attempt
  // begins, here and in all courses that have failed together with it. One failure is raised once,
  // whatever process sets it is told of. Returns the tensors that are unknown from now on.
  // REQUIRES: the course fails.
  std::vector<TensorId> EndAttempt(Course& course);
  // The same, if nothing raises the failure here: it is past.
  std::vector<TensorId> SkipFailure(Course& course) { return BeginAttempt(course); }

  // This rank never uses this process set again: it lets go of all tensors of it.
  void LetGoOf(uint32_t process_set) const;
  // All ranks have let go. Returns the tensors that are unknown from now on.
  std::vector<TensorId> OnForgotten(const wire::Forgotten& message);

  // For a restarted coordinator: what it must know, in messages of bounded size; and the questions
  // that it has not answered.
  std::vector<wire::Known> Known() const;
  void AskAgain() const;

 private:
  void Ask(const Tensor& tensor) const;
  void LetGo(const std::vector<TensorId>& tensors) const;
  void Forget(const wire::CourseNumber& over);
  void DropUnused();
  bool IsInUse(const Tensor& tensor) const;
  void ForgetFailures(const std::string& name, const wire::Use& use);
  std::vector<TensorId> BeginAttempt(Course& course);

  Names& names_;
  const Joins& joins_;
  const FrontRules& rules_;
  const Send send_;
  std::vector<wire::DeclareFailed> failures_;  // all that were told, of courses that go on
  IdleTensors idle_;
  // By the number of the operation before which they were reserved: places in the order.
  std::deque<std::pair<uint64_t, uint32_t>> reserved_;
};

}  // namespace byteps::protocol
