#include "src/machine/room/mail_room.h"

#include <optional>
#include <utility>
#include <variant>

namespace byteps::machine {

MailRoom::MailRoom(const SharedRoom& room, local::Window& window, uint32_t ranks, Events events)
    : window_(window),
      limits_(room.limits()),
      events_(std::move(events)),
      signs_(room.signs(), window.rank()) {
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
  Note(word);
  if (IsCarrier()) {
    own_words_.push_back(word);
  } else {
    lines_[kCarrierRank]->Send(EncodeWord(word));
  }
}

// Shows what a word means for the signs. The carrier itself hears all others after it has shown its
// own round.
void MailRoom::Note(const Word& word) {
  if (const auto* begun = std::get_if<Begun>(&word)) {
    if (IsCarrier()) {
      (void)signs_.Begin(begun->key, begun->facts.ranks);
    } else {
      begun_.push_back({begun->key, begun->facts.ranks});
    }
    return;
  }
  wakes_ = true;
  if (std::holds_alternative<Joined>(word) || std::holds_alternative<Leaves>(word)) {
    signs_.Excuse();
  }
}

void MailRoom::SayTo(uint32_t rank, const Word& word) {
  if (rank == kCarrierRank) {
    own_answers_.push_back(word);
  } else {
    lines_[rank]->Send(EncodeWord(word));
  }
}

void MailRoom::Ended(const RoundKey& key, bool join_is_over) {
  signs_.End(key);
  if (join_is_over) signs_.TakePartAgain();
}

bool MailRoom::Flush() {
  if (!IsCarrier()) return FlushToCarrier();
  local::RankSet put = 0;
  bool all = true;
  for (uint32_t rank = 0; rank < lines_.size(); ++rank) {
    if (lines_[rank]->Flush()) put |= local::Bit(rank);
    all = all && lines_[rank]->IsFlushed();
  }
  if (put != 0) window_.Notify(put);
  return all;
}

bool MailRoom::FlushToCarrier() {
  MailLine& line = *lines_[kCarrierRank];
  line.Flush();
  const bool all = line.IsFlushed();
  // The ring may be full of words that did not wake the carrier.
  bool wakes = wakes_ || !all;
  if (all) {
    for (const Begins& one : begun_) wakes = signs_.Begin(one.key, one.ranks) || wakes;
    begun_.clear();
    wakes_ = false;
  }
  if (wakes) window_.Notify(local::Bit(kCarrierRank));
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
    TellCarrier(kCarrierRank, word);
  }
  while (!own_answers_.empty() && goes_on()) {
    heard = true;
    Word word = std::move(own_answers_.front());
    own_answers_.pop_front();
    events_.to_rank(word);
  }
  return Status::Ok();
}

void MailRoom::TellCarrier(uint32_t rank, const Word& word) {
  events_.to_carrier(rank, word);
  const bool keeps = events_.keeps_errors != nullptr && events_.keeps_errors();
  if (keeps != keeps_errors_) signs_.KeepErrors(keeps);
  keeps_errors_ = keeps;
}

Status MailRoom::HearFrom(uint32_t rank, const std::function<bool()>& goes_on, bool& heard) {
  bool wake = false;
  Status status;
  while (status.ok() && goes_on()) {
    auto packet = lines_[rank]->Receive(wake);
    if (packet.ok() && !packet.value().has_value()) break;
    heard = true;
    Result<Word> word =
        packet.ok() ? DecodeWord(*packet.value(), limits_) : Result<Word>(packet.status());
    if (!word.ok()) {
      status = word.status();
    } else if (IsCarrier()) {
      TellCarrier(rank, word.value());
    } else {
      events_.to_rank(word.value());
    }
  }
  if (wake) window_.Notify(local::Bit(rank));
  return status;
}

}  // namespace byteps::machine
