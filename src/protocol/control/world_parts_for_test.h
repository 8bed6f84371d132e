// The processes and connections of a world of tests (control_world_for_test.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "src/protocol/control/views/membership.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// A worker or a server. The first one has incarnation 1, the next one 2.
struct WorldNode {
  std::unique_ptr<Membership> membership;
  wire::Join join;
  uint32_t place = 0;
  bool alive = true;
  bool synced = false;
  uint32_t generation = 0;
  uint64_t connection = 0;  // 0: none
};

struct WorldLink {
  size_t node = 0;
  size_t coordinator = 0;
  bool open_at_node = true;
  bool open_at_coordinator = true;
  bool close_to_node = false;  // after the queued messages
  bool close_to_coordinator = false;
  std::deque<wire::Message> to_node;
  std::deque<wire::Message> to_coordinator;
};

// No worker leaves in order in a world, so a view has each of its contributors as a whole.
inline bool HasWholeContributors(const wire::View& view, const std::vector<WorldNode>& nodes) {
  for (const wire::Contributor& one : wire::ContributorsOf(view)) {
    const wire::Join& first = nodes[one.carrier().incarnation - 1].join;
    if (one.processes.size() != first.contributor_size) return false;
    for (const wire::WorkerInfo& process : one.processes) {
      if (nodes[process.incarnation - 1].join.contributor != first.contributor) return false;
    }
  }
  return true;
}

}  // namespace byteps::protocol
