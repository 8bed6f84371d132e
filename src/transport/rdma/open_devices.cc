#include "src/transport/rdma/open_devices.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/transport/address.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/verbs.h"

namespace byteps::transport {
namespace {

// Addresses and cables change, and asking all devices takes milliseconds.
constexpr Duration kFactsLast = seconds(5);

// Returns the interface that has this address; empty: not known.
std::string InterfaceOf(const std::string& own_address) {
  Result<std::vector<InterfaceAddress>> all = ListAddresses();
  if (!all.ok()) return "";
  for (const InterfaceAddress& one : all.value()) {
    if (one.address == own_address) return one.interface;
  }
  return "";
}

}  // namespace

OpenDevices::OpenDevices(const RdmaOptions& options)
    : options_(options), budget_(options.buffer_bytes) {}

OpenDevices::~OpenDevices() = default;

Status OpenDevices::Load() {
  if (loaded_.has_value()) return *loaded_;
  Result<Verbs> verbs = LoadVerbs(options_.library);
  loaded_ = verbs.status();
  if (verbs.ok()) verbs_ = std::make_unique<Verbs>(verbs.value());
  return *loaded_;
}

void OpenDevices::Refresh() {
  const Time now = std::chrono::steady_clock::now();
  if (now < fresh_until_) return;
  facts_ = ListDevices(*verbs_);
  fresh_until_ = now + kFactsLast;
}

bool OpenDevices::IsDead(const std::string& name) {
  auto found = devices_.find(name);
  return found != devices_.end() && found->second->is_dead();
}

DeviceWish OpenDevices::WishOf(const std::string& own_address, uint32_t lane) const {
  DeviceWish wish;
  wish.address = own_address;
  wish.interface = InterfaceOf(own_address);
  wish.named = options_.devices;
  wish.takes_software = options_.takes_software;
  wish.lane = lane;
  return wish;
}

Status OpenDevices::Look() {
  MutexLock lock(mutex_);
  if (Status loaded = Load(); !loaded.ok()) return loaded;
  Refresh();
  return CheckDevices(facts_, WishOf("", 0));
}

Result<OpenDevices::Found> OpenDevices::For(const std::string& own_address, uint32_t lane) {
  const DeviceWish wish = WishOf(own_address, lane);
  MutexLock lock(mutex_);
  if (Status loaded = Load(); !loaded.ok()) return loaded;
  Refresh();
  std::vector<DeviceFacts> alive = facts_;
  std::erase_if(alive, [this](const DeviceFacts& one)
                           BYTEPS_NO_THREAD_SAFETY_ANALYSIS { return IsDead(one.name); });
  Result<DeviceChoice> choice = ChooseDevice(alive, wish);
  if (!choice.ok()) return choice.status();
  std::unique_ptr<Device>& device = devices_[choice->device];
  if (device == nullptr) {
    Result<std::unique_ptr<Device>> opened = Device::Open(*verbs_, choice->device);
    if (!opened.ok()) return opened.status();
    device = std::move(opened).value();
  }
  return Found{device.get(), choice.value()};
}

std::vector<std::string> OpenDevices::TakeEventsOf(Device& device) {
  MutexLock lock(events_mutex_);
  std::vector<std::string> lines = device.TakeEvents();
  if (!device.is_dead()) return lines;
  for (const Watcher& one : watchers_) {
    if (one.device == &device) one.on_dead();
  }
  return lines;
}

void OpenDevices::Watch(const Device& device, const void* watcher, std::function<void()> on_dead) {
  MutexLock lock(events_mutex_);
  watchers_.push_back({&device, watcher, std::move(on_dead)});
  if (device.is_dead()) watchers_.back().on_dead();
}

void OpenDevices::Unwatch(const void* watcher) {
  MutexLock lock(events_mutex_);
  std::erase_if(watchers_, [&](const Watcher& one) { return one.watcher == watcher; });
}

void OpenDevices::Avoid(const std::string& host, Time now) {
  MutexLock lock(mutex_);
  avoided_[host] = now + options_.pause;
}

bool OpenDevices::Avoids(const std::string& host, Time now) {
  MutexLock lock(mutex_);
  auto found = avoided_.find(host);
  if (found == avoided_.end()) return false;
  if (now < found->second) return true;
  avoided_.erase(found);
  return false;
}

}  // namespace byteps::transport
