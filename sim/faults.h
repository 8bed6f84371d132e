// Jobs in which everything goes wrong, from a seed: processes die, freeze and come back, links are
// cut, partitioned, slow, clocks jump. The oracle knows from the bits of every result whose
// contributions are in it, and of which round. docs/membership.md says what must hold.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster.h"

namespace byteps::sim {

enum class Fault : uint8_t {
  kKillWorker,
  kKillServer,       // comes back after `lasts`
  kKillCoordinator,  // the same
  kFreezeWorker,
  kFreezeServer,
  kFreezeCoordinator,
  kCutData,     // the connection is closed; both ends live
  kCutControl,  // of worker `a`, or of a server when `b` is 1
  kCutOneWay,   // nothing is told; direction `c`
  kPartition,   // host of worker `a` (b = 0), server `a` (1), or the coordinator (2)
  kJitter,
  kClock,
  kAbort,  // a user's deadline: worker `a` gives up what it has open
};
inline constexpr int kFaultCount = 13;

struct FaultEvent {
  Fault fault = Fault::kKillWorker;
  Duration at{};     // since the job began
  Duration lasts{};  // until it heals, or another process takes the place
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  bool told = false;  // the launcher tells the coordinator of the end of the process
};

struct FaultTensor {
  wire::Op op = wire::Op::kSum;
  bool atomic = false;
  bool in_place = true;
  uint32_t elements = 1;
};

struct FaultScript {
  ClusterOptions cluster;
  std::vector<FaultTensor> tensors;
  uint32_t rounds = 1;
  std::vector<Duration> pause;               // of each worker, between rounds
  std::vector<std::vector<uint32_t>> order;  // of submission, by worker
  std::vector<FaultEvent> events;
};

struct FaultOptions {
  uint64_t seed = 1;
  Mistakes mistakes;
  std::optional<FaultScript> script;  // instead of the seed's own
  std::function<void(const std::string&)> log;
};

struct FaultResult {
  std::optional<std::string> violation;
  uint64_t events = 0;
  uint64_t rounds = 0;  // of pieces, as the workers saw them
  double virtual_seconds = 0;
  bool ended_early = false;  // too much was lost: rule 14
};

FaultScript WriteFaults(uint64_t seed);
std::string Describe(const FaultScript& script);
FaultResult RunFaults(const FaultOptions& options);
// The smallest script that still breaks a rule.
FaultScript ShrinkFaults(FaultOptions options);

}  // namespace byteps::sim
