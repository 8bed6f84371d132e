// Plays one schedule from one seed: a random job, random operations in random order on each rank,
// perhaps a rank that disagrees, perhaps a lost process. The oracle knows the right results. The
// same seed gives the same schedule, bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/script.h"
#include "src/protocol/shard/shard.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"

namespace byteps::sim {

struct ScenarioOptions {
  uint64_t seed = 1;
  protocol::ShardMistake mistake = protocol::ShardMistake::kNone;
  bool faults = true;            // lost processes and cut connections in some schedules
  std::optional<Script> script;  // instead of the seed's own; the seed still makes the inputs
  std::function<void(const std::string&)> log;
};

struct ScenarioResult {
  std::optional<std::string> violation;
  uint64_t events = 0;
  uint64_t operations = 0;
  double virtual_seconds = 0;  // until the last operation ended
};

ScenarioResult RunScenario(const ScenarioOptions& options);

}  // namespace byteps::sim
