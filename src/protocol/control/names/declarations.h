// The coordinator's side of names: what each name stands for, and whether the ranks agree.
//
// The ranks of each process set use a name by and by with any number of specs; each spec is a
// tensor. A rank asks for a tensor when it first uses a name with that spec, and later speaks only
// when an operation does not end. Either time it says which tensor it means in which round of the
// name (its number of the use). Two ranks of a process set that mean different tensors in one round
// disagree, whenever they say so: then the attempt at the name fails for the process set from that
// round on, on every rank, and the next attempt begins with no tensors and round 1.
//
// A rank asks for its next attempt and gets that answer, whether it comes first or last, or again
// after its connection was lost; so every rank sees the same sequence of failures.
//
// Ranks let go of tensors that they do not use. A tensor that no rank holds is forgotten, and so is
// a name that has no tensor left: memory grows with what is in use, not with all that ever was. A
// rank lets go only after a use that ended well, in which every rank of the process set has taken
// part, but for those that had joined; so all agree how often the name was used, and can forget
// that, too. A rank that asks with a course that is over is told so, and asks again as for a new
// name.
//
// A new generation knows no names; numbers of tensors and courses are never used again.
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
#include "src/protocol/control/names/courses.h"
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

  // So many specs may one name have in one process set until it fails.
  static constexpr size_t kVariantsMax = 16384;

  // Forgets all names: a generation of so many ranks begins. `dealer` deals the pieces of its
  // tensors.
  void Begin(plan::PieceAssigner dealer, uint32_t ranks, uint32_t piece_bytes_max);
  // Numbers of a coordinator's tensors and courses: `first`, and fewer than `first` + `count`.
  void Number(TensorId first, uint32_t count);

  Answers OnDeclare(const Rank& rank, const wire::Declare& declare);

  // The rank does not use these any more, until it asks again.
  Answers OnLetGo(const Rank& rank, const wire::LetGo& let_go);
  // Forgets what no rank holds. Not before OnAllKnown, after a restart.
  Answers ForgetUnheld() { return Forget(courses_.Unheld()); }

  // Operations of a rank do not end: do others mean something else?
  Answers OnOverdue(const Rank& rank, const wire::Overdue& overdue);
  // A rank that is stuck answers what it has not begun. True: JudgeStuck should follow soon, when
  // others that are stuck have said so, too: all get the same error then.
  bool OnUnbegun(const Rank& rank, const wire::Unbegun& answer);
  Answers JudgeStuck();
  // Forgets what ranks for which `gone` is true (by incarnation) wait for: they say it again, or
  // nobody waits for them any more.
  void ForgetOverdue(const std::function<bool(uint64_t)>& gone);
  // And also what they meant and held: they are not in the job any more.
  void ForgetLost(const std::function<bool(uint64_t)>& gone);

  // What a worker knows from a coordinator whose memory is lost. Answers are what others know
  // wrongly: a failed attempt beats a declared one.
  Answers OnKnown(const Rank& rank, const wire::Known& known);
  // What these tensors are called, as far as they are known.
  std::map<TensorId, std::string> NamesOf(const std::vector<TensorId>& tensors) const;
  // So many tensors are known.
  size_t known() const { return courses_.tensor_count(); }

  // After OnKnown from every worker: goes on dealing where the latest known tensor ended.
  Status OnAllKnown();
  // After OnAllKnown, else nothing: which tensors of earlier coordinators somebody knows. Whoever
  // knew the others is gone, so nobody would ever take what servers keep of them.
  Answers StillKnown(uint64_t to) const;

  // For a server that joins, or is connected again: what has failed, and StillKnown; and for a
  // worker that is: what it was told to be declared and has failed since. They may know it already.
  Answers ForServer(uint64_t server) const;
  Answers FailedForWorker(uint64_t worker) const;

 private:
  void Note(const Rank& rank) { incarnations_[rank.number] = rank.incarnation; }
  NameCourse* Meet(const Rank& rank, const wire::CourseNumber& known, Answers& answers);
  bool IsReplaced(const Rank& rank, const NameCourse& course, const wire::KnownTensor& known,
                  Answers& answers);
  std::set<uint64_t> ToldOfFailuresWith(const NameCourse& course);
  Answers Forget(const std::vector<TensorId>& tensors);
  std::string What(const wire::NamedUse& use, TensorId tensor);
  Answers AnswerAfterFailure(NameCourse& course, const Rank& rank, const wire::Declare& declare);
  static wire::Declared Word(const wire::Declare& declare, const NameCourse& course,
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
  Courses courses_;
  uint32_t next_course_ = 1;
  std::map<uint32_t, uint64_t> incarnations_;  // of ranks that have said something
  WaitCircles circles_;
};

}  // namespace byteps::protocol
