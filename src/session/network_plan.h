// How many threads this process has for the network, on which interfaces, and on which cores: the
// lanes of a worker and the shards of a server. Asks the machine; src/plan/network_threads.h is the
// rule.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/config/options.h"
#include "src/runtime/worker/shard_paths.h"
#include "src/topology/machine.h"
#include "src/transport/address.h"

namespace byteps::session {

// An interface that carries tensors.
struct NetworkLink {
  std::string interface;
  std::vector<runtime::OwnAddress> addresses;
  uint64_t mbit = 0;      // 0: unknown
  topology::Cores cores;  // near to it; empty: any
};

struct NetworkPlan {
  uint32_t threads = 1;
  // Of a server whose way to the scheduler is long; 0: as many.
  uint32_t far_threads = 0;
  // By interface. Thread i uses link i, counted around.
  std::vector<NetworkLink> links;
  bool named = false;   // the user has named the interfaces, so connections leave from them
  std::string text;     // for the log
  std::string warning;  // the same; empty: there is none
};

// What this host has to choose from.
struct HostNetwork {
  topology::Machine machine;
  std::vector<transport::InterfaceAddress> addresses;
  std::string route;   // the own address on the way to the other hosts; empty: unknown
  uint32_t cores = 1;  // that this process may use
};
HostNetwork LookAround(const config::Options& options);

// kInvalidArgument if an interface that the options name has no address here.
Result<NetworkPlan> PlanNetwork(const config::Options& options, const HostNetwork& host);

// The addresses that a server with this plan announces: of each link that which the route uses, or
// the first, of IPv4 before IPv6.
std::vector<std::string> AnnouncedBy(const NetworkPlan& plan, std::string_view route);

// The rate of all links together, as the user has declared it; 0: unknown.
uint32_t DeclaredMbit(const config::Options& options);

// Binds the calling thread, number `thread` of this plan, to the cores near to its link; null if
// there is nothing to bind.
std::function<void(uint32_t thread)> BinderOf(const NetworkPlan& plan);

}  // namespace byteps::session
