// The carrier's part of a machine in a job with servers. Begins at the carrier's lanes the rounds
// that the ranks of the machine have begun, as one member of the job, and tells the ranks how the
// rounds have ended. A round begins when all its ranks that take part have begun it (decision 18,
// rule 1). If a rank asks for an error, the round begins at once, but then nothing of it is pushed.
//
// The lanes treat it as their front (protocol/worker/front/front.h). On the thread that owns the
// lanes; no I/O, no clock; nothing blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/member/block_transfers.h"
#include "src/machine/member/machine_ranks.h"
#include "src/machine/member/member_words.h"
#include "src/machine/room/round_book.h"
#include "src/machine/room/sums_choice.h"
#include "src/protocol/worker/exchange/exchanges.h"
#include "src/protocol/worker/exchange/lane_mailing.h"
#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/exchange/settling.h"

namespace byteps::machine {

class RunSpans;

class MemberCarrier {
 public:
  struct Events {
    std::function<void(uint32_t lane, protocol::LaneMail mail)> to_lane;
    std::function<void(uint32_t rank, const MemberWords::ToRank& word)> say;
    // Mail for the carrier's own front.
    std::function<void(protocol::FrontMail)> to_front;
    // A rank has said what cannot be true in this job, so nobody can go on with that rank.
    std::function<void(const Status&)> fail;
    // Begins to plan how the ranks' devices sum; OnPlan or OnGroupLimit follows. Null: no rank says
    // HasDevice.
    std::function<void(const std::vector<HasDevice>&)> plan = nullptr;
    // A line for people about groups of devices.
    std::function<void(const std::string& line, bool is_warning)> tell = nullptr;
  };
  // `ranks`: the number of ranks of the machine. `piece_bytes_max`: the limit for a piece.
  // `transfers` outlives this object.
  MemberCarrier(uint32_t ranks, uint32_t lanes, size_t piece_bytes_max, BlockTransfers& transfers,
                Events events);
  ~MemberCarrier();

  void OnView(const protocol::to_lane::View& mail);
  // Takes a word of a rank; before the first view the word waits.
  void OnWord(uint32_t rank, const MemberWords::ToCarrier& word);
  // Takes mail of a lane.
  void OnMail(protocol::FrontMail mail);
  // Takes the plan for groups of devices, or the news that they were not ready after this time.
  void OnPlan(const PlannedSums& plan) { choice_.OnPlan(plan); }
  void OnGroupLimit(const std::string& limit) { choice_.OnLimit(limit); }
  // Tells the ranks that nobody carries any more, because the carrier's process has left
  // (kShutdown), or its job is over.
  void Close(const Status& why);

 private:
  struct State {
    MemberFacts facts;
    std::shared_ptr<const std::vector<ShardId>> homes;
    std::unique_ptr<RunSpans> spans;
    // The part of the first piece that each rank brings.
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> brings;
    RankSet on_device = 0;  // ranks that can launch
    bool by_group = false;
    uint64_t serial = 0;  // of the exchange; 0: there is none
    Status broken;        // an error: the round must not end well for the ranks
    std::optional<member::Ended> end;
  };
  using Book = RoundBook<State>;
  using Round = Book::Round;

  void Hear(uint32_t rank, const MemberWords::ToCarrier& word);
  void On(uint32_t rank, const member::Begun& word);
  void On(uint32_t rank, const member::Joined& word);
  void On(uint32_t rank, const Abort& word);
  void On(uint32_t rank, const Leaves&);
  void On(uint32_t rank, const member::SetAdded& word);
  void On(uint32_t rank, const member::SetRemoved& word);
  void On(uint32_t rank, const member::Retired& word);
  void On(uint32_t rank, const member::Forgotten& word);
  void On(uint32_t rank, const member::AsksSettled& word);
  void On(uint32_t rank, const HasDevice& word) { choice_.OnDevice(rank, word); }
  void On(uint32_t rank, const Met& word) { choice_.OnMet(rank, word); }
  void On(uint32_t rank, const Broken& word);

  Status Check(const member::Begun& word, const State& state) const;
  void Look(const RoundKey& key);
  void LookAtAll();
  // Ends a round here that no rank of the machine takes part in any more.
  void Drop(const RoundKey& key);
  void Begin(const RoundKey& key, Round& round);
  SumsChoice::Events ChoiceEvents();
  bool MayLaunch(const Round& round) const;
  void EndGroups(const Status& why);
  void OpenTransfers(const RoundKey& key, Round& round);
  void AskForError(const RoundKey& key, Round& round, const Status& why);
  void OnEnd(const std::optional<protocol::Exchanges::End>& end);
  void EraseIfOver(const RoundKey& key);
  void Settle();
  bool AreGone(RankSet ranks) const;
  // A rank of this process set that has left the job, wherever it was.
  std::optional<uint32_t> GoneOf(uint32_t process_set) const;
  std::string LackOf(RankSet missing) const;
  void SayTo(RankSet ranks, const MemberWords::ToRank& word);

  const uint32_t ranks_;
  const uint32_t lane_count_;
  BlockTransfers& transfers_;
  const Events events_;
  std::vector<std::byte> memory_;  // stands for the memory of the pieces
  protocol::LaneMailing lanes_;
  protocol::Exchanges exchanges_;
  protocol::Settling settling_;

  uint32_t generation_ = 0;
  ShardId shards_end_ = 0;  // of the generation
  Slot slot_ = kNoSlot;
  MachineRanks machine_ranks_;
  bool closed_ = false;
  std::deque<std::pair<uint32_t, MemberWords::ToCarrier>> early_;  // words before the first view
  Book book_;
  std::map<uint64_t, RoundKey> keys_;  // by the number that an exchange has as an operation
  uint64_t last_number_ = 0;
  std::map<TensorId, std::shared_ptr<const std::vector<ShardId>>> homes_;
  struct Set {
    RankSet added = 0;  // the ranks that have added it
    std::vector<uint32_t> ranks;
  };
  std::map<uint32_t, Set> sets_;
  std::vector<uint32_t> gone_;  // ranks of the job that have left
  uint64_t join_number_ = 0;
  std::map<uint32_t, uint64_t> asks_;  // questions of ranks
  SumsChoice choice_;
};

}  // namespace byteps::machine
