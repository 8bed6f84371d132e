#include "src/wire/control.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/wire/control_generated.h"

namespace byteps::wire {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
using BodyOffset = flatbuffers::Offset<void>;

std::string Text(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

// The verifier sees to the place of a vector's length, not of its elements: they may be misaligned.
template <typename T>
std::vector<T> Numbers(const flatbuffers::Vector<T>* numbers) {
  static_assert(std::endian::native == std::endian::little);
  if (numbers == nullptr || numbers->size() == 0) return {};
  std::vector<T> values(numbers->size());
  std::memcpy(values.data(), numbers->Data(), values.size() * sizeof(T));
  return values;
}

Status Malformed(const char* what) {
  return {StatusCode::kProtocol, std::string("malformed control message: ") + what};
}

struct Encoded {
  fb::Body kind;
  BodyOffset body;
};

Encoded Encode(Builder& b, const Join& m) {
  auto host = b.CreateString(m.host);
  auto address = b.CreateString(m.address);
  auto version = b.CreateString(m.version);
  auto node = b.CreateString(m.node);
  fb::JoinBuilder join(b);
  join.add_role(static_cast<uint8_t>(m.role));
  join.add_rank(m.rank);
  join.add_incarnation(m.incarnation);
  join.add_host(host);
  join.add_address(address);
  join.add_shards(m.shards);
  join.add_link_mbit(m.link_mbit);
  join.add_process(m.process);
  join.add_worker_count(m.worker_count);
  join.add_server_count(m.server_count);
  join.add_piece_bytes_max(m.piece_bytes_max);
  join.add_version(version);
  join.add_local_rank(m.local_rank);
  join.add_local_size(m.local_size);
  join.add_node(node);
  return {fb::Body_Join, join.Finish().Union()};
}

Encoded Encode(Builder& b, const Refused& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_Refused, fb::CreateRefused(b, static_cast<uint8_t>(m.code), text).Union()};
}

Encoded Encode(Builder& b, const Waiting& m) {
  return {fb::Body_Waiting, fb::CreateWaiting(b, b.CreateString(m.text)).Union()};
}

Encoded Encode(Builder& b, const View& m) {
  std::vector<flatbuffers::Offset<fb::Worker>> workers;
  for (const WorkerInfo& w : m.workers) {
    workers.push_back(fb::CreateWorker(b, w.slot, w.rank, w.incarnation, b.CreateString(w.host),
                                       w.process, w.local_rank, w.local_size));
  }
  std::vector<flatbuffers::Offset<fb::Server>> servers;
  for (const ServerInfo& s : m.servers) {
    auto host = b.CreateString(s.host);
    auto address = b.CreateString(s.address);
    servers.push_back(fb::CreateServer(b, s.index, s.incarnation, host, address, s.process,
                                       s.first_shard, b.CreateVector(s.shard_weights), s.since));
  }
  auto worker_list = b.CreateVector(workers);
  auto server_list = b.CreateVector(servers);
  return {fb::Body_View, fb::CreateView(b, m.epoch, m.term, m.generation, m.piece_bytes_max,
                                        worker_list, server_list, m.slot)
                             .Union()};
}

Encoded Encode(Builder& b, const Declare& m) {
  auto name = b.CreateString(m.name);
  auto shape = b.CreateVector(m.spec.shape);
  return {fb::Body_Declare,
          fb::CreateDeclare(b, name, m.attempt, static_cast<uint8_t>(m.spec.op),
                            static_cast<uint8_t>(m.spec.dtype), m.spec.root, shape, m.round)
              .Union()};
}

Encoded Encode(Builder& b, const Declared& m) {
  auto name = b.CreateString(m.name);
  auto placement = b.CreateVector(m.placement);
  return {fb::Body_Declared, fb::CreateDeclared(b, name, m.attempt, m.tensor, placement).Union()};
}

Encoded Encode(Builder& b, const DeclareFailed& m) {
  auto name = b.CreateString(m.name);
  auto text = b.CreateString(m.text);
  return {fb::Body_DeclareFailed,
          fb::CreateDeclareFailed(b, name, m.attempt, m.tensor, static_cast<uint8_t>(m.code), text,
                                  m.round)
              .Union()};
}

Encoded Encode(Builder& b, const Leave& m) {
  return {fb::Body_Leave, fb::CreateLeave(b, m.clean).Union()};
}

Encoded Encode(Builder& b, const Left& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_Left, fb::CreateLeft(b, m.slot, text).Union()};
}

Encoded Encode(Builder& b, const Alive&) { return {fb::Body_Alive, fb::CreateAlive(b).Union()}; }

Encoded Encode(Builder& b, const Suspect& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_Suspect,
          fb::CreateSuspect(b, static_cast<uint8_t>(m.role), m.index, text).Union()};
}

Encoded Encode(Builder& b, const JobOver& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_JobOver, fb::CreateJobOver(b, static_cast<uint8_t>(m.code), text).Union()};
}

// Enumerators from outside are checked before they become enumerators.
bool ValidRole(uint8_t role) { return role <= static_cast<uint8_t>(Role::kCoordinator); }
bool ValidCode(uint8_t code) { return code <= static_cast<uint8_t>(StatusCode::kInternal); }

Result<Message> Decode(const fb::Join& m) {
  if (!ValidRole(m.role())) return Malformed("unknown role");
  Join join;
  join.role = static_cast<Role>(m.role());
  join.rank = m.rank();
  join.incarnation = m.incarnation();
  join.host = Text(m.host());
  join.address = Text(m.address());
  join.shards = m.shards();
  join.link_mbit = m.link_mbit();
  join.process = m.process();
  join.worker_count = m.worker_count();
  join.server_count = m.server_count();
  join.piece_bytes_max = m.piece_bytes_max();
  join.version = Text(m.version());
  join.local_rank = m.local_rank();
  join.local_size = m.local_size();
  join.node = Text(m.node());
  return Message(std::move(join));
}

// A view's tables may share their parts, so that few bytes unfold into many. What a correct sender
// writes unfolds into no more than it is long.
uint64_t UnfoldedBytes(const fb::View& m) {
  uint64_t bytes = 0;
  auto add = [&](const flatbuffers::String* text) { bytes += text == nullptr ? 0 : text->size(); };
  for (const fb::Worker* w : *m.workers()) add(w->host());
  for (const fb::Server* s : *m.servers()) {
    add(s->host());
    add(s->address());
    if (s->shard_weights() != nullptr) bytes += uint64_t{4} * s->shard_weights()->size();
  }
  return bytes;
}

Result<Message> Decode(const fb::View& m, size_t message_bytes) {
  View view;
  view.epoch = m.epoch();
  view.term = m.term();
  view.generation = m.generation();
  view.piece_bytes_max = m.piece_bytes_max();
  view.slot = m.slot();
  if (m.workers() == nullptr || m.servers() == nullptr) return Malformed("a view without members");
  if (UnfoldedBytes(m) > message_bytes) return Malformed("a view with shared parts");
  for (const fb::Worker* w : *m.workers()) {
    if (w->slot() >= kMembersMax) return Malformed("a slot that no job has");
    view.workers.push_back({w->slot(), w->rank(), w->incarnation(), Text(w->host()), w->process(),
                            w->local_rank(), w->local_size()});
  }
  for (const fb::Server* s : *m.servers()) {
    view.servers.push_back({s->index(), s->incarnation(), Text(s->host()), Text(s->address()),
                            s->process(), s->first_shard(), Numbers(s->shard_weights()),
                            s->since()});
  }
  return Message(std::move(view));
}

Result<Message> Decode(const fb::Declare& m) {
  if (m.op() >= kOpCount) return Malformed("unknown operation");
  if (m.dtype() >= kDataTypeCount) return Malformed("unknown dtype");
  TensorSpec spec{static_cast<Op>(m.op()), static_cast<DataType>(m.dtype()), m.root(),
                  Numbers(m.shape())};
  return Message(Declare{Text(m.name()), m.attempt(), std::move(spec), m.round()});
}

Result<Message> Decode(const fb::Declared& m) {
  return Message(Declared{Text(m.name()), m.attempt(), m.tensor(), Numbers(m.placement())});
}

Result<Message> Decode(const fb::DeclareFailed& m) {
  if (!ValidCode(m.code())) return Malformed("unknown status");
  return Message(DeclareFailed{Text(m.name()), m.attempt(), m.tensor(),
                               static_cast<StatusCode>(m.code()), Text(m.text()), m.round()});
}

Result<Message> Decode(const fb::Suspect& m) {
  if (!ValidRole(m.role())) return Malformed("unknown role");
  return Message(Suspect{static_cast<Role>(m.role()), m.index(), Text(m.text())});
}

template <typename T, typename Table>
Result<Message> DecodeCodeAndText(const Table& m) {
  if (!ValidCode(m.code())) return Malformed("unknown status");
  return Message(T{static_cast<StatusCode>(m.code()), Text(m.text())});
}

}  // namespace

const char* NameOf(Op op) {
  switch (op) {
    case Op::kSum: return "sum";
    case Op::kAverage: return "average";
    case Op::kMin: return "min";
    case Op::kMax: return "max";
    case Op::kProduct: return "product";
    case Op::kBroadcast: return "broadcast";
    case Op::kAllgather: return "allgather";
    case Op::kBarrier: return "barrier";
  }
  return "unknown";
}

std::string Describe(const TensorSpec& spec) {
  std::string text = NameOf(spec.op);
  if (spec.op == Op::kBarrier) return text;
  text += std::string(" of ") + byteps::NameOf(spec.dtype) + "[";
  if (spec.op == Op::kAllgather) text += spec.shape.empty() ? "any" : "any, ";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(spec.shape[i]);
  }
  text += "]";
  if (spec.op == Op::kBroadcast) text += " from rank " + std::to_string(spec.root);
  return text;
}

std::vector<std::byte> EncodeControl(const Message& message) {
  Builder builder;
  Encoded encoded = std::visit([&](const auto& m) { return Encode(builder, m); }, message);
  builder.Finish(fb::CreateMessage(builder, encoded.kind, encoded.body));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

Result<Message> DecodeControl(ConstByteSpan bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  // The verifier reads numbers in place, so the bytes must be aligned.
  std::vector<uint64_t> aligned;
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) != 0) {
    aligned.resize((bytes.size() + 7) / 8);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(aligned.data()));
    data = reinterpret_cast<const uint8_t*>(aligned.data());
  }
  flatbuffers::Verifier verifier(data, bytes.size());
  if (bytes.size() < 8 || !fb::VerifyMessageBuffer(verifier)) return Malformed("no such message");
  const fb::Message* message = fb::GetMessage(data);
  if (message->body() == nullptr) return Malformed("empty");
  switch (message->body_type()) {
    case fb::Body_Join: return Decode(*message->body_as_Join());
    case fb::Body_Refused: return DecodeCodeAndText<Refused>(*message->body_as_Refused());
    case fb::Body_Waiting: return Message(Waiting{Text(message->body_as_Waiting()->text())});
    case fb::Body_View: return Decode(*message->body_as_View(), bytes.size());
    case fb::Body_Declare: return Decode(*message->body_as_Declare());
    case fb::Body_Declared: return Decode(*message->body_as_Declared());
    case fb::Body_DeclareFailed: return Decode(*message->body_as_DeclareFailed());
    case fb::Body_Leave: return Message(Leave{message->body_as_Leave()->clean()});
    case fb::Body_Alive: return Message(Alive{});
    case fb::Body_Suspect: return Decode(*message->body_as_Suspect());
    case fb::Body_JobOver: return DecodeCodeAndText<JobOver>(*message->body_as_JobOver());
    case fb::Body_Left:
      return Message(Left{message->body_as_Left()->slot(), Text(message->body_as_Left()->text())});
    case fb::Body_NONE: break;
  }
  return Malformed("unknown kind");
}

}  // namespace byteps::wire
