#include "src/transport/rdma/switching_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "src/transport/address.h"
#include "src/transport/rdma/rdma_loop.h"

namespace byteps::transport {
namespace {

using Code = Decline::Code;

// The switch as a frame: a prefix without header and payload.
constexpr std::array<std::byte, kFramePrefixBytes> kSwitchFrame = {
    std::byte{},
    std::byte{},
    std::byte{},
    std::byte{},
    std::byte{},
    std::byte{},
    static_cast<std::byte>(UpgradeFrame::kSwitch),
    std::byte{}};

Code CodeOf(const Status& why) {
  if (why.code() == StatusCode::kExhausted) return Code::kNoRoom;
  return why.code() == StatusCode::kUnavailable ? Code::kNoDevice : Code::kFailed;
}

}  // namespace

SwitchingChannel::SwitchingChannel(int socket, std::unique_ptr<ByteChannel> plain, bool offers)
    : socket_(socket), plain_(std::move(plain)), offers_(offers) {}

SwitchingChannel::~SwitchingChannel() = default;

RdmaLoop& SwitchingChannel::loop() const {
  // Loops of one transport are all of one kind.
  return static_cast<RdmaLoop&>(host_->loop());
}

std::string SwitchingChannel::PeerHost() const {
  Result<HostPort> peer = ParseHostPort(host_->peer_name());
  return peer.ok() ? peer->host : host_->peer_name();
}

void SwitchingChannel::Attach(ChannelHost& host, bool moved) {
  host_ = &host;
  const RdmaOptions& options = loop().rdma();
  if (!options.wanted || !offers_ || (!moved && !options.offers_at_once)) return;
  // Makes one queue pair for each turn of the loop, because that takes a millisecond.
  host.Later([this] { Offer(); });
}

// A connection that moves has no queue pair yet: users move it once, and the offer comes behind
// that.
void SwitchingChannel::Release() {
  if (host_ == nullptr) return;
  const bool failed = rdma_ != nullptr && rdma_->pair().status().code() == StatusCode::kUnavailable;
  // A process that is gone takes its queue pair along, which says nothing against its host.
  if (failed && !rdma_->PeerHasEnded()) Avoid();
  limit_.reset();
  EndPair();
  host_ = nullptr;
}

// ---- the bytes ----

void SwitchingChannel::Woken() {
  if (ReceivesOver() && rdma_ != nullptr) rdma_->Woken();
}

ByteChannel::Passed SwitchingChannel::Receive(std::span<const iovec> parts) {
  if (!ReceivesOver()) return plain_->Receive(parts);
  return rdma_ == nullptr ? Passed{0, EPROTO} : rdma_->Receive(parts);
}

BufferRef SwitchingChannel::Lying(size_t bytes) {
  return ReceivesOver() && rdma_ != nullptr ? rdma_->Lying(bytes) : BufferRef();
}

ByteChannel::Passed SwitchingChannel::SendKept(std::span<const iovec> parts,
                                               std::span<const BufferRef* const> keeps) {
  if (!SendsOver()) return plain_->Send(parts);
  while (switch_left_ > 0) {
    const std::byte* from = kSwitchFrame.data() + kSwitchFrame.size() - switch_left_;
    ssize_t count = send(socket_, from, switch_left_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {0, errno == EWOULDBLOCK ? EAGAIN : errno};
    switch_left_ -= static_cast<size_t>(count);
  }
  return rdma_ == nullptr ? Passed{0, EPROTO} : rdma_->SendKept(parts, keeps);
}

size_t SwitchingChannel::unconfirmed_bytes() const {
  return rdma_ == nullptr ? 0 : rdma_->unconfirmed_bytes();
}

size_t SwitchingChannel::held_bytes_max() const {
  return ReceivesOver() ? SIZE_MAX : plain_->held_bytes_max();
}

bool SwitchingChannel::room_wakes_reader() const { return SendsOver() && switch_left_ == 0; }

bool SwitchingChannel::WantsSwitch() const {
  if (!upgrade_.WantsSwitch() || host_ == nullptr) return false;
  const auto& holds = loop().rdma().holds_switch;
  return !holds || !holds();
}

void SwitchingChannel::BeginSwitch() {
  upgrade_.OnSwitched();
  switch_left_ = kSwitchFrame.size();
  Tell();
}

std::string SwitchingChannel::medium() const {
  return SendsOver() && ReceivesOver() ? "rdma " + device_ : plain_->medium();
}

bool SwitchingChannel::HasChanged() const { return SendsOver() || ReceivesOver(); }

Status SwitchingChannel::Trouble() const {
  if (!HasChanged()) return plain_->Trouble();
  if (rdma_ != nullptr) return rdma_->Trouble();
  return {StatusCode::kUnavailable, "its RDMA connection cannot move to another thread"};
}

// ---- the change ----

void SwitchingChannel::Offer() {
  if (loop().Avoids(PeerHost())) return;
  Status made = MakePair();
  if (!made.ok()) {
    const RdmaOptions& options = loop().rdma();
    if (options.on_outcome) {
      options.on_outcome(
          {host_->peer_name(), host_->local_address(), false, "", false, made.message()});
    }
    return;
  }
  // The first step has no error.
  [[maybe_unused]] Status done = Do(upgrade_.Begin());
}

Status SwitchingChannel::MakePair() {
  Result<RdmaLoop::Made> made = loop().MakePair(host_->local_address(), *this);
  if (!made.ok()) return made.status();
  device_ = made->device;
  rdma_ = std::make_unique<RdmaChannel>(socket_, std::move(made->pair));
  return Status::Ok();
}

Status SwitchingChannel::Do(const Upgrade::Steps& steps) {
  if (!steps.closes.ok()) {
    if (steps.closes.code() == StatusCode::kUnavailable) Avoid();
    return steps.closes;
  }
  if (steps.offer) {
    Say(UpgradeFrame::kOffer, EncodeOffer(rdma_->pair().own_offer()));
    StartLimit();
  }
  if (steps.accept || steps.connect) {
    if (Status connected = Connect(steps.accept); !connected.ok()) return connected;
  }
  if (steps.probe && rdma_ != nullptr) {
    rdma_->pair().AddProbe();
    rdma_->pair().Flush();
  }
  if (steps.decline) Say(UpgradeFrame::kDecline, EncodeDecline(upgrade_.why()));
  if (steps.give_up) {
    limit_.reset();
    EndPair();
    Tell();
  }
  return Status::Ok();
}

Status SwitchingChannel::GiveUp(Code code, const std::string& why) {
  return Do(upgrade_.Fail({code, why}));
}

Status SwitchingChannel::Connect(bool accepts) {
  Status connected = rdma_->pair().Connect(peer_offer_);
  if (!connected.ok()) return GiveUp(Code::kUnlike, connected.message());
  if (accepts) {
    Say(UpgradeFrame::kAccept, EncodeOffer(rdma_->pair().own_offer()));
    StartLimit();
  }
  return Status::Ok();
}

Result<bool> SwitchingChannel::OnOwnFrame(uint8_t kind, ConstByteSpan payload) {
  Status done;
  switch (static_cast<UpgradeFrame>(kind)) {
    case UpgradeFrame::kOffer: done = OnOffer(payload); break;
    case UpgradeFrame::kAccept: done = OnAccept(payload); break;
    case UpgradeFrame::kDecline: done = OnDecline(payload); break;
    case UpgradeFrame::kSwitch: {
      if (!payload.empty()) return Status(StatusCode::kProtocol, "it sent a switch with a payload");
      Upgrade::Steps steps = upgrade_.OnSwitch();
      done = Do(steps);
      if (!done.ok()) return done;
      Tell();
      return steps.read_rdma;
    }
  }
  if (!done.ok()) return done;
  return false;
}

Status SwitchingChannel::OnOffer(ConstByteSpan payload) {
  Result<transport::Offer> offer = DecodeOffer(payload);
  if (!offer.ok() && offer.status().code() == StatusCode::kProtocol) return offer.status();
  Upgrade::Steps steps = upgrade_.OnOffer();
  if (!steps.closes.ok()) return Do(steps);
  if (!offer.ok()) return GiveUp(Code::kUnlike, offer.status().message());
  peer_offer_ = offer.value();
  if (loop().Avoids(PeerHost())) {
    return GiveUp(Code::kFailed, "RDMA between these hosts has failed a short time ago");
  }
  if (Status made = MakePair(); !made.ok()) return GiveUp(CodeOf(made), made.message());
  return Do(steps);
}

Status SwitchingChannel::OnAccept(ConstByteSpan payload) {
  Result<transport::Offer> offer = DecodeOffer(payload);
  if (!offer.ok() && offer.status().code() == StatusCode::kProtocol) return offer.status();
  Upgrade::Steps steps = upgrade_.OnAccept();
  if (!steps.closes.ok()) return Do(steps);
  if (!offer.ok()) return GiveUp(Code::kUnlike, offer.status().message());
  peer_offer_ = offer.value();
  return Do(steps);
}

Status SwitchingChannel::OnDecline(ConstByteSpan payload) {
  Result<Decline> decline = DecodeDecline(payload);
  if (!decline.ok()) return decline.status();
  return Do(upgrade_.OnDecline(decline.value()));
}

void SwitchingChannel::Say(UpgradeFrame kind, ConstByteSpan payload) {
  host_->SendOwn(static_cast<uint8_t>(kind), payload);
}

void SwitchingChannel::StartLimit() {
  limit_ = loop().After(loop().rdma().proof_limit, [this] { OnLimit(); });
}

void SwitchingChannel::OnLimit() {
  if (!upgrade_.IsOpen()) return;
  const auto limit_ms = std::chrono::duration_cast<milliseconds>(loop().rdma().proof_limit).count();
  Status done = GiveUp(
      Code::kNotProven,
      "no message came through " + device_ + " within " + std::to_string(limit_ms) +
          " ms; look at the devices of both hosts (ibv_devinfo), at the addresses of their ports, "
          "and whether a switch or a firewall drops UDP port 4791");
  if (!done.ok()) host_->Fail(done);
}

void SwitchingChannel::OnPairEvent() {
  QueuePair& pair = rdma_->pair();
  Status done;
  if (!pair.status().ok()) {
    // Once bytes come over RDMA, the stream reads those that came before the end first.
    if (!ReceivesOver()) done = GiveUp(Code::kFailed, pair.status().message());
  } else {
    if (pair.peer_probe_came()) done = Do(upgrade_.OnPeerProbe());
    if (pair.probe_confirmed()) upgrade_.OnProbeConfirmed();
    if (!upgrade_.IsOpen()) limit_.reset();
    pair.Flush();
  }
  if (!done.ok()) return host_->Fail(done);
  host_->Wake();
}

void SwitchingChannel::OnDeviceIsDead() {
  const std::string why = "the RDMA device " + device_ + " of this host is gone";
  if (HasChanged()) {
    Avoid();
    return host_->Fail({StatusCode::kUnavailable, why});
  }
  Status done = GiveUp(Code::kFailed, why);
  if (!done.ok()) host_->Fail(done);
}

void SwitchingChannel::EndPair() {
  if (rdma_ == nullptr) return;
  loop().Forget(*this);
  rdma_.reset();
}

void SwitchingChannel::Avoid() {
  if (host_ != nullptr) loop().Avoid(PeerHost());
}

// Tells once how the attempt ended.
void SwitchingChannel::Tell() {
  const bool over = SendsOver() && ReceivesOver();
  if (told_ || (!over && !upgrade_.is_declined())) return;
  told_ = true;
  const RdmaOptions& options = loop().rdma();
  if (!options.on_outcome || !options.wanted) return;
  RdmaOutcome outcome{host_->peer_name(), host_->local_address(), over, device_, false, ""};
  if (!over) {
    outcome.peer_says = upgrade_.is_told();
    outcome.why = upgrade_.why().text;
  }
  options.on_outcome(outcome);
}

}  // namespace byteps::transport
