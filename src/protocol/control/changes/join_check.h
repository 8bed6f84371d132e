// Whether a process may join: what must be equal for all is, and there is a place for it.
// Reads what it is given and keeps nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/protocol/control/members/departures.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/members/suspicions.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class JoinCheck {
 public:
  // All of it as it is now. `view`: the one in force.
  JoinCheck(const CoordinatorOptions& options, const Roster& roster, const wire::View& view,
            const Departures& departures, const Suspicions& suspicions)
      : options_(options),
        roster_(roster),
        view_(view),
        departures_(departures),
        suspicions_(suspicions) {}

  // Why it may not; none: it may. `worker_count`: how many ranks there are, if a worker has said
  // so. `running`: the job does not gather.
  std::optional<std::string> ReasonAgainst(const wire::Join& join,
                                           std::optional<uint32_t> worker_count,
                                           bool running) const;

  // The place of the view that this server may take: one whose server is dead, or has gone away, or
  // has given its address away. Null: there is none.
  const wire::ServerInfo* PlaceFor(const wire::Join& join) const;
  // Only a process that has ended gives its address away.
  static bool IsSuccessor(const wire::Join& join, const wire::ServerInfo& place);

 private:
  std::optional<std::string> InNumbers(const wire::Join& join,
                                       std::optional<uint32_t> worker_count) const;
  std::optional<std::string> InWorkerNumbers(const wire::Join& join,
                                             std::optional<uint32_t> worker_count) const;
  std::optional<std::string> InLayout(const wire::Join& join) const;
  std::optional<std::string> InContributor(const wire::Join& join) const;
  std::optional<std::string> InPlaces(const wire::Join& join, bool running) const;
  std::optional<std::string> InServerPlaces(const wire::Join& join) const;

  const CoordinatorOptions& options_;
  const Roster& roster_;
  const wire::View& view_;
  const Departures& departures_;
  const Suspicions& suspicions_;
};

}  // namespace byteps::protocol
