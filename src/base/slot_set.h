// A set of slots, such as the members that contributed to a verdict or hold one. On the wire it is
// a bitmap, with slot 0 in the lowest bit of the first byte.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/types.h"

namespace byteps {

class SlotSet {
 public:
  // Returns false if the set had the slot already.
  bool Insert(Slot slot) {
    if (slot / 64 >= words_.size()) words_.resize(slot / 64 + 1);
    uint64_t bit = uint64_t{1} << (slot % 64);
    bool fresh = (words_[slot / 64] & bit) == 0;
    words_[slot / 64] |= bit;
    return fresh;
  }
  // Returns false if the set did not have the slot.
  bool Remove(Slot slot) {
    if (!Contains(slot)) return false;
    words_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    return true;
  }
  bool Contains(Slot slot) const {
    return slot / 64 < words_.size() && ((words_[slot / 64] >> (slot % 64)) & 1) != 0;
  }
  bool IsOnly(Slot slot) const { return Contains(slot) && count() == 1; }
  bool empty() const { return count() == 0; }
  void Clear() { words_.assign(words_.size(), 0); }
  uint32_t count() const {
    uint32_t count = 0;
    for (uint64_t word : words_) count += static_cast<uint32_t>(std::popcount(word));
    return count;
  }
  // Returns the slots that are in both sets.
  SlotSet And(const SlotSet& other) const {
    SlotSet both;
    for (Slot slot = 0; slot < words_.size() * 64; ++slot) {
      if (Contains(slot) && other.Contains(slot)) both.Insert(slot);
    }
    return both;
  }
  std::vector<Slot> List() const {
    std::vector<Slot> slots;
    for (Slot slot = 0; slot < words_.size() * 64; ++slot) {
      if (Contains(slot)) slots.push_back(slot);
    }
    return slots;
  }

  size_t bitmap_bytes() const { return words_.size() * 8; }
  // REQUIRES: out.size() == bitmap_bytes().
  void ToBitmap(ByteSpan out) const {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(words_[i / 8] >> (8 * (i % 8)));
    }
  }
  static SlotSet FromBitmap(ConstByteSpan bitmap) {
    SlotSet set;
    for (Slot slot = 0; slot < bitmap.size() * 8; ++slot) {
      if (((static_cast<uint8_t>(bitmap[slot / 8]) >> (slot % 8)) & 1) != 0) set.Insert(slot);
    }
    return set;
  }

  friend bool operator==(const SlotSet& a, const SlotSet& b) {
    size_t words = std::max(a.words_.size(), b.words_.size());
    for (size_t i = 0; i < words; ++i) {
      uint64_t x = i < a.words_.size() ? a.words_[i] : 0;
      uint64_t y = i < b.words_.size() ? b.words_[i] : 0;
      if (x != y) return false;
    }
    return true;
  }

 private:
  std::vector<uint64_t> words_;
};

// A set of ranks.
using RankSet = SlotSet;

// All verdicts that have the same members share one Receipt: nearly always one object per view.
using Receipt = std::shared_ptr<const SlotSet>;

// Sets `to`, unless it has the value already. Nearly always a piece keeps the receipt that it had,
// and counting a reference would wait until the processor has stored the piece's bytes, which were
// just written.
inline void SetReceipt(Receipt& to, const Receipt& from) {
  if (to != from) to = from;
}

// Removes from `common` the members that `part` does not have. `common` is null before the first
// part. Returns true if the two differed.
inline bool NarrowReceipt(Receipt& common, const Receipt& part) {
  if (common == part) return false;
  if (common == nullptr) {
    common = part;
    return false;
  }
  if (*common == *part) return false;
  common = std::make_shared<SlotSet>(common->And(*part));
  return true;
}

}  // namespace byteps
