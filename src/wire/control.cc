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

flatbuffers::Offset<fb::Join> Table(Builder& b, const Join& m) {
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
  return join.Finish();
}

Encoded Encode(Builder& b, const Join& m) { return {fb::Body_Join, Table(b, m).Union()}; }

Encoded Encode(Builder& b, const Refused& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_Refused, fb::CreateRefused(b, static_cast<uint8_t>(m.code), text).Union()};
}

Encoded Encode(Builder& b, const Waiting& m) {
  return {fb::Body_Waiting, fb::CreateWaiting(b, b.CreateString(m.text)).Union()};
}

auto Table(Builder& b, const std::vector<WorkerInfo>& workers) {
  std::vector<flatbuffers::Offset<fb::Worker>> tables;
  for (const WorkerInfo& w : workers) {
    tables.push_back(fb::CreateWorker(b, w.slot, w.rank, w.incarnation, b.CreateString(w.host),
                                      w.process, w.local_rank, w.local_size, w.left));
  }
  return b.CreateVector(tables);
}

flatbuffers::Offset<fb::View> Table(Builder& b, const View& m) {
  std::vector<flatbuffers::Offset<fb::Server>> servers;
  for (const ServerInfo& s : m.servers) {
    auto host = b.CreateString(s.host);
    auto address = b.CreateString(s.address);
    servers.push_back(fb::CreateServer(b, s.index, s.incarnation, host, address, s.process,
                                       s.first_shard, b.CreateVector(s.shard_weights), s.alive,
                                       s.since));
  }
  auto workers = Table(b, m.workers);
  auto server_list = b.CreateVector(servers);
  auto gone = Table(b, m.gone);
  return fb::CreateView(b, m.epoch, m.generation, m.began, m.piece_bytes_max, workers, server_list,
                        gone);
}

Encoded Encode(Builder& b, const Propose& m) {
  auto present = Table(b, m.present);
  auto next = Table(b, m.next);
  return {fb::Body_Propose, fb::CreatePropose(b, m.term, present, next).Union()};
}

Encoded Encode(Builder& b, const Promise& m) {
  return {fb::Body_Promise, fb::CreatePromise(b, m.term, m.epoch).Union()};
}

Encoded Encode(Builder& b, const Commit& m) {
  return {fb::Body_Commit, fb::CreateCommit(b, m.term, Table(b, m.view)).Union()};
}

Encoded Encode(Builder& b, const Query& m) {
  return {fb::Body_Query, fb::CreateQuery(b, m.term).Union()};
}

Encoded Encode(Builder& b, const Report& m) {
  auto self = Table(b, m.self);
  auto committed = Table(b, m.committed);
  auto promised = Table(b, m.promised);
  return {fb::Body_Report,
          fb::CreateReport(b, self, m.term, committed, m.promised_term, promised, m.syncs).Union()};
}

flatbuffers::Offset<fb::Spec> Table(Builder& b, const TensorSpec& spec) {
  auto shape = b.CreateVector(spec.shape);
  flatbuffers::Offset<flatbuffers::String> detail;  // most tensors have none
  if (!spec.detail.empty()) detail = b.CreateString(spec.detail);
  return fb::CreateSpec(b, static_cast<uint8_t>(spec.op), static_cast<uint8_t>(spec.dtype),
                        spec.root, shape, spec.atomic, static_cast<uint8_t>(spec.combine),
                        spec.group, detail);
}

flatbuffers::Offset<fb::Declared> Table(Builder& b, const Declared& m) {
  auto name = b.CreateString(m.name);
  auto placement = b.CreateVector(m.placement);
  return fb::CreateDeclared(b, name, m.group, m.attempt, m.tensor, placement);
}

flatbuffers::Offset<fb::Use> Table(Builder& b, const Use& m) {
  return fb::CreateUse(b, m.group, m.attempt, m.round);
}

auto Table(Builder& b, const std::vector<Use>& uses) {
  std::vector<flatbuffers::Offset<fb::Use>> tables;
  for (const Use& use : uses) tables.push_back(Table(b, use));
  return b.CreateVector(tables);
}

flatbuffers::Offset<fb::DeclareFailed> Table(Builder& b, const DeclareFailed& m) {
  auto name = b.CreateString(m.name);
  auto use = Table(b, m.use);
  auto tensors = b.CreateVector(m.tensors);
  auto text = b.CreateString(m.text);
  return fb::CreateDeclareFailed(b, name, use, tensors, static_cast<uint8_t>(m.code), text,
                                 Table(b, m.also));
}

Encoded Encode(Builder& b, const Declare& m) {
  auto name = b.CreateString(m.name);
  auto spec = Table(b, m.spec);
  return {fb::Body_Declare, fb::CreateDeclare(b, name, m.attempt, spec, m.round).Union()};
}

Encoded Encode(Builder& b, const Declared& m) { return {fb::Body_Declared, Table(b, m).Union()}; }

Encoded Encode(Builder& b, const DeclareFailed& m) {
  return {fb::Body_DeclareFailed, Table(b, m).Union()};
}

Encoded Encode(Builder& b, const Known& m) {
  std::vector<flatbuffers::Offset<fb::KnownTensor>> tensors;
  for (const KnownTensor& known : m.tensors) {
    auto declared = Table(b, known.declared);
    tensors.push_back(fb::CreateKnownTensor(b, declared, Table(b, known.spec)));
  }
  std::vector<flatbuffers::Offset<fb::DeclareFailed>> failed;
  for (const DeclareFailed& one : m.failed) failed.push_back(Table(b, one));
  auto tensor_list = b.CreateVector(tensors);
  return {fb::Body_Known, fb::CreateKnown(b, tensor_list, b.CreateVector(failed)).Union()};
}

Encoded Encode(Builder& b, const Overdue& m) {
  std::vector<flatbuffers::Offset<fb::OverdueUse>> uses;
  for (const OverdueUse& one : m.uses) {
    auto name = b.CreateString(one.name);
    auto use = Table(b, one.use);
    uses.push_back(fb::CreateOverdueUse(b, name, use, one.tensor, Table(b, one.elsewhere)));
  }
  std::vector<flatbuffers::Offset<fb::Group>> groups;
  for (const GroupRanks& one : m.groups) {
    groups.push_back(fb::CreateGroup(b, one.number, b.CreateVector(one.ranks)));
  }
  auto use_list = b.CreateVector(uses);
  return {fb::Body_Overdue, fb::CreateOverdue(b, use_list, b.CreateVector(groups)).Union()};
}

Encoded Encode(Builder& b, const Sync& m) {
  return {fb::Body_Sync, fb::CreateSync(b, m.generation, m.point).Union()};
}

Encoded Encode(Builder& b, const GoOn& m) {
  return {fb::Body_GoOn, fb::CreateGoOn(b, m.generation, m.point).Union()};
}

Encoded Encode(Builder& b, const Leave& m) {
  return {fb::Body_Leave, fb::CreateLeave(b, m.clean).Union()};
}

Encoded Encode(Builder& b, const Alive&) { return {fb::Body_Alive, fb::CreateAlive(b).Union()}; }

Encoded Encode(Builder& b, const Suspect& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_Suspect,
          fb::CreateSuspect(b, static_cast<uint8_t>(m.role), m.index, m.incarnation,
                            static_cast<uint8_t>(m.why), text, m.generation)
              .Union()};
}

Encoded Encode(Builder& b, const JobOver& m) {
  auto text = b.CreateString(m.text);
  return {fb::Body_JobOver, fb::CreateJobOver(b, static_cast<uint8_t>(m.code), text).Union()};
}

// Enumerators from outside are checked before they become enumerators.
bool ValidRole(uint8_t role) { return role <= static_cast<uint8_t>(Role::kCoordinator); }
bool ValidCode(uint8_t code) { return code <= static_cast<uint8_t>(StatusCode::kInternal); }

Result<Join> Read(const fb::Join& m) {
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
  return join;
}

// A view's tables may share their parts, so that few bytes unfold into many. What a correct sender
// writes unfolds into no more than it is long.
uint64_t UnfoldedBytes(const fb::View& m) {
  uint64_t bytes = uint64_t{8} * (m.workers()->size() + m.servers()->size() + m.gone()->size());
  auto add = [&](const flatbuffers::String* text) { bytes += text == nullptr ? 0 : text->size(); };
  for (const auto* workers : {m.workers(), m.gone()}) {
    for (const fb::Worker* w : *workers) add(w->host());
  }
  for (const fb::Server* s : *m.servers()) {
    add(s->host());
    add(s->address());
    if (s->shard_weights() != nullptr) bytes += uint64_t{4} * s->shard_weights()->size();
  }
  return bytes;
}

// False: one has a slot that no job has.
bool Read(const flatbuffers::Vector<flatbuffers::Offset<fb::Worker>>& tables,
          std::vector<WorkerInfo>& workers) {
  for (const fb::Worker* w : tables) {
    if (w->slot() >= kMembersMax) return false;
    workers.push_back({w->slot(), w->rank(), w->incarnation(), Text(w->host()), w->process(),
                       w->local_rank(), w->local_size(), w->left()});
  }
  return true;
}

Result<View> Read(const fb::View* table, size_t message_bytes) {
  View view;
  if (table == nullptr) return Malformed("a view is missing");
  const fb::View& m = *table;
  view.epoch = m.epoch();
  view.generation = m.generation();
  view.began = m.began();
  view.piece_bytes_max = m.piece_bytes_max();
  bool whole = m.workers() != nullptr && m.servers() != nullptr && m.gone() != nullptr;
  if (!whole) return Malformed("a view without members");
  if (UnfoldedBytes(m) > message_bytes) return Malformed("a view with shared parts");
  if (!Read(*m.workers(), view.workers) || !Read(*m.gone(), view.gone)) {
    return Malformed("a slot that no job has");
  }
  for (const fb::Server* s : *m.servers()) {
    view.servers.push_back({s->index(), s->incarnation(), Text(s->host()), Text(s->address()),
                            s->process(), s->first_shard(), Numbers(s->shard_weights()), s->alive(),
                            s->since()});
  }
  return view;
}

Result<Message> Decode(const fb::Propose& m, size_t message_bytes) {
  Result<View> present = Read(m.present(), message_bytes);
  if (!present.ok()) return present.status();
  Result<View> next = Read(m.next(), message_bytes);
  if (!next.ok()) return next.status();
  return Message(Propose{m.term(), std::move(present).value(), std::move(next).value()});
}

Result<Message> Decode(const fb::Commit& m, size_t message_bytes) {
  Result<View> view = Read(m.view(), message_bytes);
  if (!view.ok()) return view.status();
  return Message(Commit{m.term(), std::move(view).value()});
}

Result<Message> Decode(const fb::Report& m, size_t message_bytes) {
  if (m.self() == nullptr) return Malformed("a report of nobody");
  Result<Join> self = Read(*m.self());
  if (!self.ok()) return self.status();
  Result<View> committed = Read(m.committed(), message_bytes);
  if (!committed.ok()) return committed.status();
  Result<View> promised = Read(m.promised(), message_bytes);
  if (!promised.ok()) return promised.status();
  return Message(Report{std::move(self).value(), m.term(), std::move(committed).value(),
                        m.promised_term(), std::move(promised).value(), m.syncs()});
}

template <typename T, typename Table>
T ReadPoint(const Table& m) {
  return {m.generation(), m.point()};
}

Result<TensorSpec> Read(const fb::Spec* m) {
  if (m == nullptr) return Malformed("a tensor without a description");
  if (m->op() >= kOpCount) return Malformed("unknown operation");
  if (m->dtype() >= kDataTypeCount) return Malformed("unknown dtype");
  if (m->combine() >= kReductionCount) return Malformed("unknown reduction");
  return TensorSpec{static_cast<Op>(m->op()),
                    static_cast<DataType>(m->dtype()),
                    m->root(),
                    Numbers(m->shape()),
                    m->atomic(),
                    static_cast<Op>(m->combine()),
                    m->group(),
                    Text(m->detail())};
}

Declared Read(const fb::Declared& m) {
  return {Text(m.name()), m.group(), m.attempt(), m.tensor(), Numbers(m.placement())};
}

Use Read(const fb::Use* m) {
  return m == nullptr ? Use() : Use{m->group(), m->attempt(), m->round()};
}

template <typename Tables>
std::vector<Use> ReadUses(const Tables* tables) {
  std::vector<Use> uses;
  if (tables == nullptr) return uses;
  for (const fb::Use* one : *tables) uses.push_back(Read(one));
  return uses;
}

// A use takes more bytes on the wire than these.
constexpr size_t kUseBytes = 4;

Result<DeclareFailed> Read(const fb::DeclareFailed& m) {
  if (!ValidCode(m.code())) return Malformed("unknown status");
  return DeclareFailed{Text(m.name()),       Read(m.use()),
                       Numbers(m.tensors()), static_cast<StatusCode>(m.code()),
                       Text(m.text()),       ReadUses(m.also())};
}

Result<Message> Decode(const fb::Declare& m) {
  Result<TensorSpec> spec = Read(m.spec());
  if (!spec.ok()) return spec.status();
  return Message(Declare{Text(m.name()), m.attempt(), std::move(spec).value(), m.round()});
}

// As with views: nothing unfolds into more than the message is long.
Result<Message> Decode(const fb::Known& m, size_t message_bytes) {
  Known known;
  size_t unfolded = 0;
  if (m.tensors() == nullptr || m.failed() == nullptr) return Malformed("a list is missing");
  for (const fb::KnownTensor* one : *m.tensors()) {
    if (one->declared() == nullptr) return Malformed("a tensor without a number");
    Result<TensorSpec> spec = Read(one->spec());
    if (!spec.ok()) return spec.status();
    Declared declared = Read(*one->declared());
    unfolded += declared.name.size() + 8 * (declared.placement.size() + spec->shape.size()) + 8;
    unfolded += spec->detail.size();
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    known.tensors.push_back({std::move(declared), std::move(spec).value()});
  }
  for (const fb::DeclareFailed* one : *m.failed()) {
    Result<DeclareFailed> failed = Read(*one);
    if (!failed.ok()) return failed.status();
    unfolded += failed->name.size() + failed->text.size() + 4 * failed->tensors.size() +
                kUseBytes * failed->also.size() + 8;
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    known.failed.push_back(std::move(failed).value());
  }
  return Message(std::move(known));
}

Result<Message> Decode(const fb::Overdue& m, size_t message_bytes) {
  Overdue overdue;
  size_t unfolded = 0;
  if (m.uses() == nullptr || m.groups() == nullptr) return Malformed("a list is missing");
  for (const fb::OverdueUse* one : *m.uses()) {
    OverdueUse use{Text(one->name()), Read(one->use()), one->tensor(), ReadUses(one->elsewhere())};
    unfolded += use.name.size() + kUseBytes * use.elsewhere.size() + 8;
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    overdue.uses.push_back(std::move(use));
  }
  for (const fb::Group* one : *m.groups()) {
    GroupRanks group{one->number(), Numbers(one->ranks())};
    unfolded += 4 * group.ranks.size() + 4;
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    overdue.groups.push_back(std::move(group));
  }
  return Message(std::move(overdue));
}

Result<Message> Decode(const fb::Suspect& m) {
  if (!ValidRole(m.role())) return Malformed("unknown role");
  if (m.why() > static_cast<uint8_t>(Suspicion::kExited)) return Malformed("unknown suspicion");
  return Message(Suspect{static_cast<Role>(m.role()), m.index(), m.incarnation(),
                         static_cast<Suspicion>(m.why()), Text(m.text()), m.generation()});
}

template <typename T>
Result<Message> Wrap(Result<T> value) {
  if (!value.ok()) return value.status();
  return Message(std::move(value).value());
}

template <typename T, typename Table>
Result<Message> DecodeCodeAndText(const Table& m) {
  if (!ValidCode(m.code())) return Malformed("unknown status");
  return Message(T{static_cast<StatusCode>(m.code()), Text(m.text())});
}

}  // namespace

std::vector<WorkerInfo> WorkersOfGeneration(const View& view) {
  std::vector<WorkerInfo> workers = view.workers;
  workers.insert(workers.end(), view.gone.begin(), view.gone.end());
  std::sort(workers.begin(), workers.end(),
            [](const WorkerInfo& a, const WorkerInfo& b) { return a.slot < b.slot; });
  return workers;
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
    case fb::Body_Join: return Wrap(Read(*message->body_as_Join()));
    case fb::Body_Refused: return DecodeCodeAndText<Refused>(*message->body_as_Refused());
    case fb::Body_Waiting: return Message(Waiting{Text(message->body_as_Waiting()->text())});
    case fb::Body_Propose: return Decode(*message->body_as_Propose(), bytes.size());
    case fb::Body_Promise: {
      const fb::Promise& promise = *message->body_as_Promise();
      return Message(Promise{promise.term(), promise.epoch()});
    }
    case fb::Body_Commit: return Decode(*message->body_as_Commit(), bytes.size());
    case fb::Body_Query: return Message(Query{message->body_as_Query()->term()});
    case fb::Body_Report: return Decode(*message->body_as_Report(), bytes.size());
    case fb::Body_Known: return Decode(*message->body_as_Known(), bytes.size());
    case fb::Body_Sync: return Message(ReadPoint<Sync>(*message->body_as_Sync()));
    case fb::Body_GoOn: return Message(ReadPoint<GoOn>(*message->body_as_GoOn()));
    case fb::Body_Declare: return Decode(*message->body_as_Declare());
    case fb::Body_Declared: return Message(Read(*message->body_as_Declared()));
    case fb::Body_DeclareFailed: return Wrap(Read(*message->body_as_DeclareFailed()));
    case fb::Body_Leave: return Message(Leave{message->body_as_Leave()->clean()});
    case fb::Body_Alive: return Message(Alive{});
    case fb::Body_Suspect: return Decode(*message->body_as_Suspect());
    case fb::Body_Overdue: return Decode(*message->body_as_Overdue(), bytes.size());
    case fb::Body_JobOver: return DecodeCodeAndText<JobOver>(*message->body_as_JobOver());
    case fb::Body_NONE: break;
  }
  return Malformed("unknown kind");
}

}  // namespace byteps::wire
