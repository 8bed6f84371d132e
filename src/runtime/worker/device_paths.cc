#include "src/runtime/worker/device_paths.h"

#include <utility>

namespace byteps::runtime {

using protocol::PieceInHand;
using protocol::StageVerdict;

DevicePaths::DevicePaths(const protocol::StageTools& tools, uint32_t rank)
    : resume_(tools.resume),
      who_("rank " + std::to_string(rank)),
      encode_(tools.codecs),
      decode_(tools.codecs) {}

const protocol::PiecePath& DevicePaths::PathOf(const protocol::Exchange& exchange) {
  const bool coded = exchange.tensor.codec != 0;
  if (exchange.memory == Memory::kHost) return coded ? coded_host_ : host_;
  device::DeviceLines& lines = *exchange.device.lines;
  auto found = devices_.find(&lines);
  if (found == devices_.end()) {
    auto copies = std::make_shared<PieceCopies>(lines, resume_, who_);
    lines.Keep(copies);
    found = devices_.try_emplace(&lines, *this, std::move(copies)).first;
  }
  found->second.copies().CleanUp();
  return found->second.PathOf(coded);
}

DevicePaths::OnDevice::OnDevice(DevicePaths& paths, std::shared_ptr<PieceCopies> copies)
    : copies_(std::move(copies)),
      fetch_(*copies_),
      store_(*copies_),
      plain_{{&fetch_}, {&store_}, true, &copies_->pool()},
      coded_{{&fetch_, &paths.encode_}, {&paths.decode_, &store_}, true, &copies_->pool()} {}

StageVerdict DevicePaths::OnDevice::Fetch::Enter(PieceInHand& piece) {
  if (piece.input->empty()) return StageVerdict::kDone;
  const ByteSpan room = piece.MakeOutput(piece.input->size());
  copies_.Begin(PieceCopies::Way::kDown, piece, piece.output.buffer, room.data(),
                piece.input->data(), room.size());
  return StageVerdict::kPending;
}

StageVerdict DevicePaths::OnDevice::Store::Enter(PieceInHand& piece) {
  if (!piece.input.has_value() || piece.input->empty()) return StageVerdict::kDone;
  copies_.Begin(PieceCopies::Way::kUp, piece, piece.input_buffer, piece.spans.want.data(),
                piece.input->data(), piece.spans.want.size());
  return StageVerdict::kPending;
}

}  // namespace byteps::runtime
