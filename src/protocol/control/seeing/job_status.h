// What a job looks like at one moment, for people: the status page, `bps top` and metrics are made
// of it (runtime/seeing/status_page.h). It has no secret. A value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/base/types.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/members/suspicions.h"
#include "src/protocol/control/seeing/accounts.h"
#include "src/protocol/control/seeing/lateness.h"
#include "src/wire/control.h"

namespace byteps::protocol {

enum class MemberState : uint8_t {
  kWaits,   // has joined, is in no view yet
  kIn,      // is in the view
  kSilent,  // is in the view, and has said nothing for a while: it stands still or is cut off
  kAway,    // is in the view, and its connection is closed: it has ended, or comes back soon
  kLeft,    // has left in order
};
const char* TextFor(MemberState state);

struct MemberStatus {
  Role role = Role::kWorker;
  uint32_t index = kNoSlot;  // rank of a worker, index of a server
  MemberState state = MemberState::kIn;
  uint32_t process = 0;
  std::string node;     // the host's name; empty: not known
  std::string address;  // of a server
  Duration silent{};    // since it was heard last
  // Of workers in the view that have told.
  std::optional<wire::Account> account;
  double operations_per_s = 0;
  double bytes_per_s = 0;
  std::optional<Lateness::Late> late;
};

struct JobStatus {
  uint64_t epoch = 0;  // 0: the job has not begun
  uint32_t generation = 0;
  uint32_t workers_expected = 0;
  uint32_t servers_expected = 0;
  bool asks_members = false;          // a scheduler that was started again asks what was decided
  std::string gathers;                // who is missing before the job begins; empty: nobody
  std::vector<MemberStatus> members;  // workers by rank, then servers by index
  std::vector<Accounts::Wait> waits;
  std::map<TensorId, std::string> names;  // of tensors above
};

// A member that says nothing for longer is shown as silent; it says that it lives five times as
// often by default.
inline constexpr Duration kSilentAfter = milliseconds(700);

// The members of a view, and who waits.
std::vector<MemberStatus> MembersStatus(const wire::View& view, const Roster& roster,
                                        const Suspicions& suspicions, const Accounts& accounts,
                                        Time now);
// What a worker has told, into its row.
void AddAccount(const Accounts& accounts, MemberStatus& worker);
// The tensors that it speaks of.
std::vector<TensorId> TensorsIn(const JobStatus& status);

}  // namespace byteps::protocol
