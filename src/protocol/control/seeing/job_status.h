// The picture of a job at one moment, for people. The status page, `bps top` and metrics are made
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
#include "src/wire/accounts.h"
#include "src/wire/view.h"

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
  std::string address;  // the address of a server
  Duration silent{};    // since it was heard last
  // The next five are set only for workers in the view that have given an account.
  std::optional<wire::Account> account;
  double operations_per_s = 0;
  double bytes_per_s = 0;
  double waited_share = 0;
  std::optional<Lateness::Late> late;
  // Set for servers in the view that have given an account.
  std::optional<Accounts::ServerTeller> server;
  // The same servers' connections for data, with the ranks of their workers, ascending.
  struct Way {
    std::string over;  // "rdma mlx5_0"
    uint32_t connections = 0;
    std::vector<uint32_t> ranks;
  };
  std::vector<Way> ways;
};

struct JobStatus {
  uint64_t epoch = 0;  // 0: the job has not begun
  uint32_t generation = 0;
  uint32_t workers_expected = 0;
  uint32_t servers_expected = 0;
  bool asks_members = false;          // a restarted scheduler asks the members what was decided
  std::string gathers;                // the missing members before the job begins; empty: none
  std::vector<MemberStatus> members;  // workers by rank, then servers by index
  std::string sums;                   // what bits of sums depend on; empty: not known yet
  std::vector<Accounts::Wait> waits;
  std::map<TensorId, std::string> names;  // names of the tensors above
};

// A member that says nothing for longer is shown as silent. By default a member says five times in
// this time that it lives.
inline constexpr Duration kSilentAfter = milliseconds(700);

// Returns the members of a view, and the processes that wait.
std::vector<MemberStatus> MembersStatus(const wire::View& view, const Roster& roster,
                                        const Suspicions& suspicions, const Accounts& accounts,
                                        Time now);
// Adds to a worker's status what it has told.
void AddAccount(const Accounts& accounts, MemberStatus& worker);
// Returns the tensors of which the status speaks.
std::vector<TensorId> TensorsIn(const JobStatus& status);

}  // namespace byteps::protocol
