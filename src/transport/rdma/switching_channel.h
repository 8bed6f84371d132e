// The bytes of a connection over TCP first, and over RDMA later, each direction for itself. The
// channel carries out what Upgrade says: it makes the queue pair, sends and reads the frames of the
// change, and has the limit of time.
//
// Belongs to the thread of its loop, which is a RdmaLoop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/rdma_channel.h"
#include "src/transport/rdma/upgrade.h"
#include "src/transport/tcp/byte_channel.h"
#include "src/transport/transport.h"

namespace byteps::transport {

class RdmaLoop;

class SwitchingChannel final : public ByteChannel {
 public:
  // `socket`: as in ByteChannels::Make, for `plain`, too. `offers`: this end is the one that
  // offers.
  SwitchingChannel(int socket, std::unique_ptr<ByteChannel> plain, bool offers);
  ~SwitchingChannel() override;

  int Open() override { return plain_->Open(); }
  void Woken() override;
  Passed Receive(std::span<const iovec> parts) override;
  Passed Send(std::span<const iovec> parts) override { return SendKept(parts, {}); }
  Passed SendKept(std::span<const iovec> parts, std::span<const BufferRef* const> keeps) override;
  BufferRef Lying(size_t bytes) override;
  size_t unsent_bytes() const override { return switch_left_; }
  size_t unconfirmed_bytes() const override;
  size_t held_bytes_max() const override;
  bool room_wakes_reader() const override;
  void Attach(ChannelHost& host, bool moved) override;
  void Release() override;
  Result<bool> OnOwnFrame(uint8_t kind, ConstByteSpan payload) override;
  bool WantsSwitch() const override;
  void BeginSwitch() override;
  void OnStuck() override { Avoid(); }
  std::string medium() const override;
  ConstByteSpan binding() const override { return {}; }
  Status Trouble() const override;

  // The loop calls these: messages have come or gone, or the queue pair is broken; and the device
  // is gone. The channel may be gone afterwards.
  void OnPairEvent();
  void OnDeviceIsDead();

 private:
  // Each returns an error if the connection must end for that reason.
  Status Do(const Upgrade::Steps& steps);
  Status OnOffer(ConstByteSpan payload);
  Status OnAccept(ConstByteSpan payload);
  Status OnDecline(ConstByteSpan payload);
  Status Connect(bool accepts);
  Status GiveUp(Decline::Code code, const std::string& why);

  void Offer();
  Status MakePair();
  void Say(UpgradeFrame kind, ConstByteSpan payload);
  void StartLimit();
  void OnLimit();
  void EndPair();
  void Avoid();
  void Tell();
  bool HasChanged() const;
  bool SendsOver() const { return upgrade_.sends_over_rdma(); }
  bool ReceivesOver() const { return upgrade_.receives_over_rdma(); }
  RdmaLoop& loop() const;
  std::string PeerHost() const;

  const int socket_;
  const std::unique_ptr<ByteChannel> plain_;
  const bool offers_;
  ChannelHost* host_ = nullptr;  // null while the channel is not attached
  Upgrade upgrade_;
  transport::Offer peer_offer_;
  std::unique_ptr<RdmaChannel> rdma_;
  std::string device_;
  std::unique_ptr<Loop::Timer> limit_;
  size_t switch_left_ = 0;  // bytes of the switch that are not sent
  bool told_ = false;
};

}  // namespace byteps::transport
