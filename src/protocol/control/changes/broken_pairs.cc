#include "src/protocol/control/changes/broken_pairs.h"

#include <cstddef>

namespace byteps::protocol {
namespace {

// If a worker cannot reach several servers within this time, there is one cause.
constexpr Duration kSameTrouble = seconds(5);

}  // namespace

// The first server that a worker misses goes: a server is replaced without a loss, and a server
// that nobody reaches would cost every worker. If the worker soon misses another server, and so
// half of them, its own network is the likelier cause, and the worker goes. But if losing the
// worker ends the job, servers go as long as another one is left to it.
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
