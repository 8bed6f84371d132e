// The window of a machine: shared memory in blocks, in which its ranks sum before anything is sent.
// docs/decisions/0018-window.md has the rules, spec/collect.pml checks them.
//
// The carrier admits uses of blocks, in the order that it chooses. The ranks of a use fill their
// parts, sum the whole in shares, each in one pass in the tree over their places, and read the
// result; when all have released it, the block is used again. No step takes a lock or waits; Wait
// and Sleep do.
//
// A Window belongs to one thread at a time of one process; each rank has its own Window over the
// same memory. Processes of one job trust each other: a Window checks the words in the memory only
// so far that a mistake of one process does not make another one touch memory outside the window.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/kernels/sum_tree.h"
#include "src/local/block_use.h"
#include "src/local/heaps.h"
#include "src/local/window_layout.h"

namespace byteps::local {

// Combines `elements` elements of each part, in the way of the use. The parts come in the order of
// ranks, and `tree` is theirs. `out` may be one of them.
void CombineParts(const BlockUse& use, std::byte* out, std::span<const std::byte* const> parts,
                  const kernels::SumTree& tree, size_t elements);

class Window {
 public:
  static size_t BytesFor(const WindowShape& shape);

  // `memory` must have BytesFor(shape) bytes, be all zero when the first rank comes, and outlive
  // this object. `heaps` must outlive it, too; null: this rank has no heap, and reads none.
  Window(ByteSpan memory, const WindowShape& shape, uint32_t rank, Heaps* heaps = nullptr);

  // Gives the ranks, from 0 on, their places in the tree of sums. Only the carrier may call it,
  // before it admits a use of the generation in which they have these places. Any thread.
  // REQUIRES: the places ascend.
  void SetPlaces(std::span<const uint32_t> places, kernels::Nodes nodes = kernels::Nodes::kFloat32);
  // Makes the tree over the places of these ranks.
  void PlanSum(RankSet ranks, kernels::SumTree& tree) const;

  // Gives a block to `use`. Returns nothing if the use can have no block now; an event tells when
  // that may have changed. Only local rank 0, the carrier, may call it. A use may get a block
  // before the use before it is over, if it needs all ranks of that one anyway. The reserve is for
  // a use whose ranks owe nothing in other blocks, while ranks that it does not need hold all of
  // these. REQUIRES: use.bytes is at most block_bytes; sets name ranks of the window.
  std::optional<AdmittedUse> Admit(const BlockUse& use);

  // Returns the next use after `number` in which this rank takes part, if the carrier has admitted
  // it. kInternal: the words of the use cannot be right.
  Result<std::optional<AdmittedUse>> NextAfter(uint64_t number);

  // Returns whether this use has the block, because the use before it is over. All functions below
  // have in common: REQUIRES: this rank takes part in the use, and has not released it.
  bool IsOurs(const AdmittedUse& at) const;
  // Returns whether all ranks of the use have released it. Takes any use.
  bool IsOver(const AdmittedUse& at) const;

  // Returns this rank's part. REQUIRES: IsOurs, the rank brings bytes, and has not called Filled.
  ByteSpan Part(const AdmittedUse& at);
  // Says that this rank's part is complete. The last rank that does decides an overlay.
  void Filled(const AdmittedUse& at) { Filled(at, 0); }
  // Makes these bytes this rank's part, from `offset` on, and calls Filled. Returns true if it did
  // not copy them, because they lie in the rank's heap, which the others read. Then the bytes must
  // not change or be given back before the use is decided.
  bool Bring(const AdmittedUse& at, size_t offset, ConstByteSpan bytes);

  // Sums a share, if all parts are there and a share is left. Returns true if it did. A block has a
  // share for each 128 KB, at most one for each rank.
  bool SumShare(const AdmittedUse& at);
  // Does the first half of SumShare: returns a share that this rank has taken, if one is left.
  std::optional<uint32_t> ClaimShare(const AdmittedUse& at);

  // Returns whether the use is decided, and whether it has a result.
  Decision decision(const AdmittedUse& at) const;
  // REQUIRES: decision is kSum.
  ConstByteSpan ResultOf(const AdmittedUse& at) const;

  // Decides an error. Returns false if a sum is decided already. REQUIRES: IsOurs.
  bool Withdraw(const AdmittedUse& at);

  // Promises that this rank touches the block no more in this use. REQUIRES: the use is decided,
  // and IsOurs.
  void Release(const AdmittedUse& at);

  // Says that this rank takes part no more, in order, so that its end is no loss. REQUIRES: it has
  // released all its uses.
  void Leave();
  // Tells all ranks that wait that a rank's process has ended, unless the rank had left. Any
  // thread, any number of times.
  void MarkLost(uint32_t rank);
  RankSet lost() const;
  // Tells all ranks that the process of a rank that had left has ended. Any thread, any number of
  // times.
  void MarkGone(uint32_t rank);
  RankSet gone() const;
  // Returns the ranks that take part no more, in order.
  RankSet left() const;
  // Tells all ranks that this rank has aborted its group of devices (machine/room/launcher.h). Any
  // thread, any number of times.
  void MarkAborted();
  RankSet aborted() const;
  // Returns kPeerLost with the names of the lost ranks, if there are any.
  Status Loss() const;
  // Returns the ranks that have something to do in this use now: fill, sum, or release it once it
  // is decided.
  RankSet Awaited(const AdmittedUse& at) const;

  uint32_t rank() const { return rank_; }

  // Returns the count of events of this rank. The caller reads it, looks for work, and then calls
  // Wait with it.
  uint32_t Events() const;
  // Wakes the ranks that sleep and had an event from this object. An event is counted at once, but
  // only this function wakes: so a thread that does several things wakes others once. REQUIRES: the
  // caller calls it before the thread sleeps. Wait does so, Sleep does not.
  void WakeSleepers();
  // Counts an event of any kind for these ranks, and wakes them. Any thread.
  void Notify(RankSet ranks) { Wake(CountEvent(ranks)); }
  // Blocks until there was an event since `events`, or the deadline has passed.
  void Sleep(uint32_t events, Time deadline);
  // Makes events not wake the threads of this process that are in Sleep or Wait, if there was no
  // event since `events`; these threads wake at their deadlines only. PutBack lets later events
  // wake them again.
  void SetAside(uint32_t events);
  void PutBack();
  // Blocks until there was an event since `events`. kPeerLost: a rank is lost. kDeadlineExceeded:
  // the deadline has passed. The texts name the ranks for which `at` waits; a use with number 0
  // waits for anything.
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
  // Counts an event for these ranks. Returns the ranks that may be asleep.
  RankSet CountEvent(RankSet ranks);
  void Wake(RankSet ranks);
  // Counts an event for these ranks; WakeSleepers will wake those that sleep.
  void Tell(RankSet ranks) { to_wake_ |= CountEvent(ranks); }

  const WindowShape shape_;
  const uint32_t rank_;
  WindowWords& words_;
  std::byte* const parts_;
  Heaps* const heaps_;
  RankSet seen_lenders_ = 0;
  RankSet to_wake_ = 0;  // ranks that may sleep, and had an event since WakeSleepers
  // The carrier's view of a block: the last two uses that got it. `last` may wait behind `before`.
  struct Given {
    AdmittedUse before, last;
    uint32_t count = 0;  // uses of the block so far
  };
  std::array<Given, kBlocksMax> given_{};
  uint32_t next_block_ = 0;
  std::atomic<uint32_t> aside_{0};  // threads that are set aside sleep here
};

}  // namespace byteps::local
