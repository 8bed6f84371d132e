#include "src/machine/serverless/local_lane.h"

#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

namespace byteps::machine {
namespace {

using local::Decision;

RoundKey KeyOf(const local::BlockUse& use) {
  return {use.tensor, use.round, use.generation & ~(kByGroup | kDecides)};
}

std::string NamesOf(RankSet ranks) {
  std::string text;
  for (; ranks != 0; ranks &= ranks - 1) {
    text += (text.empty() ? "" : ", ") + std::to_string(std::countr_zero(ranks));
  }
  return text;
}

LocalFacts FactsOf(const protocol::Exchange& exchange, RankSet ranks) {
  LocalFacts facts;
  facts.ranks = ranks;
  facts.how = exchange.tensor.combine;
  facts.type = exchange.tensor.dtype;
  facts.root = exchange.root.value_or(kNoRank);
  facts.priority = exchange.priority;
  facts.order = exchange.order;
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    uint32_t bytes = exchange.spans->SpansOf(number).piece_bytes;
    if (facts.pieces.empty() || facts.pieces.back().bytes != bytes) {
      facts.pieces.push_back({0, bytes});
    }
    ++facts.pieces.back().count;
  }
  return facts;
}

}  // namespace

LocalLane::LocalLane(local::Window& window, uint32_t ranks, const SmallMemory& small, Events events,
                     Mover* mover, Launcher* launcher)
    : window_(window),
      rank_(window.rank()),
      rank_count_(ranks),
      small_(small),
      events_(std::move(events)),
      places_(small.places()),
      work_(window,
            {[this](const local::AdmittedUse& at) { return Find(at); },
             [this](BlockWork::Taken& taken) { Fill(taken); },
             [this](BlockWork::Taken& taken, bool is_sum) { Take(taken, is_sum); },
             [this](const BlockWork::Taken& taken, const Status& why) { OnFillFailed(taken, why); },
             [this](const BlockWork::Taken& taken, const Status& how) { OnTaken(taken, how); },
             [this](const BlockWork::Taken& taken) { return InputOf(taken); }},
            mover),
      launches_(window, launcher, LaneOfLaunches()) {}

GroupLaunches::Lane LocalLane::LaneOfLaunches() {
  GroupLaunches::Lane lane = LaneOver(open_, events_.say);
  lane.ended = [this](const RoundKey& key) {
    Round& round = *open_.Find(key);
    const bool ends = round.extra.end.has_value() && round.extra.group.launches == 0;
    if (ends) End(key, round, *round.extra.end, now_);
  };
  lane.names = NamesOf;  // local ranks are the ranks of the job
  lane.planned = events_.planned;
  lane.any_ended = events_.launch_ended;
  return lane;
}

void LocalLane::OnMail(const protocol::LaneMail& mail) {
  std::visit([this](const auto& one) { On(one); }, mail);
}

RankSet LocalLane::RanksOf(uint32_t set) const {
  if (auto found = sets_.find(set); found != sets_.end()) return found->second;
  return FirstRanks(rank_count_);
}

// Slots are ranks here.
void LocalLane::On(const protocol::to_lane::AddProcessSet& mail) {
  RankSet ranks = 0;
  for (Slot slot : mail.slots.List()) ranks |= Bit(slot);
  sets_[mail.number] = ranks;
}

void LocalLane::On(const protocol::to_lane::Joined& mail) {
  if (mail.number != 0) events_.say(Joined());
}

void LocalLane::On(const protocol::to_lane::Begin& mail) {
  const protocol::Exchange& exchange = *mail.exchange;
  RoundKey key = KeyOf(exchange);
  const bool is_here = exchange.no_input == nullptr && exchange.memory == Memory::kHost;
  const SmallPart part = is_here ? PutSmall(exchange) : SmallPart();
  open_.Begin(exchange).extra.part = part;
  Begun begun{key,
              FactsOf(exchange, RanksOf(exchange.tensor.process_set)),
              OperationsOf(exchange),
              part,
              {},
              launches_.Takes(exchange) && !exchange.atomic};
  if (exchange.no_input != nullptr) begun.no_input = *exchange.no_input;
  events_.say(begun);
}

// Puts the rank's bytes into a place. If there is no place, the round takes a block.
SmallPart LocalLane::PutSmall(const protocol::Exchange& exchange) {
  if (exchange.count != 1) return {};
  const protocol::Spans spans = exchange.spans->SpansOf(exchange.first_piece);
  if (spans.piece_bytes > kSmallBytesMax) return {};
  const std::optional<uint32_t> place = places_.Take();
  if (!place.has_value()) return {};
  if (!spans.push.empty()) {
    std::memcpy(small_.At(rank_, *place) + spans.push_offset, spans.push.data(), spans.push.size());
  }
  return {*place, static_cast<uint32_t>(spans.push_offset),
          static_cast<uint32_t>(spans.push.size())};
}

void LocalLane::On(const protocol::to_lane::Withdraw& mail) {
  if (auto key = open_.KeyOf(mail.exchange->serial); key.has_value()) LetGo(*key);
  events_.tell_front(ReleasedOf(*mail.exchange));
}

void LocalLane::On(const protocol::to_lane::Abort& mail) {
  if (auto key = open_.KeyOf(mail.serial); key.has_value()) events_.say(Abort{*key, mail.why});
}

// Answers at once: the bytes that others may lack of this rank lie in blocks that it has not
// released.
void LocalLane::On(const protocol::to_lane::Settle& mail) {
  events_.tell_front(protocol::to_front::Settled{mail.question});
}

void LocalLane::OnFailed(const Failed& failed, Time now) {
  Round* round = open_.Find(failed.key);
  if (round == nullptr) return;
  round->extra.end = failed.status;
  if (round->extra.group.launches == 0) End(failed.key, *round, failed.status, now);
}

Status LocalLane::OnCombined(const Combined& combined, Time now) {
  Round* round = open_.Find(combined.key);
  if (round == nullptr) return Status::Ok();
  const protocol::Exchange& exchange = *round->exchange;
  const protocol::Spans spans = exchange.spans->SpansOf(exchange.first_piece);
  const SmallPart& part = round->extra.part;
  if (part.place == kNoPlace) {
    return {StatusCode::kProtocol,
            "the carrier of this machine has combined a part that this rank "
            "did not bring: restart the job"};
  }
  if (!spans.want.empty()) {
    const std::byte* result = small_.At(rank_, part.place);
    std::memcpy(spans.want.data(), result + spans.want_offset, spans.want.size());
  }
  round->extra.ranks = combined.ranks;
  End(combined.key, *round, Status::Ok(), now);
  return Status::Ok();
}

void LocalLane::LetGo(const RoundKey& key, bool join_is_over) {
  const Progress progress = open_.End(key);
  if (progress.part.place != kNoPlace) places_.GiveBack(progress.part.place);
  if (events_.ended != nullptr) events_.ended(key, join_is_over);
}

void LocalLane::End(const RoundKey& key, const Round& round, const Status& how, Time now) {
  const protocol::Exchange& exchange = *round.exchange;
  protocol::to_front::PartDone part = PartOf(exchange, how, now);
  if (how.ok()) part.receipt = ReceiptOf(round.extra.ranks);
  LetGo(key, how.ok() && exchange.tensor.combine == Combine::kLast);
  events_.tell_front(std::move(part));
}

const Receipt& LocalLane::ReceiptOf(RankSet ranks) {
  if (receipt_ == nullptr || receipt_ranks_ != ranks) {
    auto receipt = std::make_shared<SlotSet>();
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      if (Has(ranks, rank)) receipt->Insert(rank);
    }
    receipt_ = std::move(receipt);
    receipt_ranks_ = ranks;
  }
  return receipt_;
}

bool LocalLane::HasWhole() const {
  return open_.Any([](const Round& round) {
    return round.extra.given == round.exchange->count && !round.extra.is_broken;
  });
}

Result<bool> LocalLane::Step(Time now) {
  now_ = now;
  if (launches_.Look()) return true;
  return work_.Step();
}

const protocol::Exchange* LocalLane::Find(const local::AdmittedUse& at) {
  Round* round = open_.Find(KeyOf(at.use));
  if (round == nullptr) return nullptr;
  if (Decides(at.use)) {
    round->extra.given = round->exchange->count;
  } else if (!IsByGroup(at.use)) {
    ++round->extra.given;
  }
  return round->exchange;
}

void LocalLane::Fill(BlockWork::Taken& taken) {
  if (taken.exchange == nullptr) {
    (void)window_.Withdraw(taken.at);
  } else if (Decides(taken.at.use)) {
    FillLast(taken);
  } else if (Has(taken.at.use.bring, rank_) && window_.decision(taken.at) == Decision::kOpen) {
    work_.CopyIn(taken, IsByGroup(taken.at.use));
  }
}

// Says that this rank has the whole sum, or why not.
void LocalLane::FillLast(BlockWork::Taken& taken) {
  const RoundKey key = KeyOf(taken.at.use);
  Progress& progress = open_.Find(key)->extra;
  if (window_.decision(taken.at) != Decision::kOpen) return;
  const GroupLaunches::Progress& group = progress.group;
  Status lack = group.no_sum.ok() ? group.not_gathered : group.no_sum;
  if (lack.ok()) lack = progress.lack;
  if (lack.ok() && !progress.is_broken) return window_.Filled(taken.at);
  if (lack.ok()) return (void)window_.Withdraw(taken.at);  // another rank has told the reason
  taken.state = BlockWork::Taken::State::kLacking;
  SayWhy(key, progress, ErrorOfNoResult(*taken.exchange, lack));
}

// A home fills a block when its group has reduced the unit, and a rank the last one behind its
// last launch.
BlockWork::Input LocalLane::InputOf(const BlockWork::Taken& taken) {
  using Input = BlockWork::Input;
  const local::BlockUse& use = taken.at.use;
  if (!IsByGroup(use)) return Input::kHere;
  const Round& round = *open_.Find(KeyOf(use));
  const GroupLaunches::Progress& group = round.extra.group;
  const bool has_failed = !group.no_sum.ok() || !group.not_gathered.ok();
  if (Decides(use)) {
    const bool is_over = group.whole_pieces == round.exchange->count || has_failed;
    return is_over ? Input::kHere : Input::kLater;
  }
  if (use.piece < group.reduced_end) return Input::kHere;
  return group.no_sum.ok() ? Input::kLater : Input::kNever;
}

void LocalLane::Take(BlockWork::Taken& taken, bool is_sum) {
  if (taken.exchange == nullptr) return;
  const RoundKey key = KeyOf(taken.at.use);
  Round& round = *open_.Find(key);
  if (!is_sum) {
    round.extra.is_broken = true;
  } else if (Decides(taken.at.use)) {
    round.extra.ranks = taken.at.use.ranks;
    End(key, round, Status::Ok(), now_);
  } else if (work_.CopyOut(taken)) {
    OnTaken(taken, Status::Ok());
  }
}

// The round ends in this error for all ranks. The carrier hears it while the block is not decided,
// so it can still break off the round, even if all pieces have their blocks.
void LocalLane::OnFillFailed(const BlockWork::Taken& taken, const Status& why) {
  const RoundKey key = KeyOf(taken.at.use);
  Progress& progress = open_.Find(key)->extra;
  SayWhy(key, progress, ErrorOfNoInput(rank_, *taken.exchange, why));
}

void LocalLane::SayWhy(const RoundKey& key, Progress& progress, const Status& why) {
  progress.is_broken = true;
  if (std::exchange(progress.says_why, true)) return;
  events_.say(Abort{key, why});
}

// A rank without the result that the others have cannot go on. Of a round that groups sum nobody
// has the result before the last block is decided.
void LocalLane::OnTaken(const BlockWork::Taken& taken, const Status& how) {
  const RoundKey key = KeyOf(taken.at.use);
  Round& round = *open_.Find(key);
  if (IsByGroup(taken.at.use)) {
    if (!how.ok()) round.extra.lack = how;
    return;
  }
  if (!how.ok() && round.extra.failure.ok()) {
    round.extra.failure = ErrorOfNoResult(*taken.exchange, how);
    events_.tell_front(protocol::to_front::GivesUp{round.extra.failure});
  }
  round.extra.ranks = taken.at.use.ranks;
  if (++round.extra.done == round.exchange->count) {
    const Status failure = round.extra.failure;
    End(key, round, failure, now_);
  }
}

}  // namespace byteps::machine
