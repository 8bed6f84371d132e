#include "src/protocol/control/changes/comeback.h"

#include <algorithm>

namespace byteps::protocol {

// Whoever left before the restart may be alive and come back; of a whole job nobody has.
void Comeback::Wait(std::optional<uint32_t> worker_count) {
  const wire::View& view = parts_.views.in_force();
  bool left = std::any_of(view.workers.begin(), view.workers.end(),
                          [](const wire::WorkerInfo& worker) { return worker.left; });
  leavers_ = view.workers.size() < worker_count || left;
  until_ = parts_.clock.now() + parts_.options.silence_end;
}

std::optional<Time> Comeback::NextDue() const {
  return AllEndedBeforeTheFirst() ? std::optional(ListensUntil()) : until_;
}

void Comeback::DoWhatIsDue() {
  if (AllEndedBeforeTheFirst()) EndIfAllEnded();
  if (!until_.has_value() || parts_.clock.now() < *until_) return;
  until_.reset();
  EndIfNobodyComesBack();
}

void Comeback::EndIfNobodyComesBack() {
  bool all_left = parts_.gathering.IsOn() && parts_.views.in_force().epoch > 0;
  if (!all_left || parts_.views.IsRecovering()) return;
  bool expects = leavers_ || !AllServersHere();
  if (expects && until_.has_value() && parts_.clock.now() < *until_) return;
  for (const auto& [id, member] : parts_.roster.all()) {
    if (member.role() == Role::kWorker) return;
  }
  parts_.job_end.EndInOrder("all workers have left");
}

// Those that have not come back after a restart would look in vain for a coordinator that is gone.
bool Comeback::AllServersHere() const {
  const wire::View& view = parts_.views.in_force();
  return std::all_of(view.servers.begin(), view.servers.end(), [&](const wire::ServerInfo& one) {
    return !one.alive || parts_.roster.Find(one.incarnation) != nullptr;
  });
}

// Whoever started the job counts all of its workers as machines.
bool Comeback::AllEndedBeforeTheFirst() const {
  return parts_.views.in_force().epoch == 0 &&
         parts_.ends.ranks().size() >= parts_.options.worker_machines &&
         parts_.roster.Count(Role::kWorker, false) == 0;
}

void Comeback::EndIfAllEnded() {
  if (parts_.views.IsRecovering()) return;
  const wire::View& view = parts_.views.in_force();
  if (view.epoch == 0) {
    bool all_new = parts_.roster.Count(Role::kServer, false) >= parts_.options.server_count;
    bool no_more_come = all_new || parts_.clock.now() >= ListensUntil();
    if (AllEndedBeforeTheFirst() && no_more_come) {
      parts_.job_end.EndInOrder("all workers have ended, and none had joined");
    }
    return;
  }
  bool all =
      std::all_of(view.workers.begin(), view.workers.end(), [&](const wire::WorkerInfo& one) {
        return one.left && parts_.ends.ranks().contains(one.rank);
      });
  if (parts_.gathering.IsOn() && all) parts_.job_end.EndInOrder("all workers have left");
}

}  // namespace byteps::protocol
