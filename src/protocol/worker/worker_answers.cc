// What comes back from shards: answers find their place, are counted, and complete their pieces.
#include <algorithm>
#include <functional>

#include "src/operations/row.h"
#include "src/protocol/worker/worker.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {
namespace {

// More answers than this never overtake one; what lies beyond is a server's mistake.
constexpr size_t kAnswersAheadMax = size_t{1} << 20;

}  // namespace

ByteSpan Worker::Ignore(Link& link, size_t payload_bytes) {
  link.fate = Fate::kIgnored;
  link.scratch.resize(std::max(link.scratch.size(), payload_bytes));
  return ByteSpan(link.scratch.data(), payload_bytes);
}

ByteSpan Worker::StageAnswer(Link& link, size_t payload_bytes) {
  link.fate = Fate::kStaged;
  link.staged = pool_.Take(payload_bytes);
  return ByteSpan(link.staged.data(), payload_bytes);
}

Result<ByteSpan> Worker::OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                        size_t payload_bytes) {
  if (from >= links_.size() || !links_[from].up || header.generation != generation_) {
    return Status(StatusCode::kProtocol, "an answer of another generation");
  }
  Link& link = links_[from];
  if (header.epoch > epoch_ || !link.held.empty()) return Hold(link, header, payload_bytes);
  return PlaceOf(from, header, payload_bytes);
}

Result<ByteSpan> Worker::PlaceOf(ShardId from, const wire::DataHeader& header,
                                 size_t payload_bytes) {
  Link& link = links_[from];
  link.incoming = header;
  link.payload_bytes = payload_bytes;
  auto found = by_id_.find(header.ref.tensor);
  // What concerns an operation that has failed meanwhile is read and forgotten.
  if (found == by_id_.end()) return Ignore(link, payload_bytes);
  Tensor& tensor = *found->second;
  if (header.ref.piece >= tensor.pieces.size()) {
    if (header.ref.round < wire::RoundOf(tensor.round, 0)) return Ignore(link, payload_bytes);
    return Status(StatusCode::kProtocol, "an answer to a piece that does not exist: tensor '" +
                                             tensor.name + "', piece " +
                                             std::to_string(header.ref.piece));
  }
  const Piece& piece = tensor.pieces[header.ref.piece];
  if (!Counts(piece, from, header.epoch)) return Ignore(link, payload_bytes);
  if (piece.recited && header.ref.round == piece.held && payload_bytes == 0) {
    link.fate = Fate::kRegistered;
    return ByteSpan();
  }
  if (IsExpected(tensor, header.ref)) return PlaceOfVerdict(tensor, from, header, payload_bytes);
  if (header.ref.round <= std::max(piece.held, piece.round)) {
    if (header.ref.round == piece.held) ++repeated_answers_;
    return Ignore(link, payload_bytes);
  }
  return Status(StatusCode::kProtocol, "an answer that nobody asked for: tensor '" + tensor.name +
                                           "', piece " + std::to_string(header.ref.piece) +
                                           ", round " + std::to_string(header.ref.round));
}

// Both sides agree who owns the piece, and since when.
bool Worker::Counts(const Piece& piece, ShardId from, uint64_t epoch) const {
  if (options_.mistake == WorkerMistake::kAcceptFromAFormerOwner) return true;
  if (options_.mistake == WorkerMistake::kIgnoreSince) return piece.owner == from;
  return piece.owner == from && epoch >= piece.since;
}

bool Worker::IsExpected(const Tensor& tensor, const wire::PieceRef& ref) const {
  if (!IsActive(tensor, ref.piece)) return false;
  const Piece& piece = tensor.pieces[ref.piece];
  return piece.step == PieceStep::kSent && ref.round == piece.round;
}

// An answer that breaks off half-way must not have destroyed what may have to be pushed again.
bool Worker::MustStage(const wire::DataHeader& header, const Spans& spans) const {
  if (header.status != StatusCode::kOk || header.receipt != 0) return true;
  return Overlap(spans.push, spans.want);
}

// A broadcast's verdict without the root's part has nobody's bytes.
bool Worker::LacksRoot(const Tensor& tensor, const Receipt& members) const {
  if (tensor.spec.op != wire::Op::kBroadcast) return false;
  auto root = std::find_if(roster_.begin(), roster_.end(), [&](const wire::WorkerInfo& worker) {
    return worker.rank == tensor.spec.root;
  });
  return root != roster_.end() && !members->Contains(root->slot);
}

Result<ByteSpan> Worker::PlaceOfVerdict(Tensor& tensor, ShardId from,
                                        const wire::DataHeader& header, size_t payload_bytes) {
  Link& link = links_[from];
  Spans spans = SpansOf(tensor, header.ref.piece);
  size_t bytes = payload_bytes - std::min<size_t>(header.receipt, payload_bytes);
  bool error = header.status != StatusCode::kOk;
  bool right_size = error || (header.codec == 0 && bytes == spans.want.size() &&
                              (bytes == spans.piece_bytes || header.offset == spans.want_offset));
  bool right_receipt = header.receipt <= payload_bytes && header.receipt <= wire::kMembersMax / 8 &&
                       (header.receipt != 0 || workers_of_.contains(header.epoch));
  if (!right_size || !right_receipt) {
    return Status(StatusCode::kProtocol, "an answer of the wrong size: tensor '" + tensor.name +
                                             "', " + std::to_string(payload_bytes) + " bytes");
  }
  bool rootless = header.receipt == 0 && LacksRoot(tensor, WorkersOf(tensor, header.epoch));
  if (rootless || MustStage(header, spans)) return StageAnswer(link, payload_bytes);
  link.fate = Fate::kPlaced;
  return spans.want;
}

void Worker::OnAnswer(ShardId from, Time now) {
  Link& link = links_[from];
  now_ = std::max(now_, now);
  if (link.fate != Fate::kHeld) return FinishAnswer(from, now);
  link.held.back().complete = true;
  Replay(from, now);  // its view may have come while the payload did
}

void Worker::FinishAnswer(ShardId from, Time now) {
  Link& link = links_[from];
  const wire::DataHeader header = link.incoming;
  CountAnswer(from, header.count, now);
  link.stable =
      std::max(link.stable, header.count - std::min<uint64_t>(header.count, header.unstable));
  // The operation may have failed while the payload (of an error) came in.
  auto found = by_id_.find(header.ref.tensor);
  Fate fate = std::exchange(link.fate, Fate::kIgnored);
  if (found != by_id_.end() && header.ref.piece < found->second->pieces.size()) {
    Tensor& tensor = *found->second;
    bool verdict = fate == Fate::kPlaced || fate == Fate::kStaged;
    // A view may have come while the payload did, and moved the piece.
    bool counts = Counts(tensor.pieces[header.ref.piece], from, header.epoch);
    if (counts && fate == Fate::kRegistered) Register(link, tensor, header.ref.piece);
    if (counts && verdict && IsExpected(tensor, header.ref)) TakeVerdict(tensor, from, now);
  }
  links_[from].staged = BufferRef();
  ReleaseStable(from);
}

// The answer's number is known, so its stability will be.
void Worker::Register(Link& link, Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  piece.number = link.incoming.count;
  piece.recited = false;
  link.kept.push_back({piece.number, tensor.id, number, piece.held});
}

void Worker::TakeReceipt(const Link& link, const Tensor& tensor, Piece& piece) {
  const wire::DataHeader& header = link.incoming;
  if (header.receipt == 0) {
    SetReceipt(piece.members, WorkersOf(tensor, header.epoch));
  } else {
    ConstByteSpan bitmap(link.staged.data(), header.receipt);
    piece.members = std::make_shared<SlotSet>(SlotSet::FromBitmap(bitmap));
  }
}

// News that the answer in hand is stable comes with later answers to later pushes. Of the last
// window of a step there are none.
bool Worker::StaysUnstable(const Link& link) const {
  bool last = queue_.empty() && queue_.bytes_in_flight() <= options_.credit.bytes_max;
  return last && link.incoming.count > link.stable;
}

void Worker::TakeVerdict(Tensor& tensor, ShardId from, Time now) {
  Link& link = links_[from];
  const wire::DataHeader header = link.incoming;
  uint32_t number = header.ref.piece;
  Piece& piece = tensor.pieces[number];
  Spans spans = SpansOf(tensor, number);
  uint32_t credit = CreditOf(spans);
  piece.held = header.ref.round;
  piece.status = header.status;
  TakeReceipt(link, tensor, piece);
  // Nobody else must come to hold it.
  piece.stable = header.status == StatusCode::kOk && piece.members->IsOnly(slot_);
  piece.copy = BufferRef();
  piece.verdict_bytes = header.piece_bytes;
  piece.hollow = header.status == StatusCode::kOk && IsHollow(tensor, spans);
  TakeBytes(tensor, link);
  Register(link, tensor, number);
  if (!spans.want.empty()) --tensor.task->lacking;
  bool window_full = queue_.IsBlocked(credit_->credit_bytes());
  queue_.Returned(credit);
  credit_->OnAnswered(now, credit, window_full);
  // The others wait for the news that this rank has its part.
  if (tensor.sections.has_value() && !spans.want.empty() && tensor.task->lacking == 0) {
    AcknowledgeNow();
  }
  PieceDone(tensor, number);
}

void Worker::AcknowledgeNow() {
  for (ShardId shard = 0; shard < links_.size(); ++shard) {
    Link& link = links_[shard];
    if (!link.up || !std::exchange(link.owes_since, std::nullopt).has_value()) continue;
    driver_.SendAck(shard, {link.answers_in_order, epoch_});
  }
}

// The verdict's bytes go where they are wanted; what was staged is kept as the copy.
void Worker::TakeBytes(Tensor& tensor, Link& link) {
  const wire::DataHeader& header = link.incoming;
  uint32_t number = header.ref.piece;
  Piece& piece = tensor.pieces[number];
  Outcome& outcome = tensor.task->outcome;
  bool error = header.status != StatusCode::kOk;
  const std::byte* bytes = nullptr;
  size_t count = 0;
  if (link.staged.data() != nullptr) {
    bytes = link.staged.data() + header.receipt;
    count = link.payload_bytes - header.receipt;
  }
  if (!error) AddReceipt(*tensor.task, piece.members);
  if (error && (outcome.status.ok() || number < tensor.task->failed_piece)) {
    // Other pieces may still be on their way into the user's memory: the operation ends with the
    // last of them, not here. On every rank it is the first piece's error, whichever came first.
    tensor.task->failed_piece = number;
    uint64_t round = header.ref.round;
    Result<wire::ErrorRow> row = wire::ErrorRow::Decode(ConstByteSpan(bytes, count), round);
    outcome.status = row.ok() ? *row->Of(round) : Status(header.status, "no reason was given");
  }
  if (bytes == nullptr) {
    // Copied now, the bytes are still in the cache.
    if (!piece.stable && StaysUnstable(link)) KeepCopy(tensor, number);
    return;
  }
  if (!error && !LacksRoot(tensor, piece.members)) {
    ByteSpan want = SpansOf(tensor, number).want;
    arithmetic_.Copy(want.data(), bytes, want.size());
  }
  if (piece.stable) return;
  bool whole = header.receipt == 0 && (error || count == SpansOf(tensor, number).piece_bytes);
  if (!whole && !error) return;
  piece.copy = link.staged;
  if (!whole) {
    piece.copy = pool_.Take(count);
    arithmetic_.Copy(piece.copy.data(), bytes, count);
  }
  piece.copy_bytes = static_cast<uint32_t>(count);
}

void Worker::AddReceipt(Task& task, const Receipt& receipt) {
  Outcome& outcome = task.outcome;
  if (outcome.receipt == receipt) return;
  if (outcome.receipt == nullptr) {
    outcome.receipt = receipt;
  } else if (!(*outcome.receipt == *receipt)) {
    outcome.mixed = true;
    outcome.receipt = std::make_shared<SlotSet>(outcome.receipt->And(*receipt));
  }
  outcome.members = outcome.receipt->count();
}

void Worker::PieceDone(Tensor& tensor, uint32_t number) {
  tensor.pieces[number].step = PieceStep::kDone;
  ++tensor.pieces_done;
  if (tensor.pieces_done < EndPiece(tensor) - tensor.first_piece) return PushWhatFits();
  if (!tensor.task->outcome.status.ok()) {
    Status why = tensor.task->outcome.status;
    KeepUnstable(tensor);
    Fail(tensor, why);
  } else if (!TryAgainForOneReceipt(tensor)) {
    Resume(tensor);
  }
  PushWhatFits();
}

// An atomic tensor has one receipt: pieces with more members than all have are pushed again, in an
// attempt of its own. Members only shrink, so this ends.
bool Worker::TryAgainForOneReceipt(Tensor& tensor) {
  Task& task = *tensor.task;
  if (!tensor.spec.atomic || !std::exchange(task.outcome.mixed, false)) return false;
  const Receipt common = task.outcome.receipt;
  // Another loss may have made them equal, though smaller than what they had before.
  auto differs = [&](const Piece& piece) { return !(*piece.members == *common); };
  if (std::none_of(tensor.pieces.begin() + tensor.first_piece,
                   tensor.pieces.begin() + EndPiece(tensor), differs)) {
    return false;
  }
  ++task.attempt;
  if (task.attempt >= wire::kAttemptsMax) {
    task.outcome.mixed = true;
    return false;
  }
  for (uint32_t i = tensor.first_piece; i < EndPiece(tensor); ++i) {
    Piece& piece = tensor.pieces[i];
    if (!differs(piece)) continue;
    if (!piece.stable) KeepCopy(tensor, i);
    QueuePiece(tensor, i);
    --tensor.pieces_done;
  }
  return true;
}

// By its place in the group.
bool Worker::BringsRows(const Tensor& tensor, uint32_t place) const {
  const std::vector<uint64_t>& table = tensor.task->table;
  if (tensor.spec.op == wire::Op::kAllgather) return table[place] > 0;
  if (tensor.spec.op != wire::Op::kAlltoall) return false;
  auto count = static_cast<uint32_t>(GroupOf(tensor.spec).places.size());
  for (uint32_t to = 0; to < count; ++to) {
    if (to != place && table[uint64_t{place} * count + to] > 0) return true;
  }
  return false;
}

// A result in which somebody's part is missing is none. The receipts are the same on every rank,
// and so is this error.
Status Worker::CheckReceipt(const Tensor& tensor) const {
  const Task& task = *tensor.task;
  if (task.outcome.receipt == nullptr) return Status::Ok();
  const Group& group = GroupOf(tensor.spec);
  for (uint32_t i = 0; i < group.places.size(); ++i) {
    const wire::WorkerInfo& worker = roster_[group.places[i]];
    bool root = tensor.spec.op == wire::Op::kBroadcast && tensor.spec.root == worker.rank;
    if ((!root && !BringsRows(tensor, i)) || task.outcome.receipt->Contains(worker.slot)) continue;
    return {StatusCode::kPeerLost, std::string(operations::NameOf(tensor.spec.op)) + " '" +
                                       tensor.name + "': rank " + std::to_string(worker.rank) +
                                       " was lost before all of its part had arrived; repeat the "
                                       "operation without it"};
  }
  return Status::Ok();
}

// Urgent answers overtake others, so numbers may arrive out of order; what is acknowledged is the
// prefix without a gap.
void Worker::CountAnswer(ShardId from, uint64_t number, Time now) {
  Link& link = links_[from];
  if (number == link.answers_in_order + 1) {
    ++link.answers_in_order;
    std::vector<uint64_t>& ahead = link.answers_ahead;
    while (!ahead.empty() && ahead.front() <= link.answers_in_order + 1) {
      link.answers_in_order = std::max(link.answers_in_order, ahead.front());
      std::pop_heap(ahead.begin(), ahead.end(), std::greater<>());
      ahead.pop_back();
    }
  } else if (number > link.answers_in_order && link.answers_ahead.size() < kAnswersAheadMax) {
    link.answers_ahead.push_back(number);
    std::push_heap(link.answers_ahead.begin(), link.answers_ahead.end(), std::greater<>());
  }
  if (!link.owes_since.has_value()) {
    link.owes_since = now;
    owing_.push_back({from, now});
  }
}

std::optional<Time> Worker::NextTick() {
  while (!owing_.empty() && links_[owing_.front().first].owes_since != owing_.front().second) {
    owing_.pop_front();
  }
  std::optional<Time> next;
  if (!owing_.empty()) next = owing_.front().second + options_.acknowledge_after;
  if (!looks_ || open_.empty() || alone_) return next;
  // Of an operation's begin no time is known, only that of the last answer: the first look may come
  // too early, and then it is the second one that counts.
  if (!next_look_.has_value()) next_look_ = now_ + options_.overdue_after;
  return next.has_value() ? std::min(*next, *next_look_) : *next_look_;
}

void Worker::OnTick(Time now) {
  while (true) {
    std::optional<Time> next = NextTick();
    if (!next.has_value() || *next > now) return;
    if (next == next_look_) {
      LookForOverdue(now);
      continue;
    }
    ShardId shard = owing_.front().first;
    owing_.pop_front();
    links_[shard].owes_since.reset();
    driver_.SendAck(shard, {links_[shard].answers_in_order, epoch_});
  }
}

}  // namespace byteps::protocol
