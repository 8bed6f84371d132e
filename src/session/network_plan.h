// Plans the network threads of this process, their interfaces and their cores: the lanes of a
// worker and the shards of a server. Asks the machine; src/plan/network_threads.h has the rule.
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
  // The threads of a server whose way to the scheduler is long; 0: the same number.
  uint32_t far_threads = 0;
  // The links by interface. Thread i uses link i modulo their number.
  std::vector<NetworkLink> links;
  bool named = false;   // the user has named the interfaces, so connections leave from them
  std::string text;     // for the log
  std::string warning;  // the same; empty: there is none
};

// The facts about this host from which the plan is made.
struct HostNetwork {
  topology::Machine machine;
  std::vector<transport::InterfaceAddress> addresses;
  std::string route;   // the own address on the way to the other hosts; empty: unknown
  uint32_t cores = 1;  // the cores that this process may use
};
HostNetwork LookAround(const config::Options& options);

// Makes the plan. kInvalidArgument: an interface that the options name has no address here.
Result<NetworkPlan> PlanNetwork(const config::Options& options, const HostNetwork& host);

// Returns the addresses that a server with this plan announces: for each link the address that the
// route uses, or the first one, IPv4 before IPv6.
std::vector<std::string> AnnouncedBy(const NetworkPlan& plan, std::string_view route);

// Returns the declared rate of all links together; 0: unknown.
uint32_t DeclaredMbit(const config::Options& options);

// Returns a function that binds the calling thread, number `thread` of this plan, to the cores near
// to its link. Returns null if there is nothing to bind.
std::function<void(uint32_t thread)> BinderOf(const NetworkPlan& plan);

}  // namespace byteps::session
