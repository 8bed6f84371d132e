// Jobs with all kinds of faults, from a seed: processes die, freeze and come back, links are cut,
// partitioned or slow, clocks jump. The oracle sees in the bits of every result which contributions
// are in it, and from which round. docs/membership.md has the rules.
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
  kCutControl,  // of node `a`, which does not come back before `lasts`
  kCutOneWay,   // nothing is told; direction `c`
  kPartition,   // node `a`, or the coordinator
  kJitter,      // frames of one connection are late: the others overtake them
  kLag,       // the same for the connection of node `a` to the coordinator: it hears late of views
  kSlowLink,  // of the host of node `a`
  kClock,     // of node `a`
  kAbort,     // a user's deadline: worker `a` gives up its open operations
  kAccuseWorker,  // suspected although it works: it goes on in the old view until it hears of it
  kAccuseServer,  // the same; another one takes its place
  kLeave,         // worker `a` leaves in order when its round has ended
  kJoin,          // a worker comes and is let in at the next sync point
  kRival,  // of a strict job: a second coordinator beside the first; the nodes in `b` come to it
  kMove,   // workers measure that server `a` holds up the others: pieces move from it
};
inline constexpr int kFaultCount = 21;
inline constexpr int kAnyJobFaultCount = 19;  // those before kRival
const char* NameOf(Fault fault);

// The target of a fault that waits for a moment: the node that it names, a node that takes part in
// the moment, or the node after that.
enum class Target : uint8_t { kNamed, kHere, kNext };

// The duration of a fault after which no other process takes the place.
inline constexpr Duration kForEver = std::chrono::hours(1000);

struct FaultEvent {
  Fault fault = Fault::kKillWorker;
  Duration at{};     // since the job began, or since the moment
  Duration lasts{};  // until it heals, or another process takes the place
  // Nodes are workers, then servers, then the coordinator.
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t process = 0;  // of a worker, modulo how many it has
  bool told = false;     // the launcher tells the coordinator of the end of the process
  // The fault waits for the `nth` time of this moment (at worker `by`, if it is not kNobody).
  Moment moment = Moment::kBegin;
  uint32_t nth = 1;
  uint32_t by = kNobody;
  Target target = Target::kNamed;
};

struct FaultTensor {
  wire::Op op = wire::Op::kSum;
  bool atomic = false;
  bool in_place = true;
  uint32_t elements = 1;
  uint32_t process_set = 0;  // 0: all ranks
};

// In this round one worker uses another spec for a name than the others.
struct Disagreement {
  uint32_t worker = 0;
  uint32_t tensor = 0;
  uint32_t round = 0;
};

struct FaultScript {
  ClusterOptions cluster;
  std::vector<FaultTensor> tensors;
  uint32_t rounds = 1;
  std::vector<Duration> pause;               // of each worker, between rounds
  std::vector<std::vector<uint32_t>> order;  // of submission, by worker
  uint32_t sync_every = 0;                   // rounds; 0: no sync points
  // If a tensor is a join: the number of rounds after which each worker has no more data. When all
  // have joined, they play kRoundsAfterJoin more.
  std::vector<uint32_t> join_after;
  std::vector<FaultEvent> events;
  std::optional<Disagreement> disagreement;
  // The longest time of an operation that ends well; zero: the oracle does not check it.
  Duration others_wait_max = Duration::zero();
};

inline constexpr uint32_t kRoundsAfterJoin = 2;

struct FaultOptions {
  uint64_t seed = 1;
  Mistakes mistakes;
  std::optional<FaultScript> script;  // instead of the seed's own
  std::function<void(const std::string&)> log;
};

struct FaultResult {
  std::optional<std::string> violation;
  uint64_t events = 0;
  uint64_t rounds = 0;         // of pieces, as the workers saw them
  double virtual_seconds = 0;  // until the last operation ended, ...
  double rest_seconds = 0;     // ... and from there until all had healed and come to rest
  bool ended_early = false;    // too much was lost: rule 14
  std::vector<Fault> played;   // in this order
  bool near_wrap = false;      // rounds crossed 2^24 or 2^32
};

FaultScript WriteFaults(uint64_t seed);
std::string Describe(const FaultScript& script);
FaultResult RunFaults(const FaultOptions& options);
// Returns the smallest script that still breaks a rule.
FaultScript ShrinkFaults(FaultOptions options);

}  // namespace byteps::sim
