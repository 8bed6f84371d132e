// The coordinator's desk for names: takes what members say of declarations, answers them, and after
// a restart learns from the workers what was declared before it goes on.
//
// Until every worker has told what it knows, what they say of names has to wait (IsRebuilding); its
// owner keeps it so long.
// One thread; no I/O: what is to be said goes through the driver.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/quorum.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/names/declarations.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class NameDesk {
 public:
  NameDesk(const Surroundings& around, const Roster& roster, JobEnd& job_end);

  // A generation begins with `view`: no name stands for anything.
  void Begin(const wire::View& view);
  // And this coordinator, that of after `restarts` others, did not see it begin.
  void Rebuild(const wire::View& view, uint64_t restarts);
  bool IsRebuilding() const { return rebuilding_; }

  // From workers that are in the view. REQUIRES: not IsRebuilding(), except for an answer: one to a
  // question of before a restart is dropped, and it is asked again.
  void OnDeclare(const Member& worker, const wire::Declare& declare);
  void OnLetGo(const Member& worker, const wire::LetGo& let_go);
  void OnOverdue(const Member& worker, const wire::Overdue& overdue);
  void OnUnbegun(const Member& worker, const wire::Unbegun& answer);

  // What somebody knows comes before its report, over the same connection. `late`: it is not known
  // yet which view is in force.
  void OnKnown(ConnectionId from, const wire::Known& known) { unclaimed_[from].push_back(known); }
  void OnLost(ConnectionId id) { unclaimed_.erase(id); }
  void OnReport(ConnectionId from, const wire::Report& report, bool late);
  // `worker` is known to be in `view`, and has told what it knows, or nothing.
  void TakeKnown(uint64_t worker, const wire::View& view);

  // A server joins, or a member is connected again: what it may have missed.
  void BringUpToDate(const Member& member);
  // What these ranks wait for: they say it again, or nobody waits for them any more.
  void ForgetWaits(const std::function<bool(uint64_t)>& gone) { declarations_.ForgetOverdue(gone); }
  // Nor for what these know, and what they meant contradicts nobody. A view without them is in
  // force.
  void ForgetIf(const std::function<bool(uint64_t)>& gone);

  std::map<TensorId, std::string> NamesOf(const std::vector<TensorId>& tensors) const {
    return declarations_.NamesOf(tensors);
  }

  std::optional<Time> NextDue() const { return judge_at_; }
  void DoWhatIsDue();

 private:
  // What a worker told before its place in the job was known.
  struct Told {
    uint32_t generation = 0;
    std::vector<wire::Known> parts;
  };
  void Deliver(const Declarations::Answers& answers);
  void FinishRebuilding();

  const Surroundings around_;
  const Roster& roster_;
  JobEnd& job_end_;
  Declarations declarations_;
  std::optional<Time> judge_at_;  // ranks that are stuck
  bool rebuilding_ = false;
  Incarnations awaited_;                                        // workers that have not told yet
  std::map<ConnectionId, std::vector<wire::Known>> unclaimed_;  // of those that will report
  std::map<uint64_t, Told> told_;                               // by worker
};

}  // namespace byteps::protocol
