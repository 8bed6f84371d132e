// The script of a random job: its machines, its tensors, its rounds, its accident. Values only;
// scenario.cc plays it.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "src/wire/tensor_spec.h"

namespace byteps::sim {

struct ScriptTensor {
  std::string name;
  bool changes = false;        // it has another shape, as large, from round to round
  wire::TensorSpec spec;       // its root is a worker
  std::vector<uint64_t> rows;  // by worker, in round 0; allgather, alltoall
  size_t receivers = 0;        // alltoall
  int32_t priority = 0;
};

enum class Accident : uint8_t {
  kNone,
  kMismatch,  // one rank uses another spec for one tensor in one round
  kKillWorker,
  kKillServer,
  kKillCoordinator,
  kCutConnection,
  kFreezeWorker,       // for a while; nobody is lost
  kLeaveEarly,         // one worker leaves in order before the last round
  kFreezeServer,       // for a while
  kFreezeCoordinator,  // for a while
  kCutWorkerControl,   // the coordinator loses a worker that lives
  kCutServerControl,
};

// Return whether Script::victim is the number of a worker, or of a server.
bool NamesWorker(Accident accident);
bool NamesServer(Accident accident);

struct Script {
  ClusterOptions cluster;
  std::vector<ScriptTensor> tensors;
  uint32_t rounds = 1;
  std::vector<std::vector<uint32_t>> order;  // by worker: indices of tensors
  std::vector<Duration> pause;               // by worker: between submissions
  Accident accident = Accident::kNone;
  uint32_t victim = 0;           // worker or server
  uint32_t victim_process = 0;   // of a worker
  uint32_t victim_shard = 0;     // of a cut connection
  uint32_t accident_round = 0;   // mismatch, early leave
  uint32_t accident_tensor = 0;  // mismatch
  wire::TensorSpec other_spec;   // mismatch
  Duration accident_at{};        // kills, cuts, freezes
};

Script WriteScript(uint64_t seed, bool faults);
std::string Describe(const Script& script);

// Returns the bytes of one rank's input (allgather: of all its rows).
uint64_t InputBytes(const ScriptTensor& tensor, const wire::TensorSpec& spec, uint32_t worker,
                    uint32_t round);
// Returns the rows of one rank for each rank of its process set, in an alltoall.
std::vector<uint64_t> SplitsOf(const ScriptTensor& tensor, uint32_t worker, uint32_t round,
                               size_t receivers);
// Returns the tensor's spec in this round.
wire::TensorSpec SpecOf(const ScriptTensor& tensor, uint32_t round);
// Returns the workers of a process set; 0: all of them. All processes of a worker are in it.
std::vector<uint32_t> WorkersOf(const Script& script, uint32_t process_set);
// Returns the rows of one rank, which differ by round.
uint64_t RowsOf(const ScriptTensor& tensor, uint32_t worker, uint32_t round);

}  // namespace byteps::sim
