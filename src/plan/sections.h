// Cuts a tensor that goes to several receivers into sections, one behind the other, and each
// section into pieces, like a tensor of its own. So no piece has two receivers. A value and pure
// functions, like partition.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/plan/partition.h"

namespace byteps::plan {

// A piece of a section.
struct SectionPiece {
  uint32_t section = 0;
  uint64_t offset = 0;  // in the section
  uint32_t bytes = 0;

  friend bool operator==(const SectionPiece&, const SectionPiece&) = default;
};

class Sections {
 public:
  // Sections of no bytes have no pieces. If all sections are empty, the first one has an empty
  // piece, so that the ranks exchange something. kExhausted: there would be more than 2^32 - 1
  // pieces. REQUIRES: at least one section.
  static Result<Sections> Cut(std::span<const uint64_t> section_bytes, uint32_t piece_bytes);

  uint32_t count() const { return first_.back(); }
  std::span<const uint64_t> section_bytes() const { return bytes_; }

  // Returns the piece and its section. O(log sections). REQUIRES: index < count().
  SectionPiece Piece(uint32_t index) const;

 private:
  Sections() = default;

  std::vector<uint64_t> bytes_;
  std::vector<Partition> partitions_;  // by section
  std::vector<uint32_t> first_;        // by section, then the number of all: its first piece
};

}  // namespace byteps::plan
