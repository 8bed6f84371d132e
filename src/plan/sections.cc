#include "src/plan/sections.h"

#include <algorithm>
#include <string>

#include "src/base/check.h"

namespace byteps::plan {

Result<Sections> Sections::Cut(std::span<const uint64_t> section_bytes, uint32_t piece_bytes) {
  Sections sections;
  sections.bytes_.assign(section_bytes.begin(), section_bytes.end());
  bool empty = std::all_of(section_bytes.begin(), section_bytes.end(),
                           [](uint64_t bytes) { return bytes == 0; });
  uint64_t first = 0;
  for (size_t i = 0; i < section_bytes.size(); ++i) {
    Result<Partition> cut = Partition::Cut(section_bytes[i], piece_bytes);
    if (!cut.ok()) return cut.status();
    sections.first_.push_back(static_cast<uint32_t>(first));
    sections.partitions_.push_back(cut.value());
    if (section_bytes[i] > 0 || (empty && i == 0)) first += cut->count();
    if (first > UINT32_MAX) {
      return Status(StatusCode::kExhausted, "a tensor needs more than 4294967295 pieces of " +
                                                std::to_string(piece_bytes) +
                                                " bytes; use larger pieces");
    }
  }
  sections.first_.push_back(static_cast<uint32_t>(first));
  return sections;
}

SectionPiece Sections::Piece(uint32_t index) const {
  BYTEPS_CHECK(index < count());
  // The last section that begins at this piece has it; empty sections before it begin here, too.
  auto after = std::upper_bound(first_.begin(), first_.end(), index);
  auto section = static_cast<uint32_t>(after - first_.begin()) - 1;
  PieceSpan span = partitions_[section].Piece(index - first_[section]);
  return {section, span.offset, span.bytes};
}

}  // namespace byteps::plan
