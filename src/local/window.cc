#include "src/local/window.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/kernels/kernels.h"
#include "src/local/futex.h"

namespace byteps::local {
namespace {

// The work of a smaller share costs less than waking a rank for it.
constexpr size_t kShareBytesMin = size_t{128} << 10;
constexpr size_t kLineBytes = 64;
constexpr uint32_t kCarrier = 0;

bool Covers(RankSet big, RankSet small) { return (small & ~big) == 0; }
uint32_t Count(RankSet set) { return static_cast<uint32_t>(std::popcount(set)); }
uint32_t Lowest(RankSet set) { return static_cast<uint32_t>(std::countr_zero(set)); }

template <typename Action>
void ForEach(RankSet set, Action action) {
  for (; set != 0; set &= set - 1) action(Lowest(set));
}

size_t UpToLine(size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

uint32_t SharesOf(const BlockUse& use) {
  return static_cast<uint32_t>(std::clamp<size_t>(use.bytes / kShareBytesMin, 1, Count(use.ranks)));
}

uint64_t Pack(const BlockUse& use) {
  return uint64_t{use.divisor} << 32 | static_cast<uint64_t>(use.how) << 8 |
         static_cast<uint64_t>(use.type);
}

std::string Names(RankSet ranks) {
  std::string text = Count(ranks) == 1 ? "local rank" : "local ranks";
  bool first = true;
  ForEach(ranks, [&](uint32_t rank) {
    text += (first ? " " : ", ") + std::to_string(rank);
    first = false;
  });
  return text;
}

}  // namespace

void CombineParts(const BlockUse& use, std::byte* out, std::span<const std::byte* const> parts,
                  const kernels::SumTree& tree, size_t elements) {
  if (use.how == Combine::kAverage) {
    kernels::Average(use.type, out, parts, tree, elements, use.divisor);
  } else {
    kernels::Combine(use.how, use.type, out, parts, tree, elements);
  }
}

size_t Window::BytesFor(const WindowShape& shape) {
  return UpToLine(sizeof(WindowWords)) + shape.ranks * shape.blocks * shape.block_bytes;
}

Window::Window(ByteSpan memory, const WindowShape& shape, uint32_t rank, Heaps* heaps)
    : shape_(shape),
      rank_(rank),
      words_(*reinterpret_cast<WindowWords*>(memory.data())),
      parts_(memory.data() + UpToLine(sizeof(WindowWords))),
      heaps_(heaps) {
  BYTEPS_CHECK(memory.size() >= BytesFor(shape) && rank < shape.ranks);
  BYTEPS_CHECK(shape.ranks <= kLocalRanksMax && shape.blocks >= 2 && shape.blocks <= kBlocksMax);
}

void Window::SetPlaces(std::span<const uint32_t> places, kernels::Nodes nodes) {
  BYTEPS_CHECK(places.size() <= kLocalRanksMax);
  // The number of the next use tells the ranks of these words.
  words_.nodes.store(static_cast<uint32_t>(nodes), std::memory_order_relaxed);
  for (size_t rank = 0; rank < places.size(); ++rank) {
    words_.places[rank].store(places[rank], std::memory_order_relaxed);
  }
}

void Window::PlanSum(RankSet ranks, kernels::SumTree& tree) const {
  std::array<uint32_t, kLocalRanksMax> places;
  size_t count = 0;
  ForEach(ranks, [&](uint32_t rank) {
    places[count++] = words_.places[rank].load(std::memory_order_relaxed);
  });
  const uint32_t nodes = words_.nodes.load(std::memory_order_relaxed);
  tree.Plan({places.data(), count}, static_cast<kernels::Nodes>(nodes));
}

std::optional<AdmittedUse> Window::Admit(const BlockUse& use) {
  uint64_t number = words_.admitted.load(std::memory_order_relaxed) + 1;
  std::optional<uint32_t> block = BlockFor(use.ranks);
  if (!block.has_value()) return {};
  Given& given = given_[*block];
  AdmittedUse at = {number, *block, given.last.number, use};
  // A block that is given has at most one use that is not over, and that use has the other place.
  // So a rank that stands still keeps no words that others need.
  UseWords& words = words_.uses[*block * kUsesOfBlock + given.count % kUsesOfBlock];
  // A rank that reads meanwhile sees another number before it sees other words.
  constexpr auto release = std::memory_order_release;
  words.number.store(0);
  words.block.store(at.block, release);
  words.after.store(at.after, release);
  words.ranks.store(use.ranks, release);
  words.bring.store(use.bring, release);
  words.bytes.store(use.bytes, release);
  words.arithmetic.store(Pack(use), release);
  words.tensor_and_piece.store(uint64_t{use.tensor} << 32 | use.piece, release);
  words.generation.store(use.generation, release);
  words.round.store(use.round, release);
  words.number.store(number);
  given = {.before = given.last, .last = at, .count = given.count + 1};
  next_block_ = (at.block + 1) % (shape_.blocks - 1);
  words_.admitted.store(number);
  Tell(use.ranks);
  return at;
}

// Returns a free block, or a block that will be free when ranks of this use have done their part.
// Returns the reserve if other ranks hold all blocks, and the ranks of this use owe nothing in any
// of them.
std::optional<uint32_t> Window::BlockFor(RankSet ranks) {
  uint32_t reserve = shape_.blocks - 1;
  bool is_next = false;
  std::optional<uint32_t> behind;
  for (uint32_t i = 0; i < reserve; ++i) {
    uint32_t block = (next_block_ + i) % reserve;
    uint64_t over = words_.blocks[block].over.load();
    const AdmittedUse& last = given_[block].last;
    if (over == last.number) return block;
    bool needs_same = Covers(ranks, last.use.ranks);
    if (needs_same && over == last.after && !behind.has_value()) behind = block;
    is_next = is_next || needs_same;
  }
  if (behind.has_value()) return behind;
  bool is_free = words_.blocks[reserve].over.load() == given_[reserve].last.number;
  if (is_next || !is_free) return {};
  words_.awaits_less.store(1);  // before the look, so that it misses nothing
  RankSet owing = 0;
  for (uint32_t block = 0; block < reserve; ++block) owing |= Owing(block);
  if ((owing & ranks) != 0) return {};
  words_.awaits_less.store(0);
  return reserve;
}

bool Window::HasSaid(const AdmittedUse& at, uint32_t rank, uint64_t what) const {
  return WordsOf(at).marks[rank].mark.load() >= (at.number << 2 | what);
}

RankSet Window::Owing(uint32_t block) const {
  const Given& given = given_[block];
  uint64_t over = words_.blocks[block].over.load();
  if (over == given.last.number) return 0;
  return OwingIn(over == given.last.after ? given.last : given.before);
}

// Returns the ranks that have something to do now in the use that has the block.
RankSet Window::OwingIn(const AdmittedUse& at) const {
  const BlockWords& words = WordsOf(at);
  bool is_open = decision(at) == Decision::kOpen;
  bool fills = is_open && words.filled.load() < Count(at.use.bring);
  // Once every share is taken up, only ranks that have one owe anything.
  bool finishes = is_open && !fills && words.claimed.load() >= SharesOf(at.use);
  RankSet owing = 0;
  ForEach(fills ? at.use.bring : at.use.ranks, [&](uint32_t rank) {
    bool owes = fills      ? !HasSaid(at, rank, kHasFilled)
                : finishes ? words.marks[rank].mark.load() == (at.number << 2 | kIsSumming)
                           : !HasSaid(at, rank, kHasReleased);
    if (owes) owing |= Bit(rank);
  });
  return owing;
}

std::optional<AdmittedUse> Window::Read(uint32_t place, uint64_t number) const {
  const UseWords& words = words_.uses[place];
  constexpr auto acquire = std::memory_order_acquire;
  if (words.number.load() != number) return {};
  AdmittedUse at = {number, static_cast<uint32_t>(words.block.load(acquire)),
                    words.after.load(acquire)};
  BlockUse& use = at.use;
  use.ranks = words.ranks.load(acquire);
  use.bring = words.bring.load(acquire);
  use.bytes = words.bytes.load(acquire);
  uint64_t arithmetic = words.arithmetic.load(acquire);
  use.type = static_cast<DataType>(arithmetic & 0xff);
  use.how = static_cast<Combine>(arithmetic >> 8 & 0xff);
  use.divisor = static_cast<uint32_t>(arithmetic >> 32);
  uint64_t tensor_and_piece = words.tensor_and_piece.load(acquire);
  use.tensor = static_cast<TensorId>(tensor_and_piece >> 32);
  use.piece = static_cast<uint32_t>(tensor_and_piece);
  use.generation = static_cast<uint32_t>(words.generation.load(acquire));
  use.round = words.round.load(acquire);
  if (words.number.load(acquire) != number) return {};
  return at;
}

Result<std::optional<AdmittedUse>> Window::NextAfter(uint64_t number) {
  // The loop ignores uses after `last`: such a use may be written completely, and one before it not
  // yet.
  const uint64_t last = words_.admitted.load();
  std::optional<AdmittedUse> next;
  uint32_t place_of_next = 0;
  for (uint32_t place = 0; place < shape_.blocks * kUsesOfBlock; ++place) {
    const uint64_t one = words_.uses[place].number.load();
    if (one <= number || one > last || (next.has_value() && one > next->number)) continue;
    // A use that is overwritten meanwhile was over, so it does not concern this rank.
    std::optional<AdmittedUse> at = Read(place, one);
    if (!at.has_value() || !Has(at->use.ranks, rank_)) continue;
    next = at;
    place_of_next = place;
  }
  if (next.has_value() && !(IsSane(*next) && next->block == place_of_next / kUsesOfBlock)) {
    return Status(StatusCode::kInternal,
                  "the window of this machine names a block, or bytes, "
                  "that it does not have: restart the job");
  }
  return next;
}

bool Window::IsSane(const AdmittedUse& at) const {
  const BlockUse& use = at.use;
  RankSet all = FirstRanks(shape_.ranks);
  return at.block < shape_.blocks && use.bytes <= shape_.block_bytes && Covers(all, use.ranks) &&
         Covers(use.ranks, use.bring) && use.bring != 0 &&
         static_cast<int>(use.type) < kDataTypeCount && static_cast<int>(use.how) < kCombineCount &&
         use.how != Combine::kLast && use.bytes % SizeOf(use.type) == 0 &&
         (use.how != Combine::kAverage || use.divisor >= Count(use.bring));
}

bool Window::IsOurs(const AdmittedUse& at) const { return WordsOf(at).over.load() == at.after; }

bool Window::IsOver(const AdmittedUse& at) const { return WordsOf(at).over.load() >= at.number; }

std::byte* Window::PartOf(const AdmittedUse& at, uint32_t rank) const {
  if (at.use.how == Combine::kOverlay) rank = Lowest(at.use.bring);
  return parts_ + (size_t{at.block} * shape_.ranks + rank) * shape_.block_bytes;
}

ByteSpan Window::Part(const AdmittedUse& at) { return {PartOf(at, rank_), at.use.bytes}; }

void Window::Say(const AdmittedUse& at, uint64_t what) {
  WordsOf(at).marks[rank_].mark.store(at.number << 2 | what);
}

bool Window::Bring(const AdmittedUse& at, size_t offset, ConstByteSpan bytes) {
  const uint64_t source = SourceFor(at, bytes);
  if (source == 0 && !bytes.empty()) {
    std::memcpy(Part(at).data() + offset, bytes.data(), bytes.size());
  }
  Filled(at, source);
  return source != 0;
}

// Returns RankMark::source for these bytes. An overlay copies: the ranks read its bytes after the
// decision, so the bytes would have to stay for longer.
uint64_t Window::SourceFor(const AdmittedUse& at, ConstByteSpan bytes) {
  if (heaps_ == nullptr || at.use.how == Combine::kOverlay || bytes.size() != at.use.bytes) {
    return 0;
  }
  std::optional<uint64_t> offset = heaps_->OffsetOf(bytes);
  if (!offset.has_value()) return 0;
  if (!Has(words_.lenders.load(), rank_)) words_.lenders.fetch_or(Bit(rank_));
  bool all_read = true;
  ForEach(at.use.ranks, [&](uint32_t rank) {
    all_read = all_read && (rank == rank_ || Has(words_.ranks[rank].reads.load(), rank_));
  });
  return all_read ? *offset + 1 : 0;
}

// Maps the heaps of new lenders. A rank whose heap some rank cannot map goes on copying.
void Window::MapLenders() {
  const RankSet fresh = words_.lenders.load() & ~seen_lenders_;
  if (heaps_ == nullptr || fresh == 0) return;
  seen_lenders_ |= fresh;
  ForEach(fresh, [&](uint32_t rank) {
    if (rank < shape_.ranks && heaps_->Map(rank)) words_.ranks[rank_].reads.fetch_or(Bit(rank));
  });
}

void Window::Filled(const AdmittedUse& at, uint64_t source) {
  MapLenders();
  WordsOf(at).marks[rank_].source.store(source);
  Say(at, kHasFilled);
  bool last = WordsOf(at).filled.fetch_add(1) + 1 == Count(at.use.bring);
  if (!last) return TellCarrier();
  if (at.use.how == Combine::kOverlay) {
    Decide(at, kIsSum);
  } else if (SharesOf(at.use) > 1) {
    Tell(at.use.ranks);
  }
}

bool Window::SumShare(const AdmittedUse& at) {
  const std::optional<uint32_t> share = ClaimShare(at);
  if (!share.has_value()) return false;
  SumPart(at, *share);
  Say(at, kHasFilled);
  TellCarrier();
  return true;
}

std::optional<uint32_t> Window::ClaimShare(const AdmittedUse& at) {
  BlockWords& words = WordsOf(at);
  const uint32_t shares = SharesOf(at.use);
  bool is_there = IsOurs(at) && words.filled.load() == Count(at.use.bring);
  if (!is_there || at.use.how == Combine::kOverlay || words.claimed.load() >= shares) return {};
  Say(at, kIsSumming);
  const uint32_t share = words.claimed.fetch_add(1);
  if (share >= shares) Say(at, kHasFilled);
  // After the last share all other ranks owe nothing any more, however long this rank takes.
  if (share + 1 >= shares) TellCarrier();
  return share < shares ? std::optional(share) : std::nullopt;
}

// Tells the carrier that this rank owes less, if the carrier waits for that.
void Window::TellCarrier() {
  if (words_.awaits_less.load() != 0) Tell(Bit(kCarrier));
}

void Window::SumPart(const AdmittedUse& at, uint32_t share) {
  uint32_t shares = SharesOf(at.use);
  size_t step = UpToLine((at.use.bytes + shares - 1) / shares);
  size_t begin = std::min(at.use.bytes, share * step);
  Combined(at, begin, std::min(at.use.bytes, begin + step));
  if (WordsOf(at).summed.fetch_add(1) + 1 == shares) Decide(at, kIsSum);
}

const std::byte* Window::InputOf(const AdmittedUse& at, uint32_t rank) const {
  const uint64_t source = WordsOf(at).marks[rank].source.load();
  if (source == 0 || heaps_ == nullptr) return PartOf(at, rank);
  const std::byte* bytes = heaps_->At(rank, source - 1, at.use.bytes);
  // A wrong word in the memory must not make this process fault.
  return bytes == nullptr ? PartOf(at, rank) : bytes;
}

// Writes the result into the part of the lowest rank.
void Window::Combined(const AdmittedUse& at, size_t begin, size_t end) {
  std::array<const std::byte*, kLocalRanksMax> inputs;
  size_t count = 0;
  ForEach(at.use.bring, [&](uint32_t rank) { inputs[count++] = InputOf(at, rank) + begin; });
  kernels::SumTree tree;
  PlanSum(at.use.bring, tree);
  std::byte* out = PartOf(at, Lowest(at.use.bring)) + begin;
  CombineParts(at.use, out, {inputs.data(), count}, tree, (end - begin) / SizeOf(at.use.type));
}

bool Window::Decide(const AdmittedUse& at, uint64_t what) {
  std::atomic<uint64_t>& decision = WordsOf(at).decision;
  uint64_t before = decision.load();
  bool first =
      before >> 2 != at.number && decision.compare_exchange_strong(before, at.number << 2 | what);
  if (first) Tell(at.use.ranks);
  return first;
}

Decision Window::decision(const AdmittedUse& at) const {
  uint64_t word = WordsOf(at).decision.load();
  if (word >> 2 != at.number) return Decision::kOpen;
  return (word & 3) == kIsSum ? Decision::kSum : Decision::kError;
}

ConstByteSpan Window::ResultOf(const AdmittedUse& at) const {
  return {PartOf(at, Lowest(at.use.bring)), at.use.bytes};
}

bool Window::Withdraw(const AdmittedUse& at) {
  return Decide(at, kIsError) || decision(at) == Decision::kError;
}

void Window::Release(const AdmittedUse& at) {
  Say(at, kHasReleased);
  BlockWords& words = WordsOf(at);
  if (words.released.fetch_add(1) + 1 != Count(at.use.ranks)) return TellCarrier();
  words.filled.store(0);
  words.claimed.store(0);
  words.summed.store(0);
  words.released.store(0);
  words.over.store(at.number);
  // The carrier may have waited for a block, and others for this one.
  Tell(Bit(kCarrier) | WaitingBehind(at));
}

// Returns the ranks of the use behind this one. If the carrier gives the block at this moment,
// either this function sees the use, or the carrier wakes the ranks of the use, and they see that
// the block is theirs.
RankSet Window::WaitingBehind(const AdmittedUse& at) const {
  RankSet ranks = 0;
  for (uint32_t i = 0; i < kUsesOfBlock; ++i) {
    const UseWords& words = words_.uses[at.block * kUsesOfBlock + i];
    if (words.number.load() > at.number) ranks |= words.ranks.load();
  }
  return ranks;
}

void Window::Leave() { words_.left.fetch_or(Bit(rank_)); }

void Window::MarkLost(uint32_t rank) {
  if (Has(words_.left.load(), rank)) return;
  words_.lost.fetch_or(Bit(rank));
  Notify(~RankSet{0});
}

RankSet Window::lost() const { return words_.lost.load(); }

void Window::MarkGone(uint32_t rank) {
  words_.gone.fetch_or(Bit(rank));
  Notify(~RankSet{0});
}

RankSet Window::gone() const { return words_.gone.load(); }

RankSet Window::left() const { return words_.left.load(); }

void Window::MarkAborted() {
  words_.aborted.fetch_or(Bit(rank_));
  Notify(~RankSet{0});
}

RankSet Window::aborted() const { return words_.aborted.load(); }

Status Window::Loss() const {
  RankSet gone = lost();
  if (gone == 0) return Status::Ok();
  return {StatusCode::kPeerLost, "the process of " + Names(gone) + " of this machine has ended"};
}

RankSet Window::Awaited(const AdmittedUse& at) const { return IsOurs(at) ? OwingIn(at) : 0; }

RankSet Window::CountEvent(RankSet ranks) {
  RankSet asleep = 0;
  ForEach(ranks & FirstRanks(shape_.ranks), [&](uint32_t rank) {
    words_.ranks[rank].events.fetch_add(1);
    if (words_.ranks[rank].sleeps.load() != 0) asleep |= Bit(rank);
  });
  return asleep;
}

void Window::Wake(RankSet ranks) {
  ForEach(ranks, [&](uint32_t rank) { FutexWake(words_.ranks[rank].events); });
}

void Window::WakeSleepers() { Wake(std::exchange(to_wake_, 0)); }

uint32_t Window::Events() const { return words_.ranks[rank_].events.load(); }

void Window::Sleep(uint32_t events, Time deadline) {
  RankWords& words = words_.ranks[rank_];
  words.sleeps.fetch_add(1);
  while (words.events.load() == events && std::chrono::steady_clock::now() < deadline) {
    FutexWait(words.events, events, deadline);
  }
  words.sleeps.fetch_sub(1);
}

void Window::SetAside(uint32_t events) { FutexMove(words_.ranks[rank_].events, events, aside_); }

void Window::PutBack() { FutexMove(aside_, 0, words_.ranks[rank_].events); }

Status Window::Wait(uint32_t events, const AdmittedUse& at, Time deadline) {
  WakeSleepers();
  RankWords& words = words_.ranks[rank_];
  words.sleeps.fetch_add(1);
  while (words.events.load() == events && lost() == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      words.sleeps.fetch_sub(1);
      RankSet awaited = at.number == 0 ? 0 : Awaited(at) & ~Bit(rank_);
      return {StatusCode::kDeadlineExceeded,
              awaited == 0 ? "no other rank of this machine went on in time"
                           : Names(awaited) +
                                 " of this machine did not go on in time; is it "
                                 "stopped, or busy with something else?"};
    }
    FutexWait(words.events, events, deadline);
  }
  words.sleeps.fetch_sub(1);
  return Loss();
}

}  // namespace byteps::local
