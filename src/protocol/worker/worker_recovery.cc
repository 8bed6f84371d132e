// What a worker does when members come and go: views, connections, the verdicts it keeps for the
// others, and what it repeats to whoever owns a piece now. docs/membership.md has the rules.
#include <algorithm>
#include <cassert>

#include "src/operations/row.h"
#include "src/protocol/view_parts.h"
#include "src/protocol/worker/worker.h"

namespace byteps::protocol {
namespace {

// A usual step, for the size of the pieces that the least credit must hold.
constexpr uint64_t kStepBytes = 100'000'000;

}  // namespace

void Worker::OnView(const wire::View& view, Slot slot) {
  uint64_t old_epoch = epoch_;
  bool begins = !ready_ || view.generation != generation_;
  ready_ = true;
  epoch_ = view.epoch;
  slot_ = slot;
  ownership_ = OwnershipOf(view);
  if (begins) BeginGeneration(view);
  workers_of_[view.epoch] = protocol::WorkersOf(view);
  if (begins) return;
  ReviewPieces(old_epoch);
  Time now = now_;
  for (ShardId shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].up) Replay(shard, now);
  }
  PushWhatFits();
}

void Worker::BeginGeneration(const wire::View& view) {
  assert(open_.empty());
  generation_ = view.generation;
  roster_ = wire::WorkersOfGeneration(view);
  members_ = static_cast<uint32_t>(roster_.size());
  everybody_.ranks.clear();
  for (const wire::WorkerInfo& worker : roster_) {
    if (worker.slot == slot_) rank_ = worker.rank;
    everybody_.ranks.push_back(worker.rank);
  }
  ResolveGroup(everybody_);
  groups_in_ = 0;
  for (auto& [number, group] : groups_) {
    ResolveGroup(group);
    if (!group.removed && group.self != kNoPlace) ++groups_in_;
  }
  joins_ = 0;
  joining_ = false;
  told_joined_ = 0;
  piece_bytes_max_ = view.piece_bytes_max;
  alone_ = view.servers.empty();
  shard_weights_.clear();
  for (const wire::ServerInfo& server : view.servers) {
    shard_weights_.insert(shard_weights_.end(), server.shard_weights.begin(),
                          server.shard_weights.end());
  }
  links_ = std::vector<Link>(shard_weights_.size());
  while (!owing_.empty()) owing_.pop_front();
  for (Name* name : by_order_) name->courses.clear();
  by_id_.clear();
  failures_.clear();
  wanted_unknown_.clear();
  wanted_unknown_count_ = 0;
  workers_of_.clear();
  plan::CreditOptions credit = options_.credit;
  credit.shards = std::max<uint32_t>(1, static_cast<uint32_t>(links_.size()));
  credit.piece_bytes_max = plan::PieceBytes(kStepBytes, members_, piece_bytes_max_);
  credit_.emplace(credit);
}

void Worker::ReviewPieces(uint64_t old_epoch) {
  std::vector<bool> concerned(links_.size());
  std::vector<Tensor*> lost;
  for (Tensor* tensor : Tensors()) {
    bool moved = false;
    for (uint32_t i = 0; i < tensor->pieces.size(); ++i) {
      if (!ReviewPiece(*tensor, i, old_epoch)) continue;
      moved = true;
      if (tensor->pieces[i].owner != kNoShard) concerned[tensor->pieces[i].owner] = true;
    }
    // Ranks that know already that the next round fails have dropped what they held of this one.
    bool doomed = tensor->course.doomed.has_value();
    if (moved && doomed && tensor->task.has_value()) lost.push_back(tensor);
  }
  for (Tensor* tensor : lost) FailDoomed(*tensor);
  for (ShardId shard = 0; shard < links_.size(); ++shard) {
    if (!links_[shard].up) continue;
    if (concerned[shard]) {
      Recite(shard, old_epoch);
    } else {  // it may wait for a word about tensors that only others know yet
      driver_.SendResync(shard, epoch_);
    }
  }
}

// True when the piece has another owner, or the same one anew.
bool Worker::ReviewPiece(Tensor& tensor, uint32_t number, uint64_t old_epoch) {
  Piece& piece = tensor.pieces[number];
  ShardId before = piece.owner;
  FindOwner(tensor, number);
  bool moved = piece.owner != before || piece.since > old_epoch;
  if (options_.mistake == WorkerMistake::kIgnoreSince) moved = piece.owner != before;
  if (!moved) return false;
  piece.number = 0;
  piece.recited = false;
  bool queued = IsActive(tensor, number) && piece.step == PieceStep::kSent && before != kNoShard &&
                links_[before].up;
  // The answer may come, and the memory be the user's again, before the old push has left, or the
  // old owner's answer has come to its end.
  if (queued) driver_.Forget(SpansOf(tensor, number).push);
  Divert(tensor, number);
  return true;
}

// An answer that is coming in is not the piece's any more.
void Worker::Divert(Tensor& tensor, uint32_t number) {
  for (Link& link : links_) {
    const wire::PieceRef& ref = link.incoming.ref;
    if (link.fate != Fate::kPlaced || ref.tensor != tensor.id || ref.piece != number) continue;
    link.fate = Fate::kIgnored;
    driver_.Forget(SpansOf(tensor, number).want);
  }
}

void Worker::OnShardUp(ShardId shard) {
  if (shard >= links_.size()) return;
  OnShardDown(shard);
  links_[shard].up = true;
  Recite(shard, 0);
}

void Worker::OnShardDown(ShardId shard) {
  if (shard >= links_.size()) return;
  Link& link = links_[shard];
  Link fresh;
  fresh.scratch = std::move(link.scratch);
  link = std::move(fresh);
}

// In this order: the verdicts that this worker holds and others may lack, then its unanswered
// pushes, then what it holds and all others do; at last, that this is all.
void Worker::Recite(ShardId shard, uint64_t since_after) {
  bool reconnect = since_after == 0;
  if (reconnect) {  // before anything that is judged by it
    TellGroups(shard);
    TellJoined(shard);
  }
  std::vector<wire::HeldPiece> haves;
  for (Tensor* tensor : Tensors()) {
    for (uint32_t i = 0; i < tensor->pieces.size(); ++i) {
      const Piece& piece = tensor->pieces[i];
      if (piece.owner == shard && piece.since > since_after) {
        RecitePiece(*tensor, i, haves, reconnect);
      }
    }
  }
  if (reconnect && options_.mistake == WorkerMistake::kNoHaveAfterReconnect) haves.clear();
  for (size_t at = 0; at < haves.size(); at += wire::kWantCountMax) {
    auto first = haves.begin() + static_cast<ptrdiff_t>(at);
    size_t count = std::min(wire::kWantCountMax, haves.size() - at);
    driver_.SendHave(shard, epoch_, {first, first + static_cast<ptrdiff_t>(count)});
  }
  driver_.SendResync(shard, epoch_);
}

void Worker::RecitePiece(Tensor& tensor, uint32_t number, std::vector<wire::HeldPiece>& haves,
                         bool reconnect) {
  Piece& piece = tensor.pieces[number];
  bool active = IsActive(tensor, number);
  bool present = piece.held != 0 && active && piece.step == PieceStep::kDone;
  WorkerMistake skip = present ? WorkerMistake::kNoVerdictOfThePresentRound
                               : WorkerMistake::kNoVerdictOfThePreviousRound;
  bool mute = options_.mistake == skip ||
              (reconnect && options_.mistake == WorkerMistake::kNoVerdictAfterReconnect);
  if (piece.held != 0 && !piece.stable) {
    if (!mute) SendKept(tensor, number);
  } else if (piece.held != 0) {
    haves.push_back({{tensor.id, number, piece.held}, piece.home});
  }
  if (!active || piece.step != PieceStep::kSent) return;
  if (options_.mistake != WorkerMistake::kRepeatsWaitForCredit) return SendPiece(tensor, number);
  queue_.Returned(CreditOf(SpansOf(tensor, number)));
  QueuePiece(tensor, number);
}

void Worker::SendKept(Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  if (!piece.copy && !piece.hollow && options_.mistake == WorkerMistake::kHandOverWithoutKeeping &&
      (piece.status != StatusCode::kOk || !IsActive(tensor, number))) {
    return;
  }
  if (!piece.copy) KeepCopy(tensor, number);
  wire::DataHeader header;
  header.ref = {tensor.id, number, piece.held};
  header.epoch = epoch_;
  header.generation = generation_;
  header.count = links_[piece.owner].answers_in_order;
  header.home = piece.home;
  header.combine = CombineOf(tensor.spec);
  header.dtype = tensor.spec.dtype;
  header.status = piece.status;
  uint32_t bytes = piece.copy ? piece.copy_bytes : 0;
  // The owner may be in another view than this worker: the receipt says it all.
  header.receipt = static_cast<uint32_t>(piece.members->bitmap_bytes());
  BufferRef payload = pool_.Take(header.receipt + bytes);
  piece.members->ToBitmap(ByteSpan(payload.data(), header.receipt));
  arithmetic_.Copy(payload.data() + header.receipt, piece.copy.data(), bytes);
  header.piece_bytes = piece.hollow ? piece.verdict_bytes : bytes;
  header.want_bytes = bytes;
  header.encoded_bytes = bytes;
  piece.recited = true;
  driver_.SendVerdict(piece.owner, header, ConstByteSpan(payload.data(), header.receipt + bytes),
                      payload);
}

void Worker::KeepCopy(Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  bool nothing = piece.hollow || piece.verdict_bytes == 0;
  if (piece.copy || nothing || piece.status != StatusCode::kOk) return;
  ConstByteSpan verdict = VerdictIn(tensor, number);
  piece.copy = pool_.Take(verdict.size());
  piece.copy_bytes = static_cast<uint32_t>(verdict.size());
  arithmetic_.Copy(piece.copy.data(), verdict.data(), verdict.size());
}

// The memory goes back to the user: what others may lack must be kept elsewhere.
void Worker::KeepUnstable(Tensor& tensor) {
  bool keep = options_.mistake != WorkerMistake::kHandOverWithoutKeeping;
  for (uint32_t i = 0; i < EndPiece(tensor); ++i) {  // from 0: the layout, too
    Piece& piece = tensor.pieces[i];
    if (!keep) {
      piece.copy = BufferRef();
    } else if (piece.step == PieceStep::kDone && !piece.stable) {
      KeepCopy(tensor, i);
    }
  }
}

// A piece that has moved has a number of its new owner, perhaps the same one.
void Worker::ReleaseStable(ShardId from) {
  Link& link = links_[from];
  while (!link.kept.empty() && link.kept.front().number <= link.stable) {
    const Kept kept = link.kept.front();
    link.kept.pop_front();
    auto found = by_id_.find(kept.tensor);
    if (found == by_id_.end() || kept.piece >= found->second->pieces.size()) continue;
    Piece& piece = found->second->pieces[kept.piece];
    bool same = piece.owner == from && piece.number == kept.number && piece.held == kept.round;
    if (!same) continue;
    piece.stable = true;
    piece.copy = BufferRef();
  }
}

// What a newer view has moved away from the shard counts as stable there; that view has it told to
// the new owner instead.
void Worker::OnStable(ShardId from, const wire::Progress& stable) {
  if (from >= links_.size() || !links_[from].up) return;
  Link& link = links_[from];
  if (stable.epoch > epoch_) {
    link.stable_later = stable;
    return;
  }
  link.stable = std::max(link.stable, stable.count);
  ReleaseStable(from);
}

bool Worker::HoldsUnstable() const {
  if (options_.mistake == WorkerMistake::kLeaveWithAnUnstableVerdict) return false;
  for (const Tensor* tensor : Tensors()) {
    for (const Piece& piece : tensor->pieces) {
      if (piece.held != 0 && !piece.stable) return true;
    }
  }
  return false;
}

ByteSpan Worker::Hold(Link& link, const wire::DataHeader& header, size_t payload_bytes) {
  Held held;
  held.header = header;
  held.payload = pool_.Take(payload_bytes);
  held.payload_bytes = payload_bytes;
  ByteSpan place(held.payload.data(), payload_bytes);
  link.held.push_back(std::move(held));
  link.fate = Fate::kHeld;
  return place;
}

// An answer that no correct server gives is dropped here; the operation then waits for its owner
// like any other.
void Worker::Replay(ShardId from, Time now) {
  Link& link = links_[from];
  if (link.stable_later.has_value() && link.stable_later->epoch <= epoch_) {
    OnStable(from, *std::exchange(link.stable_later, std::nullopt));
  }
  while (!link.held.empty() && link.held.front().complete &&
         link.held.front().header.epoch <= epoch_) {
    Held held = std::move(link.held.front());
    link.held.pop_front();
    std::deque<Held> rest = std::exchange(link.held, {});
    Fate fate = link.fate;
    Result<ByteSpan> place = PlaceOf(from, held.header, held.payload_bytes);
    if (place.ok()) {
      arithmetic_.Copy(place.value().data(), held.payload.data(), held.payload_bytes);
      FinishAnswer(from, now);
    }
    links_[from].held = std::move(rest);
    links_[from].fate = fate;
  }
}

void Worker::Abort(OperationId id, const std::string& why) {
  auto found = open_.find(id);
  if (found == open_.end()) return;
  Tensor& tensor = *found->second;
  // Others may have data for as long as they like; while they do, their operations have limits.
  if (tensor.spec.op == wire::Op::kJoin) return;
  wire::TensorSpec what = tensor.spec;
  what.detail.clear();
  std::string text = why + " for tensor '" + tensor.name + "', " + operations::Describe(what);
  // What is not pushed yet passes the credit, and is asked for when this is called again: an abort
  // in its place would be answered, and here nobody waits for that.
  for (uint32_t i = tensor.first_piece; i < EndPiece(tensor); ++i) {
    const Piece& piece = tensor.pieces[i];
    bool asks = IsActive(tensor, i) && piece.owner != kNoShard && links_[piece.owner].up;
    if (asks && piece.step == PieceStep::kQueued) queue_.MarkWanted(piece.ticket);
    if (asks && piece.step == PieceStep::kSent) {
      driver_.SendAbort(piece.owner, HeaderOfPush(tensor, i, SpansOf(tensor, i)), text);
    }
  }
  PushWhatFits();
}

}  // namespace byteps::protocol
