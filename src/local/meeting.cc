#include "src/local/meeting.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/proof.h"
#include "src/base/text.h"
#include "src/local/meeting_words.h"
#include "src/local/packet_socket.h"

namespace byteps::local {
namespace {

constexpr const char* kNamePurpose = "byteps local name";
constexpr const char* kGuestPurpose = "byteps local guest";
constexpr const char* kHostPurpose = "byteps local host";
// Connections of whoever they are; more wait in the kernel.
constexpr size_t kGuestsMax = 256;
// Guests wait that much longer than their host, which knows who is missing.
constexpr Duration kGrace = seconds(1);
// Between binding a name and listening under it there is a moment, in which nobody answers.
constexpr Duration kMoment = milliseconds(1);
// How often a wait asks whether it shall go on.
constexpr Duration kAskEvery = milliseconds(50);

ConstByteSpan BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

Time Now() { return std::chrono::steady_clock::now(); }

Status BrokenOff() {
  return {StatusCode::kShutdown, "joining the job was broken off; this process is not in it"};
}

bool GoesOn(const MeetingOptions& options) { return options.go_on == nullptr || options.go_on(); }

struct Line {
  UniqueFd watched, held;
};

Result<Line> NewLine() {
  UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (self) return Line{std::move(self), UniqueFd()};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status(StatusCode::kExhausted, std::string("no pipe: ") + std::strerror(errno));
  }
  return Line{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

MeetingHello HelloOf(const MeetingOptions& options) {
  MeetingHello hello;
  hello.rank = options.rank;
  hello.size = options.size;
  hello.memory_bytes = options.memory_bytes;
  hello.terms = options.terms.substr(0, kTermsBytesMax);
  RandomBytes(hello.nonce);
  return hello;
}

std::string Names(const std::vector<uint32_t>& ranks) {
  return (ranks.size() == 1 ? "local rank " : "local ranks ") + ListText(ranks);
}

std::string Describe(const MeetingHello& hello) {
  return "local rank " + std::to_string(hello.rank) + " has version " +
         std::to_string(hello.version) + ", " + std::to_string(hello.size) + " ranks, " +
         std::to_string(hello.memory_bytes) + " bytes of window" +
         (hello.terms.empty() ? "" : ", " + hello.terms);
}

// Who listens: collects all, and hands out what they share.
class Host {
 public:
  Host(const MeetingOptions& options, UniqueFd listener)
      : options_(options), own_(HelloOf(options)), listener_(std::move(listener)) {
    members_.resize(options.size);
  }

  Result<Meeting> Collect(Time deadline) {
    while (!IsComplete()) {
      Status seen = HearOnce(deadline);
      if (seen.ok() && !GoesOn(options_)) seen = BrokenOff();
      TellIfDue();
      if (seen.ok() && Now() >= deadline && !IsComplete()) seen = Missing();
      if (!seen.ok()) {
        RefuseAll(seen);
        return seen;
      }
    }
    return HandOut();
  }

 private:
  struct Guest {
    UniqueFd socket;
    std::vector<std::byte> hello_bytes;
    MeetingHello hello;
    MeetingNonce challenge{};
    UniqueFd line, heap;
    bool has_greeted = false;
  };

  bool IsComplete() const {
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      if (rank != options_.rank && members_[rank] == nullptr) return false;
    }
    return true;
  }

  Status HearOnce(Time deadline) {
    std::vector<int> fds = {guests_.size() < kGuestsMax ? listener_.get() : -1};
    for (const auto& guest : guests_) fds.push_back(guest->socket.get());
    for (const auto& member : members_) fds.push_back(member ? member->socket.get() : -1);
    Time until = std::min(deadline, tell_at_);
    if (options_.go_on != nullptr) until = std::min(until, Now() + kAskEvery);
    std::vector<bool> readable = PollReadable(fds, until);
    // Members say nothing any more: theirs is readable when it is closed.
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      if (readable[1 + guests_.size() + rank]) {
        return {StatusCode::kPeerLost, "the process of local rank " + std::to_string(rank) +
                                           " of this machine ended while the others came"};
      }
    }
    for (size_t i = guests_.size(); i-- > 0;) {
      if (!readable[1 + i]) continue;
      Result<bool> stays = Hear(i);
      if (!stays.ok()) return stays.status();
      if (!stays.value()) guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (!readable[0]) return Status::Ok();
    Result<UniqueFd> socket = AcceptPackets(listener_);
    if (socket.ok() && IsOfThisUser(socket.value())) {
      guests_.push_back(std::make_unique<Guest>());
      guests_.back()->socket = std::move(socket.value());
    }
    return Status::Ok();
  }

  // False: it is a member now, or was a stranger and is gone.
  Result<bool> Hear(size_t index) {
    std::unique_ptr<Guest>& guest = guests_[index];
    Result<Packet> packet = ReceivePacket(guest->socket, Now());
    if (!packet.ok()) return false;
    if (!guest->has_greeted) return Greet(*guest, packet->bytes);
    std::optional<ConstByteSpan> proof =
        DecodeMeetingWord(MeetingWord::kProof, packet->bytes, sizeof(ProofBytes));
    ProofBytes expected =
        Proof(options_.secret, kGuestPurpose, guest->hello_bytes, guest->challenge);
    if (!proof.has_value() || !ProofEqual(expected, *proof) || packet->fds.size() != 2) {
      return false;
    }
    guest->line = std::move(packet->fds[0]);
    guest->heap = std::move(packet->fds[1]);
    Status fits = Admit(guest->hello);
    if (!fits.ok()) {
      (void)SendPacket(guest->socket, EncodeMeetingRefusal(fits));
      return fits;
    }
    members_[guest->hello.rank] = std::move(guest);
    return false;
  }

  bool Greet(Guest& guest, const std::vector<std::byte>& bytes) {
    std::optional<MeetingHello> hello = DecodeMeetingHello(bytes);
    if (!hello.has_value()) return false;
    guest.hello = *hello;
    guest.hello_bytes = bytes;
    guest.has_greeted = true;
    RandomBytes(guest.challenge);
    return SendPacket(guest.socket, EncodeMeetingWord(MeetingWord::kChallenge, guest.challenge))
        .ok();
  }

  // It knows the secret; whether it also means the same.
  Status Admit(const MeetingHello& hello) const {
    bool same = hello.version == own_.version && hello.size == own_.size &&
                hello.memory_bytes == own_.memory_bytes && hello.terms == own_.terms;
    if (!same) {
      return {StatusCode::kMismatch, "processes of this machine were started for different jobs: " +
                                         Describe(own_) + "; " + Describe(hello)};
    }
    bool taken = hello.rank >= options_.size || hello.rank == options_.rank ||
                 members_[hello.rank] != nullptr;
    if (taken) {
      return {StatusCode::kMismatch, "two processes of this machine are local rank " +
                                         std::to_string(hello.rank) + " of " +
                                         std::to_string(options_.size) +
                                         ": give each a BYTEPS_LOCAL_RANK of its own"};
    }
    return Status::Ok();
  }

  void TellIfDue() {
    if (Now() < tell_at_) return;
    tell_at_ = Now() + options_.tell_every;
    if (options_.on_waiting == nullptr || IsComplete()) return;
    std::vector<uint32_t> missing = Absent();
    options_.on_waiting(std::to_string(options_.size - missing.size()) + "/" +
                        std::to_string(options_.size) + " workers; missing " + Names(missing) +
                        "; waited " + SecondsText(Now() - begun_));
  }

  std::vector<uint32_t> Absent() const {
    std::vector<uint32_t> missing;
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      if (rank != options_.rank && members_[rank] == nullptr) missing.push_back(rank);
    }
    return missing;
  }

  Status Missing() const {
    return {StatusCode::kDeadlineExceeded, Names(Absent()) + " of this machine did not come; " +
                                               std::to_string(options_.size) +
                                               " were expected here"};
  }

  void RefuseAll(const Status& why) const {
    for (const auto& member : members_) {
      if (member != nullptr) (void)SendPacket(member->socket, EncodeMeetingRefusal(why));
    }
  }

  // Who cannot be told any more has ended, which its line says to the others.
  Result<Meeting> HandOut() {
    Result<Line> line = NewLine();
    if (!line.ok()) return line.status();
    Result<SharedMemory> memory = SharedMemory::Create(options_.memory_bytes, Access::kReadWrite);
    if (!memory.ok()) {
      RefuseAll(memory.status());
      return memory.status();
    }
    Result<std::shared_ptr<Heap>> heap = Heap::Create(Heap::BytesFor(options_.size));
    if (!heap.ok()) {
      RefuseAll(heap.status());
      return heap.status();
    }
    std::vector<int> fds = {memory->fd()};
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      fds.push_back(rank == options_.rank ? line->watched.get() : members_[rank]->line.get());
    }
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      fds.push_back(rank == options_.rank ? heap.value()->fd() : members_[rank]->heap.get());
    }
    for (const auto& member : members_) {
      if (member == nullptr) continue;
      ProofBytes proof =
          Proof(options_.secret, kHostPurpose, member->hello_bytes, member->challenge);
      (void)SendPacket(member->socket, EncodeMeetingWord(MeetingWord::kWelcome, proof), fds);
    }
    Meeting meeting;
    meeting.memory = std::move(memory.value());
    meeting.own_line = std::move(line->held);
    meeting.heap = std::move(heap.value());
    meeting.lines.resize(options_.size);
    meeting.heaps.resize(options_.size);
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      if (rank == options_.rank) continue;
      meeting.lines[rank] = std::move(members_[rank]->line);
      meeting.heaps[rank] = std::move(members_[rank]->heap);
    }
    return meeting;
  }

  const MeetingOptions& options_;
  const MeetingHello own_;
  const Time begun_ = Now();
  Time tell_at_ = begun_ + options_.tell_every;
  UniqueFd listener_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<std::unique_ptr<Guest>> members_;
};

// As ReceivePacket, and kShutdown if it shall not go on.
Result<Packet> Await(const MeetingOptions& options, const UniqueFd& socket, Time deadline) {
  while (true) {
    bool asks = options.go_on != nullptr;
    Time until = asks ? std::min(deadline, Now() + kAskEvery) : deadline;
    Result<Packet> packet = ReceivePacket(socket, until);
    bool again = !packet.ok() && packet.status().code() == StatusCode::kDeadlineExceeded;
    if (!again || until == deadline) return packet;
    if (!GoesOn(options)) return BrokenOff();
  }
}

// Who connects. kUnavailable: the host had what it needs, and does not listen any more.
Result<Meeting> Visit(const MeetingOptions& options, const UniqueFd& socket, Time deadline) {
  Result<Line> line = NewLine();
  if (!line.ok()) return line.status();
  Result<std::shared_ptr<Heap>> heap = Heap::Create(Heap::BytesFor(options.size));
  if (!heap.ok()) return heap.status();
  std::vector<std::byte> hello = EncodeMeetingHello(HelloOf(options));
  Status sent = SendPacket(socket, hello);
  if (!sent.ok()) return Status(StatusCode::kUnavailable, sent.message());
  Result<Packet> packet = Await(options, socket, deadline);
  if (!packet.ok() && packet.status().code() == StatusCode::kPeerLost) {
    return Status(StatusCode::kUnavailable, packet.status().message());
  }
  if (!packet.ok()) return packet.status();
  std::optional<ConstByteSpan> challenge =
      DecodeMeetingWord(MeetingWord::kChallenge, packet->bytes, sizeof(MeetingNonce));
  if (!challenge.has_value()) return Status(StatusCode::kProtocol, "no challenge");
  std::vector<std::byte> nonce(challenge->begin(), challenge->end());
  ProofBytes proof = Proof(options.secret, kGuestPurpose, hello, nonce);
  sent = SendPacket(socket, EncodeMeetingWord(MeetingWord::kProof, proof),
                    {line->watched.get(), heap.value()->fd()});
  if (!sent.ok()) return sent;
  packet = Await(options, socket, deadline);
  if (!packet.ok()) return packet.status();
  std::optional<Status> refusal = DecodeMeetingRefusal(packet->bytes);
  if (refusal.has_value()) return *refusal;
  std::optional<ConstByteSpan> welcome =
      DecodeMeetingWord(MeetingWord::kWelcome, packet->bytes, sizeof(ProofBytes));
  ProofBytes expected = Proof(options.secret, kHostPurpose, hello, nonce);
  if (!welcome.has_value() || !ProofEqual(expected, *welcome) ||
      packet->fds.size() != 2 * size_t{options.size} + 1) {
    return Status(StatusCode::kRefused,
                  "the process of this machine that collects the others "
                  "does not know the job's secret, or has another version");
  }
  Result<SharedMemory> memory =
      SharedMemory::Map(std::move(packet->fds[0]), options.memory_bytes, Access::kReadWrite);
  if (!memory.ok()) return memory.status();
  Meeting meeting;
  meeting.memory = std::move(memory.value());
  meeting.own_line = std::move(line->held);
  meeting.heap = std::move(heap.value());
  meeting.lines.resize(options.size);
  meeting.heaps.resize(options.size);
  for (uint32_t rank = 0; rank < options.size; ++rank) {
    if (rank == options.rank) continue;
    meeting.lines[rank] = std::move(packet->fds[1 + rank]);
    meeting.heaps[rank] = std::move(packet->fds[1 + options.size + rank]);
  }
  return meeting;
}

}  // namespace

std::string MeetingName(const MeetingOptions& options) {
  ProofBytes proof =
      Proof(options.secret, kNamePurpose, BytesOf(options.job), BytesOf(options.group));
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
    if (listener.ok()) return Host(options, std::move(listener.value())).Collect(deadline);
    if (listener.status().code() != StatusCode::kDuplicateName) return listener.status();
    Result<UniqueFd> socket = ConnectPackets(name);
    if (socket.ok()) {
      if (!IsOfThisUser(socket.value())) {
        return Status(StatusCode::kRefused,
                      "another user's process of this machine listens where this job meets");
      }
      Result<Meeting> met = Visit(options, socket.value(), deadline + kGrace);
      if (met.ok() || met.status().code() != StatusCode::kUnavailable) return met;
      socket = met.status();
    }
    if (!GoesOn(options)) return BrokenOff();
    if (Now() >= deadline) return socket.status();
    (void)PollReadable({}, std::min(deadline, Now() + kMoment));
  }
}

}  // namespace byteps::local
