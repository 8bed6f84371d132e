// The worker's side of the exchange with shards: cut, deal, queue, push. worker_answers.cc has what
// comes back.
#include <algorithm>
#include <bit>

#include "src/protocol/control/tensor_bytes.h"
#include "src/protocol/worker.h"

namespace byteps::protocol {
namespace {

// The table of rows travels as it lies in memory, and the wire is little-endian.
static_assert(std::endian::native == std::endian::little);

// A push that carries nothing still occupies the shard.
constexpr uint32_t kCreditMin = 64;

// A piece's place among all pieces of this rank, and its name in the queue.
uint64_t KeyOf(uint32_t order, uint32_t index) { return (uint64_t{order} << 32) | index; }

}  // namespace

Combine Worker::CombineOf(wire::Op op) {
  switch (op) {
    case wire::Op::kSum: return Combine::kSum;
    case wire::Op::kAverage: return Combine::kAverage;
    case wire::Op::kMin: return Combine::kMin;
    case wire::Op::kMax: return Combine::kMax;
    case wire::Op::kProduct: return Combine::kProduct;
    case wire::Op::kBroadcast:
    case wire::Op::kAllgather:
    case wire::Op::kBarrier: return Combine::kOverlay;
  }
  return Combine::kOverlay;
}

uint32_t Worker::CreditOf(const Spans& spans) {
  size_t bytes = std::max(spans.push.size(), spans.want.size());
  return std::max(kCreditMin, static_cast<uint32_t>(bytes));
}

uint32_t Worker::EndPiece(const Tensor& tensor) {
  if (!tensor.partition.has_value()) return tensor.first_piece;
  return std::min(tensor.first_piece + static_cast<uint32_t>(tensor.partition->count()),
                  static_cast<uint32_t>(tensor.pieces.size()));
}

// The piece takes part in the exchange that is going on.
bool Worker::IsActive(const Tensor& tensor, uint32_t number) const {
  if (!tensor.task.has_value() || number < tensor.first_piece || number >= EndPiece(tensor)) {
    return false;
  }
  return tensor.task->path[tensor.task->at] == Stage::kExchange || IsLayout(tensor);
}

// While the cut stays the same, so do the homes: nothing to do but to begin again.
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
  tensor.partition = cut.value();
  tensor.first_piece = first_piece;
  return DealHomes(tensor, first_piece + static_cast<uint32_t>(cut->count()));
}

// A piece's home depends on its number alone, so that what is told of a round finds its owner also
// when the next round is cut in another way: the pieces of a gathered result are dealt one by one,
// as if each were full.
Status Worker::DealHomes(Tensor& tensor, uint32_t count) {
  bool first = tensor.dealt_id != tensor.id;
  if (first) {
    Result<plan::PieceAssigner> dealer =
        plan::PieceAssigner::Create(shard_weights_, piece_bytes_max_);
    if (!dealer.ok()) return dealer.status();
    Status restored = dealer->Restore(tensor.placement);
    if (!restored.ok()) return restored;
    tensor.pieces.clear();
    tensor.dealer = std::move(dealer).value();
    tensor.dealt_id = tensor.id;
  }
  auto number = static_cast<uint32_t>(tensor.pieces.size());
  if (number >= count) return Status::Ok();
  tensor.pieces.resize(count);
  bool gather = tensor.spec.op == wire::Op::kAllgather;
  std::vector<ShardId> homes;
  if (!gather) homes = tensor.dealer->DealTensor(*tensor.partition);
  for (; number < count; ++number) {
    tensor.pieces[number].home = gather ? tensor.dealer->Next(piece_bytes_max_) : homes[number];
    FindOwner(tensor, number);
  }
  return Status::Ok();
}

void Worker::FindOwner(Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  piece.owner = kNoShard;
  if (!ownership_.any()) return;
  plan::Owner owner = ownership_.OwnerOf(piece.home, tensor.id, number);
  piece.owner = owner.shard;
  piece.since = owner.since;
}

void Worker::QueuePieces(Tensor& tensor) {
  tensor.pieces_done = 0;
  for (uint32_t i = tensor.first_piece; i < EndPiece(tensor); ++i) QueuePiece(tensor, i);
  ApplyEarlyWants(tensor);
}

void Worker::QueuePiece(Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  piece.step = PieceStep::kQueued;
  piece.round = wire::RoundOf(tensor.round, tensor.task->attempt);
  uint64_t key = KeyOf(tensor.order, number);
  piece.ticket =
      queue_.Push({tensor.task->operation.priority, key, CreditOf(SpansOf(tensor, number)), key});
}

void Worker::ApplyEarlyWants(Tensor& tensor) {
  std::erase_if(tensor.wanted_early, [&](const wire::PieceRef& ref) {
    return ref.round < wire::RoundOf(tensor.round, 0) || MarkWanted(tensor, ref);
  });
}

// False when the piece has not come to the queue yet.
bool Worker::MarkWanted(Tensor& tensor, const wire::PieceRef& ref) {
  if (!IsActive(tensor, ref.piece)) return false;
  const Piece& piece = tensor.pieces[ref.piece];
  if (ref.round != piece.round) return ref.round < piece.round;
  if (piece.step == PieceStep::kQueued) queue_.MarkWanted(piece.ticket);
  return true;
}

void Worker::PushWhatFits() {
  while (auto entry = queue_.Pop(credit_->credit_bytes())) {
    Tensor& tensor = *by_order_[entry->task >> 32];
    Push(tensor, static_cast<uint32_t>(entry->task));
  }
}

// A shard that has no connection gets the piece when it has one, and one that comes to own it when
// it does (Recite): neither waits for credit, the piece has it already.
void Worker::Push(Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  piece.step = PieceStep::kSent;
  if (piece.owner != kNoShard && links_[piece.owner].up) SendPiece(tensor, number);
}

void Worker::SendPiece(Tensor& tensor, uint32_t number) {
  const Piece& piece = tensor.pieces[number];
  Spans spans = SpansOf(tensor, number);
  Link& link = links_[piece.owner];
  wire::DataHeader header;
  header.ref = {tensor.id, number, piece.round};
  header.epoch = epoch_;
  header.generation = generation_;
  header.count = link.answers_in_order;
  header.priority = tensor.task->operation.priority;
  header.home = piece.home;
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

Worker::Spans Worker::SpansOf(Tensor& tensor, uint32_t number) const {
  if (IsLayout(tensor)) return SpansOfLayout(tensor);
  plan::PieceSpan span = tensor.partition->Piece(number - tensor.first_piece);
  if (tensor.spec.op == wire::Op::kAllgather) return SpansOfGather(tensor, span);
  const Operation& operation = tensor.task->operation;
  Spans spans;
  spans.piece_bytes = span.bytes;
  bool broadcast = tensor.spec.op == wire::Op::kBroadcast;
  bool root = tensor.spec.root == rank_;
  if (span.bytes == 0) return spans;
  const std::byte* input = operation.input;
  if (tensor.task->kept_input != nullptr) input = tensor.task->kept_input.get();
  if (!broadcast || root) spans.push = ConstByteSpan(input + span.offset, span.bytes);
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

}  // namespace byteps::protocol
