// What both ends of a meeting need to talk to each other; for meeting.cc and meeting_host.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/local/meeting.h"
#include "src/local/meeting_words.h"
#include "src/local/packet_socket.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

inline constexpr const char* kGuestPurpose = "byteps local guest";
inline constexpr const char* kHostPurpose = "byteps local host";
// Guests wait that much longer than their host, which knows who is missing.
inline constexpr Duration kGrace = seconds(1);
// How often a wait asks whether it shall go on.
inline constexpr Duration kAskEvery = milliseconds(50);

Time MeetingNow();
bool GoesOn(const MeetingOptions& options);
Status BrokenOff();

// What the others watch, and what this process holds for it while it takes part.
struct Line {
  UniqueFd watched, held;
};
Result<Line> NewLine();

MeetingHello HelloOf(const MeetingOptions& options);
// Descriptors that a welcome has: the memory, a line and a heap of each.
size_t SharedFds(const MeetingOptions& options);

// As ReceivePacket, and kShutdown if it shall not go on.
Result<Packet> AwaitPacket(const MeetingOptions& options, const UniqueFd& socket, Time deadline);
// As SendPacket, but waits while too many descriptors of this user are on their way; kExhausted
// when the deadline has passed, or the other end has closed meanwhile.
Status SendInTime(const MeetingOptions& options, const UniqueFd& socket, ConstByteSpan bytes,
                  const std::vector<int>& fds, Time deadline);

// This process has no room for so many descriptors.
Status NoRoomFor(size_t fds);

// What tells this meeting from others, and what its processes must have in common, for people.
std::string PlaceText(const MeetingOptions& options);
std::string CommonText();

}  // namespace byteps::local
