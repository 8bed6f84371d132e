// The processes that are connected to the coordinator, each with its role. Finds a member by its
// connection or by its incarnation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "src/base/time.h"
#include "src/base/types.h"
#include "src/wire/membership.h"

namespace byteps::protocol {

// A later connection has a higher number.
using ConnectionId = uint64_t;

enum class Presence : uint8_t {
  kWaiting,  // has joined, is in no view yet
  kIn,       // in the view in force
  kLeft,     // has left in order; may come back while it is connected
};

struct Member {
  ConnectionId connection = 0;
  wire::Join join;
  uint32_t index = kNoSlot;  // rank of a worker, index of a server
  Presence presence = Presence::kWaiting;

  Role role() const { return join.role; }
  uint64_t incarnation() const { return join.incarnation; }
};

class Roster {
 public:
  using Members = std::map<ConnectionId, Member>;

  // REQUIRES: neither the connection nor the incarnation is there.
  Member& Add(ConnectionId connection, const wire::Join& join);
  void Remove(ConnectionId connection);

  // Returns whether this process has already come over a later connection. Its words over this one
  // are old then.
  bool IsOld(ConnectionId connection, uint64_t incarnation) const;

  Member* At(ConnectionId connection);
  Member* Find(uint64_t incarnation);
  const Member* Find(uint64_t incarnation) const;

  // Counts the members of this role that have not left. `in_view_only`: counts only members of the
  // view in force.
  uint32_t Count(Role role, bool in_view_only) const;

  // Returns whether a process of this role has joined and is in no view yet.
  bool AnyWaits(Role role) const;

  // Gives members that did not ask for a number the lowest free ones, in order of arrival.
  void GiveIndices();
  // Takes the numbers of waiting members back. `servers_too` is false if waiting servers have the
  // places of dead servers: they keep these.
  void TakeBackIndices(bool servers_too);

  Members& all() { return members_; }
  const Members& all() const { return members_; }

 private:
  Members members_;
  std::unordered_map<uint64_t, ConnectionId> connection_of_;
  std::unordered_map<uint64_t, ConnectionId> latest_of_;  // of all processes that ever came
};

// Returns the join message of a worker that has not left; null: there is none. The join check
// compares everything with it that must be equal for all workers, and the view takes from it what
// workers alone decide: the largest piece, and the order of sums.
const wire::Join* JoinOfAWorker(const Roster& roster);

// Returns for example "worker 1 (process 42 on node)".
std::string NameOf(const Member& member);
const char* WordFor(Role role);

}  // namespace byteps::protocol
