// The votes of a view: which members have one, and how many votes are enough (docs/membership.md,
// rules 2 to 4). Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// Processes, by incarnation.
using Incarnations = std::set<uint64_t>;

// A member of a view. Not every member has a vote.
struct Voter {
  Role role = Role::kWorker;
  uint32_t index = 0;  // rank of a worker, index of a server
  uint64_t incarnation = 0;
  uint32_t process = 0;
};

// Returns the workers that have not left, by slot and rank, then the living servers, by index. A
// carrier is a member until all processes of its contributor have left, because it still carries
// for them.
std::vector<Voter> MembersOf(const wire::View& view);
// Returns the members that have a vote: the carrier of each contributor, and all servers. The first
// one is the lowest-numbered voter.
std::vector<Voter> VotersOf(const wire::View& view);

// Returns whether this process is a member.
bool IsIn(const wire::View& view, uint64_t incarnation);
// Returns the members that form one contributor with this process, and the process itself. For a
// server, and for a process that is no member, returns only the process.
Incarnations ContributorOf(const wire::View& view, uint64_t incarnation);
// Returns whether this is a worker that has left in order and that the view still names.
bool HasLeft(const wire::View& view, uint64_t incarnation);

// Returns whether enough voters have promised to change the view: more than half of the voters, or
// exactly half with the lowest-numbered one. Members in `dead` are proven dead and do not count; a
// strict job passes none. Returns false if nobody is left to ask.
bool IsWriteQuorum(const wire::View& view, const Incarnations& promised, const Incarnations& dead);

// Returns whether enough voters have reported to know which views may have been committed after
// `view`: more than half of all voters, or exactly half with the lowest-numbered one. The dead
// count here. The only member of a view that is left may be one that the next view dropped without
// its knowledge, while processes that joined later live.
bool IsReadQuorum(const wire::View& view, const Incarnations& reported);

// Returns for example "worker 1 (process 42)".
std::string NameOf(const Voter& voter);

}  // namespace byteps::protocol
