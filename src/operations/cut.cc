#include "src/operations/cut.h"

#include <utility>

namespace byteps::operations {

Result<Cut> Cut::Make(Extent extent, uint32_t piece_bytes) {
  if (extent.sections.empty()) {
    Result<plan::Partition> run = plan::Partition::Cut(extent.bytes, piece_bytes);
    if (!run.ok()) return run.status();
    return Cut(std::move(extent), piece_bytes, run.value());
  }
  Result<plan::Sections> sections = plan::Sections::Cut(extent.sections, piece_bytes);
  if (!sections.ok()) return sections.status();
  return Cut(std::move(extent), piece_bytes, std::move(sections).value());
}

// The limit has one unit more than the bytes, so that one piece has room for them in any unit.
Cut Cut::Whole(uint64_t bytes) {
  return Make({bytes, {}}, static_cast<uint32_t>(bytes) + plan::kPieceUnitBytes).value();
}

uint32_t Cut::count() const {
  return std::visit([](const auto& pieces) { return pieces.count(); }, pieces_);
}

plan::SectionPiece Cut::Piece(uint32_t index) const {
  const plan::Partition* run = this->run();
  if (run == nullptr) return std::get<plan::Sections>(pieces_).Piece(index);
  plan::PieceSpan span = run->Piece(index);
  return {0, span.offset, span.bytes};
}

}  // namespace byteps::operations
