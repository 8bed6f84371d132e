#include "src/machine/room/begun_signs.h"

#include <bit>

namespace byteps::machine {
namespace {

constexpr uint64_t kSeveral = 1;

// Returns a number that two rounds may share. A rank may then take one for the other, and wake the
// carrier for nothing.
uint64_t NumberOf(const RoundKey& key) {
  uint64_t number = (uint64_t{key.tensor} << 32 | key.first_piece) * 0x9e3779b97f4a7c15;
  number = (number ^ number >> 29 ^ key.use) * 0xbf58476d1ce4e5b9;
  return (number ^ number >> 32) | 2;  // neither 0 nor kSeveral
}

uint32_t PlaceOf(uint64_t number) { return static_cast<uint32_t>(number >> 8) % kSigns; }

}  // namespace

bool BegunSigns::Begin(const RoundKey& key, RankSet ranks) {
  const uint64_t number = NumberOf(key);
  const uint32_t place = PlaceOf(number);
  words_.ranks[rank_].rounds[place].store(++open_[place] == 1 ? number : kSeveral);
  // Shows the own sign before it reads the others, so that the last rank sees all signs. Without
  // the carrier nothing begins.
  bool may_be_complete = true;
  for (RankSet others = ranks & ~local::Bit(rank_); others != 0; others &= others - 1) {
    const uint64_t seen = words_.ranks[std::countr_zero(others)].rounds[place].load();
    may_be_complete = may_be_complete && (seen == number || seen == kSeveral);
  }
  constexpr RankSet kCarrier = 1;
  return may_be_complete || (words_.excused.load() & (ranks | kCarrier)) != 0 ||
         words_.keeps_errors.load() != 0;
}

void BegunSigns::End(const RoundKey& key) {
  const uint32_t place = PlaceOf(NumberOf(key));
  if (open_[place] == 0) return;
  if (--open_[place] == 0) words_.ranks[rank_].rounds[place].store(0);
}

}  // namespace byteps::machine
