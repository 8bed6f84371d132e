// Pairs of a worker and a server that cannot reach each other although the coordinator hears both.
// One of the two must go; BrokenPairs decides which.
//
// A value without I/O; members are known by incarnation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "src/base/time.h"
#include "src/protocol/control/members/departures.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class BrokenPairs {
 public:
  enum class Goes : uint8_t { kWorker, kServer };

  // Notes a pair, because one of the two has told of it. Returns the one that goes.
  // `worker_is_needed`: losing the worker ends the job.
  Goes Add(uint64_t worker, uint64_t server, const wire::View& view, const Departures& departures,
           bool worker_is_needed, Time now);

  void ForgetWorkersIf(const std::function<bool(uint64_t)>& stale);
  void Clear() { pairs_.clear(); }

 private:
  // The time at which a pair of worker and server was told. Servers that have gone since stay here.
  std::map<std::pair<uint64_t, uint64_t>, Time> pairs_;
};

}  // namespace byteps::protocol
