#include "src/runtime/worker/shard_paths.h"

#include <algorithm>
#include <utility>

#include "src/transport/address.h"

namespace byteps::runtime {
namespace {

using transport::IpAddress;

// Returns an error if the host is a name: nothing is known of the network of a name.
Result<IpAddress> HostOf(const std::string& address) {
  Result<transport::HostPort> parsed = transport::ParseHostPort(address);
  if (!parsed.ok()) return parsed.status();
  return transport::ParseIpAddress(parsed->host);
}

enum class Nearness : uint8_t { kSameNetwork, kSameFamily, kOther };

struct Way {
  Nearness nearness = Nearness::kOther;
  std::string from;
};

Way WayTo(const std::string& address, std::span<const OwnAddress> own) {
  Result<IpAddress> host = HostOf(address);
  Way best;
  if (!host.ok()) return best;
  for (const OwnAddress& one : own) {
    Result<IpAddress> from = transport::ParseIpAddress(one.address);
    if (!from.ok() || from->bits != host->bits) continue;
    const bool same = transport::Contains({from.value(), one.prefix_bits}, host.value());
    const Nearness nearness = same ? Nearness::kSameNetwork : Nearness::kSameFamily;
    if (nearness < best.nearness) best = {nearness, one.address};
  }
  return best;
}

}  // namespace

std::vector<ShardPath> PathsTo(std::span<const std::string> addresses, uint32_t number,
                               std::span<const OwnAddress> own) {
  std::vector<std::pair<Nearness, ShardPath>> ways;
  for (const std::string& address : addresses) {
    Way way = WayTo(address, own);
    ways.emplace_back(way.nearness, ShardPath{address, std::move(way.from)});
  }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Among equally near ways, the way with the shard's own number comes first.
  for (auto first = ways.begin(); first != ways.end();) {
    auto last =
        std::find_if(first, ways.end(), [&](const auto& way) { return way.first != first->first; });
    std::rotate(first, first + number % (last - first), last);
    first = last;
  }
  std::vector<ShardPath> paths;
  for (auto& [nearness, path] : ways) paths.push_back(std::move(path));
  // If the own interface has gone, the system may know another way.
  for (size_t i = 0, bound = paths.size(); i < bound; ++i) {
    if (!paths[i].from.empty()) paths.push_back({paths[i].to, ""});
  }
  return paths;
}

}  // namespace byteps::runtime
