// Who has a vote in a view, and how many are enough (docs/membership.md, rules 2 to 4). Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// Processes by incarnation.
using Incarnations = std::set<uint64_t>;

// A member of a view; not all have a vote.
struct Voter {
  Role role = Role::kWorker;
  uint32_t index = 0;  // rank of a worker, index of a server
  uint64_t incarnation = 0;
  uint32_t process = 0;
};

// Workers that have not left, by slot and rank, then living servers, by index. A carrier is a
// member until all processes of its contributor have left: it still carries for the others.
std::vector<Voter> MembersOf(const wire::View& view);
// Of these the carrier of each contributor, and all servers: the first one is the lowest-numbered
// voter.
std::vector<Voter> VotersOf(const wire::View& view);

// It is a member.
bool IsIn(const wire::View& view, uint64_t incarnation);
// The members that are one contributor with this one, itself included; of a server, or of one that
// is no member: itself.
Incarnations ContributorOf(const wire::View& view, uint64_t incarnation);
// A worker that has left in order and that the view still names.
bool HasLeft(const wire::View& view, uint64_t incarnation);

// Enough have promised to change the view: more than half of the voters, or exactly half with the
// lowest-numbered one. `dead` are proven dead and do not count; strict: pass none. False when
// nobody is left to ask.
bool IsWriteQuorum(const wire::View& view, const Incarnations& promised, const Incarnations& dead);

// Enough have reported to know what may have been committed after `view`: more than half of all
// voters, or exactly half with the lowest-numbered one. The dead count here: all that is left of a
// view may be one member that was dropped from the next one without knowing, while processes that
// were let in later live.
bool IsReadQuorum(const wire::View& view, const Incarnations& reported);

// "worker 1 (process 42)"
std::string NameOf(const Voter& voter);

}  // namespace byteps::protocol
