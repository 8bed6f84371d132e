// Helpers of both ends of a meeting, for meeting.cc and meeting_host.cc.
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
// Guests wait that much longer than their host, because the host knows which ranks are missing.
inline constexpr Duration kGrace = seconds(1);
// The time between two calls of go_on in a wait.
inline constexpr Duration kAskEvery = milliseconds(50);

Time MeetingNow();
bool GoesOn(const MeetingOptions& options);
Status BrokenOff();

// The descriptor that the others watch, and the one that this process holds while it takes part.
struct LifeDescriptor {
  UniqueFd watched, held;
};
Result<LifeDescriptor> NewLifeDescriptor();

MeetingHello HelloOf(const MeetingOptions& options);
// Returns the number of descriptors in a welcome: the memory, and a life descriptor and a
// heap of each rank.
size_t SharedFds(const MeetingOptions& options);

// Does the same as ReceivePacket. kShutdown: go_on has broken the wait off.
Result<Packet> AwaitPacket(const MeetingOptions& options, const UniqueFd& socket, Time deadline);
// Does the same as SendPacket, but blocks while too many descriptors of this user are in packets.
// kExhausted: the deadline has passed, or the other end has closed meanwhile.
Status SendInTime(const MeetingOptions& options, const UniqueFd& socket, ConstByteSpan bytes,
                  const std::vector<int>& fds, Time deadline);

// Makes the error that this process has no room for so many descriptors.
Status NoRoomFor(size_t fds);

// Return texts for people: the facts that tell this meeting from others, and the facts on which its
// processes must agree.
std::string PlaceText(const MeetingOptions& options);
std::string CommonText();

}  // namespace byteps::local
