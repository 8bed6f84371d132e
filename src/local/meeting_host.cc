#include "src/local/meeting_host.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/proof.h"
#include "src/base/text.h"

namespace byteps::local {
namespace {

// The most open connections, of members and strangers; more wait in the kernel.
constexpr size_t kGuestsMax = 256;
// The pause of the host while it has no descriptor for a waiting connection, which would otherwise
// wake it again and again.
constexpr Duration kAcceptAgain = milliseconds(100);
// The time after the deadline in which the host hands the shared things, or a reason, to the
// processes that have come.
constexpr Duration kHandOutLimit = kGrace / 2;

std::string Names(const std::vector<uint32_t>& ranks) {
  return (ranks.size() == 1 ? "local rank " : "local ranks ") + ListText(ranks);
}

std::string Describe(const MeetingHello& hello, const PeerProcess& process) {
  return "local rank " + std::to_string(hello.rank) + " (" + ProcessText(process) +
         ") has version " + std::to_string(hello.version) + ", " + std::to_string(hello.size) +
         " ranks, " + std::to_string(hello.memory_bytes) + " bytes of window" +
         (hello.terms.empty() ? "" : ", " + hello.terms);
}

PeerProcess Self() { return {getpid(), geteuid()}; }

// Makes the error of the host that the others get, too.
Status OfHost(const Status& why) {
  return {why.code(),
          ProcessText(Self()) + ", which collects the ranks of this machine, has " + why.message()};
}

Status Ended(const MeetingHello& hello) {
  return {StatusCode::kPeerLost, "the process of local rank " + std::to_string(hello.rank) +
                                     " of this machine ended while the others came"};
}

}  // namespace

MeetingHost::MeetingHost(const MeetingOptions& options, UniqueFd listener)
    : options_(options),
      own_(HelloOf(options)),
      begun_(MeetingNow()),
      tell_at_(begun_ + options.tell_every),
      accept_at_(begun_),
      listener_(std::move(listener)) {
  members_.resize(options.size);
}

Result<Meeting> MeetingHost::Collect(Time deadline) {
  while (!IsComplete()) {
    Status seen = HearOnce(deadline);
    if (seen.ok() && !GoesOn(options_)) seen = BrokenOff();
    TellIfDue();
    if (seen.ok() && MeetingNow() >= deadline && !IsComplete()) seen = Missing();
    if (!seen.ok()) {
      RefuseAll(seen);
      return seen;
    }
  }
  Result<Meeting> meeting = HandOut(std::max(deadline, MeetingNow()) + kHandOutLimit);
  if (!meeting.ok()) RefuseAll(meeting.status());
  return meeting;
}

std::vector<uint32_t> MeetingHost::Absent() const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (rank != options_.rank && members_[rank] == nullptr) missing.push_back(rank);
  }
  return missing;
}

Status MeetingHost::HearOnce(Time deadline) {
  const bool accepts = guests_.size() < kGuestsMax && MeetingNow() >= accept_at_;
  std::vector<int> fds = {accepts ? listener_.get() : -1};
  for (const auto& guest : guests_) fds.push_back(guest->socket.get());
  for (const auto& member : members_) fds.push_back(member ? member->socket.get() : -1);
  Time until = std::min(deadline, tell_at_);
  if (options_.go_on != nullptr) until = std::min(until, MeetingNow() + kAskEvery);
  if (MeetingNow() < accept_at_) until = std::min(until, accept_at_);
  std::vector<bool> readable = PollReadable(fds, until);
  // Members say nothing any more, so a member's socket is readable only when it is closed.
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (readable[1 + guests_.size() + rank]) return Ended(members_[rank]->hello);
  }
  for (size_t i = guests_.size(); i-- > 0;) {
    if (!readable[1 + i]) continue;
    Result<bool> stays = Hear(i);
    if (!stays.ok()) return stays.status();
    if (!stays.value()) guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (readable[0]) Accept();
  return Status::Ok();
}

void MeetingHost::Accept() {
  Result<UniqueFd> socket = AcceptPackets(listener_);
  if (!socket.ok()) {
    if (socket.status().code() != StatusCode::kExhausted) return;
    cannot_accept_ = socket.status();
    accept_at_ = MeetingNow() + kAcceptAgain;
    return;
  }
  cannot_accept_ = Status::Ok();
  if (!IsOfThisUser(socket.value())) return;
  guests_.push_back(std::make_unique<Guest>());
  guests_.back()->process = PeerOf(socket.value());
  guests_.back()->socket = std::move(socket.value());
}

// Reads the guest's next word. Returns false if the guest is gone from the list: it is a member
// now, was refused, or was a stranger.
Result<bool> MeetingHost::Hear(size_t index) {
  std::unique_ptr<Guest>& guest = guests_[index];
  Result<Packet> packet = ReceivePacket(guest->socket, MeetingNow());
  if (!packet.ok()) return false;
  if (!guest->has_greeted) return Greet(*guest, packet->bytes);
  std::optional<ConstByteSpan> proof =
      DecodeMeetingWord(MeetingWord::kProof, packet->bytes, sizeof(ProofBytes));
  ProofBytes expected = Proof(options_.secret, kGuestPurpose, guest->hello_bytes, guest->challenge);
  if (!proof.has_value() || !ProofEqual(expected, *proof)) return false;
  // The host cannot hand the life descriptor and the heap of this process to the others, so the
  // process cannot take part.
  if (packet->lacks_fds) return NoRoomFor(2);
  if (packet->fds.size() != 2) return false;
  guest->life_fd = std::move(packet->fds[0]);
  guest->heap = std::move(packet->fds[1]);
  if (Status fits = Admit(*guest); !fits.ok()) {
    Refuse(*guest, fits);
    return false;
  }
  members_[guest->hello.rank] = std::move(guest);
  return false;
}

bool MeetingHost::Greet(Guest& guest, const std::vector<std::byte>& bytes) {
  std::optional<MeetingHello> hello = DecodeMeetingHello(bytes);
  if (!hello.has_value()) return false;
  guest.hello = *hello;
  guest.hello_bytes = bytes;
  guest.has_greeted = true;
  RandomBytes(guest.challenge);
  return SendPacket(guest.socket, EncodeMeetingWord(MeetingWord::kChallenge, guest.challenge)).ok();
}

// The guest knows the secret. Checks that it also agrees on the terms.
Status MeetingHost::Admit(const Guest& guest) const {
  const MeetingHello& hello = guest.hello;
  bool same = hello.version == own_.version && hello.size == own_.size &&
              hello.memory_bytes == own_.memory_bytes && hello.terms == own_.terms &&
              hello.rank < own_.size;
  if (!same) {
    return {StatusCode::kMismatch,
            "processes of this machine were started for different jobs: " + Describe(own_, Self()) +
                "; " + Describe(hello, guest.process) +
                ". Start all processes of a job alike, and give each job a DMLC_PS_ROOT_PORT or a "
                "BYTEPS_JOB_ID of its own (these processes met as " +
                PlaceText(options_) + ")"};
  }
  if (hello.rank != options_.rank && members_[hello.rank] == nullptr) return Status::Ok();
  return {StatusCode::kMismatch,
          "two processes of this machine are local rank " + std::to_string(hello.rank) + " of " +
              std::to_string(options_.size) + " (" + ProcessText(HolderOf(hello.rank)) +
              " came first, then " + ProcessText(guest.process) +
              "): give each a BYTEPS_LOCAL_RANK of its own. If they belong to two jobs, give each "
              "job a DMLC_PS_ROOT_PORT or a BYTEPS_JOB_ID of its own (these processes met as " +
              PlaceText(options_) + ")"};
}

PeerProcess MeetingHost::HolderOf(uint32_t rank) const {
  return rank == options_.rank ? Self() : members_[rank]->process;
}

void MeetingHost::Refuse(const Guest& guest, const Status& why) {
  (void)SendPacket(guest.socket, EncodeMeetingRefusal(why));
  ++refused_;
  last_refusal_ = why;
  if (options_.on_refused == nullptr) return;
  options_.on_refused("refused " + ProcessText(guest.process) + ": " + why.message());
}

void MeetingHost::RefuseAll(const Status& why) const {
  for (const auto& member : members_) {
    if (member != nullptr) (void)SendPacket(member->socket, EncodeMeetingRefusal(why));
  }
}

void MeetingHost::TellIfDue() {
  if (MeetingNow() < tell_at_) return;
  tell_at_ = MeetingNow() + options_.tell_every;
  if (options_.on_waiting == nullptr || IsComplete()) return;
  std::vector<uint32_t> missing = Absent();
  options_.on_waiting(std::to_string(options_.size - missing.size()) + "/" +
                      std::to_string(options_.size) + " workers; missing " + Names(missing) +
                      "; waited " + SecondsText(MeetingNow() - begun_));
}

Status MeetingHost::Missing() const {
  std::string text = Names(Absent()) + " of this machine did not come; " +
                     std::to_string(options_.size) + " were expected here (" + PlaceText(options_) +
                     ")";
  if (!cannot_accept_.ok()) {
    return {StatusCode::kExhausted, text + "; this process could not let in those that knocked: " +
                                        cannot_accept_.message() +
                                        "; raise its limit of open files (ulimit -n)"};
  }
  if (refused_ != 0) {
    text += "; processes that came and did not fit: " + std::to_string(refused_) +
            ", the last one because " + last_refusal_.message();
  }
  return {StatusCode::kDeadlineExceeded, text + "; start what is missing, with " + CommonText() +
                                             ", or raise BYTEPS_START_TIMEOUT"};
}

// No process begins before the last one has the shared things. A process that began early would
// wait for the others, and none of them would tell it why they do not come.
Result<Meeting> MeetingHost::HandOut(Time deadline) {
  Result<LifeDescriptor> life = NewLifeDescriptor();
  if (!life.ok()) return OfHost(life.status());
  Result<SharedMemory> memory = SharedMemory::Create(options_.memory_bytes, Access::kReadWrite);
  if (!memory.ok()) return OfHost(memory.status());
  Result<std::shared_ptr<Heap>> heap = Heap::Create(Heap::BytesFor(options_.size));
  if (!heap.ok()) return OfHost(heap.status());
  std::vector<int> fds = {memory->fd()};
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    fds.push_back(rank == options_.rank ? life->watched.get() : members_[rank]->life_fd.get());
  }
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    fds.push_back(rank == options_.rank ? heap.value()->fd() : members_[rank]->heap.get());
  }
  for (const auto& member : members_) {
    if (member == nullptr) continue;
    if (Status handed = HandTo(*member, fds, deadline); !handed.ok()) return handed;
  }
  // A member that cannot be told any more has ended, and its life descriptor tells the others.
  for (const auto& member : members_) {
    if (member != nullptr) {
      (void)SendPacket(member->socket, EncodeMeetingWord(MeetingWord::kBegin, {}));
    }
  }
  Meeting meeting;
  meeting.memory = std::move(memory.value());
  meeting.own_life_fd = std::move(life->held);
  meeting.heap = std::move(heap.value());
  meeting.life_fds.resize(options_.size);
  meeting.heaps.resize(options_.size);
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    meeting.life_fds[rank] = std::move(members_[rank]->life_fd);
    meeting.heaps[rank] = std::move(members_[rank]->heap);
  }
  return meeting;
}

// Waits until the member has read its descriptors, so that only the descriptors of one member wait
// in packets.
Status MeetingHost::HandTo(const Guest& member, const std::vector<int>& fds, Time deadline) const {
  const std::string whom = "local rank " + std::to_string(member.hello.rank) +
                           " of this machine (" + ProcessText(member.process) + ")";
  ProofBytes proof = Proof(options_.secret, kHostPurpose, member.hello_bytes, member.challenge);
  Status sent = SendInTime(options_, member.socket, EncodeMeetingWord(MeetingWord::kWelcome, proof),
                           fds, deadline);
  if (sent.code() == StatusCode::kPeerLost) return Ended(member.hello);
  if (sent.code() == StatusCode::kShutdown) return sent;
  if (!sent.ok())
    return {sent.code(), whom + " cannot get what the ranks share: " + sent.message()};
  Result<Packet> answer = AwaitPacket(options_, member.socket, deadline);
  if (!answer.ok()) {
    const StatusCode code = answer.status().code();
    if (code == StatusCode::kPeerLost) return Ended(member.hello);
    if (code == StatusCode::kShutdown) return answer.status();
    return {code, whom + " does not answer: " + answer.status().message()};
  }
  if (DecodeMeetingWord(MeetingWord::kHave, answer->bytes, 0).has_value()) return Status::Ok();
  std::optional<Status> refusal = DecodeMeetingRefusal(answer->bytes);
  if (refusal.has_value()) return {refusal->code(), whom + " says: " + refusal->message()};
  return {StatusCode::kProtocol, whom + " says what no process of this version says"};
}

}  // namespace byteps::local
