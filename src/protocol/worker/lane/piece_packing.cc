#include "src/protocol/worker/lane/piece_packing.h"

#include <utility>

namespace byteps::protocol {
namespace {

std::vector<std::byte> BytesOf(ConstByteSpan span) { return {span.begin(), span.end()}; }

}  // namespace

MovedPiece PackPiece(const TensorFacts& tensor, uint32_t number, LanePiece& piece) {
  MovedPiece moved;
  moved.tensor = tensor;
  moved.number = number;
  moved.home = piece.home;
  moved.round = piece.round;
  moved.at = piece.at;
  if (piece.copy) moved.copy = BytesOf({piece.copy.data(), piece.copy_bytes});
  if (piece.contribution.there) moved.contribution = BytesOf(piece.contribution.span());
  if (piece.answer.there) moved.answer = BytesOf(piece.answer.span());
  if (piece.failure != nullptr) moved.failure = *piece.failure;
  moved.held = std::move(piece.held);
  piece = LanePiece();
  return moved;
}

LanePiece UnpackPiece(const MovedPiece& moved, BufferPool& pool, Arithmetic& arithmetic) {
  auto buffer_of = [&](const std::vector<std::byte>& bytes) {
    PieceBytes made{true, pool.Take(bytes.size()), 0, static_cast<uint32_t>(bytes.size())};
    arithmetic.Copy(made.buffer.data(), bytes.data(), bytes.size());
    return made;
  };
  LanePiece piece;
  piece.home = moved.home;
  piece.step = PieceStep::kDone;
  piece.round = moved.round;
  piece.at = moved.at;
  piece.held = moved.held;
  if (!moved.copy.empty()) {
    piece.copy = buffer_of(moved.copy).buffer;
    piece.copy_bytes = static_cast<uint32_t>(moved.copy.size());
  }
  if (moved.contribution.has_value()) piece.contribution = buffer_of(*moved.contribution);
  if (moved.answer.has_value()) piece.answer = buffer_of(*moved.answer);
  if (moved.failure.has_value()) piece.failure = std::make_unique<Status>(*moved.failure);
  return piece;
}

}  // namespace byteps::protocol
