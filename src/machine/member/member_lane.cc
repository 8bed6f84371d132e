#include "src/machine/member/member_lane.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace byteps::machine {
namespace {

using local::Decision;

// The smallest span that contains several spans of one piece, which lie one behind the other.
class Hull {
 public:
  void Add(uint32_t offset, size_t bytes) {
    if (bytes == 0) return;
    begin_ = end_ == 0 ? offset : std::min(begin_, offset);
    end_ = std::max(end_, offset + static_cast<uint32_t>(bytes));
  }
  uint32_t offset() const { return begin_; }
  uint32_t bytes() const { return end_ - begin_; }

 private:
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
};

bool IsAlike(const MemberFacts::Run& one, MemberFacts::Run other) {
  other.count = one.count;
  return one == other;
}

// The groups have ended behind the reduce of a unit, and the servers have answered all the same.
Status NotGathered() {
  return {StatusCode::kUnavailable,
          "the GPUs of this machine have ended their group before this rank had the whole sum"};
}

}  // namespace

MemberLane::MemberLane(local::Window& window, BlockTransfers* transfers, Events events,
                       Mover* mover, Launcher* launcher)
    : window_(window),
      rank_(window.rank()),
      transfers_(transfers),
      events_(std::move(events)),
      work_(window,
            {[this](const local::AdmittedUse& at) { return Find(at); },
             [this](BlockWork::Taken& taken) { Fill(taken); },
             [this](BlockWork::Taken& taken, bool is_sum) { Take(taken, is_sum); },
             [this](const BlockWork::Taken& taken, const Status& why) { OnFillFailed(taken, why); },
             [this](BlockWork::Taken& taken, const Status& how) { OnTaken(taken, how); },
             [this](const BlockWork::Taken& taken) { return InputOf(taken); }},
            mover),
      launches_(window, launcher, LaneOfLaunches()) {}

void MemberLane::OnMail(const protocol::LaneMail& mail) {
  std::visit([this](const auto& one) { On(one); }, mail);
}

void MemberLane::On(const protocol::to_lane::View& mail) {
  const wire::View& view = *mail.view;
  bool begins = epoch_ == 0 || view.generation != generation_;
  epoch_ = view.epoch;
  generation_ = view.generation;
  if (!begins) {
    protocol::to_front::HandOver nothing{0, view.epoch, {}};
    nothing.pieces.resize(1);
    return events_.tell_front(std::move(nothing));
  }
  std::vector<uint32_t> ranks;
  const std::vector<wire::WorkerInfo> workers = wire::WorkersOfGeneration(view);
  for (const wire::WorkerInfo& worker : workers) ranks.push_back(worker.rank);
  machine_ranks_.Take(workers, mail.slot);
  std::ranges::sort(ranks);
  sets_.clear();
  told_homes_.clear();
  sets_[0] = SetOf(ranks);
}

// `ranks`: all ranks of the set, ascending.
MemberLane::Set MemberLane::SetOf(const std::vector<uint32_t>& ranks) const {
  Set set;
  for (uint32_t place = 0; place < ranks.size(); ++place) {
    const std::optional<uint32_t> local_rank = machine_ranks_.LocalRankOf(ranks[place]);
    if (!local_rank.has_value()) continue;
    set.ranks |= Bit(*local_rank);
    set.places.push_back(place);
  }
  return set;
}

void MemberLane::On(const protocol::to_lane::AddProcessSet& mail) {
  if (mail.ranks.empty()) return;  // a set without this rank
  std::vector<uint32_t> ranks = mail.ranks.List();
  sets_[mail.number] = SetOf(ranks);
  events_.say(member::SetAdded{mail.number, mail.slots.List(), std::move(ranks)});
}

void MemberLane::On(const protocol::to_lane::RemoveProcessSet& mail) {
  if (sets_.erase(mail.number) != 0) events_.say(member::SetRemoved{mail.number});
}

void MemberLane::On(const protocol::to_lane::Joined& mail) {
  if (mail.number != 0) events_.say(member::Joined{mail.number});
}

MemberFacts MemberLane::FactsOf(const protocol::Exchange& exchange) {
  const Set& set = sets_.at(exchange.tensor.process_set);
  MemberFacts facts;
  facts.name = exchange.name;
  facts.ranks = set.ranks;
  facts.how = exchange.tensor.combine;
  facts.type = exchange.tensor.dtype;
  facts.codec = exchange.tensor.codec;
  facts.process_set = exchange.tensor.process_set;
  facts.root = exchange.root.value_or(kNoRank);
  facts.priority = exchange.priority;
  facts.order = exchange.order;
  facts.atomic = exchange.atomic;
  facts.others_wait = exchange.others_wait;
  // In a sum all ranks bring and want the same.
  const bool alike = exchange.tensor.combine != Combine::kOverlay && !exchange.others_wait;
  const size_t places = alike ? 1 : set.places.size();
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    Hull push;
    Hull want;
    uint32_t bytes = 0;
    for (size_t i = 0; i < places; ++i) {
      protocol::Spans spans = exchange.spans->SpansOfPlace(number, set.places[i]);
      bytes = spans.piece_bytes;
      push.Add(spans.push_offset, spans.push.size());
      want.Add(spans.want_offset, spans.want.size());
    }
    MemberFacts::Run run{1, bytes, push.offset(), push.bytes(), want.offset(), want.bytes()};
    if (facts.pieces.empty() || !IsAlike(facts.pieces.back(), run)) {
      facts.pieces.push_back(run);
    } else {
      ++facts.pieces.back().count;
    }
  }
  size_t& told = told_homes_[exchange.tensor.id];
  if (told < exchange.homes->size()) facts.homes = *exchange.homes;
  told = std::max(told, exchange.homes->size());
  return facts;
}

void MemberLane::On(const protocol::to_lane::Begin& mail) {
  const protocol::Exchange& exchange = *mail.exchange;
  RoundKey key = KeyOf(exchange);
  Round& round = open_.Begin(exchange);
  member::Begun begun{key, FactsOf(exchange)};
  if (exchange.count > 0) {
    protocol::Spans first = exchange.spans->SpansOf(exchange.first_piece);
    begun.push_offset = first.push_offset;
    begun.push_bytes = static_cast<uint32_t>(first.push.size());
  }
  begun.operations = OperationsOf(exchange);
  if (exchange.no_input != nullptr) begun.no_input = *exchange.no_input;
  begun.on_device = round.extra.group.on_device = launches_.Takes(exchange);
  events_.say(begun);
}

void MemberLane::On(const protocol::to_lane::Withdraw& mail) {
  const auto key = open_.KeyOf(mail.exchange->serial);
  if (key.has_value() && is_leaving_ && open_.Find(*key)->extra.group.on_device) {
    return withdrawn_.push_back(mail.exchange);
  }
  if (key.has_value()) open_.End(*key);
  events_.tell_front(ReleasedOf(*mail.exchange));
}

void MemberLane::OnLeaves() {
  ignores_answers_ = true;
  is_leaving_ = true;
}

void MemberLane::OnMayLeave() {
  is_leaving_ = false;
  for (const protocol::Exchange* exchange : std::exchange(withdrawn_, {})) {
    On(protocol::to_lane::Withdraw{exchange});
  }
}

void MemberLane::On(const protocol::to_lane::Abort& mail) {
  if (auto key = open_.KeyOf(mail.serial); key.has_value()) events_.say(Abort{*key, mail.why});
}

void MemberLane::On(const protocol::to_lane::Retire& mail) {
  for (TensorId tensor : mail.tensors) told_homes_.erase(tensor);
  events_.say(member::Retired{mail.tensors});
}

void MemberLane::On(const protocol::to_lane::Forget& mail) {
  for (TensorId tensor : mail.tensors) told_homes_.erase(tensor);
  events_.say(member::Forgotten{mail.tensors});
}

void MemberLane::On(const protocol::to_lane::Settle& mail) {
  events_.say(member::AsksSettled{mail.question});
}

// Ends the exchange. All blocks of the round that named this rank are over.
void MemberLane::OnEnded(const member::Ended& ended, Time now) {
  Round* round = open_.Find(ended.key);
  if (round == nullptr || ignores_answers_) return;
  round->extra.end = ended;
  if (round->extra.group.launches == 0) Finish(ended.key, *round, now);
}

void MemberLane::Finish(const RoundKey& key, Round& round, Time now) {
  const member::Ended ended = *round.extra.end;
  Status lack = round.extra.group.not_gathered;
  if (lack.ok() && round.extra.group.partial_units > 0) lack = NotGathered();
  if (ended.status.ok() && !lack.ok()) GiveUp(round.extra, *round.exchange, lack);
  const Status& failure = round.extra.failure;
  const Status how = ended.status.ok() ? failure : ended.status;
  protocol::to_front::PartDone part = PartOf(*round.exchange, how, now);
  if (how.ok()) {
    auto receipt = std::make_shared<SlotSet>();
    for (uint32_t slot : ended.receipt) receipt->Insert(slot);
    part.receipt = std::move(receipt);
    part.mixed = ended.mixed && !round.exchange->atomic;  // the carrier has tried again
  }
  open_.End(key);
  events_.tell_front(std::move(part));
}

const protocol::Exchange* MemberLane::Find(const local::AdmittedUse& at) {
  const Round* round = open_.Find(KeyOfTransfer(at.use));
  return round == nullptr ? nullptr : round->exchange;
}

void MemberLane::Fill(BlockWork::Taken& taken) {
  const local::AdmittedUse& at = taken.at;
  if (!Has(at.use.bring, rank_) || window_.decision(at) != Decision::kOpen) return;
  if (Spreads(at.use)) {
    if (transfers_ != nullptr && transfers_->Fill(at, window_.Part(at))) return window_.Filled(at);
    (void)window_.Withdraw(at);
  } else if (taken.exchange == nullptr) {
    // The operation has ended early here, so it ends in an error everywhere.
    (void)window_.Withdraw(at);
  } else {
    work_.CopyIn(taken, IsByGroup(at.use));
  }
}

// A home fills a block when its group has reduced the unit.
BlockWork::Input MemberLane::InputOf(const BlockWork::Taken& taken) {
  const local::BlockUse& use = taken.at.use;
  using Input = BlockWork::Input;
  if (!IsByGroup(use) || Spreads(use) || !Has(use.bring, rank_)) return Input::kHere;
  const GroupLaunches::Progress& progress = open_.Find(KeyOfTransfer(use))->extra.group;
  if (use.piece < progress.reduced_end) return Input::kHere;
  return progress.no_sum.ok() ? Input::kLater : Input::kNever;
}

void MemberLane::Take(BlockWork::Taken& taken, bool is_sum) {
  const local::AdmittedUse& at = taken.at;
  if (Spreads(at.use)) {
    const bool is_for_others = IsByGroup(at.use) && transfers_ != nullptr;
    if (!is_sum || taken.exchange == nullptr) return;
    if (ignores_answers_ && !IsByGroup(at.use)) return;
    if (is_for_others && !transfers_->IsHome(at.use)) return;
    (void)work_.CopyOut(taken);
  } else if (transfers_ != nullptr) {
    transfers_->Take(at, is_sum, is_sum ? window_.ResultOf(at) : ConstByteSpan());
  }
}

// The round ends in this error for all ranks of the job. The carrier withdraws the block.
void MemberLane::OnFillFailed(const BlockWork::Taken& taken, const Status& why) {
  const RoundKey key = KeyOfTransfer(taken.at.use);
  Progress& progress = open_.Find(key)->extra;
  if (std::exchange(progress.says_why, true)) return;
  const uint32_t rank = machine_ranks_.RankOf(rank_);
  events_.say(Abort{key, ErrorOfNoInput(rank, *taken.exchange, why)});
}

// A home without the answer keeps the block, so that its unit is not gathered. If the rank leaves,
// its carrier ends the round in an error.
void MemberLane::OnTaken(BlockWork::Taken& taken, const Status& how) {
  if (how.ok()) return;
  if (IsByGroup(taken.at.use)) taken.state = BlockWork::Taken::State::kKept;
  if (is_leaving_) return;
  GiveUp(open_.Find(KeyOfTransfer(taken.at.use))->extra, *taken.exchange, how);
}

// A rank without the result that the others have cannot go on.
void MemberLane::GiveUp(Progress& progress, const protocol::Exchange& exchange, const Status& how) {
  if (!progress.failure.ok()) return;
  progress.failure = ErrorOfNoResult(exchange, how);
  events_.tell_front(protocol::to_front::GivesUp{progress.failure});
}

Result<bool> MemberLane::Step(Time now) {
  now_ = now;
  if (launches_.Look()) return true;
  return work_.Step();
}

GroupLaunches::Lane MemberLane::LaneOfLaunches() {
  GroupLaunches::Lane lane = LaneOver(open_, events_.say);
  lane.ended = [this](const RoundKey& key) { OnLaunchEnd(key); };
  lane.names = [this](RankSet ranks) { return machine_ranks_.NamesOf(ranks); };
  lane.planned = events_.planned;
  if (transfers_ != nullptr) lane.any_ended = [this] { transfers_->OnLaunchEnd(); };
  return lane;
}

void MemberLane::OnLaunchEnd(const RoundKey& key) {
  Round& round = *open_.Find(key);
  const Progress& progress = round.extra;
  if (progress.end.has_value() && progress.group.launches == 0 && !ignores_answers_) {
    Finish(key, round, now_);
  }
}

}  // namespace byteps::machine
