// Functions over the whole state of the coordinator, which they only read. They decide whether a
// process may join: everything that must be equal for all is equal, and a place is free.
#pragma once

#include <optional>
#include <string>

#include "src/protocol/control/changes/state.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// Returns why this process may not join; none: it may.
std::optional<std::string> ReasonAgainst(const CoordinatorState& state, const wire::Join& join);

// Returns the place of the view in force that this server may take: the place of a server that is
// dead, has gone away or has given its address away. Null: there is none.
const wire::ServerInfo* PlaceFor(const CoordinatorState& state, const wire::Join& join);
// Returns whether this server has the address of the server at `place`. Only a process that has
// ended gives its address away, so it is dead then.
bool IsSuccessor(const wire::Join& join, const wire::ServerInfo& place);

}  // namespace byteps::protocol
