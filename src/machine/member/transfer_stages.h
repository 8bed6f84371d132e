// The stages of a piece at the carrier of a machine, in a job with servers: `collect` before the
// exchange, `spread` behind it (protocol/data_path.h), and the stages of a codec between them.
#pragma once

#include "src/machine/member/block_transfers.h"
#include "src/protocol/worker/lane/codec_stages.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::machine {

// The paths of one lane. They belong to the lane's thread; `transfers` outlives them.
class TransferStages final : public protocol::PiecePaths {
 public:
  TransferStages(BlockTransfers& transfers, const protocol::StageTools& tools);

  const protocol::PiecePath& PathOf(const protocol::Exchange& exchange) override {
    return exchange.tensor.codec == 0 ? plain_ : coded_;
  }
  void AbandonAll() override { transfers_.CallOffAll(this); }

 private:
  // Waits until the ranks of the machine have filled a block, and takes their sum.
  class Collect final : public protocol::PieceStage {
   public:
    explicit Collect(TransferStages& stages) : stages_(stages) {}
    protocol::StageVerdict Enter(protocol::PieceInHand& piece) override;
    void Abandon(const protocol::PieceTicket& ticket) override {
      stages_.transfers_.CallOff(ticket);
    }

   private:
    TransferStages& stages_;
  };
  // Waits until the ranks of the machine have read the answer.
  class Spread final : public protocol::PieceStage {
   public:
    explicit Spread(TransferStages& stages) : stages_(stages) {}
    protocol::StageVerdict Enter(protocol::PieceInHand& piece) override;
    void Abandon(const protocol::PieceTicket& ticket) override {
      stages_.transfers_.CallOff(ticket);
    }

   private:
    TransferStages& stages_;
  };

  BlockTransfers::Piece PieceOf(const protocol::PieceInHand& piece, BlockTransfers::Way way) const;

  BlockTransfers& transfers_;
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
