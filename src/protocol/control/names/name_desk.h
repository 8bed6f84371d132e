// The coordinator's desk for names. It takes what members say of declarations and answers them.
// After a restart it first learns from the workers what was declared.
//
// Until every worker has told what it knows, other words of names have to wait (IsRebuilding). The
// owner of this desk keeps them meanwhile. One thread; no I/O: the driver sends.
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
#include "src/wire/membership.h"
#include "src/wire/names.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class NameDesk {
 public:
  NameDesk(const Surroundings& around, const Roster& roster, JobEnd& job_end);

  // Begins a generation with `view`: no name stands for anything.
  void Begin(const wire::View& view);
  // Begins to rebuild, because this coordinator did not see the generation begin. `restarts`: the
  // number of coordinators before this one.
  void Rebuild(const wire::View& view, uint64_t restarts);
  bool IsRebuilding() const { return rebuilding_; }

  // Words of workers that are in the view. REQUIRES: not IsRebuilding(), except for OnUnbegun. It
  // drops an answer to a question from before a restart; the question is asked again.
  void OnDeclare(const Member& worker, const wire::Declare& declare);
  void OnLetGo(const Member& worker, const wire::LetGo& let_go);
  void OnOverdue(const Member& worker, const wire::Overdue& overdue);
  void OnUnbegun(const Member& worker, const wire::Unbegun& answer);

  // OnKnown takes what a process knows. This comes before the report of the process, over the same
  // connection. `late`: it is not known yet which view is in force.
  void OnKnown(ConnectionId from, const wire::Known& known) { unclaimed_[from].push_back(known); }
  void OnLost(ConnectionId id) { unclaimed_.erase(id); }
  void OnReport(ConnectionId from, const wire::Report& report, bool late);
  // Notes that `worker` is in `view`, and takes what it has told, if anything.
  void TakeKnown(uint64_t worker, const wire::View& view);

  // Tells a server that joins, or a member that is connected again, what it may have missed.
  void BringUpToDate(const Member& member);
  // Forgets what these ranks wait for. They say it again, or nobody waits for them any more.
  void ForgetWaits(const std::function<bool(uint64_t)>& gone) { declarations_.ForgetOverdue(gone); }
  // Forgets these ranks, because a view without them is in force. Nobody waits for what they know,
  // and what they meant contradicts nobody.
  void ForgetIf(const std::function<bool(uint64_t)>& gone);

  std::map<TensorId, std::string> NamesOf(const std::vector<TensorId>& tensors) const {
    return declarations_.NamesOf(tensors);
  }

  std::optional<Time> NextDue() const { return judge_at_; }
  void DoWhatIsDue();

 private:
  // The words of a worker whose place in the job was not known yet.
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
  std::optional<Time> judge_at_;  // when the stuck ranks are judged
  bool rebuilding_ = false;
  Incarnations awaited_;                                        // workers that have not told yet
  std::map<ConnectionId, std::vector<wire::Known>> unclaimed_;  // of processes that will report
  std::map<uint64_t, Told> told_;                               // by worker
};

}  // namespace byteps::protocol
