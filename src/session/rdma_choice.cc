#include "src/session/rdma_choice.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/config/text.h"
#include "src/transport/rdma/rdma_transport.h"

namespace byteps::session {
namespace {

constexpr size_t kSlotBytesMin = 4096;
constexpr size_t kSlotBytesMax = size_t{256} * 1024;
constexpr const char* kOrTcp = "; BYTEPS_TRANSPORT=auto goes on over TCP where there is no RDMA";

transport::RdmaOptions RdmaOptionsOf(const config::Options& options,
                                     const std::shared_ptr<RdmaTeller>& teller) {
  transport::RdmaOptions rdma;
  // Nothing but small messages goes to and from the coordinator.
  rdma.wanted = options.transport != "tcp" && options.role != Role::kCoordinator;
  if (!options.rdma_library.empty()) rdma.library = options.rdma_library;
  for (std::string_view name : config::SplitList(options.rdma_devices)) {
    rdma.devices.emplace_back(name);
  }
  rdma.takes_software = NeedsRdma(options);
  rdma.slot_bytes =
      std::clamp(static_cast<size_t>(config::PieceBytesMax(options)), kSlotBytesMin, kSlotBytesMax);
  rdma.traffic_class = static_cast<uint8_t>(options.rdma_traffic_class);
  rdma.service_level = static_cast<uint8_t>(options.rdma_service_level);
  rdma.buffer_bytes = static_cast<size_t>(options.rdma_buffer_mb) << 20;
  rdma.on_outcome = [teller](const transport::RdmaOutcome& outcome) { teller->OnOutcome(outcome); };
  rdma.on_device_event = [teller](const std::string& text) { teller->OnDeviceEvent(text); };
  return rdma;
}

}  // namespace

bool NeedsRdma(const config::Options& options) { return options.transport == "rdma"; }

void RdmaTeller::OnOutcome(const transport::RdmaOutcome& outcome) {
  if (outcome.over) {
    MutexLock lock(mutex_);
    went_over_ = true;
    if (!told_.insert(outcome.device).second) return;
    log_.Info("tensors go over rdma {}, first to {}", outcome.device, outcome.peer);
    return;
  }
  const std::string why = outcome.peer_says ? outcome.peer + " declines RDMA: " + outcome.why
                                            : "no RDMA with " + outcome.peer + " from " +
                                                  outcome.own + ": " + outcome.why;
  bool fails = false;
  {
    MutexLock lock(mutex_);
    fails = strict_ && !went_over_;
    if (!told_.insert(outcome.why).second && !fails) return;
  }
  if (fails) return Fail(why);
  log_.Warning("{}; this connection stays on TCP", why);
}

void RdmaTeller::Fail(const std::string& why) {
  std::function<void(const Status&)> on_failure;
  Status failure;
  {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure =
        Status(StatusCode::kUnavailable, "transport=rdma (BYTEPS_TRANSPORT): " + why + kOrTcp);
    on_failure = on_failure_;
  }
  if (on_failure) on_failure(failure);
}

Status RdmaTeller::failure() {
  MutexLock lock(mutex_);
  return failure_;
}

void RdmaTeller::SetOnFailure(std::function<void(const Status&)> on_failure) {
  MutexLock lock(mutex_);
  on_failure_ = std::move(on_failure);
}

Result<std::unique_ptr<transport::Transport>> MakePlainTransport(
    const config::Options& options, const transport::TcpOptions& tcp,
    const std::shared_ptr<RdmaTeller>& teller, Log& log) {
  transport::RdmaOptions rdma = RdmaOptionsOf(options, teller);
  std::unique_ptr<transport::RdmaTransport> made = transport::MakeRdmaTransport(tcp, rdma);
  if (!rdma.wanted) return std::unique_ptr<transport::Transport>(std::move(made));
  if (Status there = made->Look(); !there.ok()) {
    if (NeedsRdma(options)) {
      return Status(StatusCode::kUnavailable,
                    "transport=rdma (BYTEPS_TRANSPORT): " + there.message() + kOrTcp);
    }
    // A host without a device is nothing to talk about, unless somebody has named one.
    if (!rdma.devices.empty()) log.Warning("{}; tensors go over TCP", there.message());
    rdma.wanted = false;
    made = transport::MakeRdmaTransport(tcp, rdma);
  }
  return std::unique_ptr<transport::Transport>(std::move(made));
}

}  // namespace byteps::session
