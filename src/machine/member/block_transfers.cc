#include "src/machine/member/block_transfers.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/operations/sizes.h"

namespace byteps::machine {
namespace {

using protocol::StageVerdict;

Status Withdrawn() {
  return {StatusCode::kUnavailable,
          "a rank of this machine has ended the operation before it was complete"};
}

}  // namespace

void BlockTransfers::SetGroups(std::vector<plan::DeviceGroup> groups) {
  MutexLock lock(mutex_);
  units_.emplace(std::move(groups), limits_);
}

void BlockTransfers::StopLaunches() {
  MutexLock lock(mutex_);
  if (units_.has_value()) units_->Stop();
}

void BlockTransfers::Open(const RoundKey& key, TransferRound round) {
  {
    MutexLock lock(mutex_);
    if (round.by_group.has_value()) units_->Open(key, *round.by_group);
    rounds_[key] = std::move(round);
  }
  window_.Notify(Bit(window_.rank()));
}

void BlockTransfers::Close(const RoundKey& key) {
  MutexLock lock(mutex_);
  if (units_.has_value()) units_->Close(key);
  rounds_.erase(key);
  broken_.erase(key);
}

std::vector<std::pair<RankSet, UnitLaunch>> BlockTransfers::TakeLaunches() {
  MutexLock lock(mutex_);
  if (!units_.has_value()) return {};
  return units_->TakeLaunches();
}

void BlockTransfers::OnLaunchEnd() {
  MutexLock lock(mutex_);
  units_->OnLaunchEnd();
}

bool BlockTransfers::IsHome(const local::BlockUse& use) {
  MutexLock lock(mutex_);
  const RoundKey key = KeyOfTransfer(use);
  return units_->Has(key) && Has(units_->HomesOf(key, use.piece), window_.rank());
}

// A piece of a round that groups sum gets a block when its unit is reduced.
bool BlockTransfers::MustWait(const Piece& piece) const {
  const bool is_by_group = units_.has_value() && units_->Has(piece.key);
  return is_by_group && piece.way == Way::kCollect &&
         !units_->IsReduced(piece.key, piece.ticket.number);
}

void BlockTransfers::BreakOff(const RoundKey& key, const Status& why) {
  {
    MutexLock lock(mutex_);
    if (rounds_.contains(key)) broken_.emplace(key, why);
  }
  window_.Notify(Bit(window_.rank()));
}

bool BlockTransfers::Begin(Piece piece) {
  {
    MutexLock lock(mutex_);
    const bool is_open = rounds_.contains(piece.key);
    if (piece.way == Way::kCollect ? is_open && piece.to.empty() : !is_open) return false;
    waiting_.push_back(std::move(piece));
  }
  window_.Notify(Bit(window_.rank()));
  return true;
}

template <typename Which>
void BlockTransfers::CallOffIf(Which which) {
  MutexLock lock(mutex_);
  std::erase_if(waiting_, which);
  bool is_copied = false;
  for (auto& [number, given] : given_) {
    if (!which(given.piece)) continue;
    given.is_off = true;
    is_copied = is_copied || number == copying_;
  }
  for (const uint64_t copied = copying_; is_copied && copying_ == copied;) lock.Wait(copied_);
}

void BlockTransfers::CallOff(const protocol::PieceTicket& ticket) {
  CallOffIf([&](const Piece& piece) { return piece.ticket == ticket; });
}

void BlockTransfers::CallOffAll(const void* owner) {
  CallOffIf([&](const Piece& piece) { return piece.owner == owner; });
}

local::BlockUse BlockTransfers::UseOf(const Piece& piece, const TransferRound& round) const {
  const bool collects = piece.way == Way::kCollect;
  const bool moves = !collects || MovesBytes(round.how);
  const RankSet own = Bit(window_.rank());
  RankSet ranks = round.ranks;
  RankSet bring = round.bring;
  if (round.by_group.has_value()) {
    ranks = bring = units_->HomesOf(piece.key, piece.ticket.number);
  }
  local::BlockUse use;
  use.ranks = ranks | own;
  use.bring = collects ? bring : own;
  use.bytes = piece.piece_bytes;
  use.type = moves ? DataType::kUint8 : round.type;
  use.how = moves ? Combine::kOverlay : round.how;
  // The owner divides, by the ranks of all machines.
  if (use.how == Combine::kAverage) use.how = Combine::kSum;
  use.tensor = piece.key.tensor;
  use.piece = piece.ticket.number;
  use.round = piece.key.use;
  use.generation = piece.key.first_piece | (collects ? 0 : kSpreads) |
                   (round.by_group.has_value() ? kByGroup : 0);
  return use;
}

// Gives the piece a block. `over`: it needs no block, and goes on.
bool BlockTransfers::AdmitOne(const Piece& piece, const TransferRound& round,
                              std::vector<RankSet>& stuck, bool& over) {
  over = piece.way == Way::kCollect && piece.to.empty();
  if (over) return true;
  local::BlockUse use = UseOf(piece, round);
  if (std::ranges::find(stuck, use.ranks) != stuck.end()) return false;
  std::optional<local::AdmittedUse> at = window_.Admit(use);
  if (!at.has_value()) {
    stuck.push_back(use.ranks);
    return false;
  }
  given_.emplace(at->number, Given{piece, *at});
  return true;
}

// Ends the pieces of rounds that are broken off: those that wait for a block, and those that have
// one, as soon as the block belongs to its use.
bool BlockTransfers::EndBroken() {
  if (broken_.empty()) return false;
  const size_t before = waiting_.size();
  std::erase_if(waiting_, [&](const Piece& piece) BYTEPS_REQUIRES(mutex_) {
    auto broken = broken_.find(piece.key);
    if (piece.way != Way::kCollect || broken == broken_.end()) return false;
    ended_.push_back({piece.ticket, piece.resume, broken->second});
    return true;
  });
  for (auto& [number, given] : given_) {
    auto broken = broken_.find(given.piece.key);
    const bool is_open = given.piece.way == Way::kCollect && given.why.ok();
    if (broken == broken_.end() || !is_open || !window_.IsOurs(given.at)) continue;
    if (window_.Withdraw(given.at)) given.why = broken->second;
  }
  return waiting_.size() != before;
}

bool BlockTransfers::Admit() {
  bool did = EndSpreads();
  {
    MutexLock lock(mutex_);
    did = EndBroken() || did;
    std::vector<RankSet> stuck;
    // The round of the last piece without a block: the other pieces of that round wait behind it.
    std::optional<RoundKey> waits;
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      if (waits == next->key || MustWait(*next)) {
        ++next;
        continue;
      }
      auto round = rounds_.find(next->key);
      bool over = round == rounds_.end() && next->way == Way::kSpread;
      bool gone = over || (round != rounds_.end() && AdmitOne(*next, round->second, stuck, over));
      if (!gone) {
        if (round != rounds_.end()) waits = next->key;
        ++next;
        continue;
      }
      did = true;
      if (over) ended_.push_back({next->ticket, next->resume, {}});
      next = waiting_.erase(next);
    }
  }
  return did;
}

bool BlockTransfers::EndSpreads() {
  bool did = false;
  {
    MutexLock lock(mutex_);
    for (auto next = given_.begin(); next != given_.end();) {
      auto one = next++;
      const Given& given = one->second;
      if (given.piece.way != Way::kSpread || !window_.IsOver(given.at)) continue;
      if (!given.is_off) {
        ended_.push_back({given.piece.ticket, given.piece.resume, {}});
        if (units_.has_value()) units_->OnSpread(given.piece.key, given.piece.ticket.number);
      }
      given_.erase(one);
      did = true;
    }
  }
  return did;
}

bool BlockTransfers::Fill(const local::AdmittedUse& at, ByteSpan part) {
  Piece piece;
  {
    MutexLock lock(mutex_);
    auto found = given_.find(at.number);
    if (found == given_.end() || found->second.is_off) return false;
    piece = found->second.piece;
    copying_ = at.number;
  }
  std::memcpy(part.data() + piece.offset, piece.from.data(), piece.from.size());
  MutexLock lock(mutex_);
  copying_ = 0;
  copied_.notify_all();
  return true;
}

void BlockTransfers::Take(const local::AdmittedUse& at, bool is_sum, ConstByteSpan result) {
  Piece piece;
  TransferRound round;
  Status why;
  {
    MutexLock lock(mutex_);
    auto found = given_.find(at.number);
    if (found == given_.end()) return;
    if (found->second.is_off) {
      given_.erase(found);
      return;
    }
    piece = found->second.piece;
    why = found->second.why;
    if (auto open = rounds_.find(piece.key); open != rounds_.end())
      round.parts = open->second.parts;
    copying_ = at.number;
  }
  if (is_sum) CopyOut(piece, round, result);
  {
    MutexLock lock(mutex_);
    copying_ = 0;
    copied_.notify_all();
    given_.erase(at.number);
  }
  // The lane does not hear of a piece that was called off meanwhile: it has abandoned the ticket.
  if (!is_sum && why.ok()) why = Withdrawn();
  ended_.push_back({piece.ticket, piece.resume, is_sum ? Status::Ok() : why});
}

void BlockTransfers::Resume() {
  for (const Ended& one : ended_) {
    const bool is_done = one.error.ok();
    one.resume(one.ticket, is_done ? StageVerdict::kDone : StageVerdict::kFailed, one.error);
  }
  ended_.clear();
}

void BlockTransfers::CopyOut(const Piece& piece, const TransferRound& round,
                             ConstByteSpan result) const {
  if (round.parts.empty()) {
    std::memcpy(piece.to.data(), result.data() + piece.offset, piece.to.size());
    return;
  }
  static_assert(operations::kTakesNoPart == UINT64_MAX);
  std::memset(piece.to.data(), 0xff, piece.to.size());
  for (auto [offset, bytes] : round.parts) {
    if (bytes == 0) continue;
    std::memcpy(piece.to.data() + (offset - piece.offset), result.data() + offset, bytes);
  }
}

}  // namespace byteps::machine
