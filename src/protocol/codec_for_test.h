// The simplest codec: it casts float32 to bfloat16, towards zero.
#pragma once

#include <cstring>

#include "src/protocol/codec.h"

namespace byteps::protocol {

class Bfloat16Codec final : public Codec {
 public:
  bool Supports(DataType type) const override { return type == DataType::kFloat32; }
  size_t EncodedBytesMax(DataType, size_t piece_bytes) const override { return piece_bytes / 2; }
  size_t Encode(DataType, ConstByteSpan piece, ByteSpan out) const override {
    // Copies the higher half of each number, little-endian.
    for (size_t at = 0; at + 4 <= piece.size(); at += 4) {
      std::memcpy(out.data() + at / 2, piece.data() + at + 2, 2);
    }
    return piece.size() / 2;
  }
  Status Decode(DataType type, ConstByteSpan encoded, ByteSpan piece) const override {
    if (type != DataType::kFloat32 || encoded.size() * 2 != piece.size()) {
      return {StatusCode::kProtocol, "these are not the bfloat16 of the piece's float32"};
    }
    for (size_t at = 0; at + 4 <= piece.size(); at += 4) {
      std::memset(piece.data() + at, 0, 2);
      std::memcpy(piece.data() + at + 2, encoded.data() + at / 2, 2);
    }
    return Status::Ok();
  }
};

class CodecsForTest final : public Codecs {
 public:
  static constexpr uint8_t kBfloat16 = 9;
  const Codec* Find(uint8_t id) const override { return id == kBfloat16 ? &bfloat16_ : nullptr; }

 private:
  Bfloat16Codec bfloat16_;
};

}  // namespace byteps::protocol
