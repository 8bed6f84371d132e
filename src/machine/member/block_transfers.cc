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

void BlockTransfers::Open(const RoundKey& key, TransferRound round) {
  {
    MutexLock lock(mutex_);
    rounds_[key] = std::move(round);
  }
  window_.Notify(Bit(window_.rank()));
}

void BlockTransfers::Close(const RoundKey& key) {
  MutexLock lock(mutex_);
  rounds_.erase(key);
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
  local::BlockUse use;
  use.ranks = round.ranks | Bit(window_.rank());
  use.bring = collects ? round.bring : Bit(window_.rank());
  use.bytes = piece.piece_bytes;
  use.type = moves ? DataType::kUint8 : round.type;
  use.how = moves ? Combine::kOverlay : round.how;
  // The owner divides, by the ranks of all machines.
  if (use.how == Combine::kAverage) use.how = Combine::kSum;
  use.tensor = piece.key.tensor;
  use.piece = piece.ticket.number;
  use.round = piece.key.use;
  use.generation = piece.key.first_piece | (collects ? 0 : kSpreads);
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

bool BlockTransfers::Admit() {
  bool did = EndSpreads();
  {
    MutexLock lock(mutex_);
    std::vector<RankSet> stuck;
    // The round of the last piece without a block: the other pieces of that round wait behind it.
    std::optional<RoundKey> waits;
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      if (waits == next->key) {
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
      if (!given.is_off) ended_.push_back({given.piece.ticket, given.piece.resume, {}});
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
  {
    MutexLock lock(mutex_);
    auto found = given_.find(at.number);
    if (found == given_.end()) return;
    if (found->second.is_off) {
      given_.erase(found);
      return;
    }
    piece = found->second.piece;
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
  ended_.push_back({piece.ticket, piece.resume, is_sum ? Status::Ok() : Withdrawn()});
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
