#include "src/protocol/control/changes/comeback.h"

#include <algorithm>

namespace byteps::protocol {

// A worker that left before the restart may be alive and come back. If the view is whole and no
// worker in it has left, there is no such worker.
void Comeback::Wait(std::optional<uint32_t> worker_count) {
  const wire::View& view = views_.in_force();
  bool left = std::any_of(view.workers.begin(), view.workers.end(),
                          [](const wire::WorkerInfo& worker) { return worker.left; });
  leavers_ = view.workers.size() < worker_count || left;
  until_ = around_.clock.now() + around_.options.silence_end;
}

std::optional<Time> Comeback::NextDue() const {
  return AllEndedBeforeTheFirst() ? std::optional(ListensUntil()) : until_;
}

void Comeback::DoWhatIsDue() {
  if (AllEndedBeforeTheFirst()) EndIfAllEnded();
  if (!until_.has_value() || around_.clock.now() < *until_) return;
  until_.reset();
  EndIfNobodyComesBack();
}

void Comeback::EndIfNobodyComesBack() {
  bool all_left = gathering_.IsOn() && views_.in_force().epoch > 0;
  if (!all_left || views_.IsRecovering()) return;
  bool expects = leavers_ || !AllServersHere();
  if (expects && until_.has_value() && around_.clock.now() < *until_) return;
  for (const auto& [id, member] : members_.roster.all()) {
    if (member.role() == Role::kWorker) return;
  }
  job_end_.EndInOrder("all workers have left");
}

// Servers that have not come back after a restart would look in vain for a coordinator that is
// gone.
bool Comeback::AllServersHere() const {
  const wire::View& view = views_.in_force();
  return std::all_of(view.servers.begin(), view.servers.end(), [&](const wire::ServerInfo& one) {
    return !one.alive || members_.roster.Find(one.incarnation) != nullptr;
  });
}

// The person that started the job counts each of its workers as a machine.
bool Comeback::AllEndedBeforeTheFirst() const {
  return views_.in_force().epoch == 0 &&
         members_.ends.ranks().size() >= around_.options.worker_machines &&
         members_.roster.Count(Role::kWorker, false) == 0;
}

void Comeback::EndIfAllEnded() {
  if (views_.IsRecovering()) return;
  const wire::View& view = views_.in_force();
  if (view.epoch == 0) {
    bool all_new = members_.roster.Count(Role::kServer, false) >= around_.options.server_count;
    bool no_more_come = all_new || around_.clock.now() >= ListensUntil();
    if (AllEndedBeforeTheFirst() && no_more_come) {
      job_end_.EndInOrder("all workers have ended, and none had joined");
    }
    return;
  }
  bool all =
      std::all_of(view.workers.begin(), view.workers.end(), [&](const wire::WorkerInfo& one) {
        return one.left && members_.ends.ranks().contains(one.rank);
      });
  if (gathering_.IsOn() && all) job_end_.EndInOrder("all workers have left");
}

}  // namespace byteps::protocol
