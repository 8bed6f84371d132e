// Reads control messages from bytes, and checks everything before it believes it. control.cc writes
// them.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "src/wire/control.h"
#include "src/wire/control_generated.h"

namespace byteps::wire {
namespace {

std::string Text(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

// Copies the elements, because the verifier checks only the alignment of a vector's length: its
// elements may be misaligned.
template <typename T, typename Vector>
std::vector<T> Elements(const Vector* elements) {
  static_assert(std::endian::native == std::endian::little && std::is_trivially_copyable_v<T>);
  if (elements == nullptr || elements->size() == 0) return {};
  std::vector<T> values(elements->size());
  std::memcpy(values.data(), elements->Data(), values.size() * sizeof(T));
  return values;
}

template <typename T>
std::vector<T> Numbers(const flatbuffers::Vector<T>* numbers) {
  return Elements<T>(numbers);
}

Status Malformed(const char* what) {
  return {StatusCode::kProtocol, std::string("malformed control message: ") + what};
}

// Numbers from outside are checked before they become enumerators.
bool ValidRole(uint8_t role) { return role <= static_cast<uint8_t>(Role::kCoordinator); }
bool ValidCode(uint8_t code) { return code <= static_cast<uint8_t>(kLastStatusCode); }

bool ValidGroup(uint32_t group) { return group >= 1 && group <= kSumGroupMax; }

using StringList = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

bool TooMany(const StringList* addresses) {
  return addresses != nullptr && addresses->size() > kMoreAddressesMax;
}

std::vector<std::string> Texts(const StringList* strings) {
  std::vector<std::string> texts;
  if (strings == nullptr) return texts;
  for (const flatbuffers::String* one : *strings) texts.push_back(Text(one));
  return texts;
}

Result<Join> Read(const fb::Join& m) {
  if (!ValidRole(m.role())) return Malformed("unknown role");
  if (TooMany(m.more_addresses())) return Malformed("too many addresses");
  if (!ValidGroup(m.sum_group())) return Malformed("a group that no sum has");
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
  join.contributor = Text(m.contributor());
  join.contributor_size = m.contributor_size();
  join.machines_sum = m.machines_sum();
  join.meets = m.meets();
  join.more_addresses = Texts(m.more_addresses());
  join.local_sizes = Numbers(m.local_sizes());
  join.takes_objects = m.takes_objects();
  join.same_bits = m.same_bits();
  join.sum_group = m.sum_group();
  return join;
}

// The tables of a view may share their parts, so that few bytes unfold into many. A view of a
// correct sender unfolds into no more bytes than the message has.
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
    if (s->placed_weights() != nullptr) bytes += uint64_t{4} * s->placed_weights()->size();
    if (s->more_addresses() == nullptr) continue;
    for (const flatbuffers::String* one : *s->more_addresses()) {
      bytes += 4;
      add(one);
    }
  }
  return bytes;
}

// Returns false if a worker has a slot that no job has.
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
  view.founder = m.founder();
  view.placed = m.placed();
  view.generation = m.generation();
  view.began = m.began();
  view.piece_bytes_max = m.piece_bytes_max();
  view.same_bits = m.same_bits();
  view.sum_group = m.sum_group();
  bool whole = m.workers() != nullptr && m.servers() != nullptr && m.gone() != nullptr;
  if (!whole) return Malformed("a view without members");
  if (!ValidGroup(m.sum_group())) return Malformed("a group that no sum has");
  if (UnfoldedBytes(m) > message_bytes) return Malformed("a view with shared parts");
  if (!Read(*m.workers(), view.workers) || !Read(*m.gone(), view.gone)) {
    return Malformed("a slot that no job has");
  }
  for (const fb::Server* s : *m.servers()) {
    if (TooMany(s->more_addresses())) return Malformed("too many addresses");
    view.servers.push_back({s->index(), s->incarnation(), Text(s->host()), Text(s->address()),
                            s->process(), s->first_shard(), Numbers(s->shard_weights()), s->alive(),
                            s->since(), Numbers(s->placed_weights()), Texts(s->more_addresses())});
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
                    m->process_set(),
                    Text(m->detail()),
                    m->codec()};
}

Declared Read(const fb::Declared& m) {
  return {Text(m.name()), m.process_set(),        m.attempt(),
          m.tensor(),     Numbers(m.placement()), m.lifetime()};
}

Use Read(const fb::Use* m) {
  return m == nullptr ? Use() : Use{m->process_set(), m->attempt(), m->round(), m->lifetime()};
}

template <typename Tables>
std::vector<Use> ReadUses(const Tables* tables) {
  std::vector<Use> uses;
  if (tables == nullptr) return uses;
  for (const fb::Use* one : *tables) uses.push_back(Read(one));
  return uses;
}

// A use takes more bytes on the wire than this.
constexpr size_t kUseBytes = 4;

NamedUse ReadNamed(const fb::Use& m) { return {Text(m.name()), Read(&m)}; }

// Returns nothing if the uses unfold into more than `bytes`.
template <typename Tables>
std::optional<std::vector<NamedUse>> ReadNamedUses(const Tables* tables, size_t bytes) {
  std::vector<NamedUse> uses;
  if (tables == nullptr) return uses;
  size_t unfolded = 0;
  for (const fb::Use* one : *tables) {
    unfolded += kUseBytes + (one->name() == nullptr ? 0 : one->name()->size());
    if (unfolded > bytes) return std::nullopt;
    uses.push_back(ReadNamed(*one));
  }
  return uses;
}

size_t BytesOf(const std::vector<NamedUse>& uses) {
  size_t bytes = 0;
  for (const NamedUse& one : uses) bytes += kUseBytes + one.name.size();
  return bytes;
}

Result<DeclareFailed> Read(const fb::DeclareFailed& m, size_t message_bytes) {
  if (!ValidCode(m.code())) return Malformed("unknown status");
  std::optional<std::vector<NamedUse>> also = ReadNamedUses(m.also(), message_bytes);
  if (!also.has_value()) return Malformed("a list with shared parts");
  return DeclareFailed{Text(m.name()),       Read(m.use()),
                       Numbers(m.tensors()), static_cast<StatusCode>(m.code()),
                       Text(m.text()),       *std::move(also)};
}

Result<Message> Decode(const fb::Declare& m) {
  Result<TensorSpec> spec = Read(m.spec());
  if (!spec.ok()) return spec.status();
  return Message(
      Declare{Text(m.name()), m.attempt(), std::move(spec).value(), m.round(), m.lifetime()});
}

// Refuses messages that unfold into more bytes than they have, as views do.
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
    known.tensors.push_back({std::move(declared), std::move(spec).value(), one->let_go()});
  }
  for (const fb::DeclareFailed* one : *m.failed()) {
    Result<DeclareFailed> failed = Read(*one, message_bytes);
    if (!failed.ok()) return failed.status();
    unfolded += failed->name.size() + failed->text.size() + 4 * failed->tensors.size() +
                BytesOf(failed->also) + 8;
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    known.failed.push_back(std::move(failed).value());
  }
  return Message(std::move(known));
}

// Refuses messages that unfold into more bytes than they have.
Result<Message> Decode(const fb::Forgotten& m, size_t message_bytes) {
  Forgotten forgotten{Numbers(m.tensors()), {}};
  size_t unfolded = 0;
  if (m.lifetimes() == nullptr) return Malformed("a list is missing");
  for (const fb::Lifetime* one : *m.lifetimes()) {
    LifetimeNumber lifetime{Text(one->name()), one->process_set(), one->number()};
    unfolded += lifetime.name.size() + 8;
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    forgotten.lifetimes.push_back(std::move(lifetime));
  }
  return Message(std::move(forgotten));
}

StillKnown Read(const fb::StillKnown& m) { return {m.first(), m.end(), Numbers(m.tensors())}; }

// Returns false if the process sets unfold into more bytes than the message has.
bool ReadProcessSets(const flatbuffers::Vector<flatbuffers::Offset<fb::ProcessSet>>& tables,
                     size_t message_bytes, size_t& unfolded,
                     std::vector<ProcessSetRanks>& process_sets) {
  for (const fb::ProcessSet* one : tables) {
    ProcessSetRanks process_set{one->number(), Numbers(one->ranks())};
    unfolded += 4 * process_set.ranks.size() + 4;
    if (unfolded > message_bytes) return false;
    process_sets.push_back(std::move(process_set));
  }
  return true;
}

Result<Message> Decode(const fb::Overdue& m, size_t message_bytes) {
  Overdue overdue;
  size_t unfolded = 0;
  if (m.uses() == nullptr || m.process_sets() == nullptr) return Malformed("a list is missing");
  for (const fb::OverdueUse* one : *m.uses()) {
    OverdueUse use{Text(one->name()), Read(one->use()), one->tensor(), ReadUses(one->elsewhere()),
                   one->stuck()};
    unfolded += use.name.size() + kUseBytes * use.elsewhere.size() + 8;
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    overdue.uses.push_back(std::move(use));
  }
  if (!ReadProcessSets(*m.process_sets(), message_bytes, unfolded, overdue.process_sets)) {
    return Malformed("a list with shared parts");
  }
  return Message(std::move(overdue));
}

// Reads a missing list as an empty one.
Result<Account> Read(const fb::Account& m, size_t message_bytes) {
  Account account{m.ended(), m.failed(), m.bytes(), m.open(),      m.idle_ms(),
                  {},        {},         {},        m.waited_us(), {}};
  size_t unfolded = 0;
  for (size_t i = 0; m.uses() != nullptr && i < m.uses()->size(); ++i) {
    const fb::UseState& one = *m.uses()->Get(static_cast<flatbuffers::uoffset_t>(i));
    bool sound = one.use() != nullptr && one.stage() <= static_cast<uint8_t>(kLastUseStage);
    if (!sound) return Malformed("no such state of a use");
    UseState state{ReadNamed(*one.use()), one.tensor(), static_cast<UseStage>(one.stage()),
                   one.age_ms(), one.left_ms()};
    unfolded += kUseBytes + state.use.name.size();
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    account.uses.push_back(std::move(state));
  }
  if (m.process_sets() != nullptr &&
      !ReadProcessSets(*m.process_sets(), message_bytes, unfolded, account.process_sets)) {
    return Malformed("a list with shared parts");
  }
  std::vector<uint32_t> tensors = Numbers(m.took_tensors());
  std::vector<uint64_t> rounds = Numbers(m.took_rounds());
  std::vector<uint32_t> us = Numbers(m.took_us());
  bool even = tensors.size() == rounds.size() && tensors.size() == us.size();
  if (!even) return Malformed("lists of different lengths");
  for (size_t i = 0; i < us.size(); ++i) account.took.push_back({tensors[i], rounds[i], us[i]});
  for (size_t i = 0; m.copies() != nullptr && i < m.copies()->size(); ++i) {
    const fb::SlowCopy& one = *m.copies()->Get(static_cast<flatbuffers::uoffset_t>(i));
    SlowCopy copy{Text(one.tensor()), Text(one.device()), one.to_device(), one.age_ms()};
    unfolded += kUseBytes + copy.tensor.size() + copy.device.size();
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    account.copies.push_back(std::move(copy));
  }
  return account;
}

Result<ServerAccount> Read(const fb::ServerAccount& m) {
  ServerAccount account{m.received(), m.sent(), m.cpu_us(), {}};
  if (m.ways() == nullptr) return account;
  // The limits also bound what a list whose entries share their parts unfolds to.
  if (m.ways()->size() > kWaysMax) return Malformed("too many ways of connections");
  for (const fb::Way* one : *m.ways()) {
    Way way{Text(one->over()), one->connections(), Numbers(one->slots())};
    if (way.slots.size() > kMembersMax) return Malformed("a way of too many workers");
    account.ways.push_back(std::move(way));
  }
  return account;
}

Result<Message> Decode(const fb::Alive& m, size_t message_bytes) {
  Alive alive;
  if (m.account() != nullptr) {
    Result<Account> account = Read(*m.account(), message_bytes);
    if (!account.ok()) return account.status();
    alive.account = std::move(account).value();
  }
  if (m.server() != nullptr) {
    Result<ServerAccount> server = Read(*m.server());
    if (!server.ok()) return server.status();
    alive.server = std::move(server).value();
  }
  std::optional<std::vector<NamedUse>> asked = ReadNamedUses(m.asked(), message_bytes);
  if (!asked.has_value()) return Malformed("a list with shared parts");
  alive.asked = *std::move(asked);
  size_t unfolded = 0;
  for (size_t i = 0; m.notes() != nullptr && i < m.notes()->size(); ++i) {
    const fb::UseNote& one = *m.notes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (one.use() == nullptr) return Malformed("a note about nothing");
    UseNote note{ReadNamed(*one.use()), Text(one.others()), one.quiet_ms()};
    unfolded += kUseBytes + note.use.name.size() + note.others.size();
    if (unfolded > message_bytes) return Malformed("a list with shared parts");
    alive.notes.push_back(std::move(note));
  }
  return Message(std::move(alive));
}

Result<Message> Decode(const fb::Unbegun& m, size_t message_bytes) {
  if (m.stuck() == nullptr) return Malformed("a question about nothing");
  std::optional<std::vector<NamedUse>> uses = ReadNamedUses(m.uses(), message_bytes);
  if (!uses.has_value()) return Malformed("a list with shared parts");
  return Message(Unbegun{ReadNamed(*m.stuck()), *std::move(uses)});
}

Rates Read(const fb::Rates& m) {
  Rates rates{m.epoch(), {}, m.burst_bytes(), m.burst_us()};
  for (const fb::ShardRate& one : Elements<fb::ShardRate>(m.shards())) {
    rates.shards.push_back({one.shard(), one.bytes(), one.busy_us(), one.active_us()});
  }
  return rates;
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
    case fb::Body_StillKnown: return Message(Read(*message->body_as_StillKnown()));
    case fb::Body_Sync: return Message(ReadPoint<Sync>(*message->body_as_Sync()));
    case fb::Body_GoOn: return Message(ReadPoint<GoOn>(*message->body_as_GoOn()));
    case fb::Body_Declare: return Decode(*message->body_as_Declare());
    case fb::Body_Declared: return Message(Read(*message->body_as_Declared()));
    case fb::Body_DeclareFailed: return Wrap(Read(*message->body_as_DeclareFailed(), bytes.size()));
    case fb::Body_Leave: return Message(Leave{message->body_as_Leave()->clean()});
    case fb::Body_Alive: return Decode(*message->body_as_Alive(), bytes.size());
    case fb::Body_Suspect: return Decode(*message->body_as_Suspect());
    case fb::Body_Overdue: return Decode(*message->body_as_Overdue(), bytes.size());
    case fb::Body_Unbegun: return Decode(*message->body_as_Unbegun(), bytes.size());
    case fb::Body_JobOver: return DecodeCodeAndText<JobOver>(*message->body_as_JobOver());
    case fb::Body_Rates: return Message(Read(*message->body_as_Rates()));
    case fb::Body_LetGo: return Message(LetGo{Numbers(message->body_as_LetGo()->tensors())});
    case fb::Body_Forgotten: return Decode(*message->body_as_Forgotten(), bytes.size());
    case fb::Body_NONE: break;
  }
  return Malformed("unknown kind");
}

}  // namespace byteps::wire
