// Makes faults in a simulated job, and heals them. Cluster::faults() returns it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/network.h"
#include "src/wire/membership.h"

namespace byteps::sim {

class Cluster;
class ServerNode;
class SiblingNode;

// A parameter `process` names one of the worker's processes, 0 being its carrier, or of the node's
// if the node is a worker. Nodes are workers, then servers, then the coordinator.
class ClusterFaults {
 public:
  explicit ClusterFaults(Cluster& cluster);
  ~ClusterFaults();

  void KillWorker(uint32_t worker, uint32_t process = 0);
  // Starts a sibling that was killed again. It waits for a contributor with which it can be let in.
  void BearSibling(uint32_t worker, uint32_t process);
  void KillServer(uint32_t server);
  void KillCoordinator();
  // Lets another process take the server's place.
  void RestartServer(uint32_t server);
  void RestartCoordinator();
  // Makes a second coordinator beside the first. From now on the nodes (workers, then servers)
  // whose bit is set find the newer one, the others the older one.
  void Rival(uint64_t nodes);
  void EndRivals();  // the newer one is left
  void CutDataConnection(uint32_t worker, uint32_t shard);
  // Cuts one direction, which then carries nothing, and tells nobody.
  void CutOneWay(uint32_t worker, uint32_t shard, bool from_worker, bool cut);
  void Partition(const std::vector<HostId>& apart);
  void SetJitter(uint32_t worker, uint32_t shard, Duration jitter_max);
  // Cuts the connection of a living member to the coordinator.
  void CutControl(uint32_t node, Duration lasts, uint32_t process = 0);
  // Makes the messages of the coordinator to this node late.
  void LagControl(uint32_t node, Duration jitter_max, uint32_t process = 0);
  void SlowLink(uint32_t node, double factor);
  // Makes workers send measurements in which this server holds up the others.
  void Measure(uint32_t server);
  // Makes some member accuse this one of sending nonsense.
  void Accuse(Role role, uint32_t index);
  void FreezeWorker(uint32_t worker, bool frozen, uint32_t process = 0);
  void FreezeServer(uint32_t server, bool frozen);
  void FreezeCoordinator(bool frozen);
  // Tells the coordinator that the launcher has seen a process of this job end.
  void TellExit(Role role, uint32_t index, uint64_t incarnation);
  void StepClock(uint32_t node, Duration by, uint32_t process = 0);

 private:
  Cluster& cluster_;
  std::vector<wire::Suspect> exits_;  // which the launcher has seen
  // Processes whose places others have taken; events may still refer to them.
  std::vector<std::unique_ptr<ServerNode>> old_servers_;
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<SiblingNode>> born_again_;
};

}  // namespace byteps::sim
