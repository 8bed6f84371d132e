// The worker's side of the exchange with shards: cut, queue, push, receive.
#include <algorithm>
#include <bit>
#include <functional>

#include "src/protocol/tensor_bytes.h"
#include "src/protocol/worker.h"

namespace byteps::protocol {
namespace {

// The table of rows travels as it lies in memory, and the wire is little-endian.
static_assert(std::endian::native == std::endian::little);

// More answers than this never overtake one; what lies beyond is a server's mistake.
constexpr size_t kAnswersAheadMax = size_t{1} << 20;

// A push that carries nothing still occupies the shard.
constexpr uint32_t kCreditMin = 64;

Combine CombineOf(wire::Op op) {
  switch (op) {
    case wire::Op::kSum:
    case wire::Op::kAverage: return Combine::kSum;
    case wire::Op::kMin: return Combine::kMin;
    case wire::Op::kMax: return Combine::kMax;
    case wire::Op::kProduct: return Combine::kProduct;
    case wire::Op::kBroadcast:
    case wire::Op::kAllgather:
    case wire::Op::kBarrier: return Combine::kOverlay;
  }
  return Combine::kOverlay;
}

// A piece's place among all pieces of this rank, and its name in the queue.
uint64_t KeyOf(uint32_t order, uint32_t index) { return (uint64_t{order} << 32) | index; }

}  // namespace

uint32_t Worker::CreditOf(const Spans& spans) {
  size_t bytes = std::max(spans.push.size(), spans.want.size());
  return std::max(kCreditMin, static_cast<uint32_t>(bytes));
}

// While the cut stays the same, so do the owners: nothing to do but to begin again.
Status Worker::DealPieces(Tensor& tensor, uint32_t first_piece, uint64_t bytes,
                          uint32_t piece_bytes) {
  bool same = tensor.partition.has_value() && tensor.first_piece == first_piece &&
              tensor.partition->tensor_bytes() == bytes && tensor.dealt_id == tensor.id;
  if (same) return Status::Ok();
  Result<plan::Partition> cut = plan::Partition::Cut(bytes, piece_bytes);
  if (!cut.ok()) return cut.status();
  if (cut->count() > kPiecesMax) {
    return {StatusCode::kExhausted, "tensor '" + tensor.name + "' has " +
                                        std::to_string(cut->count()) +
                                        " pieces; raise BYTEPS_PARTITION_BYTES"};
  }
  Result<plan::PieceAssigner> dealer =
      plan::PieceAssigner::Create(shard_weights_, piece_bytes_max_);
  if (!dealer.ok()) return dealer.status();
  Status restored = dealer->Restore(tensor.placement);
  if (!restored.ok()) return restored;
  std::vector<ShardId> owners = dealer->DealTensor(cut.value());
  tensor.pieces.assign(owners.size(), Piece());
  for (size_t i = 0; i < owners.size(); ++i) tensor.pieces[i].owner = owners[i];
  tensor.partition = cut.value();
  tensor.first_piece = first_piece;
  tensor.dealt_id = tensor.id;
  return Status::Ok();
}

void Worker::QueuePieces(Tensor& tensor) {
  tensor.pieces_done = 0;
  for (uint32_t i = 0; i < tensor.pieces.size(); ++i) {
    tensor.pieces[i].step = PieceStep::kQueued;
    uint64_t key = KeyOf(tensor.order, i);
    tensor.pieces[i].ticket =
        queue_.Push({tensor.task->operation.priority, key, CreditOf(SpansOf(tensor, i)), key});
  }
  ApplyEarlyWants(tensor);
}

void Worker::ApplyEarlyWants(Tensor& tensor) {
  std::erase_if(tensor.wanted_early, [&](const wire::PieceRef& ref) {
    return ref.round < tensor.round || MarkWanted(tensor, ref);
  });
}

// False when the piece has not come to the queue yet.
bool Worker::MarkWanted(Tensor& tensor, const wire::PieceRef& ref) {
  bool here = tensor.task.has_value() && ref.round == tensor.round &&
              ref.piece >= tensor.first_piece &&
              ref.piece - tensor.first_piece < tensor.pieces.size() &&
              (tensor.task->path[tensor.task->at] == Stage::kExchange || IsLayout(tensor));
  if (!here) return false;
  const Piece& piece = tensor.pieces[ref.piece - tensor.first_piece];
  if (piece.step == PieceStep::kQueued) queue_.MarkWanted(piece.ticket);
  return true;
}

void Worker::PushWhatFits() {
  while (auto entry = queue_.Pop(credit_->credit_bytes())) {
    Tensor& tensor = *by_order_[entry->task >> 32];
    Push(tensor, static_cast<uint32_t>(entry->task));
  }
}

void Worker::Push(Tensor& tensor, uint32_t index) {
  Piece& piece = tensor.pieces[index];
  piece.step = PieceStep::kSent;
  Spans spans = SpansOf(tensor, index);
  Link& link = links_[piece.owner];
  wire::DataHeader header;
  header.ref = {tensor.id, tensor.first_piece + index, tensor.round};
  header.epoch = epoch_;
  header.generation = generation_;
  header.count = link.answers_in_order;
  header.priority = tensor.task->operation.priority;
  header.combine = CombineOf(tensor.spec.op);
  header.dtype = tensor.spec.dtype;
  header.piece_bytes = spans.piece_bytes;
  header.offset = spans.push_offset;
  header.want_offset = spans.want_offset;
  header.want_bytes = static_cast<uint32_t>(spans.want.size());
  link.owes_since.reset();
  driver_.SendPush(piece.owner, header, spans.push);
}

bool Worker::IsLayout(const Tensor& tensor) {
  return tensor.task->path[tensor.task->at] == Stage::kLayout;
}

Worker::Spans Worker::SpansOf(Tensor& tensor, uint32_t index) const {
  if (IsLayout(tensor)) return SpansOfLayout(tensor);
  plan::PieceSpan span = tensor.partition->Piece(index);
  if (tensor.spec.op == wire::Op::kAllgather) return SpansOfGather(tensor, span);
  const Operation& operation = tensor.task->operation;
  Spans spans;
  spans.piece_bytes = span.bytes;
  bool broadcast = tensor.spec.op == wire::Op::kBroadcast;
  bool root = tensor.spec.root == rank_;
  if (span.bytes == 0) return spans;
  if (!broadcast || root) spans.push = ConstByteSpan(operation.input + span.offset, span.bytes);
  if (!broadcast || !root) spans.want = ByteSpan(operation.output + span.offset, span.bytes);
  return spans;
}

// Every worker lays its number of rows into a table of 8 bytes per worker.
Worker::Spans Worker::SpansOfLayout(Tensor& tensor) const {
  std::vector<uint64_t>& rows = tensor.task->rows_by_worker;
  auto bytes = std::as_writable_bytes(std::span(rows));
  Spans spans;
  spans.piece_bytes = static_cast<uint32_t>(bytes.size());
  spans.push_offset = static_cast<uint32_t>(worker_index_ * sizeof(uint64_t));
  spans.push = bytes.subspan(spans.push_offset, sizeof(uint64_t));
  spans.want = bytes;
  return spans;
}

// The pieces cover the result; a worker pushes what of its own rows lies in a piece.
Worker::Spans Worker::SpansOfGather(Tensor& tensor, plan::PieceSpan span) const {
  const Task& task = *tensor.task;
  uint64_t total_rows = std::max<uint64_t>(task.outcome.rows, 1);
  uint64_t row_bytes = task.outcome.gathered_bytes / total_rows;
  uint64_t own_begin = 0;
  for (uint32_t i = 0; i < worker_index_; ++i) own_begin += task.rows_by_worker[i] * row_bytes;
  uint64_t own_end = own_begin + task.operation.rows * row_bytes;
  uint64_t begin = std::clamp(span.offset, own_begin, own_end);
  uint64_t end = std::clamp(span.offset + span.bytes, own_begin, own_end);
  Spans spans;
  spans.piece_bytes = span.bytes;
  if (begin < end) {
    spans.push_offset = static_cast<uint32_t>(begin - span.offset);
    spans.push = ConstByteSpan(task.operation.input + (begin - own_begin), end - begin);
  }
  // A piece that is all mine was copied when the result was laid out.
  if (spans.push.size() == span.bytes) return spans;
  spans.want = ByteSpan(task.outcome.gathered.get() + span.offset, span.bytes);
  return spans;
}

ByteSpan Worker::Ignore(Link& link, size_t payload_bytes) {
  link.ignored = true;
  link.scratch.resize(std::max(link.scratch.size(), payload_bytes));
  return ByteSpan(link.scratch.data(), payload_bytes);
}

Result<ByteSpan> Worker::OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                        size_t payload_bytes) {
  if (from >= links_.size() || header.generation != generation_) {
    return Status(StatusCode::kProtocol, "an answer of another generation");
  }
  Link& link = links_[from];
  link.incoming = header;
  link.payload_bytes = payload_bytes;
  auto found = by_id_.find(header.ref.tensor);
  // What concerns an operation that has failed meanwhile is read and forgotten.
  if (found == by_id_.end()) return Ignore(link, payload_bytes);
  Tensor& tensor = *found->second;
  if (header.ref.round < tensor.round) return Ignore(link, payload_bytes);
  return PlaceOf(tensor, from, header, payload_bytes);
}

bool Worker::IsExpected(const Tensor& tensor, ShardId from, const wire::PieceRef& ref) const {
  uint32_t index = ref.piece - tensor.first_piece;
  return tensor.task.has_value() && ref.round == tensor.round && index < tensor.pieces.size() &&
         tensor.pieces[index].step == PieceStep::kSent && tensor.pieces[index].owner == from;
}

Result<ByteSpan> Worker::PlaceOf(Tensor& tensor, ShardId from, const wire::DataHeader& header,
                                 size_t payload_bytes) {
  Link& link = links_[from];
  uint32_t index = header.ref.piece - tensor.first_piece;
  if (header.receipt != 0) {
    return Status(StatusCode::kProtocol, "an answer of a part of the members");
  }
  if (!IsExpected(tensor, from, header.ref)) {
    return Status(StatusCode::kProtocol, "an answer that nobody asked for: tensor '" + tensor.name +
                                             "', piece " + std::to_string(header.ref.piece) +
                                             ", round " + std::to_string(header.ref.round));
  }
  if (header.status != StatusCode::kOk) {
    ByteSpan text = Ignore(link, payload_bytes);
    link.ignored = false;
    return text;
  }
  Spans spans = SpansOf(tensor, index);
  if (payload_bytes != spans.want.size() ||
      (payload_bytes != spans.piece_bytes && header.offset != spans.want_offset)) {
    return Status(StatusCode::kProtocol, "an answer of the wrong size: tensor '" + tensor.name +
                                             "', " + std::to_string(payload_bytes) + " bytes");
  }
  link.ignored = false;
  return spans.want;
}

void Worker::OnAnswer(ShardId from, Time now) {
  Link& link = links_[from];
  const wire::DataHeader header = link.incoming;
  CountAnswer(from, header.count, now);
  if (std::exchange(link.ignored, false)) return;
  // The operation may have failed while the payload (an error's text) came in.
  auto found = by_id_.find(header.ref.tensor);
  if (found == by_id_.end() || !IsExpected(*found->second, from, header.ref)) return;
  Tensor& tensor = *found->second;
  uint32_t index = header.ref.piece - tensor.first_piece;
  Outcome& outcome = tensor.task->outcome;
  Spans spans = SpansOf(tensor, index);
  if (header.status != StatusCode::kOk) {
    // Other pieces may still be on their way into the user's memory: the operation ends with the
    // last of them, not here.
    const auto* text = reinterpret_cast<const char*>(link.scratch.data());
    if (outcome.status.ok()) {
      outcome.status = Status(header.status, std::string(text, link.payload_bytes));
    }
  } else if (tensor.spec.op == wire::Op::kAverage) {
    arithmetic_.DivideByCount(tensor.spec.dtype, spans.want, members_);
  }
  bool window_full = queue_.IsBlocked(credit_->credit_bytes());
  queue_.Returned(CreditOf(spans));
  credit_->OnAnswered(now, CreditOf(spans), window_full);
  PieceDone(tensor, index);
}

void Worker::PieceDone(Tensor& tensor, uint32_t index) {
  tensor.pieces[index].step = PieceStep::kDone;
  ++tensor.pieces_done;
  if (tensor.pieces_done < tensor.pieces.size()) return PushWhatFits();
  if (!tensor.task->outcome.status.ok()) {
    Status why = tensor.task->outcome.status;
    Fail(tensor, why);
  } else {
    Resume(tensor);
  }
  PushWhatFits();
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
  if (owing_.empty()) return std::nullopt;
  return owing_.front().second + options_.acknowledge_after;
}

void Worker::OnTick(Time now) {
  while (true) {
    std::optional<Time> next = NextTick();
    if (!next.has_value() || *next > now) return;
    ShardId shard = owing_.front().first;
    owing_.pop_front();
    links_[shard].owes_since.reset();
    driver_.SendAck(shard, links_[shard].answers_in_order);
  }
}

}  // namespace byteps::protocol
