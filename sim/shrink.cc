#include "sim/shrink.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace byteps::sim {
namespace {

void DropTensor(Script& script, uint32_t index) {
  script.tensors.erase(script.tensors.begin() + index);
  if (script.accident_tensor > index) --script.accident_tensor;
  for (std::vector<uint32_t>& order : script.order) {
    std::erase(order, index);
    for (uint32_t& tensor : order) tensor -= tensor > index ? 1 : 0;
  }
}

void DropLastWorker(Script& script) {
  script.cluster.worker_hosts.pop_back();
  script.order.pop_back();
  script.pause.pop_back();
  for (ScriptTensor& tensor : script.tensors) {
    tensor.rows.pop_back();
    tensor.spec.root = std::min(tensor.spec.root, static_cast<uint32_t>(script.order.size() - 1));
  }
  for (std::vector<uint32_t>& ranks : script.cluster.process_sets) {
    std::erase(ranks, static_cast<uint32_t>(script.order.size()));
    if (ranks.empty()) ranks = {0};
  }
  for (ScriptTensor& tensor : script.tensors) {
    std::vector<uint32_t> ranks = WorkersOf(script, tensor.spec.process_set);
    tensor.receivers = ranks.size();
    bool has_root = std::find(ranks.begin(), ranks.end(), tensor.spec.root) != ranks.end();
    if (!has_root) tensor.spec.root = ranks[0];
  }
}

void HalveShapes(Script& script) {
  for (ScriptTensor& tensor : script.tensors) {
    for (int64_t& dimension : tensor.spec.shape) dimension = (dimension + 1) / 2;
  }
}

bool HasShapes(const Script& script) {
  for (const ScriptTensor& tensor : script.tensors) {
    for (int64_t dimension : tensor.spec.shape) {
      if (dimension > 1) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Script> SmallerScripts(const Script& script) {
  std::vector<Script> smaller;
  auto add = [&](const std::function<void(Script&)>& change) {
    Script copy = script;
    change(copy);
    smaller.push_back(std::move(copy));
  };
  bool mismatch = script.accident == Accident::kMismatch;
  if (script.accident != Accident::kNone) {
    add([](Script& s) { s.accident = Accident::kNone; });
  }
  for (uint32_t index = 0; index < script.tensors.size() && script.tensors.size() > 1; ++index) {
    if (mismatch && index == script.accident_tensor) continue;
    add([index](Script& s) { DropTensor(s, index); });
  }
  auto workers = static_cast<uint32_t>(script.cluster.worker_hosts.size());
  bool victim_is_last = NamesWorker(script.accident) && script.victim + 1 == workers;
  if (workers > 2 && !victim_is_last) add(DropLastWorker);
  auto servers = static_cast<uint32_t>(script.cluster.servers.size());
  bool names_server = NamesServer(script.accident) || script.accident == Accident::kCutConnection;
  if (servers > 1 && !names_server) {
    add([](Script& s) { s.cluster.servers.pop_back(); });
  }
  for (uint32_t index = 0; index < servers && !names_server; ++index) {
    if (script.cluster.servers[index].shards == 1) continue;
    add([index](Script& s) { s.cluster.servers[index].shards = 1; });
  }
  if (script.rounds > 1 && script.accident_round + 1 < script.rounds) {
    add([](Script& s) { --s.rounds; });
  }
  if (HasShapes(script) && !mismatch) add(HalveShapes);
  for (uint32_t worker = 0; worker < script.pause.size(); ++worker) {
    if (script.pause[worker] == Duration::zero()) continue;
    add([worker](Script& s) { s.pause[worker] = Duration::zero(); });
  }
  if (script.cluster.network.jitter_max > Duration::zero()) {
    add([](Script& s) { s.cluster.network.jitter_max = Duration::zero(); });
  }
  return smaller;
}

Script Shrink(ScenarioOptions options) {
  options.log = nullptr;
  Script smallest =
      options.script.has_value() ? *options.script : WriteScript(options.seed, options.faults);
  bool again = true;
  while (again) {
    again = false;
    for (Script& smaller : SmallerScripts(smallest)) {
      options.script = std::move(smaller);
      again = RunScenario(options).violation.has_value();
      if (!again) continue;
      smallest = *options.script;
      break;
    }
  }
  return smallest;
}

}  // namespace byteps::sim
