#include "src/protocol/worker/codec_stages.h"

#include <string>

namespace byteps::protocol {
namespace {

Status NoCodec(const PieceInHand& piece) {
  return {StatusCode::kInvalidArgument,
          "this rank has no codec " + std::to_string(piece.exchange.tensor.codec) +
              ", which tensor '" + std::string(piece.exchange.name) + "' needs"};
}

}  // namespace

// Once a round: what is there already, perhaps from another attempt, is pushed again as it is.
StageVerdict EncodeStage::Enter(PieceInHand& piece) {
  if (piece.contribution.there) return StageVerdict::kDone;
  const TensorFacts& tensor = piece.exchange.tensor;
  const Codec* codec = codecs_.Find(tensor.codec);
  if (codec == nullptr) {
    piece.error = NoCodec(piece);
    return StageVerdict::kFailed;
  }
  size_t most = codec->EncodedBytesMax(tensor.dtype, piece.spans.push.size());
  PieceBytes& made = piece.contribution;
  made.buffer = pool_.Take(most);
  made.bytes = static_cast<uint32_t>(
      codec->Encode(tensor.dtype, piece.spans.push, ByteSpan(made.buffer.data(), most)));
  made.there = true;
  return StageVerdict::kDone;
}

// An error is no encoded piece, and who wants nothing has nothing to decode.
StageVerdict DecodeStage::Enter(PieceInHand& piece) {
  if (!piece.answer.there || piece.spans.want.empty()) return StageVerdict::kDone;
  const TensorFacts& tensor = piece.exchange.tensor;
  const Codec* codec = codecs_.Find(tensor.codec);
  piece.error = codec == nullptr
                    ? NoCodec(piece)
                    : codec->Decode(tensor.dtype, piece.answer.span(), piece.spans.want);
  return piece.error.ok() ? StageVerdict::kDone : StageVerdict::kFailed;
}

}  // namespace byteps::protocol
