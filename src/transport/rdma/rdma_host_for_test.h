// A loop's share of a device, without a loop, over the stand-in for libibverbs.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "src/base/buffer_pool.h"
#include "src/transport/rdma/completion_watch.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/queue_pair.h"
#include "src/transport/rdma/registered_memory.h"
#include "src/transport/rdma/verbs.h"
#include "src/transport/rdma/verbs_standin_for_test.h"

namespace byteps::transport {

// The stand-in, as it is at the beginning; or the system's library, which tells nothing.
class StandinLibrary {
 public:
  StandinLibrary() : verbs_(LoadVerbs(standin::LibraryPath()).value()) {
    if (standin::RealAddress().empty()) control().Reset();
  }
  // Nothing may be left, and nobody may have made a mistake.
  ~StandinLibrary() {
    if (!standin::RealAddress().empty()) return;
    EXPECT_TRUE(control().counts().nothing_is_open());
    EXPECT_EQ(control().counts().not_ready, 0u);
    for (const std::string& one : control().complaints()) ADD_FAILURE() << one;
    control().Reset();
  }
  const Verbs& verbs() const { return verbs_; }
  standin::Control& control() { return standin::TheControl(); }

 private:
  const Verbs verbs_;
};

struct RdmaHost {
  explicit RdmaHost(const Verbs& verbs, size_t bytes_max = size_t{64} << 20)
      : device(Device::Open(verbs, "standin0").value()),
        budget(bytes_max),
        memory(budget),
        watch(CompletionWatch::Make(*device).value()),
        at(ChooseDevice(ListDevices(verbs), Wish()).value()) {}
  ~RdmaHost() {
    watch.reset();
    memory.Drop(*device);
  }
  static DeviceWish Wish() {
    DeviceWish wish;
    wish.address = "127.0.0.1";
    wish.takes_software = true;
    return wish;
  }
  RdmaParts parts() { return {*device, *watch, memory, pool}; }

  std::unique_ptr<Device> device;
  SlabBudget budget;
  RegisteredMemory memory;
  BufferPool pool{memory};
  std::unique_ptr<CompletionWatch> watch;
  DeviceChoice at;
};

// Polls both hosts until the condition holds.
inline bool PollUntil(RdmaHost& a, RdmaHost& b, const std::function<bool()>& condition) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    a.watch->Poll();
    b.watch->Poll();
    // tidy-allow(yield): two watches in one thread are polled in turn.
    std::this_thread::yield();
  }
  return true;
}

}  // namespace byteps::transport
