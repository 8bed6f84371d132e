// Writes control messages as bytes; control_decode.cc reads them.
#include "src/wire/control.h"

#include "src/wire/control_generated.h"

namespace byteps::wire {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
using BodyOffset = flatbuffers::Offset<void>;

struct Encoded {
  fb::Body kind;
  BodyOffset body;
};

// Writes a list of texts. An empty one, as of hosts with one interface, is absent.
auto Strings(Builder& b, const std::vector<std::string>& texts) {
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> list;
  if (!texts.empty()) list = b.CreateVectorOfStrings(texts);
  return list;
}

flatbuffers::Offset<fb::Join> Table(Builder& b, const Join& m) {
  auto host = b.CreateString(m.host);
  auto address = b.CreateString(m.address);
  auto version = b.CreateString(m.version);
  auto node = b.CreateString(m.node);
  flatbuffers::Offset<flatbuffers::String> contributor;  // absent for most
  if (!m.contributor.empty()) contributor = b.CreateString(m.contributor);
  auto more_addresses = Strings(b, m.more_addresses);
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> local_sizes;  // absent for servers
  if (!m.local_sizes.empty()) local_sizes = b.CreateVector(m.local_sizes);
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
  join.add_contributor(contributor);
  join.add_contributor_size(m.contributor_size);
  join.add_machines_sum(m.machines_sum);
  join.add_meets(m.meets);
  join.add_more_addresses(more_addresses);
  join.add_local_sizes(local_sizes);
  join.add_takes_objects(m.takes_objects);
  join.add_same_bits(m.same_bits);
  join.add_sum_group(m.sum_group);
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
                                       s.since, b.CreateVector(s.placed_weights),
                                       Strings(b, s.more_addresses)));
  }
  auto workers = Table(b, m.workers);
  auto server_list = b.CreateVector(servers);
  auto gone = Table(b, m.gone);
  return fb::CreateView(b, m.epoch, m.generation, m.began, m.piece_bytes_max, workers, server_list,
                        gone, m.founder, m.placed, m.same_bits, m.sum_group);
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
                        spec.process_set, detail, spec.codec);
}

flatbuffers::Offset<fb::Declared> Table(Builder& b, const Declared& m) {
  auto name = b.CreateString(m.name);
  auto placement = b.CreateVector(m.placement);
  return fb::CreateDeclared(b, name, m.process_set, m.attempt, m.tensor, placement, m.lifetime);
}

flatbuffers::Offset<fb::Use> Table(Builder& b, const Use& m) {
  return fb::CreateUse(b, m.process_set, m.attempt, m.round, 0, m.lifetime);
}

flatbuffers::Offset<fb::Use> Table(Builder& b, const NamedUse& m) {
  auto name = b.CreateString(m.name);
  return fb::CreateUse(b, m.use.process_set, m.use.attempt, m.use.round, name, m.use.lifetime);
}

template <typename Uses>
auto UseTables(Builder& b, const Uses& uses) {
  std::vector<flatbuffers::Offset<fb::Use>> tables;
  for (const auto& use : uses) tables.push_back(Table(b, use));
  return b.CreateVector(tables);
}

flatbuffers::Offset<fb::DeclareFailed> Table(Builder& b, const DeclareFailed& m) {
  auto name = b.CreateString(m.name);
  auto use = Table(b, m.use);
  auto tensors = b.CreateVector(m.tensors);
  auto text = b.CreateString(m.text);
  return fb::CreateDeclareFailed(b, name, use, tensors, static_cast<uint8_t>(m.code), text,
                                 UseTables(b, m.also));
}

Encoded Encode(Builder& b, const Declare& m) {
  auto name = b.CreateString(m.name);
  auto spec = Table(b, m.spec);
  return {fb::Body_Declare,
          fb::CreateDeclare(b, name, m.attempt, spec, m.round, m.lifetime).Union()};
}

Encoded Encode(Builder& b, const Declared& m) { return {fb::Body_Declared, Table(b, m).Union()}; }

Encoded Encode(Builder& b, const DeclareFailed& m) {
  return {fb::Body_DeclareFailed, Table(b, m).Union()};
}

Encoded Encode(Builder& b, const Known& m) {
  std::vector<flatbuffers::Offset<fb::KnownTensor>> tensors;
  for (const KnownTensor& known : m.tensors) {
    auto declared = Table(b, known.declared);
    auto spec = Table(b, known.spec);
    tensors.push_back(fb::CreateKnownTensor(b, declared, spec, known.let_go));
  }
  std::vector<flatbuffers::Offset<fb::DeclareFailed>> failed;
  for (const DeclareFailed& one : m.failed) failed.push_back(Table(b, one));
  auto tensor_list = b.CreateVector(tensors);
  return {fb::Body_Known, fb::CreateKnown(b, tensor_list, b.CreateVector(failed)).Union()};
}

Encoded Encode(Builder& b, const StillKnown& m) {
  auto tensors = b.CreateVector(m.tensors);
  return {fb::Body_StillKnown, fb::CreateStillKnown(b, m.first, m.end, tensors).Union()};
}

Encoded Encode(Builder& b, const LetGo& m) {
  return {fb::Body_LetGo, fb::CreateLetGo(b, b.CreateVector(m.tensors)).Union()};
}

Encoded Encode(Builder& b, const Forgotten& m) {
  auto tensors = b.CreateVector(m.tensors);
  std::vector<flatbuffers::Offset<fb::Lifetime>> lifetimes;
  for (const LifetimeNumber& one : m.lifetimes) {
    auto name = b.CreateString(one.name);
    lifetimes.push_back(fb::CreateLifetime(b, name, one.process_set, one.number));
  }
  auto lifetime_list = b.CreateVector(lifetimes);
  return {fb::Body_Forgotten, fb::CreateForgotten(b, tensors, lifetime_list).Union()};
}

auto ProcessSetTables(Builder& b, const std::vector<ProcessSetRanks>& all) {
  std::vector<flatbuffers::Offset<fb::ProcessSet>> process_sets;
  for (const ProcessSetRanks& one : all) {
    process_sets.push_back(fb::CreateProcessSet(b, one.number, b.CreateVector(one.ranks)));
  }
  return b.CreateVector(process_sets);
}

Encoded Encode(Builder& b, const Overdue& m) {
  std::vector<flatbuffers::Offset<fb::OverdueUse>> uses;
  for (const OverdueUse& one : m.uses) {
    auto name = b.CreateString(one.name);
    auto use = Table(b, one.use);
    auto elsewhere = UseTables(b, one.elsewhere);
    uses.push_back(fb::CreateOverdueUse(b, name, use, one.tensor, elsewhere, one.stuck));
  }
  auto process_sets = ProcessSetTables(b, m.process_sets);
  auto use_list = b.CreateVector(uses);
  return {fb::Body_Overdue, fb::CreateOverdue(b, use_list, process_sets).Union()};
}

Encoded Encode(Builder& b, const Unbegun& m) {
  auto stuck = Table(b, m.stuck);
  return {fb::Body_Unbegun, fb::CreateUnbegun(b, stuck, UseTables(b, m.uses)).Union()};
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

auto CopyTables(Builder& b, const std::vector<SlowCopy>& copies) {
  std::vector<flatbuffers::Offset<fb::SlowCopy>> list;
  for (const SlowCopy& one : copies) {
    auto tensor = b.CreateString(one.tensor);
    auto device = b.CreateString(one.device);
    list.push_back(fb::CreateSlowCopy(b, tensor, device, one.to_device, one.age_ms));
  }
  return b.CreateVector(list);
}

flatbuffers::Offset<fb::Account> Table(Builder& b, const Account& m) {
  std::vector<flatbuffers::Offset<fb::UseState>> uses;
  for (const UseState& one : m.uses) {
    auto use = Table(b, one.use);
    uses.push_back(fb::CreateUseState(b, use, one.tensor, static_cast<uint8_t>(one.stage),
                                      one.age_ms, one.left_ms));
  }
  std::vector<uint32_t> tensors, us;
  std::vector<uint64_t> rounds;
  for (const Took& one : m.took) {
    tensors.push_back(one.tensor);
    rounds.push_back(one.round);
    us.push_back(one.us);
  }
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::SlowCopy>>> copies;
  if (!m.copies.empty()) copies = CopyTables(b, m.copies);
  auto use_list = b.CreateVector(uses);
  auto process_sets = ProcessSetTables(b, m.process_sets);
  auto tensor_list = b.CreateVector(tensors);
  auto round_list = b.CreateVector(rounds);
  return fb::CreateAccount(b, m.ended, m.failed, m.bytes, m.open, m.idle_ms, use_list, process_sets,
                           tensor_list, round_list, b.CreateVector(us), m.waited_us, copies);
}

flatbuffers::Offset<fb::ServerAccount> Table(Builder& b, const ServerAccount& m) {
  std::vector<flatbuffers::Offset<fb::Way>> ways;
  for (const Way& one : m.ways) {
    auto over = b.CreateString(one.over);
    auto slots = b.CreateVector(one.slots);
    ways.push_back(fb::CreateWay(b, over, one.connections, slots));
  }
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Way>>> list;
  if (!ways.empty()) list = b.CreateVector(ways);
  return fb::CreateServerAccount(b, m.received, m.sent, m.cpu_us, list);
}

Encoded Encode(Builder& b, const Alive& m) {
  flatbuffers::Offset<fb::Account> account;
  if (m.account.has_value()) account = Table(b, *m.account);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Use>>> asked;
  if (!m.asked.empty()) asked = UseTables(b, m.asked);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::UseNote>>> notes;
  if (!m.notes.empty()) {
    std::vector<flatbuffers::Offset<fb::UseNote>> list;
    for (const UseNote& one : m.notes) {
      auto use = Table(b, one.use);
      auto others = b.CreateString(one.others);
      list.push_back(fb::CreateUseNote(b, use, others, one.quiet_ms));
    }
    notes = b.CreateVector(list);
  }
  flatbuffers::Offset<fb::ServerAccount> server;
  if (m.server.has_value()) server = Table(b, *m.server);
  return {fb::Body_Alive, fb::CreateAlive(b, account, asked, notes, server).Union()};
}

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

Encoded Encode(Builder& b, const Rates& m) {
  std::vector<fb::ShardRate> shards;
  for (const ShardRate& one : m.shards) {
    shards.emplace_back(one.bytes, one.busy_us, one.active_us, one.shard);
  }
  auto list = b.CreateVectorOfStructs(shards);
  return {fb::Body_Rates, fb::CreateRates(b, m.epoch, list, m.burst_bytes, m.burst_us).Union()};
}

}  // namespace

Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

bool operator==(const Message& a, const Message& b) {
  return static_cast<const Message::variant&>(a) == static_cast<const Message::variant&>(b);
}

std::vector<std::byte> EncodeControl(const Message& message) {
  Builder builder;
  Encoded encoded = std::visit([&](const auto& m) { return Encode(builder, m); }, message);
  builder.Finish(fb::CreateMessage(builder, encoded.kind, encoded.body));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

}  // namespace byteps::wire
