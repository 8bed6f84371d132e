// Control messages as values. On the wire they are FlatBuffers (control.fbs); nothing but this
// codec sees those. Members talk to the coordinator over one connection each.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::wire {

// What an operation does; the numbers are those of the C ABI's byteps_op.
enum class Op : uint8_t {
  kSum = 0,
  kAverage = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
  kBroadcast = 5,
  kAllgather = 6,
  kBarrier = 7,
  kReducescatter = 8,
  kAlltoall = 9,
  kJoin = 10,
};
inline constexpr int kOpCount = 11;
// How many of them combine numbers: kSum to kProduct.
inline constexpr int kReductionCount = 5;

// Of one server.
inline constexpr size_t kMoreAddressesMax = 15;

// A process asks to be a member. Everything that must be equal for all travels with it, so that
// the coordinator can name the difference.
struct Join {
  Role role = Role::kWorker;
  int32_t rank = -1;  // wanted rank or server index; -1: any
  uint64_t incarnation = 0;
  std::string host;        // host identity: processes with the same one share a network stack
  std::string address;     // where this process accepts connections ("host:port"); servers only
  uint32_t shards = 0;     // servers only
  uint32_t link_mbit = 0;  // 0: unknown, as fast as the others
  uint32_t process = 0;    // process number on its host, for messages
  uint32_t worker_count = 0;
  uint32_t server_count = 0;
  uint32_t piece_bytes_max = 0;
  std::string version;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  std::string node;  // the host's name, for messages
  // Workers: which processes form one contributor, by a text that is the same for all of them and
  // for no others, and how many they are. Empty: this process is one by itself.
  std::string contributor;
  uint32_t contributor_size = 1;
  bool machines_sum = false;  // workers: those of a machine sum first, where they can
  // This process is here, but still meets the others of its contributor: nobody is let in yet.
  bool meets = false;
  // Servers whose host has several interfaces: addresses of the others, in the same form.
  std::vector<std::string> more_addresses;
  // Workers: how many each machine of the job has, as MachineLayout::sizes; empty: not said.
  std::vector<uint32_t> local_sizes;
  bool takes_objects = false;  // workers: byteps_job_info has it

  friend bool operator==(const Join&, const Join&) = default;
};

struct Refused {
  StatusCode code = StatusCode::kRefused;
  std::string text;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// Who is missing, for people.
struct Waiting {
  std::string text;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

// A worker process. Those with one slot are one contributor.
struct WorkerInfo {
  Slot slot = 0;
  uint32_t rank = 0;  // no other process has it
  uint64_t incarnation = 0;
  std::string host;
  uint32_t process = 0;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  // It has left in order and its ranks' absence is no part of the plan: rounds that it has not
  // pushed end in an error.
  bool left = false;
  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

struct ServerInfo {
  uint32_t index = 0;
  uint64_t incarnation = 0;
  std::string host;
  std::string address;
  uint32_t process = 0;
  ShardId first_shard = 0;
  std::vector<uint32_t> shard_weights;  // one number per shard: its share of the bytes
  bool alive = true;                    // false: its pieces belong to others (plan/ownership.h)
  uint64_t since = 0;                   // the epoch in which `alive` took its value
  // What each shard owns since View::placed (plan/moves.h). Empty: what was dealt to it.
  std::vector<uint32_t> placed_weights;
  std::vector<std::string> more_addresses;  // as in Join
  friend bool operator==(const ServerInfo&, const ServerInfo&) = default;
};

// Who is in the job and who owns what. Epochs rise by one; a generation is all views with the same
// workers that have not been lost, and the same servers, dead or alive.
struct View {
  uint64_t epoch = 0;    // 0: there is none
  uint32_t founder = 0;  // drawn by the coordinator that made the first view of this job
  uint32_t generation = 0;
  uint64_t began = 0;  // the epoch with which the generation began
  uint32_t piece_bytes_max = 0;
  std::vector<WorkerInfo> workers;
  std::vector<ServerInfo> servers;
  // Workers with which the generation began and that are no members any more: who hears of the
  // generation late counts ranks like all others.
  std::vector<WorkerInfo> gone;
  // The epoch that moved pieces between the shards for the last time because of their links. 0:
  // none has, in this generation.
  uint64_t placed = 0;
  friend bool operator==(const View&, const View&) = default;
};

// By slot and rank, members and those that are gone: ranks, and what is laid out by them, are the
// same for a member that skips views.
std::vector<WorkerInfo> WorkersOfGeneration(const View& view);

// Processes that take part as one: they have one slot, and one of them, the carrier, speaks with
// the shards for all.
struct Contributor {
  Slot slot = 0;
  std::vector<WorkerInfo> processes;  // by rank; never empty
  const WorkerInfo& carrier() const { return processes.front(); }
  friend bool operator==(const Contributor&, const Contributor&) = default;
};
// By slot: of the members, and of these processes.
std::vector<Contributor> ContributorsOf(const View& view);
std::vector<Contributor> ContributorsOf(std::vector<WorkerInfo> workers);

// A view comes into force in two steps (docs/membership.md). To all members of `present`, the view
// that is in force: will you take `next` from nobody but me?
struct Propose {
  uint64_t term = 0;  // of the coordinator; restarts raise it
  View present;
  View next;
  friend bool operator==(const Propose&, const Propose&) = default;
};
struct Promise {
  uint64_t term = 0;
  uint64_t epoch = 0;  // of the next view
  friend bool operator==(const Promise&, const Promise&) = default;
};
// Enough have promised: `view` is in force.
struct Commit {
  uint64_t term = 0;
  View view;
  friend bool operator==(const Commit&, const Commit&) = default;
};

// A coordinator that has been restarted asks what it should know. A member reports, also without
// being asked when it connects and has a view already.
struct Query {
  uint64_t term = 0;
  friend bool operator==(const Query&, const Query&) = default;
};

// What must be equal on all ranks in one use of a name.
struct TensorSpec {
  Op op = Op::kSum;
  DataType dtype = DataType::kFloat32;
  uint32_t root = 0;           // rank; broadcast only
  std::vector<int64_t> shape;  // allgather, alltoall: without the first dimension
  bool atomic = false;         // one receipt for the whole tensor
  Op combine = Op::kSum;       // reducescatter only
  uint32_t group = 0;          // process set: who takes part; 0: everybody
  std::string detail;          // what else must be equal, as a text for people
  uint8_t codec = 0;           // how its pieces are encoded (data.h); 0: they are not
  friend auto operator<=>(const TensorSpec&, const TensorSpec&) = default;
};
// A longer detail is refused.
inline constexpr size_t kDetailBytesMax = 1024;
// Of what is declared; together they stay far below kControlBytesMax, and so does a text that
// quotes what each of the ranks has.
inline constexpr size_t kNameBytesMax = 4096;
inline constexpr size_t kDimensionsMax = 255;

// The ranks of each process set use a name by and by with any number of specs; each spec is a
// tensor of its own. Uses are counted together, over all specs, and the round of an operation is
// the number of its use (data.h): all ranks of the set must mean the same tensor in one round.
//
// A name in one process set is a course. The coordinator numbers courses, in ascending order. When
// all ranks have let go of all tensors of a course, the coordinator forgets it, and the next use of
// the name begins another course. 0: the rank knows nothing of the name.
//
// One use of a name. `attempt` counts the failures in the course; each attempt begins with round 1
// and without tensors.
struct Use {
  uint32_t group = 0;
  uint32_t attempt = 0;
  uint64_t round = 1;
  uint32_t course = 0;
  friend bool operator==(const Use&, const Use&) = default;
  // Uses of a course that is over come before all of the next one.
  friend std::strong_ordering operator<=>(const Use& a, const Use& b) {
    return std::tie(a.group, a.course, a.attempt, a.round) <=>
           std::tie(b.group, b.course, b.attempt, b.round);
  }
};
struct NamedUse {
  std::string name;
  Use use;
  friend auto operator<=>(const NamedUse&, const NamedUse&) = default;
};

// A worker uses a name with this spec for the first time in this attempt, in this round.
struct Declare {
  std::string name;
  uint32_t attempt = 0;
  TensorSpec spec;
  uint64_t round = 1;
  uint32_t course = 0;
  friend bool operator==(const Declare&, const Declare&) = default;
};

// `placement` is the dealer's state (plan::PieceAssigner) from which all workers deal the pieces.
struct Declared {
  std::string name;
  uint32_t group = 0;
  uint32_t attempt = 0;
  TensorId tensor = 0;
  std::vector<uint64_t> placement;
  uint32_t course = 0;
  friend bool operator==(const Declared&, const Declared&) = default;
};

// The attempt fails on every rank of the process set, from the round of `use` on; its tensors are
// retired. It is one failure with that of `also`, uses of this name in other sets or of other
// names: a rank that has raised it in one of them has raised it in all.
struct DeclareFailed {
  std::string name;
  Use use;
  std::vector<TensorId> tensors;
  StatusCode code = StatusCode::kMismatch;
  std::string text;
  std::vector<NamedUse> also;
  friend bool operator==(const DeclareFailed&, const DeclareFailed&) = default;
};

// Operations of a worker that have not ended for a while, each told once: a rank that goes back to
// a spec that it knows asks nobody, so this is how a difference is noticed then.
struct OverdueUse {
  std::string name;
  Use use;
  TensorId tensor = UINT32_MAX;  // UINT32_MAX: it was told of, and has ended in an error since
  std::vector<Use> elsewhere;    // the sender's last uses of this name in other process sets
  bool stuck = false;            // the sender can begin nothing before it has ended
  friend bool operator==(const OverdueUse&, const OverdueUse&) = default;
};
struct GroupRanks {
  uint32_t number = 0;
  std::vector<uint32_t> ranks;
  friend bool operator==(const GroupRanks&, const GroupRanks&) = default;
};
struct Overdue {
  std::vector<OverdueUse> uses;
  std::vector<GroupRanks> groups;  // those of `uses`, except for 0: everybody
  friend bool operator==(const Overdue&, const Overdue&) = default;
};

// To a worker that is stuck in a use: which of `uses` have you not begun? And back: these. It may
// have begun an earlier one of the same name, no later one.
struct Unbegun {
  NamedUse stuck;
  std::vector<NamedUse> uses;
  friend bool operator==(const Unbegun&, const Unbegun&) = default;
};

// What a worker knows of declarations, for a coordinator that has lost them; comes before its
// Report, in as many parts as it needs.
struct KnownTensor {
  Declared declared;
  TensorSpec spec;
  bool let_go = false;  // the worker has let go of it
  friend bool operator==(const KnownTensor&, const KnownTensor&) = default;
};
struct Known {
  std::vector<KnownTensor> tensors;
  std::vector<DeclareFailed> failed;
  friend bool operator==(const Known&, const Known&) = default;
};

// A restarted coordinator has heard what every worker knows: of the tensors from `first` to before
// `end`, numbers that it does not give itself, nobody who is in the job knows others than these.
struct StillKnown {
  TensorId first = 0;
  TensorId end = 0;
  std::vector<TensorId> tensors;
  friend bool operator==(const StillKnown&, const StillKnown&) = default;
};

// From a worker: it has not used these tensors for long, and its last use of each ended well. It
// asks again (Declare) before it uses one of them.
struct LetGo {
  std::vector<TensorId> tensors;
  friend bool operator==(const LetGo&, const LetGo&) = default;
};
// From the coordinator: all ranks have let go of these tensors. To workers also: of all tensors of
// these courses, so that the next use of the name is the first one.
struct CourseNumber {
  std::string name;
  uint32_t group = 0;
  uint32_t number = 0;
  friend bool operator==(const CourseNumber&, const CourseNumber&) = default;
};
struct Forgotten {
  std::vector<TensorId> tensors;
  std::vector<CourseNumber> courses;
  friend bool operator==(const Forgotten&, const Forgotten&) = default;
};

struct Report {
  Join self;          // as when it joined
  uint64_t term = 0;  // the highest it has met
  View committed;
  uint64_t promised_term = 0;
  View promised;       // epoch 0: nothing beyond `committed`
  uint32_t syncs = 0;  // sync points of the generation in force that are behind it
  friend bool operator==(const Report&, const Report&) = default;
};

// A worker has finished all its operations and lets new workers in here; nothing may be in flight.
// The answer is a view that begins a generation, or GoOn when nobody waits. `point` numbers the
// sync points of a generation from 1: an answer that got lost is told from one that is not due yet.
struct Sync {
  uint32_t generation = 0;
  uint32_t point = 1;
  friend bool operator==(const Sync&, const Sync&) = default;
};
struct GoOn {
  uint32_t generation = 0;
  uint32_t point = 1;
  friend bool operator==(const GoOn&, const GoOn&) = default;
};

// Orderly end of a worker's membership. `clean`: it has no operation in flight.
struct Leave {
  bool clean = true;
  friend bool operator==(const Leave&, const Leave&) = default;
};

// How far a use of a name is on one rank. Part of the wire format: never renumber.
enum class UseStage : uint8_t {
  kNotBegun = 0,
  kDeclares = 1,   // the coordinator has not said yet what the name stands for
  kPrepares = 2,   // sizes, pieces, copies
  kExchanges = 3,  // its pieces go out, or it waits for answers
  kEnded = 4,
  kJoined = 5,  // the rank has joined and takes no part
};
inline constexpr UseStage kLastUseStage = UseStage::kJoined;
const char* TextFor(UseStage stage);

struct UseState {
  NamedUse use;
  TensorId tensor = UINT32_MAX;  // UINT32_MAX: it has no number yet
  UseStage stage = UseStage::kNotBegun;
  uint32_t age_ms = 0;   // since it began
  uint32_t left_ms = 0;  // until it passes its limit, at least 1; 0: none, or not known
  friend bool operator==(const UseState&, const UseState&) = default;
};
// An operation that has ended well took so long from its begin to its end on one rank. All ranks
// come to the end at about the same time, so who took the least time came last.
struct Took {
  TensorId tensor = 0;
  uint64_t round = 0;
  uint32_t us = 0;
  friend bool operator==(const Took&, const Took&) = default;
};
// What a worker does, for people: nothing is decided by it.
struct Account {
  uint64_t ended = 0;  // operations of this session, those that failed included
  uint64_t failed = 0;
  uint64_t bytes = 0;          // which it gave to those that ended well
  uint32_t open = 0;           // operations
  uint32_t idle_ms = 0;        // nothing has been open for so long
  std::vector<UseState> uses;  // the oldest that are open for long, and those it was asked about
  std::vector<GroupRanks> groups;  // those of `uses`, except for 0: everybody
  std::vector<Took> took;          // since the last account
  friend bool operator==(const Account&, const Account&) = default;
};
inline constexpr size_t kUsesInAccountMax = 16;
inline constexpr size_t kTookInAccountMax = 256;
// What keeps a rank's use waiting that passes its limit soon, or has passed it.
struct UseNote {
  NamedUse use;
  std::string others;     // which ranks have not begun it, and what the first of them does
  uint32_t quiet_ms = 0;  // none of these has ended an operation for so long
  friend bool operator==(const UseNote&, const UseNote&) = default;
};
// Both ways: I live. A worker gives an account of itself; the coordinator asks about uses.
struct Alive {
  std::optional<Account> account;
  std::vector<NamedUse> asked;
  std::vector<UseNote> notes;
  friend bool operator==(const Alive&, const Alive&) = default;
};

// Why a member believes that another one is gone. Part of the wire format: never renumber.
enum class Suspicion : uint8_t {
  kClosed = 0,       // its connection broke
  kUnreachable = 1,  // it could not be reached again within the grace
  kNonsense = 2,     // it sent what no correct member sends
  kGaveUp = 3,       // the sender means itself
  kExited = 4,       // the launcher saw the process end: it is proven dead
};
struct Suspect {
  Role role = Role::kServer;
  // Slot of a contributor, index of a server. A launcher knows no slots: it says the rank of a
  // worker. Nobody reads it in kGaveUp.
  uint32_t index = 0;
  uint64_t incarnation = 0;  // 0: whichever has the index
  Suspicion why = Suspicion::kClosed;
  std::string text;
  // Of the connection that was closed: none outlives its generation, so the end of an older one
  // says nothing. 0: of no connection.
  uint32_t generation = 0;
  friend bool operator==(const Suspect&, const Suspect&) = default;
};

// The job has ended for everybody: code kOk in order, otherwise why.
struct JobOver {
  StatusCode code = StatusCode::kOk;
  std::string text;
  friend bool operator==(const JobOver&, const JobOver&) = default;
};

// What a worker has exchanged with a shard while its credit was used up, so that the links set the
// pace and not the program: the bytes of pieces that were answered, the time in which any piece was
// between push and answer at this shard, and the time of the measurement.
struct ShardRate {
  ShardId shard = 0;
  uint64_t bytes = 0;
  uint64_t busy_us = 0;
  uint64_t active_us = 0;
  friend bool operator==(const ShardRate&, const ShardRate&) = default;
};
// Measured in the view of this epoch.
struct Rates {
  uint64_t epoch = 0;
  std::vector<ShardRate> shards;
  // Of the bursts that have ended (plan/exchange_meter.h).
  uint64_t burst_bytes = 0;
  uint64_t burst_us = 0;
  friend bool operator==(const Rates&, const Rates&) = default;
};

// Copied, moved, compared and destroyed in control.cc: compiled anew in every file that holds
// messages, the tables of so many kinds cost a second of each.
struct Message
    : std::variant<Join, Refused, Waiting, Propose, Promise, Commit, Query, Report, Known, Declare,
                   Declared, DeclareFailed, Sync, GoOn, Leave, Alive, Suspect, JobOver, Overdue,
                   Unbegun, StillKnown, Rates, LetGo, Forgotten> {
  using variant::variant;
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
  friend bool operator==(const Message& a, const Message& b);
};

// Slots are below this number.
inline constexpr uint32_t kMembersMax = 1 << 16;
// Of a piece.
inline constexpr uint32_t kPieceBytesMax = uint32_t{64} << 20;

// The largest control message a receiver accepts.
inline constexpr size_t kControlBytesMax = size_t{16} << 20;
// Where a sender may divide what it says: a message of this many bytes, and what a use, or the
// number of a rank, takes of it at most.
inline constexpr size_t kControlPartBytes = size_t{1} << 20;
inline constexpr size_t kControlUseBytes = 32;

std::vector<std::byte> EncodeControl(const Message& message);

// kProtocol for bytes that are no message; never reads outside `bytes`.
Result<Message> DecodeControl(ConstByteSpan bytes);

}  // namespace byteps::wire
