#include "src/machine/serverless/local_carrier.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/sum_place.h"
#include "src/plan/piece_assigner.h"

namespace byteps::machine {
namespace {

constexpr TensorId kTensorsMax = UINT32_MAX - 2;

// Returns the number by which a member is told apart. The job's status uses 0 for servers.
uint64_t MemberOf(uint32_t rank) { return uint64_t{rank} + 1; }

protocol::Declarations::Rank RankOf(uint32_t rank) { return {MemberOf(rank), rank}; }

// Local ranks are the ranks of the job.
std::vector<uint32_t> AllRanks(uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

}  // namespace

Status WasLost(uint32_t rank, const std::string& why) {
  return {StatusCode::kPeerLost, "worker " + std::to_string(rank) + " was lost: " + why +
                                     "; the job needs all its workers: start it again from a "
                                     "checkpoint"};
}

LocalCarrier::LocalCarrier(local::Window& window, const LocalCarrierOptions& options, Say say)
    : options_(options),
      window_(window),
      say_(std::move(say)),
      blocks_(window),
      rounds_(RoundEvents()),
      choice_(options.ranks, ChoiceEvents()),
      accounts_(options.report == nullptr ? Duration() : options.stall_after) {
  names_.Number(1, kTensorsMax);
  // All pieces go to the window, the only place.
  constexpr uint32_t kWeights[] = {1};
  names_.Begin(plan::PieceAssigner::Create(kWeights, options.piece_bytes_max).value(),
               options.ranks, options.piece_bytes_max);
  window_.SetPlaces(PlacesOf(AllRanks(options.ranks), options.sum_group),
                    kernels::NodesFor(options.same_bits));
}

LocalRounds::Events LocalCarrier::RoundEvents() {
  LocalRounds::Events events;
  events.complete = [this](const RoundKey& key, const CompleteRound& round) {
    return OnComplete(key, round);
  };
  events.break_off = [this](const RoundKey& key) { return blocks_.BreakOff(key); };
  events.failed = [this](const RoundKey& key, RankSet to, const Status& why) {
    SayTo(to, Failed{key, why});
  };
  events.waits = [this](const CompleteRound& round) {
    return MayLaunch(round) && !choice_.is_decided();
  };
  return events;
}

SumsChoice::Events LocalCarrier::ChoiceEvents() {
  SumsChoice::Events events;
  events.plan = options_.plan;
  events.say_so = [this](uint32_t rank, const SumsSo& word) { say_(rank, word); };
  events.say_over = [this](uint32_t rank, const GroupOver& word) { say_(rank, word); };
  events.tell = options_.tell;
  events.decided = [this](const std::vector<plan::DeviceGroup>& groups) {
    if (!groups.empty()) blocks_.SetGroups(groups, options_.units);
    rounds_.LookAtAll();
  };
  return events;
}

// Returns whether groups can sum the round: every rank takes part, with memory on its device.
// Integers whose sum might wrap are averaged in the window.
bool LocalCarrier::MayLaunch(const CompleteRound& round) const {
  const LocalFacts& facts = round.facts;
  const RankSet all = FirstRanks(options_.ranks);
  const bool has_bytes = !facts.pieces.empty() && facts.pieces[0].bytes != 0;
  return round.on_device == all && round.ranks == all && rounds_.left() == 0 && has_bytes &&
         device::CanReduceAll(facts.type, facts.how);
}

void LocalCarrier::OnWord(uint32_t rank, const LocalWords::ToCarrier& word, Time now) {
  now_ = now;
  std::visit([&](const auto& one) { On(rank, one); }, word);
}

// A small round overtakes the rounds that wait for blocks: to combine it costs less than to ask
// which round is more urgent.
bool LocalCarrier::OnComplete(const RoundKey& key, const CompleteRound& round) {
  if (choice_.has_groups() && MayLaunch(round)) {
    blocks_.Add(key, round, true);
    return false;
  }
  const std::vector<LocalFacts::Run>& pieces = round.facts.pieces;
  if (pieces.size() == 1 && pieces[0].count == 1) {
    local::BlockUse use = UseFor(key, round.facts, round.ranks, round.last, pieces[0].bytes);
    window_.PlanSum(use.bring, tree_);
    if (options_.small.Combine(use, round.parts, tree_)) {
      SayTo(round.ranks, Combined{key, round.ranks});
      return true;
    }
  }
  blocks_.Add(key, round);
  return false;
}

bool LocalCarrier::Admit() {
  bool did = blocks_.Admit();
  for (const auto& [ranks, launch] : blocks_.TakeLaunches()) {
    SayTo(ranks, launch);
    did = true;
  }
  for (const RoundKey& key : blocks_.TakeOver()) rounds_.OnOver(key);
  return did;
}

void LocalCarrier::On(uint32_t rank, const Leaves&) {
  rounds_.OnLeft(rank);
  blocks_.StopLaunches();
  choice_.End(Status::Ok());
  names_.ForgetOverdue([&](uint64_t member) { return member == MemberOf(rank); });
  accounts_.ForgetIf([&](uint64_t member) { return member == MemberOf(rank); });
  say_(rank, MayLeave());
}

// The rounds that are under way in groups end in an error, but for those that end just now: then
// each rank that lacks the sum says so. Later ones go through the window.
void LocalCarrier::On(uint32_t rank, const Broken& word) {
  blocks_.StopLaunches();
  const Status why = choice_.OnBroken(rank, word);
  if (why.ok()) return;
  for (const RoundKey& key : blocks_.RoundsOfGroups()) rounds_.OnAbort(rank, {key, why});
}

void LocalCarrier::On(uint32_t rank, const GaveUp& word) {
  SayTo(FirstRanks(options_.ranks), JobOver{WasLost(rank, word.why)});
}

void LocalCarrier::On(uint32_t rank, const wire::Message& message) {
  if (const auto* declare = std::get_if<wire::Declare>(&message)) {
    Deliver(names_.OnDeclare(RankOf(rank), *declare));
  } else if (const auto* let_go = std::get_if<wire::LetGo>(&message)) {
    Deliver(names_.OnLetGo(RankOf(rank), *let_go));
  } else if (const auto* overdue = std::get_if<wire::Overdue>(&message)) {
    Deliver(names_.OnOverdue(RankOf(rank), *overdue));
  } else if (const auto* answer = std::get_if<wire::Unbegun>(&message)) {
    bool more = names_.OnUnbegun(RankOf(rank), *answer);
    if (more && !judge_at_.has_value()) judge_at_ = now_ + options_.judge_after;
  } else if (const auto* alive = std::get_if<wire::Alive>(&message)) {
    if (!alive->account.has_value() || Has(rounds_.left(), rank)) return;
    accounts_.Take(rank, MemberOf(rank), *alive->account, now_);
    if (accounts_.asked().empty()) return;
    auto names = [this](uint32_t one) { return NameOf(one); };
    say_(rank,
         wire::Message(wire::Alive{{}, accounts_.asked(), accounts_.NotesFor(rank, now_, names)}));
  }
}

// If somebody looks at the status, ranks give an account as often as members of a job with servers.
protocol::JobStatus LocalCarrier::Describe(Time now) const {
  protocol::JobStatus status;
  status.epoch = 1;
  status.generation = 1;
  status.workers_expected = options_.ranks;
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    protocol::MemberStatus one;
    one.index = rank;
    one.process = ProcessOf(rank);
    one.node = options_.node;
    auto teller = accounts_.tellers().find(rank);
    if (teller != accounts_.tellers().end()) one.silent = now - teller->second.at;
    if (Has(rounds_.left(), rank)) {
      one.state = protocol::MemberState::kLeft;
    } else {
      protocol::AddAccount(accounts_, one);
      const Duration most = std::max<Duration>(protocol::kSilentAfter,
                                               options_.account_every + protocol::kSilentAfter / 2);
      if (one.silent > most) one.state = protocol::MemberState::kSilent;
    }
    status.members.push_back(std::move(one));
  }
  status.waits = accounts_.Waits(now);
  status.names = names_.NamesOf(protocol::TensorsIn(status));
  return status;
}

std::optional<Time> LocalCarrier::NextTick() const {
  std::optional<Time> report = accounts_.NextDue();
  if (!judge_at_.has_value() || !report.has_value())
    return judge_at_.has_value() ? judge_at_ : report;
  return std::min(*judge_at_, *report);
}

void LocalCarrier::OnTick(Time now) {
  now_ = now;
  if (judge_at_.has_value() && *judge_at_ <= now) {
    judge_at_.reset();
    Deliver(names_.JudgeStuck());
  }
  std::optional<Time> report = accounts_.NextDue();
  if (!report.has_value() || now < *report) return;
  auto names = [this](uint32_t rank) { return NameOf(rank); };
  for (const std::string& line : accounts_.Report(now, names)) options_.report(line);
}

uint32_t LocalCarrier::ProcessOf(uint32_t rank) const {
  return rank < options_.processes.size() ? options_.processes[rank] : 0;
}

std::string LocalCarrier::NameOf(uint32_t rank) const {
  const std::string name = "worker " + std::to_string(rank);
  const uint32_t process = ProcessOf(rank);
  if (process == 0) return name;
  return name + " (process " + std::to_string(process) + " on " + options_.node + ")";
}

void LocalCarrier::Close() {
  RankSet gone = rounds_.left();
  for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
    if (!Has(gone, rank)) say_(rank, CarrierLeaves());
  }
}

void LocalCarrier::SayTo(RankSet ranks, const LocalWords::ToRank& word) {
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (Has(ranks, rank)) say_(rank, word);
  }
}

void LocalCarrier::Deliver(const protocol::Declarations::Answers& answers) {
  for (const protocol::Declarations::Answer& answer : answers) {
    if (const auto* failed = std::get_if<wire::DeclareFailed>(&answer.message)) {
      for (TensorId tensor : failed->tensors) rounds_.Retire(tensor, failed->use.round);
    }
    if (const auto* forgotten = std::get_if<wire::Forgotten>(&answer.message)) {
      for (TensorId tensor : forgotten->tensors) rounds_.Forget(tensor);
    }
    if (answer.to == protocol::Declarations::kServers) continue;
    say_(static_cast<uint32_t>(answer.to - 1), answer.message);
  }
}

}  // namespace byteps::machine
