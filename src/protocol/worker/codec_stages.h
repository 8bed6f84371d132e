// The stages of a piece whose tensor has a codec: its contribution is encoded before the exchange,
// and the verdict decoded into the result behind it. Both end at once.
#pragma once

#include "src/base/buffer_pool.h"
#include "src/protocol/codec.h"
#include "src/protocol/worker/piece_path.h"

namespace byteps::protocol {

class EncodeStage final : public PieceStage {
 public:
  EncodeStage(const Codecs& codecs, BufferPool& pool) : codecs_(codecs), pool_(pool) {}
  StageVerdict Enter(PieceInHand& piece) override;

 private:
  const Codecs& codecs_;
  BufferPool& pool_;
};

class DecodeStage final : public PieceStage {
 public:
  explicit DecodeStage(const Codecs& codecs) : codecs_(codecs) {}
  StageVerdict Enter(PieceInHand& piece) override;

 private:
  const Codecs& codecs_;
};

}  // namespace byteps::protocol
