// The stages of a piece at the carrier of a machine, in a job with servers: `collect` before the
// exchange, `spread` behind it (protocol/data_path.h), and the stages of a codec between them.
#pragma once

#include "src/machine/member/ferry.h"
#include "src/protocol/worker/lane/codec_stages.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::machine {

// The paths of one lane. They belong to the lane's thread; `ferry` outlives them.
class FerryPaths final : public protocol::PiecePaths {
 public:
  FerryPaths(Ferry& ferry, const protocol::StageTools& tools);

  const protocol::PiecePath& PathOf(const protocol::Exchange& exchange) override {
    return exchange.tensor.codec == 0 ? plain_ : coded_;
  }
  void AbandonAll() override { ferry_.CallOffAll(this); }

 private:
  // Waits until the ranks of the machine have filled a block, and takes their sum.
  class Collect final : public protocol::PieceStage {
   public:
    explicit Collect(FerryPaths& paths) : paths_(paths) {}
    protocol::StageVerdict Enter(protocol::PieceInHand& piece) override;
    void Abandon(const protocol::PieceTicket& ticket) override { paths_.ferry_.CallOff(ticket); }

   private:
    FerryPaths& paths_;
  };
  // Waits until the ranks of the machine have read the answer.
  class Spread final : public protocol::PieceStage {
   public:
    explicit Spread(FerryPaths& paths) : paths_(paths) {}
    protocol::StageVerdict Enter(protocol::PieceInHand& piece) override;
    void Abandon(const protocol::PieceTicket& ticket) override { paths_.ferry_.CallOff(ticket); }

   private:
    FerryPaths& paths_;
  };

  Ferry::Piece PieceOf(const protocol::PieceInHand& piece, Ferry::Way way) const;

  Ferry& ferry_;
  const protocol::ResumePiece resume_;
  Collect collect_{*this};
  Spread spread_{*this};
  protocol::EncodeStage encode_;
  protocol::DecodeStage decode_;
  // True: the lane has no memory of the ranks.
  const protocol::PiecePath plain_{{&collect_}, {&spread_}, true};
  const protocol::PiecePath coded_{{&collect_, &encode_}, {&decode_, &spread_}, true};
};

}  // namespace byteps::machine
