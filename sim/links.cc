#include "sim/links.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "src/plan/placement.h"
#include "src/protocol/kernel_arithmetic.h"

namespace byteps::sim {
namespace {

constexpr size_t kElements = 4'000'000;
constexpr double kTensorBytes = 4.0 * kElements;
constexpr double kRatioMax = 1.06;
// The rates of one server's link. A job takes long to use a link that becomes faster (decision 28),
// so the program shows that part and does not judge it.
constexpr double kParts[] = {0.5, 0.25, 1.0};

// Plays a job of equal steps, and sets the rate of one server's link.
class Steps {
 public:
  explicit Steps(const LinksOptions& options)
      : options_(options),
        inputs_(options.workers),
        outputs_(options.workers, std::vector<float>(kElements)),
        cluster_(ClusterOf(options)) {
    cluster_.on_complete = [this](uint32_t worker, protocol::OperationId id) {
      OnComplete(worker, id);
    };
    cluster_.Start();
  }

  // Returns the time of each of the next steps.
  std::vector<double> Run(double part) {
    cluster_.faults().SlowLink(options_.workers, part);
    std::vector<double> seconds;
    for (uint32_t i = 0; i < options_.steps; ++i) {
      const Time begun = cluster_.network().now() + milliseconds(5);
      open_ = options_.workers;
      ++id_;
      for (uint32_t worker = 0; worker < options_.workers; ++worker) Submit(worker, begun);
      while (open_ > 0 && cluster_.violations().empty() && cluster_.Step()) {
      }
      seconds.push_back(ToSeconds(cluster_.network().now() - begun));
      fmt::print("  step {}: {:.3f} s; pieces as {}\n", i + 1, seconds.back(), Placement());
    }
    return seconds;
  }

  // Returns whether every result was right.
  bool IsSound() const { return sound_ && cluster_.violations().empty(); }

 private:
  // Returns "dealt", or the percents of the servers and the epoch that placed them.
  std::string Placement() const {
    const wire::View& view = *cluster_.views().front();
    if (view.placed == 0) return "dealt";
    std::string text = fmt::format("of view {}:", view.placed);
    for (const wire::ServerInfo& server : view.servers) {
      text += fmt::format(" {:.1f}", 100.0 * server.placed_weights[0] / plan::kWeightParts);
    }
    return text;
  }

  ClusterOptions ClusterOf(const LinksOptions& options) {
    ClusterOptions made;
    made.arithmetic = &arithmetic_;
    const uint32_t hosts = options.workers + options.servers;
    for (uint32_t host = 0; host < hosts; ++host) {
      made.host_links.push_back(options.mbit * 125'000);
      if (host < options.workers) {
        made.worker_hosts.push_back(host);
      } else {
        made.servers.push_back({host, 1});
      }
    }
    return made;
  }

  void Submit(uint32_t worker, Time when) {
    inputs_[worker].assign(kElements, static_cast<float>(worker + id_));
    protocol::Operation operation;
    operation.id = id_;
    operation.name = "gradient";
    operation.spec.shape = {static_cast<int64_t>(kElements)};
    operation.input = reinterpret_cast<const std::byte*>(inputs_[worker].data());
    operation.output = reinterpret_cast<std::byte*>(outputs_[worker].data());
    cluster_.Submit(worker, when, std::move(operation));
  }
  void OnComplete(uint32_t worker, protocol::OperationId id) {
    --open_;
    float sum = 0;
    for (uint32_t other = 0; other < options_.workers; ++other)
      sum += static_cast<float>(other + id);
    sound_ = sound_ && cluster_.completions(worker).at(id).outcome.status.ok() &&
             std::ranges::all_of(outputs_[worker], [sum](float one) { return one == sum; });
  }

  const LinksOptions options_;
  protocol::KernelArithmetic arithmetic_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  Cluster cluster_;
  bool sound_ = true;
  uint32_t open_ = 0;
  protocol::OperationId id_ = 0;
};

double Bound(const LinksOptions& options, double part) {
  std::vector<plan::Host> hosts(options.workers + options.servers);
  for (uint32_t i = 0; i < hosts.size(); ++i) {
    const bool worker = i < options.workers;
    const double rate = options.mbit * 125'000 * (i == options.workers ? part : 1);
    hosts[i] = {static_cast<uint64_t>(rate), worker ? 1U : 0U, worker ? 0U : 1U};
  }
  return kTensorBytes * plan::ComputeShares(hosts)->time_per_byte;
}

}  // namespace

int RunLinks(const LinksOptions& options) {
  fmt::print("simulation: push_pull of 16 MB, {} workers, {} servers, {} Mbit/s\n", options.workers,
             options.servers, options.mbit);
  Steps steps(options);
  bool good = true;
  for (double part : kParts) {
    fmt::print("the link of server 0 has {} of its rate\n", part);
    const std::vector<double> seconds = steps.Run(part);
    const double bound = Bound(options, part);
    fmt::print("  time / least time:");
    for (double one : seconds) fmt::print(" {:.3f}", one / bound);
    fmt::print("\n");
    if (part < 1) good = good && seconds.back() <= kRatioMax * bound;
  }
  good = good && steps.IsSound();
  fmt::print("{}\n", good ? "the last step with each slow link is within 1.06" : "NOT within 1.06");
  return good ? 0 : 1;
}

}  // namespace byteps::sim
