// The words between a rank and the carrier. Between two processes they go over the rings of the
// shared memory; within one process they stay in its memory. A word wakes its receiver, except a
// carrier that can do nothing with the word yet (begun_signs.h).
//
// Belongs to the thread that does the loop's work. Nothing blocks; Say and SayTo call no event.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/local/window.h"
#include "src/machine/room/begun_signs.h"
#include "src/machine/room/fields.h"
#include "src/machine/room/shared_room.h"
#include "src/machine/room/word_line.h"

namespace byteps::machine {

inline constexpr uint32_t kCarrierRank = 0;

// `Words`: the vocabulary of one kind of job, as LocalWords and MemberWords. A word that goes the
// wrong way does not compile.
template <typename Words>
class WordChannel {
 public:
  using ToCarrier = typename Words::ToCarrier;
  using ToRank = typename Words::ToRank;
  struct Events {
    // A rank's word to the carrier, in the order of that rank. Only for rank kCarrierRank.
    std::function<void(uint32_t rank, const ToCarrier& word)> to_carrier;
    // The carrier's word to this rank, in the carrier's order.
    std::function<void(const ToRank& word)> to_rank;
    // Returns whether the carrier keeps an error for ranks that begin its round later. Only for
    // rank kCarrierRank. Null: never.
    std::function<bool()> keeps_errors = nullptr;
  };
  // Serves the rank of `window`. `ranks`: the number of ranks on the machine.
  WordChannel(const SharedRoom& room, local::Window& window, uint32_t ranks, Events events);

  // Sends a word from this rank to the carrier (Say), or from the carrier, which must be in this
  // process, to a rank (SayTo). Flush must follow.
  void Say(const ToCarrier& word);
  void SayTo(uint32_t rank, const ToRank& word);
  // Sends the waiting words. True: no word waits for room any more. Does not wake the carrier for a
  // round that other ranks have still to begin.
  bool Flush();
  // Notes that a round that this rank has begun has ended for it. `join_is_over`: the round was the
  // end of a join, for all.
  void Ended(const RoundKey& key, bool join_is_over);

  // Delivers all words that have come, until `goes_on` returns false. Sets `heard` to true if there
  // was a word. kProtocol: a process of this machine sent an impossible word.
  Status Hear(const std::function<bool()>& goes_on, bool& heard);

 private:
  bool IsCarrier() const { return window_.rank() == kCarrierRank; }
  void Note(const ToCarrier& word);
  bool FlushToCarrier();
  void TellCarrier(uint32_t rank, const ToCarrier& word);
  template <typename Word, typename Tell>
  Status HearFrom(uint32_t rank, const std::function<bool()>& goes_on, bool& heard,
                  const Tell& tell);

  local::Window& window_;
  const WordLimits limits_;
  const Events events_;
  BegunSigns signs_;
  bool keeps_errors_ = false;
  bool wakes_ = false;  // a word needs the carrier now
  // The signs to be shown when the carrier can hear their words.
  std::vector<std::pair<RoundKey, RankSet>> begun_;
  std::vector<std::unique_ptr<WordLine>> lines_;  // the carrier's by rank; else one, to the carrier
  std::deque<ToCarrier> own_words_;               // at the carrier's rank
  std::deque<ToRank> own_answers_;
};

template <typename Words>
WordChannel<Words>::WordChannel(const SharedRoom& room, local::Window& window, uint32_t ranks,
                                Events events)
    : window_(window),
      limits_(room.limits()),
      events_(std::move(events)),
      signs_(room.signs(), window.rank()) {
  const uint32_t own = window.rank();
  if (!IsCarrier()) {
    lines_.push_back(std::make_unique<WordLine>(room.ToCarrier(own), room.ToRank(own)));
    return;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    lines_.push_back(std::make_unique<WordLine>(room.ToRank(rank), room.ToCarrier(rank)));
  }
}

template <typename Words>
void WordChannel<Words>::Say(const ToCarrier& word) {
  Note(word);
  if (IsCarrier()) {
    own_words_.push_back(word);
  } else {
    lines_[kCarrierRank]->Send(EncodeWord(word));
  }
}

// Shows the sign of the carrier's own round at once: the carrier hears all others after that.
template <typename Words>
void WordChannel<Words>::Note(const ToCarrier& word) {
  if (auto sign = Words::SignOf(word); sign.has_value()) {
    if (IsCarrier()) {
      (void)signs_.Begin(sign->first, sign->second);
    } else {
      begun_.push_back(*sign);
    }
    return;
  }
  wakes_ = true;
  if (Words::Excuses(word)) signs_.Excuse();
}

template <typename Words>
void WordChannel<Words>::SayTo(uint32_t rank, const ToRank& word) {
  if (rank == kCarrierRank) {
    own_answers_.push_back(word);
  } else {
    lines_[rank]->Send(EncodeWord(word));
  }
}

template <typename Words>
void WordChannel<Words>::Ended(const RoundKey& key, bool join_is_over) {
  signs_.End(key);
  if (join_is_over) signs_.TakePartAgain();
}

template <typename Words>
bool WordChannel<Words>::Flush() {
  if (!IsCarrier()) return FlushToCarrier();
  RankSet put = 0;
  bool all = true;
  for (uint32_t rank = 0; rank < lines_.size(); ++rank) {
    if (lines_[rank]->Flush()) put |= Bit(rank);
    all = all && lines_[rank]->IsFlushed();
  }
  if (put != 0) window_.Notify(put);
  return all;
}

// Puts the words into the ring first, then shows their signs, and then looks at those of the other
// ranks: a sign that came before its word would let the carrier sleep on a complete round.
template <typename Words>
bool WordChannel<Words>::FlushToCarrier() {
  WordLine& line = *lines_[kCarrierRank];
  line.Flush();
  const bool all = line.IsFlushed();
  // If the ring is full, the carrier must read it, even if nothing in it needed the carrier.
  bool wakes = wakes_ || !all;
  if (all) {
    for (const auto& [key, ranks] : begun_) wakes = signs_.Begin(key, ranks) || wakes;
    begun_.clear();
    wakes_ = false;
  }
  if (wakes) window_.Notify(Bit(kCarrierRank));
  return all;
}

template <typename Words>
Status WordChannel<Words>::Hear(const std::function<bool()>& goes_on, bool& heard) {
  for (uint32_t rank = 0; rank < lines_.size() && goes_on(); ++rank) {
    Status status =
        IsCarrier() ? HearFrom<ToCarrier>(rank, goes_on, heard,
                                          [&](const ToCarrier& word) { TellCarrier(rank, word); })
                    : HearFrom<ToRank>(rank, goes_on, heard, events_.to_rank);
    if (!status.ok()) return status;
  }
  while (!own_words_.empty() && goes_on()) {
    heard = true;
    ToCarrier word = std::move(own_words_.front());
    own_words_.pop_front();
    TellCarrier(kCarrierRank, word);
  }
  while (!own_answers_.empty() && goes_on()) {
    heard = true;
    ToRank word = std::move(own_answers_.front());
    own_answers_.pop_front();
    events_.to_rank(word);
  }
  return Status::Ok();
}

template <typename Words>
void WordChannel<Words>::TellCarrier(uint32_t rank, const ToCarrier& word) {
  events_.to_carrier(rank, word);
  const bool keeps = events_.keeps_errors != nullptr && events_.keeps_errors();
  if (keeps != keeps_errors_) signs_.KeepErrors(keeps);
  keeps_errors_ = keeps;
}

template <typename Words>
template <typename Word, typename Tell>
Status WordChannel<Words>::HearFrom(uint32_t rank, const std::function<bool()>& goes_on,
                                    bool& heard, const Tell& tell) {
  bool wake = false;
  Status status;
  while (status.ok() && goes_on()) {
    auto packet = lines_[rank]->Receive(wake);
    if (packet.ok() && !packet.value().has_value()) break;
    heard = true;
    Result<Word> word =
        packet.ok() ? DecodeWord<Word>(*packet.value(), limits_) : Result<Word>(packet.status());
    if (word.ok()) {
      tell(word.value());
    } else {
      status = word.status();
    }
  }
  if (wake) window_.Notify(Bit(rank));
  return status;
}

}  // namespace byteps::machine
