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
#include <vector>

#include "src/base/status.h"
#include "src/local/window.h"
#include "src/machine/room/begun_signs.h"
#include "src/machine/room/mail_line.h"
#include "src/machine/room/shared_room.h"
#include "src/machine/room/words.h"

namespace byteps::machine {

inline constexpr uint32_t kCarrierRank = 0;

class MailRoom {
 public:
  struct Events {
    // A rank's word to the carrier, in the order of that rank. Only for rank kCarrierRank.
    std::function<void(uint32_t rank, const Word& word)> to_carrier;
    // The carrier's word to this rank, in the carrier's order.
    std::function<void(const Word& word)> to_rank;
    // Returns Carrier::KeepsErrors. Only for rank kCarrierRank. Null: never.
    std::function<bool()> keeps_errors = nullptr;
  };
  // Serves the rank of `window`. `ranks`: the number of ranks on the machine.
  MailRoom(const SharedRoom& room, local::Window& window, uint32_t ranks, Events events);

  // Sends a word from this rank to the carrier (Say), or from the carrier, which must be in this
  // process, to a rank (SayTo). Flush must follow.
  void Say(const Word& word);
  void SayTo(uint32_t rank, const Word& word);
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
  struct Begins {
    RoundKey key;
    RankSet ranks = 0;
  };
  bool IsCarrier() const { return window_.rank() == kCarrierRank; }
  void Note(const Word& word);
  bool FlushToCarrier();
  void TellCarrier(uint32_t rank, const Word& word);
  Status HearFrom(uint32_t rank, const std::function<bool()>& goes_on, bool& heard);

  local::Window& window_;
  const WordLimits limits_;
  const Events events_;
  BegunSigns signs_;
  bool keeps_errors_ = false;
  bool wakes_ = false;         // a word needs the carrier now
  std::vector<Begins> begun_;  // to be shown when the carrier can hear their words
  std::vector<std::unique_ptr<MailLine>> lines_;  // the carrier's by rank; else one, to the carrier
  std::deque<Word> own_words_;                    // at the carrier's rank
  std::deque<Word> own_answers_;
};

}  // namespace byteps::machine
