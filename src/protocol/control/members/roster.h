// Who is connected to the coordinator, as what. Finds a member by its connection, by its
// incarnation, or by its place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "src/base/time.h"
#include "src/base/types.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// Rises in the order in which connections were accepted.
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

  // This process has come over a later connection already; what it says over this one is old.
  bool IsOld(ConnectionId connection, uint64_t incarnation) const;

  Member* At(ConnectionId connection);
  Member* Find(uint64_t incarnation);
  const Member* Find(uint64_t incarnation) const;

  // Neither left nor, if asked so, outside the view.
  uint32_t Count(Role role, bool in_view_only) const;

  // Anybody of this role who has joined and is in no view yet.
  bool AnyWaits(Role role) const;

  // Members that did not ask for a number get the lowest free ones, in order of arrival.
  void GiveIndices();
  // And give them back, while they wait. `servers_too`: not where they were given places of dead
  // ones.
  void TakeBackIndices(bool servers_too);

  Members& all() { return members_; }
  const Members& all() const { return members_; }

 private:
  Members members_;
  std::unordered_map<uint64_t, ConnectionId> connection_of_;
  std::unordered_map<uint64_t, ConnectionId> latest_of_;  // also of those that are gone
};

// Workers cut tensors into pieces, so it is their word that counts: the first one's.
std::optional<uint32_t> PieceBytesMaxOf(const Roster& roster);
// What a worker that has not left has said when it came; null: there is none. What must be equal
// for all workers is compared with it.
const wire::Join* JoinOfAWorker(const Roster& roster);

// "worker 1 (process 42 on node)"
std::string NameOf(const Member& member);
const char* WordFor(Role role);

}  // namespace byteps::protocol
