// The paths of a lane whose tensors may lie in the memory of devices: `fetch` before the exchange
// and `store` behind it (protocol/data_path.h), around the stages of a codec.
//
// Copies end on threads of lines, and no call waits for them (piece_copies.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "src/protocol/worker/lane/codec_stages.h"
#include "src/protocol/worker/lane/piece_path.h"
#include "src/runtime/worker/piece_copies.h"

namespace byteps::runtime {

class DevicePaths final : public protocol::PiecePaths {
 public:
  // `rank`: this one, for errors.
  DevicePaths(const protocol::StageTools& tools, uint32_t rank);

  const protocol::PiecePath& PathOf(const protocol::Exchange& exchange) override;

 private:
  // The stages of the pieces on one device.
  class OnDevice {
   public:
    OnDevice(DevicePaths& paths, std::shared_ptr<PieceCopies> copies);
    PieceCopies& copies() { return *copies_; }
    const protocol::PiecePath& PathOf(bool coded) const { return coded ? coded_ : plain_; }

   private:
    class Fetch final : public protocol::PieceStage {
     public:
      explicit Fetch(PieceCopies& copies) : copies_(copies) {}
      protocol::StageVerdict Enter(protocol::PieceInHand& piece) override;

     private:
      PieceCopies& copies_;
    };
    class Store final : public protocol::PieceStage {
     public:
      explicit Store(PieceCopies& copies) : copies_(copies) {}
      protocol::StageVerdict Enter(protocol::PieceInHand& piece) override;

     private:
      PieceCopies& copies_;
    };

    const std::shared_ptr<PieceCopies> copies_;  // shared with the lines: DeviceLines::Keep
    Fetch fetch_;
    Store store_;
    const protocol::PiecePath plain_;
    const protocol::PiecePath coded_;
  };

  const protocol::ResumePiece resume_;
  const std::string who_;
  protocol::EncodeStage encode_;
  protocol::DecodeStage decode_;
  const protocol::PiecePath host_;
  const protocol::PiecePath coded_host_{{&encode_}, {&decode_}};
  std::map<device::DeviceLines*, OnDevice> devices_;
};

}  // namespace byteps::runtime
