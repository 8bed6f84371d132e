// Stops a rank in the middle of a step in a block of the window, under a random schedule: half of
// its part is written, half of a share is summed, or half of a result is copied out.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>

#include "src/local/heaps_for_test.h"
#include "src/local/window.h"
#include "src/local/window_layout.h"
#include "src/machine/room/shared_room.h"

namespace byteps::machine {

enum class HalfStep : uint8_t { kFill, kSum, kTake };

// Stops one rank in the middle of a step, or between two steps. The rank is killed, or goes on when
// nothing else can be done.
struct ScheduledFault {
  uint32_t rank = 0;
  int not_before = 0;              // in turns
  std::optional<HalfStep> within;  // none, or no such step for long: between two steps
  bool is_killed = false;
  bool is_late = false;  // not before another rank has left
};
inline constexpr int kWaitForStepTurns = 300;

// A step in which one rank has stopped.
class StoppedStep {
 public:
  StoppedStep(const SharedRoom& room, const local::WindowShape& shape, local::Window& window,
              local::HeapsForTest& heaps)
      : shape_(shape), window_(window), heaps_(heaps), memory_(room.window()) {}

  // Begins such a step and leaves it in the middle. False: the rank has no such step to do just
  // now.
  bool Begin(HalfStep what) {
    uint64_t number = 0;
    while (std::optional<local::AdmittedUse> at = window_.NextAfter(number).value()) {
      number = at->number;
      if (!window_.IsOurs(*at) || StepIn(*at) != what) continue;
      at_ = *at;
      what_ = what;
      if (what == HalfStep::kFill) SpoilPart();
      if (what == HalfStep::kSum) Claim();
      return true;
    }
    return false;
  }
  // Does the rest of the step, when the rank goes on. The rank begins a fill or a take anew,
  // because nobody has looked at what it has written.
  void Finish() {
    if (what_ == HalfStep::kSum) FinishSum();
  }

 private:
  local::WindowWords& words() const {
    return *reinterpret_cast<local::WindowWords*>(memory_.data());
  }
  local::BlockWords& block() const { return words().blocks[at_.block]; }
  std::byte* PartOf(uint32_t rank) const {
    constexpr size_t kLine = 64;
    std::byte* parts = memory_.data() + (sizeof(local::WindowWords) + kLine - 1) / kLine * kLine;
    return parts + (size_t{at_.block} * shape_.ranks + rank) * shape_.block_bytes;
  }
  std::optional<HalfStep> StepIn(const local::AdmittedUse& at) const {
    const uint32_t rank = window_.rank();
    if (!local::Has(window_.Awaited(at), rank)) return std::nullopt;
    if (window_.decision(at) != local::Decision::kOpen) return HalfStep::kTake;
    const uint64_t mark = words().blocks[at.block].marks[rank].mark.load();
    const bool has_filled = mark >= (at.number << 2 | local::kHasFilled);
    if (local::Has(at.use.bring, rank) && !has_filled) return HalfStep::kFill;
    // A rank that brings nothing may sum, too; here only ranks that have filled do.
    return has_filled ? std::optional(HalfStep::kSum) : std::nullopt;
  }
  void SpoilPart() const {
    if (at_.use.how == Combine::kOverlay) return;  // others fill the rest of it
    std::memset(window_.Part(at_).data(), 0xee, at_.use.bytes / 2);
  }
  void Claim() {
    EXPECT_EQ(window_.ClaimShare(at_), 0u);
    Sum(0, at_.use.bytes / 2);
  }
  void FinishSum() {
    Sum(at_.use.bytes / 2, at_.use.bytes);
    block().summed.fetch_add(1);
    uint64_t before = block().decision.load();
    if (before >> 2 != at_.number) {
      block().decision.compare_exchange_strong(before, at_.number << 2 | local::kIsSum);
    }
    block().marks[window_.rank()].mark.store(at_.number << 2 | local::kHasFilled);
    window_.Notify(at_.use.ranks);
  }
  // Sums a part of the only share that blocks of these schedules have.
  void Sum(size_t begin, size_t end) const {
    std::array<const std::byte*, local::kLocalRanksMax> inputs{};
    size_t count = 0;
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      if (!local::Has(at_.use.bring, rank)) continue;
      const uint64_t source = block().marks[rank].source.load();
      const std::byte* part = PartOf(rank);
      if (source != 0) part = heaps_.of(window_.rank()).At(rank, source - 1, at_.use.bytes);
      inputs[count++] = part + begin;
    }
    std::byte* out = PartOf(static_cast<uint32_t>(std::countr_zero(at_.use.bring))) + begin;
    kernels::SumTree tree;
    window_.PlanSum(at_.use.bring, tree);
    local::CombineParts(at_.use, out, {inputs.data(), count}, tree,
                        (end - begin) / SizeOf(at_.use.type));
  }

  const local::WindowShape shape_;
  local::Window& window_;
  local::HeapsForTest& heaps_;
  const ByteSpan memory_;
  local::AdmittedUse at_;
  HalfStep what_ = HalfStep::kFill;
};

}  // namespace byteps::machine
