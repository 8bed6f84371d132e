// Learns at once when a process of this machine ends, by its life descriptor (meeting.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

class LifeWatch {
 public:
  // Calls `on_end` once for each process that ends, with the index of its life descriptor, on a
  // thread of the watch that does nothing else. Ignores empty descriptors.
  using OnEnd = std::function<void(uint32_t)>;
  static Result<std::unique_ptr<LifeWatch>> Start(std::vector<UniqueFd> life_fds, OnEnd on_end);

  // For Start: `stop` is an eventfd.
  LifeWatch(std::vector<UniqueFd> life_fds, UniqueFd stop, OnEnd on_end);

  // Ends the thread; on_end is not called any more. Must not be called from within on_end.
  ~LifeWatch();

 private:
  void Watch();

  const std::vector<UniqueFd> life_fds_;
  const UniqueFd stop_;  // an eventfd: readable when the thread must end
  const OnEnd on_end_;
  std::thread thread_;
};

}  // namespace byteps::local
