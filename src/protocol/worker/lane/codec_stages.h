// The stages of a piece whose tensor has a codec. One encodes the contribution before the exchange,
// the other decodes the verdict into the result behind it. Both end at once, and keep nothing.
#pragma once

#include "src/protocol/codec.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::protocol {

class EncodeStage final : public PieceStage {
 public:
  explicit EncodeStage(const Codecs& codecs) : codecs_(codecs) {}
  StageVerdict Enter(PieceInHand& piece) override;

 private:
  const Codecs& codecs_;
};

class DecodeStage final : public PieceStage {
 public:
  explicit DecodeStage(const Codecs& codecs) : codecs_(codecs) {}
  StageVerdict Enter(PieceInHand& piece) override;

 private:
  const Codecs& codecs_;
};

// The paths of a lane that was given no other paths: the stages of the codec, if the tensor has
// one.
class CodecPaths final : public PiecePaths {
 public:
  explicit CodecPaths(const Codecs& codecs) : encode_(codecs), decode_(codecs) {}
  const PiecePath& PathOf(const Exchange& exchange) override {
    return exchange.tensor.codec == 0 ? plain_ : coded_;
  }

 private:
  EncodeStage encode_;
  DecodeStage decode_;
  const PiecePath plain_;
  const PiecePath coded_{{&encode_}, {&decode_}};
};

}  // namespace byteps::protocol
