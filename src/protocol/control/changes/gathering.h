// Waits for the members of a job, or of its next generation. It knows which members are missing,
// how long that may take, and when the members that are here are enough to begin.
//
// Gathering is on from its start, and again after all workers have left. One thread; no I/O: the
// driver sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/time.h"
#include "src/protocol/control/changes/refusals.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class Gathering {
 public:
  // This desk changes the roster of `members`. `in_force` is the view in force.
  Gathering(const Surroundings& around, JobMembers& members, JobEnd& job_end,
            const wire::View& in_force);

  bool IsOn() const { return on_; }
  // Returns whether somebody waits for the job to start. At first this is the person that started
  // it.
  bool SomebodyWaits() const;
  // Says for people which members are here and which are missing.
  std::string Missing() const;

  // Begins to gather again, because all workers have left. Workers that wait are for the next
  // generation.
  void BeginAgain();
  // Ends the gathering, because a generation has begun.
  void Stop();

  // The number of ranks, once a worker has told it.
  std::optional<uint32_t> worker_count() const { return worker_count_; }
  // Takes the number of ranks from a worker that may wait or is known to be in the job.
  void OnWorker(const wire::Join& join);
  void Expect(uint32_t worker_count) { worker_count_ = worker_count; }
  // A process that waited does so no longer.
  void OnWithdrawn();

  // Reports a refusal once, and names it as long as members are missing.
  void NoteRefusal(const Refusal& refusal);

  // Returns the view with which the job or its next generation begins; none: the job has to wait.
  // Ends the job if too few members can come.
  std::optional<wire::View> NextGeneration();

  // REQUIRES: SomebodyWaits(), and no proposal is on its way.
  Time NextDue() const;
  void DoWhatIsDue();

 private:
  bool Elastic() const { return around_.options.min_workers > 0; }
  void BeginToWait();
  bool AllHere() const;
  void EndIfTooFewCome();
  void SayWhoIsMissing();
  void TellWaiting(const std::string& text) const;

  const Surroundings around_;
  JobMembers& members_;
  JobEnd& job_end_;
  const wire::View& view_;
  bool on_ = true;
  Time since_;
  Time next_report_;
  Time next_show_;
  Duration pause_;     // between reports; each is twice as long as the one before
  bool late_ = false;  // the time to gather is over
  std::optional<uint32_t> worker_count_;
  Refusals refusals_;  // since the gathering began
};

}  // namespace byteps::protocol
