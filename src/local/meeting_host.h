// The process that listens in a meeting (meeting.h). It collects the others, and hands out the
// shared things.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/local/meeting.h"
#include "src/local/meeting_talk.h"
#include "src/local/meeting_words.h"
#include "src/local/packet_socket.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

class MeetingHost {
 public:
  // `options` must outlive this object.
  MeetingHost(const MeetingOptions& options, UniqueFd listener);

  // Collects the others; Meet has the contract. Must be called once.
  Result<Meeting> Collect(Time deadline);

 private:
  struct Guest {
    UniqueFd socket;
    PeerProcess process;
    std::vector<std::byte> hello_bytes;
    MeetingHello hello;
    MeetingNonce challenge{};
    UniqueFd life_fd, heap;
    bool has_greeted = false;
  };

  bool IsComplete() const { return Absent().empty(); }
  std::vector<uint32_t> Absent() const;
  Status HearOnce(Time deadline);
  void Accept();
  Result<bool> Hear(size_t index);
  bool Greet(Guest& guest, const std::vector<std::byte>& bytes);
  Status Admit(const Guest& guest) const;
  PeerProcess HolderOf(uint32_t rank) const;
  void Refuse(const Guest& guest, const Status& why);
  void RefuseAll(const Status& why) const;
  void TellIfDue();
  Status Missing() const;

  Result<Meeting> HandOut(Time deadline);
  Status HandTo(const Guest& member, const std::vector<int>& fds, Time deadline) const;

  const MeetingOptions& options_;
  const MeetingHello own_;
  const Time begun_;
  Time tell_at_;
  Time accept_at_;        // the host accepts no connection before: it had no descriptor
  Status cannot_accept_;  // the reason, at the last attempt
  UniqueFd listener_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<std::unique_ptr<Guest>> members_;  // by rank
  size_t refused_ = 0;
  Status last_refusal_;
};

}  // namespace byteps::local
