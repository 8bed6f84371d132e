// The worker's side of the exchange with shards: cut, deal, queue, push. worker_answers.cc has what
// comes back.
#include <algorithm>
#include <numeric>

#include "src/operations/sizes.h"
#include "src/protocol/worker/worker.h"

namespace byteps::protocol {
namespace {

// A push that carries nothing still occupies the shard.
constexpr uint32_t kCreditMin = 64;

// A piece's place among all pieces of this rank, by the order of its name, and its name in the
// queue, by its tensor.
uint64_t KeyOf(uint32_t order_or_tensor, uint32_t index) {
  return (uint64_t{order_or_tensor} << 32) | index;
}

}  // namespace

Combine Worker::CombineOf(const wire::TensorSpec& spec) {
  switch (spec.op == wire::Op::kReducescatter ? spec.combine : spec.op) {
    case wire::Op::kSum: return Combine::kSum;
    case wire::Op::kAverage: return Combine::kAverage;
    case wire::Op::kMin: return Combine::kMin;
    case wire::Op::kMax: return Combine::kMax;
    case wire::Op::kProduct: return Combine::kProduct;
    case wire::Op::kBroadcast:
    case wire::Op::kAllgather:
    case wire::Op::kAlltoall:
    case wire::Op::kReducescatter:
    case wire::Op::kBarrier: return Combine::kOverlay;
    case wire::Op::kJoin: return Combine::kLast;
  }
  return Combine::kOverlay;
}

uint32_t Worker::CreditOf(const Spans& spans) {
  size_t bytes = std::max(spans.push.size(), spans.want.size());
  return std::max(kCreditMin, static_cast<uint32_t>(bytes));
}

uint32_t Worker::EndPiece(const Tensor& tensor) {
  uint32_t count = 0;
  if (tensor.partition.has_value()) count = tensor.partition->count();
  if (tensor.sections.has_value()) count = tensor.sections->count();
  return std::min(tensor.first_piece + count, static_cast<uint32_t>(tensor.pieces.size()));
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
  tensor.partition = cut.value();
  tensor.sections.reset();
  return DealHomes(tensor, first_piece, cut->count());
}

// So that no piece has two receivers.
Status Worker::DealSections(Tensor& tensor, uint32_t first_piece,
                            const std::vector<uint64_t>& bytes) {
  bool same = tensor.sections.has_value() && tensor.dealt_id == tensor.id &&
              std::ranges::equal(tensor.sections->section_bytes(), bytes);
  if (same) return Status::Ok();
  uint64_t total = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  uint32_t piece_bytes = plan::PieceBytes(total, members_, piece_bytes_max_);
  Result<plan::Sections> cut = plan::Sections::Cut(bytes, piece_bytes);
  if (!cut.ok()) return cut.status();
  tensor.sections = std::move(cut).value();
  tensor.partition.reset();
  return DealHomes(tensor, first_piece, tensor.sections->count());
}

// A piece's home depends on its number alone, so that what is told of a round finds its owner also
// when the next round is cut in another way: the pieces of a gathered result are dealt one by one,
// as if each were full. So are those of sections, which the coordinator does not know.
Status Worker::DealHomes(Tensor& tensor, uint32_t first_piece, uint32_t count) {
  if (count > operations::kPiecesMax) {
    return {StatusCode::kExhausted, "tensor '" + tensor.name + "' has " + std::to_string(count) +
                                        " pieces; raise BYTEPS_PARTITION_BYTES"};
  }
  tensor.first_piece = first_piece;
  count += first_piece;
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
  bool one_by_one = tensor.spec.op == wire::Op::kAllgather ||
                    tensor.spec.op == wire::Op::kAlltoall ||
                    tensor.spec.op == wire::Op::kReducescatter;
  std::vector<ShardId> homes;
  if (!one_by_one) homes = tensor.dealer->DealTensor(*tensor.partition);
  for (; number < count; ++number) {
    tensor.pieces[number].home = one_by_one ? tensor.dealer->Next(piece_bytes_max_) : homes[number];
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
  tensor.task->lacking = 0;
  for (uint32_t i = tensor.first_piece; i < EndPiece(tensor); ++i) QueuePiece(tensor, i);
  ApplyEarlyWants(tensor);
}

void Worker::QueuePiece(Tensor& tensor, uint32_t number) {
  Piece& piece = tensor.pieces[number];
  piece.step = PieceStep::kQueued;
  piece.round = wire::RoundOf(tensor.round, tensor.task->attempt);
  uint64_t key = KeyOf(tensor.course.name.order, number);
  Spans spans = SpansOf(tensor, number);
  if (!spans.want.empty()) ++tensor.task->lacking;
  piece.ticket = queue_.Push(
      {tensor.task->operation.priority, key, CreditOf(spans), KeyOf(tensor.id, number)});
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
    Tensor& tensor = *by_id_.at(static_cast<TensorId>(entry->task >> 32));
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

wire::DataHeader Worker::HeaderOfPush(const Tensor& tensor, uint32_t number,
                                      const Spans& spans) const {
  const Piece& piece = tensor.pieces[number];
  wire::DataHeader header;
  header.ref = {tensor.id, number, piece.round};
  header.epoch = epoch_;
  header.generation = generation_;
  header.count = links_[piece.owner].answers_in_order;
  header.priority = tensor.task->operation.priority;
  header.home = piece.home;
  header.combine = CombineOf(tensor.spec);
  header.process_set = tensor.spec.group;
  header.dtype = tensor.spec.dtype;
  header.piece_bytes = spans.piece_bytes;
  header.encoded_bytes = static_cast<uint32_t>(spans.push.size());
  header.offset = spans.push_offset;
  header.want_offset = spans.want_offset;
  header.want_bytes = static_cast<uint32_t>(spans.want.size());
  return header;
}

void Worker::SendPiece(Tensor& tensor, uint32_t number) {
  Spans spans = SpansOf(tensor, number);
  ShardId owner = tensor.pieces[number].owner;
  links_[owner].owes_since.reset();
  driver_.SendPush(owner, HeaderOfPush(tensor, number, spans), spans.push);
}

bool Worker::IsLayout(const Tensor& tensor) {
  return tensor.task->path[tensor.task->at] == Stage::kLayout;
}

}  // namespace byteps::protocol
