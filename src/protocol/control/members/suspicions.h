// Decides when a member counts as lost. Suspicion may be wrong at any time; safety never depends on
// it. A member is lost in these cases:
//
//   * Its connection to the coordinator closed, and the launcher saw its process end: at once.
//   * Its connection to the coordinator and one to another member closed, and no other member went:
//     almost at once. Processes of one contributor count as one here and below, because the end of
//     a machine closes the connections of all of them.
//   * Only one of these connections closed, or several members went at the same moment, as when
//     something between them resets all connections: if the member is not back within the grace,
//     or stays silent for the grace.
//   * Nothing came through its connection any more. This says nothing of the process behind the
//     connection, so only silence counts.
//   * It has been silent for its limit, and most others have not. If most others are silent, too,
//     the coordinator doubts its own link: for up to twelve seconds only an end that the launcher
//     saw counts. Nothing is lost by that, because most members must agree to a view without it.
//
// Only the time counts in which the coordinator listened (listening_clock.h).
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
    bool exited = false;  // the launcher saw the process end: proven dead
  };

  explicit Suspicions(Duration grace) : grace_(grace), settle_(grace / 20) {}

  // Watches `who` from now on, if `who` is not watched already. When silent members and members
  // that went are counted, members with the same `company` count as one. `silence_max` 0: silence
  // is no reason.
  void Watch(uint64_t who, uint64_t company, Duration silence_max, Time now);
  void Forget(uint64_t who) { watched_.erase(who); }
  void ForgetAllBut(const std::set<uint64_t>& these);

  // Notes that the member has said something. Closed connections that others saw before do not
  // count any more.
  void Heard(uint64_t who, Time now);
  // Notes that the member is connected again.
  void Back(uint64_t who, Time now);
  // Notes that `party` saw its connection to the member close.
  void Closed(uint64_t who, uint64_t party, const std::string& why, Time now);
  // Notes that the member's connection to the coordinator carried nothing any more and is closed.
  void CutOff(uint64_t who, const std::string& why);
  // Notes that a process in the member's place has ended, by the launcher's word. This is believed
  // when the member's connection closes.
  void HintExit(uint64_t who, Time now);
  // Returns whether the member's connection to the coordinator is closed.
  bool IsAway(uint64_t who) const;
  bool IsAnyAway() const;
  // Returns when the member was heard last; none: it is not watched.
  std::optional<Time> HeardAt(uint64_t who) const;
  // Returns whether the connection was closed because it carried nothing.
  bool IsCutOff(uint64_t who) const;

  // Returns whether most members are silent, or were a moment ago.
  bool DoubtsOwnLink() const { return doubted_since_.has_value(); }

  std::optional<Time> NextDue() const;
  // Returns the members that are lost now, and forgets them.
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

    std::set<uint64_t> parties;  // the members that saw a connection to it close
    Time closed{};               // when the first party saw that
    std::string why;
    bool exit_hint = false;
    bool cut_off = false;
    std::optional<Time> went;  // when its connection to the coordinator closed last
    bool in_company = false;   // the connection of another company closed at that moment, too
  };
  void LookForCompany(Watched& one, Time now);
  bool MostAreSilent(Time now) const;
  void DoubtOwnLink(Time now);
  std::optional<Time> DueOf(const Watched& one) const;

  Duration grace_;
  Duration settle_;  // connections that are reset together close within this time
  std::map<uint64_t, Watched> watched_;
  std::optional<Time> doubted_since_;  // since when the coordinator doubts its own link
  Time held_until_{};                  // until then only an end that the launcher saw counts
};

}  // namespace byteps::protocol
