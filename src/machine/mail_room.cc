#include "src/machine/mail_room.h"

#include <optional>
#include <utility>

namespace byteps::machine {

MailRoom::MailRoom(const SharedRoom& room, local::Window& window, uint32_t ranks, Events events)
    : window_(window), events_(std::move(events)) {
  const uint32_t own = window.rank();
  if (!IsCarrier()) {
    lines_.push_back(std::make_unique<MailLine>(room.ToCarrier(own), room.ToRank(own)));
    return;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    lines_.push_back(std::make_unique<MailLine>(room.ToRank(rank), room.ToCarrier(rank)));
  }
}

void MailRoom::Say(const Word& word) {
  if (IsCarrier()) {
    own_words_.push_back(word);
  } else {
    lines_[kCarrierRank]->Send(EncodeWord(word));
  }
}

void MailRoom::SayTo(uint32_t rank, const Word& word) {
  if (rank == kCarrierRank) {
    own_answers_.push_back(word);
  } else {
    lines_[rank]->Send(EncodeWord(word));
  }
}

bool MailRoom::Flush() {
  local::RankSet put = 0;
  bool all = true;
  for (uint32_t rank = 0; rank < lines_.size(); ++rank) {
    if (lines_[rank]->Flush()) put |= local::Bit(rank);
    all = all && lines_[rank]->IsFlushed();
  }
  if (put != 0) window_.Notify(put);
  return all;
}

Status MailRoom::Hear(const std::function<bool()>& goes_on, bool& heard) {
  for (uint32_t rank = 0; rank < lines_.size() && goes_on(); ++rank) {
    Status status = HearFrom(rank, goes_on, heard);
    if (!status.ok()) return status;
  }
  while (!own_words_.empty() && goes_on()) {
    heard = true;
    Word word = std::move(own_words_.front());
    own_words_.pop_front();
    events_.to_carrier(kCarrierRank, word);
  }
  while (!own_answers_.empty() && goes_on()) {
    heard = true;
    Word word = std::move(own_answers_.front());
    own_answers_.pop_front();
    events_.to_rank(word);
  }
  return Status::Ok();
}

Status MailRoom::HearFrom(uint32_t rank, const std::function<bool()>& goes_on, bool& heard) {
  bool wake = false;
  Status status;
  while (status.ok() && goes_on()) {
    auto packet = lines_[rank]->Receive(wake);
    if (packet.ok() && !packet.value().has_value()) break;
    heard = true;
    Result<Word> word = packet.ok() ? DecodeWord(*packet.value()) : Result<Word>(packet.status());
    if (!word.ok()) {
      status = word.status();
    } else if (IsCarrier()) {
      events_.to_carrier(rank, word.value());
    } else {
      events_.to_rank(word.value());
    }
  }
  if (wake) window_.Notify(local::Bit(rank));
  return status;
}

}  // namespace byteps::machine
