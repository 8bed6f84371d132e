// RdmaLoop: a loop whose connections may go on over RDMA: its buffers lie where devices reach them,
// and it waits for devices as well as for sockets.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "src/base/status.h"
#include "src/transport/rdma/open_devices.h"
#include "src/transport/rdma/queue_pair.h"
#include "src/transport/rdma/rdma_options.h"
#include "src/transport/rdma/registered_memory.h"
#include "src/transport/shared/shared_loop.h"

namespace byteps::transport {

class SwitchingChannel;

class RdmaLoop final : public SharedLoop {
 public:
  // `memory` and `source` are the same object; null if no RDMA is wanted. `number`: of the loops of
  // this process. The references must outlive the loop.
  RdmaLoop(const TcpOptions& tcp, const ByteChannels& channels, const RdmaOptions& rdma,
           OpenDevices& devices, uint32_t number, std::unique_ptr<RegisteredMemory> source,
           RegisteredMemory* memory);
  // REQUIRES: all connections are gone.
  ~RdmaLoop() override;

  // These functions are for the channels of this loop, on its thread.
  const RdmaOptions& rdma() const { return rdma_; }
  struct Made {
    std::unique_ptr<QueuePair> pair;
    std::string device;
  };
  // Makes a queue pair for a connection (QueuePair::Make). Blocks for milliseconds. The loop calls
  // `channel` when messages have come or gone, and when the device is gone.
  Result<Made> MakePair(const std::string& own_address, SwitchingChannel& channel);
  // The channel has no queue pair any more.
  void Forget(SwitchingChannel& channel) { channels_.erase(&channel); }
  // RDMA with this host has failed: its connections stay on TCP for a while.
  void Avoid(const std::string& host) { open_.Avoid(host, Now()); }
  bool Avoids(const std::string& host) { return open_.Avoids(host, Now()); }

 private:
  struct Use;  // of one device

  Result<Use*> UseOf(Device& device);
  void AwaitCompletions(Use& use);
  void AwaitEvents(Use& use);
  void OnDeviceIsDead(const Use& use);

  const RdmaOptions& rdma_;
  OpenDevices& open_;
  const uint32_t number_;
  RegisteredMemory* const memory_;
  std::map<const Device*, std::unique_ptr<Use>> uses_;
  std::map<SwitchingChannel*, const Device*> channels_;  // those with a queue pair
};

}  // namespace byteps::transport
