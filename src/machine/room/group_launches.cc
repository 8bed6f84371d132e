#include "src/machine/room/group_launches.h"

#include <optional>
#include <string>

namespace byteps::machine {

using Kind = device::Launch::Kind;

bool GroupLaunches::Takes(const protocol::Exchange& exchange) {
  if (launcher_ == nullptr || exchange.memory != Memory::kDevice) return false;
  looks_ = true;
  std::optional<HasDevice> first;
  const bool takes = launcher_->Takes(exchange.device, first);
  if (first.has_value()) lane_.say(*first);
  return takes;
}

void GroupLaunches::Meet(const SumsSo& word) {
  group_ranks_ = word.ranks;
  launcher_->Meet(word);
}

Status GroupLaunches::OnLaunch(const UnitLaunch& word) {
  device::Launch launch{word.kind, nullptr, nullptr, word.runs, word.bytes(), word.type, word.how};
  Launched one{word.key, 0, word.kind, word.pieces, word.first_piece + word.pieces};
  const protocol::DeviceMemory* owner = nullptr;
  if (const Round round = lane_.find(word.key); round.exchange != nullptr) {
    const protocol::Exchange& exchange = *round.exchange;
    const bool are_pieces = word.first_piece >= exchange.first_piece &&
                            uint64_t{word.first_piece} + word.pieces <= exchange.end();
    size_t bytes = 0;
    for (uint32_t i = 0; are_pieces && i < word.pieces; ++i) {
      bytes += exchange.spans->SpansOf(word.first_piece + i).want.size();
    }
    if (!are_pieces || bytes != word.bytes() || exchange.memory != Memory::kDevice) {
      return {StatusCode::kProtocol, "the carrier of this machine says a launch of '" +
                                         std::string(exchange.name) +
                                         "' that cannot be true: restart the job"};
    }
    const protocol::Spans spans = exchange.spans->SpansOf(word.first_piece);
    launch.to = spans.want.data();
    launch.from = word.kind == Kind::kGather ? launch.to : spans.push.data();
    owner = &exchange.device;
    one.serial = exchange.serial;
    ++round.progress->launches;
    if (word.kind == Kind::kReduce) ++round.progress->partial_units;
  }
  launched_.push_back(one);
  launcher_->Launch(std::move(launch), owner);
  return Status::Ok();
}

bool GroupLaunches::Look() {
  if (!looks_) return false;
  bool did = false;
  for (std::optional<Status> how; (how = launcher_->TakeEnd()).has_value(); did = true) {
    OnEnd(*how);
  }
  if (std::optional<PlannedSums> plan = launcher_->TakePlan(); plan.has_value()) {
    lane_.planned(*plan);
    did = true;
  }
  if (std::optional<Met> met = launcher_->TakeMet(); met.has_value()) {
    lane_.say(*met);
    did = true;
  }
  if (std::optional<Broken> broken = TakeBroken(); broken.has_value()) {
    lane_.say(*broken);
    did = true;
  }
  HeedAborts();
  return did;
}

void GroupLaunches::Abort(const Status& why) {
  if (launcher_ != nullptr) launcher_->End(why);
  window_.MarkAborted();
}

// A rank that hears of a loss aborts. So this rank hears of the loss, too, which says more than the
// abort.
void GroupLaunches::HeedAborts() {
  const RankSet aborted = window_.aborted();
  if (window_.lost() == 0) EndWithout(aborted);
}

void GroupLaunches::LookWhenOver() {
  if (!looks_) return;
  TakeBroken();
  EndWithout(window_.aborted() | window_.lost() | (window_.gone() & group_ranks_));
}

// A group that has failed by itself aborts. The carrier, which would tell the others, may have
// gone.
std::optional<Broken> GroupLaunches::TakeBroken() {
  std::optional<Broken> broken = launcher_->TakeBroken();
  if (broken.has_value()) window_.MarkAborted();
  return broken;
}

void GroupLaunches::EndWithout(RankSet others) {
  others &= ~Bit(window_.rank());
  if (has_heeded_ || others == 0) return;
  has_heeded_ = true;
  launcher_->End({StatusCode::kUnavailable,
                  "rank " + lane_.names(others) + " has ended the group of GPUs early"});
}

void GroupLaunches::OnEnd(const Status& how) {
  const Launched one = launched_.front();
  launched_.pop_front();
  if (lane_.any_ended != nullptr) lane_.any_ended();
  const Round round = lane_.find(one.key);
  if (round.exchange == nullptr || round.exchange->serial != one.serial) return;
  Progress& progress = *round.progress;
  --progress.launches;
  const bool is_gather = one.kind == Kind::kGather;
  if (!how.ok()) {
    (is_gather ? progress.not_gathered : progress.no_sum) = how;
  } else {
    if (!is_gather && progress.no_sum.ok()) progress.reduced_end = one.end_piece;
    if (is_gather) --progress.partial_units;
    if (one.kind != Kind::kReduce) progress.whole_pieces += one.pieces;
  }
  lane_.ended(one.key);
}

}  // namespace byteps::machine
