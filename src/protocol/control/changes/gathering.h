// Waiting for the members of a job, or of its next generation: who is missing, how long it may
// take, and when what is here is enough to begin.
//
// It gathers from its start on, and again after all workers have left. One thread; no I/O: what is
// to be said goes through the driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/time.h"
#include "src/protocol/control/changes/refusals.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Gathering {
 public:
  // Of `members` it changes the roster. `in_force` is the view in force.
  Gathering(const Surroundings& around, JobMembers& members, JobEnd& job_end,
            const wire::View& in_force);

  bool IsOn() const { return on_; }
  // Somebody (at first: the person who started it) waits for the job to start.
  bool SomebodyWaits() const;
  // Who is here and who is missing, for people.
  std::string Missing() const;

  // All workers have left: those that wait are for the next generation.
  void BeginAgain();
  // A generation has begun.
  void Stop();

  // How many ranks there are, once a worker has said so.
  std::optional<uint32_t> worker_count() const { return worker_count_; }
  // A worker that is let wait, or is known to be in the job, has said so.
  void OnWorker(const wire::Join& join);
  void Expect(uint32_t worker_count) { worker_count_ = worker_count; }
  // Somebody who waited does so no longer.
  void OnWithdrawn();

  // It is told once, and named as long as somebody is missing.
  void NoteRefusal(const Refusal& refusal);

  // The view with which the job, or its next generation, begins; none: it has to wait. Ends the job
  // if too few can come.
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
  Duration pause_;     // between reports: each is twice as long as the last
  bool late_ = false;  // the time to gather is over
  std::optional<uint32_t> worker_count_;
  Refusals refusals_;  // since it gathers
};

}  // namespace byteps::protocol
