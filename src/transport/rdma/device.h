// The RDMA devices of this host, and one of them, opened. Verbs are safe to call from several
// threads, so the loops of a process share an opened device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/rdma/devices.h"

struct ibv_context;
struct ibv_mr;
struct ibv_pd;

namespace byteps::transport {

struct Verbs;

// Returns what the library shows of this host's devices. A device that cannot be opened has no
// ports. `sysfs`: the folder in which the kernel describes devices. Blocks for milliseconds.
std::vector<DeviceFacts> ListDevices(const Verbs& verbs,
                                     const std::string& sysfs = "/sys/class/infiniband");

class Device {
 public:
  // Opens the device. `verbs` must outlive it. kUnavailable: the device is gone, or this process
  // may not open it; the text says what to do. Blocks for milliseconds.
  static Result<std::unique_ptr<Device>> Open(const Verbs& verbs, const std::string& name);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // REQUIRES: everything that was made with this device is gone.
  ~Device();

  const Verbs& verbs() const { return verbs_; }
  const std::string& name() const { return name_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }

  // The most entries that a completion queue may have, and work requests that a queue pair may.
  size_t completions_max() const { return completions_max_; }
  size_t work_max() const { return work_max_; }
  // Returns the largest packet of this port, as verbs counts; 0: the port cannot be asked.
  uint8_t MtuOf(uint8_t port) const;
  // Returns the address of this port in its subnet; 0: it has none.
  uint16_t LidOf(uint8_t port) const;

  // Registers memory that this device may write into. Others may not, over any queue pair. Null and
  // errno: the system refuses it.
  ibv_mr* Register(std::byte* memory, size_t bytes) const;
  void Deregister(ibv_mr* region) const;
  static uint32_t KeyOf(const ibv_mr* region);

  // Is readable when TakeEvents has something to read.
  int event_fd() const;
  // Reads what the device says of itself, and returns a line for people for each event. Never
  // blocks. One thread at a time.
  std::vector<std::string> TakeEvents();
  // Returns whether the device has said that it is broken, or is gone: nothing is to be made with
  // it any more.
  bool is_dead() const { return dead_.load(std::memory_order_relaxed); }

 private:
  Device(const Verbs& verbs, std::string name) : verbs_(verbs), name_(std::move(name)) {}
  Status Prepare();

  const Verbs& verbs_;
  const std::string name_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  size_t completions_max_ = 0;
  size_t work_max_ = 0;
  std::atomic<bool> dead_ = false;
};

}  // namespace byteps::transport
