// The window of a machine: shared memory in blocks, in which its ranks sum before anything is sent.
// docs/decisions/0018-window.md has the rules, spec/collect.pml checks them.
//
// The carrier admits uses of blocks, in the order that it chooses. The ranks of a use fill their
// parts, sum the whole in shares, each in one pass in the order of ranks, and read the result; when
// all have released it, the block is used again. No step takes a lock or waits; Wait and Sleep do.
//
// A window object belongs to one thread at a time of one process; each rank has its own over the
// same memory. Processes of one job trust each other: what lies in the memory is checked so far
// that a mistake of one does not make another one touch memory outside the window.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/local/block_use.h"
#include "src/local/heaps.h"
#include "src/local/window_layout.h"

namespace byteps::local {

// Sums, or what the use does, so many elements of each part, which come in the order of ranks.
// `out` may be one of them.
void CombineParts(const BlockUse& use, std::byte* out, std::span<const std::byte* const> parts,
                  size_t elements);

class Window {
 public:
  static size_t BytesFor(const WindowShape& shape);

  // `memory` has BytesFor(shape) bytes, is all zero when the first rank comes, and outlives this.
  // `heaps` outlives this, too; null: this rank has none, and reads none.
  Window(ByteSpan memory, const WindowShape& shape, uint32_t rank, Heaps* heaps = nullptr);

  // Local rank 0 alone, the carrier: gives a block to `use`, or says that none may be had now; what
  // changes that is an event. A use may be given a block before the one before it is over, if it
  // needs all ranks of that one anyway. The reserve is for a use whose ranks owe other blocks
  // nothing, while ranks that it does not need hold all of them.
  // REQUIRES: use.bytes is at most block_bytes; sets name ranks of the window.
  std::optional<AdmittedUse> Admit(const BlockUse& use);

  // The next use after `number` in which this rank takes part, if it has been admitted. kInternal
  // if what stands there cannot be right.
  Result<std::optional<AdmittedUse>> NextAfter(uint64_t number);

  // Whether the block is this use's: the use before is over. REQUIRES, of all below: the use is
  // this rank's, and this rank has not released it.
  bool IsOurs(const AdmittedUse& at) const;
  // Whether all its ranks have released it. Of any use.
  bool IsOver(const AdmittedUse& at) const;

  // This rank's part. REQUIRES: IsOurs, the rank brings bytes, and has not said Filled.
  ByteSpan Part(const AdmittedUse& at);
  // The part is complete. The last one decides an overlay.
  void Filled(const AdmittedUse& at) { Filled(at, 0); }
  // Makes these bytes this rank's part, from `offset` on, and says Filled. True: they were not
  // copied, because they lie in the rank's heap, which the others read; so they must not change,
  // nor be given back, before the use is decided.
  bool Bring(const AdmittedUse& at, size_t offset, ConstByteSpan bytes);

  // Sums a share, if all parts are there and a share is left. True if it did. A block has a share
  // for each 128 KB, at most one for each rank.
  bool SumShare(const AdmittedUse& at);
  // Its first half: the share that is this rank's from now on, if one is left.
  std::optional<uint32_t> ClaimShare(const AdmittedUse& at);

  // The result, or that there will be none, once it is decided.
  Decision decision(const AdmittedUse& at) const;
  // REQUIRES: decision is kSum.
  ConstByteSpan ResultOf(const AdmittedUse& at) const;

  // Decides an error, unless a sum is decided; false then. REQUIRES: IsOurs.
  bool Withdraw(const AdmittedUse& at);

  // This rank touches the block no more in this use. REQUIRES: it is decided, and IsOurs.
  void Release(const AdmittedUse& at);

  // This rank takes part no more, in order: its end is no loss. REQUIRES: it has released all.
  void Leave();
  // A rank's process has ended: all who wait are told, unless it had left. Any thread, any number
  // of times.
  void MarkLost(uint32_t rank);
  RankSet lost() const;
  // Ranks that take part no more, in order.
  RankSet left() const;
  // kPeerLost with their names, if there are any.
  Status Loss() const;
  // Who has something to do in this use now: fill, sum, or release it once it is decided.
  RankSet Awaited(const AdmittedUse& at) const;

  uint32_t rank() const { return rank_; }

  // The count of events of this rank. Read it, look what can be done, and Wait with it.
  uint32_t Events() const;
  // Wakes the ranks that what was done here concerns, if they sleep. Their events are counted at
  // once, and this wakes them: so who does several things wakes others once. REQUIRES: this comes
  // before the thread sleeps. Wait does it, Sleep does not.
  void WakeSleepers();
  // An event for these ranks, of whatever it is that they look at; wakes them. Any thread.
  void Notify(RankSet ranks) { Wake(CountEvent(ranks)); }
  // Blocks until there was an event since, or the deadline has passed.
  void Sleep(uint32_t events, Time deadline);
  // If there was no event since: threads of this process that Sleep, or Wait, do not hear of events
  // any more, but of their deadlines only. PutBack: they do again, of those that come from then on.
  void SetAside(uint32_t events);
  void PutBack();
  // Blocks until there was an event since, a rank is lost (kPeerLost), or the deadline has passed
  // (kDeadlineExceeded). The texts name the ranks that `at` waits for; number 0: for anything.
  Status Wait(uint32_t events, const AdmittedUse& at, Time deadline);

 private:
  BlockWords& WordsOf(const AdmittedUse& at) const { return words_.blocks[at.block]; }
  bool HasSaid(const AdmittedUse& at, uint32_t rank, uint64_t what) const;
  RankSet Owing(uint32_t block) const;
  RankSet OwingIn(const AdmittedUse& at) const;
  std::optional<uint32_t> BlockFor(RankSet ranks);
  void TellCarrier();
  RankSet WaitingBehind(const AdmittedUse& at) const;
  std::optional<AdmittedUse> Read(uint32_t place, uint64_t number) const;
  bool IsSane(const AdmittedUse& at) const;
  std::byte* PartOf(const AdmittedUse& at, uint32_t rank) const;
  const std::byte* InputOf(const AdmittedUse& at, uint32_t rank) const;
  void Filled(const AdmittedUse& at, uint64_t source);
  uint64_t SourceFor(const AdmittedUse& at, ConstByteSpan bytes);
  void MapLenders();
  void SumPart(const AdmittedUse& at, uint32_t share);
  void Combined(const AdmittedUse& at, size_t begin, size_t end);
  bool Decide(const AdmittedUse& at, uint64_t what);
  void Say(const AdmittedUse& at, uint64_t what);
  // Returns who may be asleep.
  RankSet CountEvent(RankSet ranks);
  void Wake(RankSet ranks);
  // An event, of which WakeSleepers tells who sleeps.
  void Tell(RankSet ranks) { to_wake_ |= CountEvent(ranks); }

  const WindowShape shape_;
  const uint32_t rank_;
  WindowWords& words_;
  std::byte* const parts_;
  Heaps* const heaps_;
  RankSet seen_lenders_ = 0;
  RankSet to_wake_ = 0;  // that may sleep, and had an event since WakeSleepers
  // The carrier's: the last two uses that were given each block; the last may wait behind the
  // other.
  struct Given {
    AdmittedUse before, last;
    uint32_t count = 0;  // uses of the block so far
  };
  std::array<Given, kBlocksMax> given_{};
  uint32_t next_block_ = 0;
  std::atomic<uint32_t> aside_{0};  // who is set aside sleeps here
};

}  // namespace byteps::local
