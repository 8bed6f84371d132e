#include "src/protocol/control/views/link_watch.h"

#include <algorithm>
#include <cmath>

namespace byteps::protocol {
namespace {

constexpr uint64_t kBytesPerSecondOfMbit = 125'000;
// A line for people names at most this many servers.
constexpr size_t kNamedMax = 16;

const std::vector<uint32_t>& WeightsInForce(const wire::ServerInfo& server) {
  return server.placed_weights.empty() ? server.shard_weights : server.placed_weights;
}

// Returns the share of each host, as a part of 1. The pieces of dead servers are spread about like
// those of living servers.
std::vector<double> SharesOf(const wire::View& view, const HostMap& map) {
  std::vector<double> shares(map.hosts().size(), 0.0);
  double total = 0;
  for (size_t i = 0; i < view.servers.size(); ++i) {
    if (!view.servers[i].alive) continue;
    for (uint32_t weight : WeightsInForce(view.servers[i])) {
      shares[map.sites()[i].host] += weight;
      total += weight;
    }
  }
  for (double& share : shares) share /= std::max(total, 1.0);
  return shares;
}

// Returns the share of each server, in percent of all bytes.
std::vector<double> PercentsOf(const wire::View& view) {
  std::vector<double> percents;
  double total = 0;
  for (const wire::ServerInfo& server : view.servers) {
    double weight = 0;
    for (uint32_t one : WeightsInForce(server)) weight += one;
    percents.push_back(100 * weight);
    total += weight;
  }
  for (double& percent : percents) percent /= std::max(total, 1.0);
  return percents;
}

// Returns the number with one digit behind the point.
std::string Short(double value) {
  const auto tenths = static_cast<int64_t>(std::lround(value * 10));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

bool IsServed(const wire::View& view, ShardId shard) {
  for (const wire::ServerInfo& server : view.servers) {
    if (shard >= server.first_shard + server.shard_weights.size()) continue;
    return server.alive;
  }
  return false;
}

}  // namespace

void LinkWatch::OnView(const wire::View& view) {
  view_ = view;
  map_ = HostMap(view, roster_);
  measurement_.clear();
  wanted_.reset();
  for (const wire::Contributor& one : wire::ContributorsOf(view)) {
    if (!one.carrier().left) measurement_[one.carrier().incarnation];
  }
  BeginMeasurement();
  std::vector<plan::Host> hosts = map_.hosts();
  for (plan::Host& host : hosts) host.link *= kBytesPerSecondOfMbit;
  for (size_t i = 0; i < view.servers.size(); ++i) {
    if (!view.servers[i].alive) --hosts[map_.sites()[i].host].servers;
  }
  keeper_.Begin(std::move(hosts), SharesOf(view, map_));
}

void LinkWatch::Hear(uint64_t worker, const wire::Rates& rates) {
  auto found = measurement_.find(worker);
  bool counts = options_.links_measurement > Duration::zero() && rates.epoch == view_.epoch;
  if (!counts || found == measurement_.end() || wanted_.has_value()) return;
  for (const wire::ShardRate& rate : rates.shards) {
    if (!map_.OfShard(rate.shard).has_value()) continue;
    if (found->second.size() <= rate.shard) found->second.resize(rate.shard + 1);
    Sum& sum = found->second[rate.shard];
    sum.bytes += rate.bytes;
    sum.busy_us += std::min(rate.busy_us, rate.active_us);
    sum.active_us += rate.active_us;
  }
  burst_bytes_ += rates.burst_bytes;
  burst_us_ += rates.burst_us;
  if (!IsComplete()) return;
  const double in_bursts =
      burst_us_ > 0 ? 1e6 * static_cast<double>(burst_bytes_) / static_cast<double>(burst_us_) : 0;
  wanted_ = keeper_.Observe(TrafficOfMeasurement(), in_bursts);
  BeginMeasurement();
}

void LinkWatch::BeginMeasurement() {
  for (auto& [incarnation, sums] : measurement_) sums.clear();
  burst_bytes_ = 0;
  burst_us_ = 0;
}

// Returns whether every worker has measured every living shard for long enough.
bool LinkWatch::IsComplete() const {
  const auto least = static_cast<uint64_t>(
      std::chrono::duration_cast<microseconds>(options_.links_measurement).count());
  ShardId shards = 0;
  for (const wire::ServerInfo& server : view_.servers) {
    shards += static_cast<ShardId>(server.shard_weights.size());
  }
  for (ShardId shard = 0; shard < shards; ++shard) {
    if (!IsServed(view_, shard)) continue;
    for (const auto& [worker, sums] : measurement_) {
      if (shard >= sums.size() || sums[shard].active_us < least) return false;
    }
  }
  return shards > 0 && !measurement_.empty();
}

// Bytes between processes of one host do not use its link.
std::vector<plan::Traffic> LinkWatch::TrafficOfMeasurement() const {
  std::vector<plan::Traffic> traffic(map_.hosts().size());
  std::vector<uint32_t> watched(map_.hosts().size());
  for (const auto& [worker, sums] : measurement_) {
    const std::optional<uint32_t> from = map_.OfWorker(worker);
    if (!from.has_value()) continue;
    std::vector<double> busy(map_.hosts().size(), -1.0);
    for (ShardId shard = 0; shard < sums.size(); ++shard) {
      const Sum& sum = sums[shard];
      const uint32_t to = *map_.OfShard(shard);
      if (to == *from || sum.active_us == 0) continue;
      const double rate = 1e6 * static_cast<double>(sum.bytes) / static_cast<double>(sum.active_us);
      traffic[*from].rate += rate;
      traffic[to].rate += rate;
      busy[to] =
          std::max(busy[to], static_cast<double>(sum.busy_us) / static_cast<double>(sum.active_us));
    }
    for (size_t host = 0; host < busy.size(); ++host) {
      if (busy[host] < 0) continue;
      traffic[host].busy += busy[host];
      ++watched[host];
    }
  }
  for (size_t host = 0; host < traffic.size(); ++host) {
    if (watched[host] > 0) traffic[host].busy /= watched[host];
  }
  return traffic;
}

void LinkWatch::Place(wire::View& next, uint64_t epoch) {
  if (!wanted_.has_value()) return;
  Result<std::vector<uint32_t>> weights = plan::ShardWeights(*wanted_, map_.sites());
  wanted_.reset();
  if (!weights.ok()) return;
  for (wire::ServerInfo& server : next.servers) {
    auto first = weights.value().begin() + server.first_shard;
    server.placed_weights.assign(first,
                                 first + static_cast<ptrdiff_t>(server.shard_weights.size()));
    if (!server.alive) server.placed_weights.assign(server.shard_weights.size(), 0);
  }
  next.placed = epoch;
  driver_.Report(Describe(next));
}

std::string LinkWatch::Describe(const wire::View& next) const {
  const std::vector<double> before = PercentsOf(view_);
  const std::vector<double> after = PercentsOf(next);
  std::string text = keeper_.moves_back()
                         ? "measured links: the job did not become faster, so pieces move back;"
                         : "measured links: pieces move, and a round should take " +
                               Short(100 / keeper_.gain()) + " % of its time;";
  for (size_t i = 0; i < next.servers.size() && i < kNamedMax; ++i) {
    const double rate = keeper_.rates()[map_.sites()[i].host];
    text += (i > 0 ? ", server " : " server ") + std::to_string(next.servers[i].index) + " gets " +
            Short(after[i]) + " % of the bytes (was " + Short(before[i]);
    if (rate > 0) text += "; " + Short(rate / kBytesPerSecondOfMbit) + " Mbit/s";
    text += ")";
  }
  if (next.servers.size() > kNamedMax) {
    text += ", and " + std::to_string(next.servers.size() - kNamedMax) + " others";
  }
  return text;
}

}  // namespace byteps::protocol
