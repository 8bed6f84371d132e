// The RDMA devices that this process has opened, for all its loops, and the hosts with which RDMA
// has failed lately. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/transport/rdma/devices.h"
#include "src/transport/rdma/rdma_options.h"
#include "src/transport/rdma/registered_memory.h"

namespace byteps::transport {

class Device;
struct Verbs;

class OpenDevices {
 public:
  explicit OpenDevices(const RdmaOptions& options);
  OpenDevices(const OpenDevices&) = delete;
  OpenDevices& operator=(const OpenDevices&) = delete;
  // REQUIRES: nothing uses the devices any more.
  ~OpenDevices();

  // Loads the library and lists what there is. kUnavailable: there is no library, or no device that
  // the options allow; the text says what to do. Blocks for milliseconds.
  Status Look();

  struct Found {
    Device* device;
    DeviceChoice at;
  };
  // Returns the device for a connection with this own address, opened. Lives as long as this
  // object. Errors like ChooseDevice. Blocks for milliseconds.
  Result<Found> For(const std::string& own_address, uint32_t lane);

  // Reads what the device says of itself (Device::TakeEvents). If it is gone, tells all who watch
  // it: an event wakes those who wait for the descriptor, but only the first of them finds it.
  std::vector<std::string> TakeEventsOf(Device& device);
  // Calls `on_dead` when the device is gone, on any thread, perhaps several times, and inside this
  // call if it is gone already. `on_dead` must not block, nor call this object.
  void Watch(const Device& device, const void* watcher, std::function<void()> on_dead);
  // Afterwards nothing of the watcher is called any more.
  void Unwatch(const void* watcher);

  // Notes that RDMA with this host has failed; and returns whether connections to the host stay on
  // TCP for now.
  void Avoid(const std::string& host, Time now);
  bool Avoids(const std::string& host, Time now);

  SlabBudget& budget() { return budget_; }

 private:
  Status Load() BYTEPS_REQUIRES(mutex_);
  void Refresh() BYTEPS_REQUIRES(mutex_);
  bool IsDead(const std::string& name) BYTEPS_REQUIRES(mutex_);
  struct Watcher {
    const Device* device;
    const void* watcher;
    std::function<void()> on_dead;
  };
  DeviceWish WishOf(const std::string& own_address, uint32_t lane) const;

  const RdmaOptions options_;
  SlabBudget budget_;
  Mutex mutex_;
  Mutex events_mutex_;
  std::vector<Watcher> watchers_ BYTEPS_GUARDED_BY(events_mutex_);
  std::optional<Status> loaded_ BYTEPS_GUARDED_BY(mutex_);
  std::unique_ptr<Verbs> verbs_ BYTEPS_GUARDED_BY(mutex_);
  std::vector<DeviceFacts> facts_ BYTEPS_GUARDED_BY(mutex_);
  Time fresh_until_ BYTEPS_GUARDED_BY(mutex_){};
  std::map<std::string, std::unique_ptr<Device>> devices_ BYTEPS_GUARDED_BY(mutex_);
  std::map<std::string, Time> avoided_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::transport
