// Random scripts of faults, in words, and smaller.
#include <algorithm>
#include <random>

#include "sim/faults.h"

namespace byteps::sim {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t Below(uint64_t end) { return random_() % end; }
  uint64_t From(uint64_t first, uint64_t last) { return first + Below(last - first + 1); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  Duration Between(Duration least, Duration most) {
    return least +
           Duration(static_cast<int64_t>(Below(static_cast<uint64_t>((most - least).count()) + 1)));
  }
  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

FaultTensor RandomTensor(Dice& dice) {
  static constexpr wire::Op kOps[] = {
      wire::Op::kSum,       wire::Op::kSum,       wire::Op::kSum,    wire::Op::kAverage,
      wire::Op::kBroadcast, wire::Op::kAllgather, wire::Op::kBarrier};
  FaultTensor tensor;
  tensor.op = kOps[dice.Below(std::size(kOps))];
  bool reduces = tensor.op == wire::Op::kSum || tensor.op == wire::Op::kAverage;
  tensor.atomic = reduces && dice.OneIn(3);
  tensor.in_place = !dice.OneIn(3);
  tensor.elements = tensor.op == wire::Op::kBarrier ? 0 : static_cast<uint32_t>(dice.From(1, 40));
  return tensor;
}

Duration HowLong(Dice& dice) {
  switch (dice.Below(3)) {
    case 0: return dice.Between(milliseconds(1), milliseconds(30));
    case 1: return dice.Between(milliseconds(30), milliseconds(600));
    default: return dice.Between(milliseconds(900), milliseconds(3500));
  }
}

FaultEvent RandomFault(Dice& dice, uint32_t workers, uint32_t servers, uint32_t shards) {
  FaultEvent event;
  event.fault = static_cast<Fault>(dice.Below(kFaultCount));
  event.at = dice.Between(milliseconds(0), milliseconds(dice.OneIn(3) ? 400 : 25));
  event.lasts = HowLong(dice);
  event.a = static_cast<uint32_t>(dice.Below(workers));
  event.b = static_cast<uint32_t>(dice.Below(shards));
  event.c = static_cast<uint32_t>(dice.Below(2));
  event.told = dice.OneIn(2);
  bool names_server = event.fault == Fault::kKillServer || event.fault == Fault::kFreezeServer;
  if (names_server) event.a = static_cast<uint32_t>(dice.Below(servers));
  if (event.fault == Fault::kCutControl) event.b = event.c;
  if (event.fault == Fault::kPartition) {
    event.b = static_cast<uint32_t>(dice.Below(3));
    if (event.b == 1) event.a = static_cast<uint32_t>(dice.Below(servers));
  }
  if (event.fault == Fault::kClock) {
    event.a = static_cast<uint32_t>(dice.Below(workers + servers + 1));
  }
  return event;
}

}  // namespace

FaultScript WriteFaults(uint64_t seed) {
  Dice dice(seed);
  FaultScript script;
  ClusterOptions& cluster = script.cluster;
  auto workers = static_cast<uint32_t>(dice.From(2, 4));
  auto servers = static_cast<uint32_t>(dice.From(1, 3));
  cluster.network.seed = dice.Below(UINT64_MAX);
  cluster.network.latency = dice.Between(microseconds(20), microseconds(400));
  if (dice.OneIn(3)) cluster.network.jitter_max = dice.Between(microseconds(10), milliseconds(2));
  cluster.network.timeout = milliseconds(900);
  cluster.heartbeat = milliseconds(200);
  cluster.min_workers = 1;
  cluster.piece_bytes_max = 64;
  if (dice.OneIn(2)) cluster.credit_bytes = dice.From(1, 200);
  HostId host = 0;
  auto add_host = [&] {
    cluster.host_links.push_back(dice.OneIn(4) ? 2e5 : 1e8);
    return host++;
  };
  cluster.coordinator_host = add_host();
  for (uint32_t i = 0; i < workers; ++i) cluster.worker_hosts.push_back(add_host());
  uint32_t shards = 0;
  for (uint32_t i = 0; i < servers; ++i) {
    ServerPlace place{add_host(), static_cast<uint32_t>(dice.From(1, 2))};
    shards += place.shards;
    cluster.servers.push_back(place);
  }
  uint64_t tensors = dice.From(1, 3);
  for (uint64_t i = 0; i < tensors; ++i) script.tensors.push_back(RandomTensor(dice));
  script.rounds = static_cast<uint32_t>(dice.From(2, 8));
  for (uint32_t i = 0; i < workers; ++i) {
    script.pause.push_back(dice.OneIn(2) ? Duration::zero()
                                         : dice.Between(microseconds(10), milliseconds(20)));
    std::vector<uint32_t> order;
    for (uint32_t t = 0; t < tensors; ++t) order.push_back(t);
    std::shuffle(order.begin(), order.end(), dice.engine());
    script.order.push_back(std::move(order));
  }
  uint64_t faults = dice.From(1, 3);
  for (uint64_t i = 0; i < faults; ++i) {
    script.events.push_back(RandomFault(dice, workers, servers, shards));
  }
  return script;
}

std::string Describe(const FaultScript& script) {
  static const char* kFaults[] = {"kill worker",   "kill server",   "kill coordinator",
                                  "freeze worker", "freeze server", "freeze coordinator",
                                  "cut data",      "cut control",   "cut one way",
                                  "partition",     "jitter",        "clock",
                                  "abort"};
  std::string text = std::to_string(script.cluster.worker_hosts.size()) + " workers, " +
                     std::to_string(script.cluster.servers.size()) + " servers, " +
                     std::to_string(script.rounds) + " rounds, credit " +
                     std::to_string(script.cluster.credit_bytes);
  for (const FaultTensor& tensor : script.tensors) {
    text += std::string("\n  ") + (tensor.atomic ? "atomic " : "") + wire::NameOf(tensor.op) +
            " of " + std::to_string(tensor.elements) + (tensor.in_place ? ", in place" : "");
  }
  for (const FaultEvent& event : script.events) {
    text += std::string("\n  ") + kFaults[static_cast<size_t>(event.fault)] + " " +
            std::to_string(event.a) + " " + std::to_string(event.b) + " " +
            std::to_string(event.c) + " at " + std::to_string(ToSeconds(event.at)) + " s for " +
            std::to_string(ToSeconds(event.lasts)) + " s" + (event.told ? ", told" : "");
  }
  return text;
}

FaultScript ShrinkFaults(FaultOptions options) {
  options.log = nullptr;
  FaultScript best = options.script.has_value() ? *options.script : WriteFaults(options.seed);
  // Of the same kind: what a smaller script does wrong in another way is another mistake.
  auto kind = [](const std::string& text) {
    size_t begin = text.find_first_not_of("0123456789 ");
    return text.substr(begin, text.find(' ', begin) - begin);
  };
  options.script = best;
  std::string wanted = kind(RunFaults(options).violation.value_or("nothing"));
  auto still_fails = [&](const FaultScript& script) {
    options.script = script;
    std::optional<std::string> violation = RunFaults(options).violation;
    return violation.has_value() && kind(*violation) == wanted;
  };
  bool again = true;
  while (again) {
    again = false;
    std::vector<FaultScript> smaller;
    for (size_t i = 0; i < best.events.size(); ++i) {
      smaller.push_back(best);
      smaller.back().events.erase(smaller.back().events.begin() + static_cast<ptrdiff_t>(i));
    }
    for (uint32_t t = 0; t < best.tensors.size() && best.tensors.size() > 1; ++t) {
      smaller.push_back(best);
      FaultScript& script = smaller.back();
      script.tensors.erase(script.tensors.begin() + t);
      for (auto& order : script.order) {
        std::erase(order, t);
        for (uint32_t& index : order) index -= index > t ? 1 : 0;
      }
    }
    if (best.rounds > 1) {
      smaller.push_back(best);
      --smaller.back().rounds;
    }
    for (size_t t = 0; t < best.tensors.size(); ++t) {
      if (best.tensors[t].elements < 2) continue;
      smaller.push_back(best);
      smaller.back().tensors[t].elements /= 2;
    }
    if (best.cluster.network.jitter_max > Duration::zero()) {
      smaller.push_back(best);
      smaller.back().cluster.network.jitter_max = Duration::zero();
    }
    for (const FaultScript& script : smaller) {
      if (!still_fails(script)) continue;
      best = script;
      again = true;
      break;
    }
  }
  return best;
}

}  // namespace byteps::sim
