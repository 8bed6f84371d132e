// When a member counts as lost. Suspicion may be wrong at any time; safety never depends on it.
//
//   * Its connection to the coordinator closed, and the launcher saw its process end: at once.
//   * That connection and one to another member closed: almost at once, if it is the only one.
//     Processes of one contributor count as one here and below: what kills a machine closes the
//     connections of all of them.
//   * One of these, or several members at the same moment, as when something between them resets
//     all connections: when it is not back, or stays silent, for the grace.
//   * A connection over which nothing came through any more says nothing of the process behind it:
//     only silence counts.
//   * It has been silent for its limit, and most others have not. If they have, the coordinator's
//     own link is doubted: for up to twelve seconds only an end that the launcher saw counts.
//     Nothing is lost by that, as most must agree to a view without it.
//
// Time is that in which the coordinator listened (listening_clock.h).
//
// A value without I/O; members are known by incarnation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"

namespace byteps::protocol {

// The party that stands for the coordinator's own connection.
inline constexpr uint64_t kOwnConnection = 0;

class Suspicions {
 public:
  struct Loss {
    uint64_t who = 0;
    std::string why;
    bool exited = false;  // the launcher said so: proven dead
  };

  explicit Suspicions(Duration grace) : grace_(grace), settle_(grace / 20) {}

  // Watches `who` from now on, if it is not watched already. Those with the same `company` count as
  // one when it is asked how many are silent or went. `silence_max` 0: silence is no reason.
  void Watch(uint64_t who, uint64_t company, Duration silence_max, Time now);
  void Forget(uint64_t who) { watched_.erase(who); }
  void ForgetAllBut(const std::set<uint64_t>& these);

  // It said something: what others saw before does not count any more.
  void Heard(uint64_t who, Time now);
  // It is connected again.
  void Back(uint64_t who, Time now);
  // `party` saw its connection close.
  void Closed(uint64_t who, uint64_t party, const std::string& why, Time now);
  // Its connection to the coordinator carried nothing any more and is closed.
  void CutOff(uint64_t who, const std::string& why);
  // The launcher said that a process in its place has ended; believed when its connection closes.
  void HintExit(uint64_t who, Time now);
  // Its connection to the coordinator is closed.
  bool IsAway(uint64_t who) const;
  bool IsAnyAway() const;
  // When it was heard last; none: it is not watched.
  std::optional<Time> HeardAt(uint64_t who) const;
  // Because nothing came through.
  bool IsCutOff(uint64_t who) const;

  // Most are silent, or were a moment ago.
  bool DoubtsOwnLink() const { return doubted_since_.has_value(); }

  std::optional<Time> NextDue() const;
  // Who is lost now; each is forgotten.
  std::vector<Loss> Judge(Time now);

 private:
  struct Watched {
    uint64_t company = 0;
    Duration silence_max{};
    Time heard{};
    bool IsAway() const { return cut_off || parties.contains(kOwnConnection); }
    bool IsGone() const {
      return parties.contains(kOwnConnection) && (parties.size() >= 2 || exit_hint);
    }

    std::set<uint64_t> parties;  // who saw a connection to it close
    Time closed{};               // when the first of them did
    std::string why;
    bool exit_hint = false;
    bool cut_off = false;
    std::optional<Time> went;  // when its connection to the coordinator closed the last time
    bool in_company = false;   // another one's closed at that moment
  };
  void LookForCompany(Watched& one, Time now);
  bool MostAreSilent(Time now) const;
  void DoubtOwnLink(Time now);
  std::optional<Time> DueOf(const Watched& one) const;

  Duration grace_;
  Duration settle_;  // in which connections that are reset together are seen to close
  std::map<uint64_t, Watched> watched_;
  std::optional<Time> doubted_since_;  // the own link
  Time held_until_{};                  // until then nothing but a seen end counts
};

}  // namespace byteps::protocol
