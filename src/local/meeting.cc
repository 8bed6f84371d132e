#include "src/local/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/proof.h"
#include "src/local/meeting_host.h"
#include "src/local/meeting_talk.h"
#include "src/local/meeting_words.h"
#include "src/local/packet_socket.h"

namespace byteps::local {
namespace {

constexpr const char* kNamePurpose = "byteps local name";
// There is a moment between binding a name and listening under it, in which nobody answers.
constexpr Duration kMoment = milliseconds(1);
// Describes a host that does not listen any more, or a process that only pretends to be a host.
constexpr const char* kCloses = "closes each connection";

ConstByteSpan BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

// Makes the error that `who` holds the place but does not act like a process of the job.
Status IsTaken(const MeetingOptions& options, StatusCode code, const std::string& who,
               const std::string& what) {
  return {code,
          who + " holds the place where the processes of this job meet (" + PlaceText(options) +
              "), and " + what +
              ". If it belongs to this job, end it and start the job again. If not, set "
              "BYTEPS_JOB_SECRET to the same value for all processes of the job (openssl rand "
              "-hex 16 makes one): nobody without the secret can find the place"};
}

// The process that connects.
class Guest {
 public:
  Guest(const MeetingOptions& options, const UniqueFd& socket, Time deadline)
      : options_(options),
        socket_(socket),
        deadline_(deadline),
        who_(ProcessText(PeerOf(socket))) {}

  // kUnavailable: the host has all its ranks, and does not listen any more.
  Result<Meeting> Visit() {
    Result<LifeDescriptor> life = NewLifeDescriptor();
    if (!life.ok()) return life.status();
    Result<std::shared_ptr<Heap>> heap = Heap::Create(Heap::BytesFor(options_.size));
    if (!heap.ok()) return heap.status();
    Status proven = Prove({life->watched.get(), heap.value()->fd()});
    if (!proven.ok()) return proven;
    Result<Packet> packet = Next();
    if (!packet.ok()) return packet.status();
    Result<Meeting> meeting = Take(packet.value());
    if (!meeting.ok()) return meeting;
    meeting->own_life_fd = std::move(life->held);
    meeting->heap = std::move(heap.value());
    Status sent = SendPacket(socket_, EncodeMeetingWord(MeetingWord::kHave, {}));
    if (!sent.ok()) return sent.code() == StatusCode::kPeerLost ? HostEnded() : sent;
    packet = Next();
    if (!packet.ok()) return packet.status();
    if (!DecodeMeetingWord(MeetingWord::kBegin, packet->bytes, 0).has_value()) return Nonsense();
    return meeting;
  }

 private:
  Status Prove(const std::vector<int>& fds) {
    hello_ = EncodeMeetingHello(HelloOf(options_));
    Status sent = SendPacket(socket_, hello_);
    if (!sent.ok()) return Status(StatusCode::kUnavailable, sent.message());
    Result<Packet> packet = AwaitPacket(options_, socket_, deadline_);
    if (!packet.ok()) {
      const StatusCode code = packet.status().code();
      if (code == StatusCode::kPeerLost) return {StatusCode::kUnavailable, kCloses};
      if (code != StatusCode::kDeadlineExceeded) return packet.status();
      return IsTaken(options_, code, who_, "does not answer");
    }
    std::optional<ConstByteSpan> challenge =
        DecodeMeetingWord(MeetingWord::kChallenge, packet->bytes, sizeof(MeetingNonce));
    if (!challenge.has_value()) return Nonsense();
    nonce_.assign(challenge->begin(), challenge->end());
    ProofBytes proof = Proof(options_.secret, kGuestPurpose, hello_, nonce_);
    sent = SendInTime(options_, socket_, EncodeMeetingWord(MeetingWord::kProof, proof), fds,
                      deadline_);
    return sent.code() == StatusCode::kPeerLost ? HostEnded() : sent;
  }

  // Returns the host's next word. If the host refuses this process, the status says why.
  Result<Packet> Next() {
    Result<Packet> packet = AwaitPacket(options_, socket_, deadline_);
    if (packet.ok()) {
      std::optional<Status> refusal = DecodeMeetingRefusal(packet->bytes);
      if (refusal.has_value()) return *refusal;
      return packet;
    }
    if (packet.status().code() == StatusCode::kPeerLost) return HostEnded();
    if (packet.status().code() != StatusCode::kDeadlineExceeded) return packet;
    return Status(StatusCode::kDeadlineExceeded,
                  who_ + " collects the ranks of this machine (" + PlaceText(options_) +
                      ") and still waits for others; start what is missing, with " + CommonText() +
                      ", or raise BYTEPS_START_TIMEOUT");
  }

  // Tells the host what this process lacks, because the host cannot begin without this process.
  Result<Meeting> Take(Packet& welcome) {
    Result<Meeting> meeting = TakeWelcome(welcome);
    if (!meeting.ok()) (void)SendPacket(socket_, EncodeMeetingRefusal(meeting.status()));
    return meeting;
  }

  Result<Meeting> TakeWelcome(Packet& packet) {
    std::optional<ConstByteSpan> welcome =
        DecodeMeetingWord(MeetingWord::kWelcome, packet.bytes, sizeof(ProofBytes));
    if (!welcome.has_value()) return Nonsense();
    if (!ProofEqual(Proof(options_.secret, kHostPurpose, hello_, nonce_), *welcome)) {
      return IsTaken(options_, StatusCode::kRefused, who_, "does not know the job's secret");
    }
    if (packet.lacks_fds) return NoRoomFor(SharedFds(options_));
    if (packet.fds.size() != SharedFds(options_)) return Nonsense();
    Result<SharedMemory> memory =
        SharedMemory::Map(std::move(packet.fds[0]), options_.memory_bytes, Access::kReadWrite);
    if (!memory.ok()) return memory.status();
    Meeting meeting;
    meeting.memory = std::move(memory.value());
    meeting.life_fds.resize(options_.size);
    meeting.heaps.resize(options_.size);
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      if (rank == options_.rank) continue;
      meeting.life_fds[rank] = std::move(packet.fds[1 + rank]);
      meeting.heaps[rank] = std::move(packet.fds[1 + options_.size + rank]);
    }
    return meeting;
  }

  Status HostEnded() const {
    return {StatusCode::kPeerLost,
            who_ + ", which collects the ranks of this machine, ended while the others came"};
  }
  Status Nonsense() const {
    return IsTaken(options_, StatusCode::kRefused, who_,
                   "says what no process of this version says");
  }

  const MeetingOptions& options_;
  const UniqueFd& socket_;
  const Time deadline_;
  const std::string who_;
  std::vector<std::byte> hello_, nonce_;
};

}  // namespace

uint32_t ProcessOf(const UniqueFd& life_fd) {
  // The kernel names the process of a pidfd; a pipe has no such line.
  std::ifstream lines("/proc/self/fdinfo/" + std::to_string(life_fd.get()));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Pid:")) continue;
    const int64_t process = std::strtoll(line.c_str() + std::strlen("Pid:"), nullptr, 10);
    return process > 0 ? static_cast<uint32_t>(process) : 0;
  }
  return 0;
}

std::string MeetingName(const MeetingOptions& options) {
  // The name depends on the user, so that users cannot see each other's jobs.
  const std::string group = std::to_string(geteuid()) + " " + options.group;
  ProofBytes proof = Proof(options.secret, kNamePurpose, BytesOf(options.job), BytesOf(group));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "byteps-";
  for (size_t i = 0; i < 16; ++i) {
    name += kDigits[std::to_integer<int>(proof[i]) >> 4];
    name += kDigits[std::to_integer<int>(proof[i]) & 15];
  }
  return name;
}

Result<Meeting> Meet(const MeetingOptions& options, Time deadline) {
  std::string name = MeetingName(options);
  while (true) {
    Result<UniqueFd> listener = ListenPackets(name);
    if (listener.ok()) return MeetingHost(options, std::move(listener.value())).Collect(deadline);
    if (listener.status().code() != StatusCode::kDuplicateName) return listener.status();
    Result<UniqueFd> socket = ConnectPackets(name);
    std::string who = "a process of this machine";
    std::string what = "does not let anybody in (" + socket.status().message() + ")";
    if (socket.ok()) {
      who = ProcessText(PeerOf(socket.value()));
      if (!IsOfThisUser(socket.value())) {
        return IsTaken(options, StatusCode::kRefused, who, "belongs to another user");
      }
      Result<Meeting> met = Guest(options, socket.value(), deadline + kGrace).Visit();
      if (met.ok() || met.status().code() != StatusCode::kUnavailable) return met;
      what = met.status().message();
    }
    if (!GoesOn(options)) return BrokenOff();
    if (MeetingNow() >= deadline) return IsTaken(options, StatusCode::kUnavailable, who, what);
    (void)PollReadable({}, std::min(deadline, MeetingNow() + kMoment));
  }
}

}  // namespace byteps::local
