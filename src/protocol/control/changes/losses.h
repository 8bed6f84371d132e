// Decides which members are lost, and whether the job goes on without them or ends.
//
// Words of members and of the launcher about other members come here; members/suspicions.h knows
// when silence and closed connections are enough. Suspicion may be wrong; no rule depends on it.
//
// One thread; no I/O: the driver sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/control/changes/broken_pairs.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/members/quorum.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/views.h"
#include "src/wire/membership.h"

namespace byteps::protocol {

class Losses {
 public:
  // This desk changes all of `members` but the roster.
  Losses(const Surroundings& around, JobMembers& members, JobEnd& job_end, Views& views)
      : around_(around), members_(members), job_end_(job_end), views_(views) {}

  // `from`: a member of the view; null: a launcher, which says only kExited.
  void OnSuspect(const Member* from, const wire::Suspect& suspect);
  // Loses a member of the view, and with it the other processes of its contributor. `proven_dead`:
  // the launcher saw the end of its process; this says nothing of the other processes.
  void Lose(uint64_t incarnation, const std::string& why, bool proven_dead);
  // Loses members whose processes have ended. Processes that are no members, or no longer members,
  // do not matter.
  void TakeEnds();
  void LoseTheDead();

  // A view is in force. Other members count then, and the last server may be gone or a server may
  // be there again.
  void OnView();
  // Forgets the pairs that could not reach each other, because a generation has begun.
  void Begin() { broken_.Clear(); }
  // Watches every process that is to be watched, and no other.
  void Watch();
  // Loses members that have been away or silent for too long. Returns processes that wait to be let
  // in and are given up; the caller removes them.
  std::vector<uint64_t> Judge();

  std::optional<Time> NextDue() const;
  // Returns why the job ends: it has waited for a server for too long.
  std::optional<Status> ReasonToEnd() const;

 private:
  bool Elastic() const { return around_.options.min_workers > 0; }
  Incarnations LostWith(uint64_t incarnation) const;
  bool EndsTheJob(uint64_t worker) const;
  std::string NamesOfOthers(const Incarnations& lost, uint64_t first) const;
  std::string NameInView(uint64_t incarnation) const;
  std::optional<uint64_t> TargetOf(const Member* from, const wire::Suspect& suspect);
  void OnClosed(const Member& from, uint64_t target, const std::string& text);
  void OnExited(const wire::Suspect& suspect, uint64_t target);
  void OnUnreachable(const Member& from, const wire::Suspect& suspect, uint64_t target);

  const Surroundings around_;
  JobMembers& members_;
  JobEnd& job_end_;
  Views& views_;
  BrokenPairs broken_;
  std::optional<Time> no_server_since_;
  std::string last_server_loss_ = "all were lost";
};

}  // namespace byteps::protocol
