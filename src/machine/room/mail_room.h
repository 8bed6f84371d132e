// The words between a rank and the carrier, wherever the two are: in two processes they go over the
// rings of the shared memory, in one they stay in it. Who is told something is woken, but for a
// carrier that can do nothing with it yet (begun_signs.h).
//
// Belongs to the thread that does the loop's work. Nothing blocks, and nothing is told from inside
// Say.
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
    // Rank kCarrierRank only: what a rank says to the carrier, in its order for each rank.
    std::function<void(uint32_t rank, const Word& word)> to_carrier;
    // What the carrier says to this rank, in its order.
    std::function<void(const Word& word)> to_rank;
    // Rank kCarrierRank only: Carrier::KeepsErrors. Null: never.
    std::function<bool()> keeps_errors = nullptr;
  };
  // Of the window's rank, one of so many.
  MailRoom(const SharedRoom& room, local::Window& window, uint32_t ranks, Events events);

  // From this rank to the carrier; and from the carrier, which must be here, to a rank. Flush must
  // follow.
  void Say(const Word& word);
  void SayTo(uint32_t rank, const Word& word);
  // True: nothing waits for room any more. The carrier is not woken for a round that others have
  // still to begin.
  bool Flush();
  // A round that this rank has begun has ended for it; and was the end of a join, for all.
  void Ended(const RoundKey& key, bool join_is_over);

  // Tells all that has come, until `goes_on` is false. `heard`: whether there was anything.
  // kProtocol: a process of this machine said what cannot be.
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
  bool wakes_ = false;         // something was said that the carrier has to hear now
  std::vector<Begins> begun_;  // said since, and to be shown when the carrier can hear it
  std::vector<std::unique_ptr<MailLine>> lines_;  // the carrier's by rank; else one, to the carrier
  std::deque<Word> own_words_;                    // where the carrier is here
  std::deque<Word> own_answers_;
};

}  // namespace byteps::machine
