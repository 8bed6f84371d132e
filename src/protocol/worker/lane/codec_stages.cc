#include "src/protocol/worker/lane/codec_stages.h"

#include <string>

namespace byteps::protocol {
namespace {

Status NoCodec(const PieceInHand& piece) {
  return {StatusCode::kInvalidArgument,
          "this rank has no codec " + std::to_string(piece.exchange.tensor.codec) +
              ", which tensor '" + std::string(piece.exchange.name) + "' needs"};
}

}  // namespace

StageVerdict EncodeStage::Enter(PieceInHand& piece) {
  const TensorFacts& tensor = piece.exchange.tensor;
  const Codec* codec = codecs_.Find(tensor.codec);
  if (codec == nullptr) {
    piece.error = NoCodec(piece);
    return StageVerdict::kFailed;
  }
  ByteSpan room = piece.MakeOutput(codec->EncodedBytesMax(tensor.dtype, piece.input->size()));
  piece.output.bytes = static_cast<uint32_t>(codec->Encode(tensor.dtype, *piece.input, room));
  return StageVerdict::kDone;
}

StageVerdict DecodeStage::Enter(PieceInHand& piece) {
  if (!piece.input.has_value()) return StageVerdict::kDone;
  const TensorFacts& tensor = piece.exchange.tensor;
  const Codec* codec = codecs_.Find(tensor.codec);
  if (codec == nullptr) {
    piece.error = NoCodec(piece);
    return StageVerdict::kFailed;
  }
  const size_t bytes = piece.spans.want.size();
  ByteSpan decoded = piece.staged ? piece.MakeOutput(bytes) : piece.spans.want;
  piece.error = codec->Decode(tensor.dtype, *piece.input, decoded);
  return piece.error.ok() ? StageVerdict::kDone : StageVerdict::kFailed;
}

}  // namespace byteps::protocol
