// A set of slots: who contributed to a verdict, who holds one. On the wire a bitmap, slot 0 in the
// lowest bit of the first byte.
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
  // False when the slot was in it already.
  bool Insert(Slot slot) {
    if (slot / 64 >= words_.size()) words_.resize(slot / 64 + 1);
    uint64_t bit = uint64_t{1} << (slot % 64);
    bool fresh = (words_[slot / 64] & bit) == 0;
    words_[slot / 64] |= bit;
    return fresh;
  }
  // False when the slot was not in it.
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
  // Slots in both.
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

// The same of ranks.
using RankSet = SlotSet;

// Shared by all verdicts that have the same members: one object per view, nearly always.
using Receipt = std::shared_ptr<const SlotSet>;

// Nearly always a piece has the receipt that it had before. Counting a reference would wait until
// the bytes of the piece, which have just been written, have left for the cache.
inline void SetReceipt(Receipt& to, const Receipt& from) {
  if (to != from) to = from;
}

// Leaves in `common`, which is null before the first one, the members that `part` has, too. True
// when the two differed.
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
