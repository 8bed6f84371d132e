#include "src/transport/rdma/rdma_loop.h"

#include <unistd.h>

#include <system_error>
#include <utility>
#include <vector>

#include <asio/posix/stream_descriptor.hpp>

#include "src/transport/rdma/completion_watch.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/switching_channel.h"

namespace byteps::transport {
namespace {

using Descriptor = asio::posix::stream_descriptor;

}  // namespace

struct RdmaLoop::Use {
  Use(Device& of, asio::io_context& io) : device(of), completions(io), events(io) {}

  Device& device;
  std::unique_ptr<CompletionWatch> watch;
  Descriptor completions;
  Descriptor events;
};

RdmaLoop::RdmaLoop(const TcpOptions& tcp, const ByteChannels& channels, const RdmaOptions& rdma,
                   OpenDevices& devices, uint32_t number, std::unique_ptr<RegisteredMemory> source,
                   RegisteredMemory* memory)
    : SharedLoop(tcp, channels, std::move(source)),
      rdma_(rdma),
      open_(devices),
      number_(number),
      memory_(memory) {}

// The waits in progress go with the reactor, which is gone after this.
RdmaLoop::~RdmaLoop() {
  open_.Unwatch(this);
  for (auto& [device, use] : uses_) {
    use->watch.reset();
    memory_->Drop(*device);
  }
}

Result<RdmaLoop::Made> RdmaLoop::MakePair(const std::string& own_address,
                                          SwitchingChannel& channel) {
  if (memory_ == nullptr) {
    return Status(
        StatusCode::kUnavailable,
        "this process does not want RDMA (BYTEPS_TRANSPORT), or its host has no device for it");
  }
  Result<OpenDevices::Found> found = open_.For(own_address, number_);
  if (!found.ok()) return found.status();
  Result<Use*> use = UseOf(*found->device);
  if (!use.ok()) return use.status();
  QueuePairOptions options;
  options.slots = rdma_.slots;
  options.slot_bytes = rdma_.slot_bytes;
  options.traffic_class = rdma_.traffic_class;
  options.service_level = rdma_.service_level;
  const RdmaParts parts{*found->device, *use.value()->watch, *memory_, Buffers()};
  auto tell = [&channel] { channel.OnPairEvent(); };
  Result<std::unique_ptr<QueuePair>> pair = QueuePair::Make(parts, found->at, options, tell);
  while (!pair.ok() && pair.status().code() == StatusCode::kExhausted &&
         options.slots / 2 >= kSlotsMin) {
    options.slots /= 2;
    pair = QueuePair::Make(parts, found->at, options, tell);
  }
  if (!pair.ok()) return pair.status();
  channels_[&channel] = found->device;
  return Made{std::move(pair).value(), found->device->name()};
}

Result<RdmaLoop::Use*> RdmaLoop::UseOf(Device& device) {
  std::unique_ptr<Use>& use = uses_[&device];
  if (use == nullptr) {
    Result<std::unique_ptr<CompletionWatch>> watch = CompletionWatch::Make(device);
    if (!watch.ok()) {
      uses_.erase(&device);
      return watch.status();
    }
    use = std::make_unique<Use>(device, io());
    use->watch = std::move(watch).value();
    std::error_code error;
    use->completions.assign(dup(use->watch->fd()), error);
    if (!error) use->events.assign(dup(device.event_fd()), error);
    if (error) {
      uses_.erase(&device);
      return Status(StatusCode::kExhausted, "this process has no descriptor for " + device.name() +
                                                ": " + error.message() +
                                                " (ulimit -n is the limit of this process)");
    }
    AwaitCompletions(*use);
    AwaitEvents(*use);
    open_.Watch(device, this,
                [this, used = use.get()] { Post([this, used] { OnDeviceIsDead(*used); }); });
  }
  return use.get();
}

void RdmaLoop::AwaitCompletions(Use& use) {
  use.completions.async_wait(Descriptor::wait_read, [this, &use](const std::error_code& error) {
    if (error) return;
    use.watch->Wake();
    AwaitCompletions(use);
  });
}

void RdmaLoop::AwaitEvents(Use& use) {
  use.events.async_wait(Descriptor::wait_read, [this, &use](const std::error_code& error) {
    if (error) return;
    for (const std::string& line : open_.TakeEventsOf(use.device)) {
      if (rdma_.on_device_event) rdma_.on_device_event(line);
    }
    if (!use.device.is_dead()) AwaitEvents(use);
  });
}

// A channel that hears of it may end others.
void RdmaLoop::OnDeviceIsDead(const Use& use) {
  std::vector<SwitchingChannel*> told;
  for (auto& [channel, device] : channels_) {
    if (device == &use.device) told.push_back(channel);
  }
  for (SwitchingChannel* channel : told) {
    if (channels_.contains(channel)) channel->OnDeviceIsDead();
  }
}

}  // namespace byteps::transport
