// Whether anybody may still come: workers that have left keep their connection while their process
// lives, and may join again. When nobody can, the job has ended in order.
#pragma once

#include <optional>

#include "src/base/time.h"
#include "src/protocol/control/changes/gathering.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/views.h"
#include "src/wire/control.h"

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
  // is known: whoever may come back has some time to be connected again.
  void Wait(std::optional<uint32_t> worker_count);

  // Ends the job if all have left, and none of them is connected.
  void EndIfNobodyComesBack();
  // Ends it if the launcher saw all workers end: programs that never called init, or have all come
  // to their end. Who waits to be let in has nobody to train with. Before the first view servers
  // that are not here yet have some time: they may be those of a job that runs.
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
  std::optional<Time> until_;  // restarted: by when who may come back is connected again
  bool leavers_ = false;       // workers that left before may be among them
};

}  // namespace byteps::protocol
