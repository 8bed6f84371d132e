// Decides whether anybody may still come. Workers that have left keep their connection while their
// process lives, and may join again. When nobody can come any more, the job has ended in order.
#pragma once

#include <optional>

#include "src/base/time.h"
#include "src/protocol/control/changes/gathering.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/views.h"

namespace byteps::protocol {

class Comeback {
 public:
  Comeback(const Surroundings& around, const JobMembers& members, JobEnd& job_end,
           const Views& views, const Gathering& gathering)
      : around_(around),
        members_(members),
        job_end_(job_end),
        views_(views),
        gathering_(gathering),
        started_(around.clock.now()) {}

  // The coordinator was restarted and has found the view of a job of `worker_count` ranks, if that
  // number is known. Gives processes that may come back some time to connect again.
  void Wait(std::optional<uint32_t> worker_count);

  // Ends the job if all workers have left and none of them is connected.
  void EndIfNobodyComesBack();
  // Ends the job if the launcher saw all workers end: their programs never called init, or have all
  // come to their end. A process that waits to be let in has nobody to train with then. Before the
  // first view, servers that are not here yet have some time, because they may belong to a job that
  // runs.
  void EndIfAllEnded();

  std::optional<Time> NextDue() const;
  void DoWhatIsDue();

 private:
  bool AllServersHere() const;
  bool AllEndedBeforeTheFirst() const;
  Time ListensUntil() const { return started_ + around_.options.silence_end; }

  const Surroundings around_;
  const JobMembers& members_;
  JobEnd& job_end_;
  const Views& views_;
  const Gathering& gathering_;
  const Time started_;
  std::optional<Time> until_;  // after a restart: until then processes may come back
  bool leavers_ = false;       // workers that left before the restart may come back, too
};

}  // namespace byteps::protocol
