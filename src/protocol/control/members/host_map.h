// The hosts of a view, as placement sees them. Members with one host identity share a link.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/placement.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// A value; one thread at a time.
class HostMap {
 public:
  HostMap() = default;
  // Takes the links that members declared, in Mbit/s; 0: the member declared none.
  HostMap(const wire::View& view, const Roster& roster);

  const std::vector<plan::Host>& hosts() const { return hosts_; }
  // The site of each server, in the order of the view.
  const std::vector<plan::ServerSite>& sites() const { return sites_; }
  // Returns the host of this worker, by incarnation.
  std::optional<uint32_t> OfWorker(uint64_t incarnation) const;
  // Returns the host of the server that has this shard.
  std::optional<uint32_t> OfShard(ShardId shard) const;

 private:
  uint32_t IndexOf(const std::string& name);

  std::vector<plan::Host> hosts_;
  std::vector<plan::ServerSite> sites_;
  std::map<std::string, uint32_t> by_name_;
  std::map<uint64_t, uint32_t> by_worker_;
  std::vector<uint32_t> by_shard_;
};

}  // namespace byteps::protocol
