#include "sim/scale.h"

#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <string>

#include "sim/cluster.h"

namespace byteps::sim {
namespace {

constexpr uint64_t kScaleTensorBytes = 100'000'000;
constexpr double kBytesPerGbit = 1.25e8;
constexpr double kScaleRatioMax = 1.05;

// Does nothing: the state machines decide, and nobody adds numbers.
class NoArithmetic final : public protocol::Arithmetic {
 public:
  void Combine(byteps::Combine, DataType, std::byte*, std::span<const std::byte* const>,
               const kernels::SumTree&, size_t) override {}
  void Average(DataType, std::byte*, std::span<const std::byte* const>, const kernels::SumTree&,
               size_t, uint32_t) override {}
  void Copy(std::byte*, const std::byte*, size_t) override {}
};

struct Cell {
  uint32_t workers = 0;
  uint32_t servers = 0;
  double seconds = 0;
  double bound = 0;
  uint64_t events = 0;
  double spent = 0;
  double ratio() const { return seconds / bound; }
};

// Returns the bound for n workers and k helpers with one link rate; with k < n each worker has a
// server beside it, too.
double Bound(double n, double k, double link) {
  double m = static_cast<double>(kScaleTensorBytes);
  return 2 * n * (n - 1) * m / ((n * n + k * n - 2 * k) * link);
}

ClusterOptions MakeCluster(uint32_t n, uint32_t k, const ScaleOptions& scale,
                           NoArithmetic& arithmetic) {
  const double link = scale.gbit * kBytesPerGbit;
  ClusterOptions options;
  options.network.carry_bytes = false;
  options.arithmetic = &arithmetic;
  options.credit_bytes = scale.credit_bytes;
  options.round_trip = 2 * options.network.latency;
  options.piece_bytes_max = scale.piece_bytes_max;
  for (uint32_t i = 0; i < n; ++i) {
    options.host_links.push_back(link);
    options.worker_hosts.push_back(i);
    if (k < n) options.servers.push_back({i, 1});
  }
  for (uint32_t i = 0; i < k; ++i) {
    options.host_links.push_back(link);
    options.servers.push_back({n + i, 1});
  }
  return options;
}

Cell Measure(uint32_t n, uint32_t k, const ScaleOptions& scale) {
  auto start = std::chrono::steady_clock::now();
  NoArithmetic arithmetic;
  Cluster cluster(MakeCluster(n, k, scale, arithmetic));
  // The first round declares and warms up, and the second one counts. Tensors that have an address
  // and no memory.
  auto* input = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  std::byte* output = input + (uintptr_t{1} << 36);
  Time begun{};
  Time ended{};
  uint32_t open = n;
  auto submit = [&](uint32_t worker, Time when, protocol::OperationId id) {
    protocol::Operation operation;
    operation.id = id;
    operation.name = "gradient";
    operation.spec.shape = {static_cast<int64_t>(kScaleTensorBytes / 4)};
    operation.input = input;
    operation.output = output;
    cluster.Submit(worker, when, std::move(operation));
  };
  cluster.on_complete = [&](uint32_t, protocol::OperationId id) {
    if (--open > 0) return;
    ended = cluster.network().now();
    if (id == 2) return;
    open = n;
    begun = cluster.network().now() + milliseconds(5);
    for (uint32_t w = 0; w < n; ++w) submit(w, begun, 2);
  };
  cluster.Start();
  for (uint32_t w = 0; w < n; ++w) submit(w, Time(milliseconds(1)), 1);
  cluster.RunUntilIdle(Time(seconds(1000)));
  if (!cluster.violations().empty()) ended = begun + seconds(1000);  // no good time
  Cell cell{n,
            k,
            ToSeconds(ended - begun),
            Bound(n, k, scale.gbit * kBytesPerGbit),
            cluster.network().events(),
            0};
  cell.spent = ToSeconds(std::chrono::steady_clock::now() - start);
  return cell;
}

}  // namespace

int RunScale(const ScaleOptions& options) {
  fmt::print("simulation: push_pull of 100 MB, links of {} Gbit/s, time / lower bound\n",
             options.gbit);
  fmt::print("{:>8} {:>8} {:>10} {:>10} {:>7} {:>12} {:>9}\n", "workers", "servers", "ms", "bound",
             "ratio", "events", "spent s");
  std::string json;
  bool good = true;
  for (uint32_t n = options.workers_min; n <= options.workers_max; n *= 2) {
    for (uint32_t k : {n, n / 2, 0U}) {
      if (options.servers.value_or(k) != k) continue;
      Cell cell = Measure(n, k, options);
      good = good && cell.ratio() <= kScaleRatioMax;
      fmt::print("{:>8} {:>8} {:>10.3f} {:>10.3f} {:>7.4f} {:>12} {:>9.1f}\n", n, k,
                 cell.seconds * 1e3, cell.bound * 1e3, cell.ratio(), cell.events, cell.spent);
      std::fflush(stdout);
      json += fmt::format(
          "{}  {{\"workers\": {}, \"servers\": {}, \"seconds\": {}, "
          "\"bound_seconds\": {}, \"ratio\": {}}}",
          json.empty() ? "" : ",\n", n, k, cell.seconds, cell.bound, cell.ratio());
    }
  }
  if (!options.json_path.empty()) std::ofstream(options.json_path) << "[\n" << json << "\n]\n";
  fmt::print("{}\n", good ? "every cell is within 1.05" : "a cell is above 1.05");
  return good ? 0 : 1;
}

}  // namespace byteps::sim
