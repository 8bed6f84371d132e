#include "src/protocol/control/changes/broken_pairs.h"

#include <cstddef>

namespace byteps::protocol {
namespace {

// What a worker cannot reach within this time has one cause.
constexpr Duration kSameTrouble = seconds(5);

}  // namespace

// A server is replaced without a loss, and one that nobody reaches would cost every worker; so the
// first server that a worker misses goes. Its own network is the likelier cause when it soon misses
// another one and so half of them; but when losing it ends the job, servers go as long as another
// one is left to it.
BrokenPairs::Goes BrokenPairs::Add(uint64_t worker, uint64_t server, const wire::View& view,
                                   const Departures& departures, bool worker_is_needed, Time now) {
  pairs_[{worker, server}] = now;
  std::erase_if(pairs_, [&](const auto& entry) { return entry.second + kSameTrouble <= now; });
  size_t missed = 0;
  for (const auto& [pair, when] : pairs_) missed += pair.first == worker ? 1 : 0;
  size_t all = missed;
  for (const wire::ServerInfo& one : view.servers) {
    bool counts = one.alive && !departures.IsLost(one.incarnation);
    all += counts && !pairs_.contains({worker, one.incarnation}) ? 1 : 0;
  }
  bool others = missed < all;
  bool server_goes = others && (missed == 1 || 2 * missed < all || worker_is_needed);
  return server_goes ? Goes::kServer : Goes::kWorker;
}

void BrokenPairs::ForgetWorkersIf(const std::function<bool(uint64_t)>& stale) {
  std::erase_if(pairs_, [&](const auto& entry) { return stale(entry.first.first); });
}

}  // namespace byteps::protocol
