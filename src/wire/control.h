// Control messages as values. On the wire they are FlatBuffers (control.fbs), which only this codec
// sees. Each member talks to the coordinator over one connection.
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

// The kinds of operations; the numbers are those of the C ABI's byteps_op.
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
// The number of kinds that combine numbers: kSum to kProduct.
inline constexpr int kReductionCount = 5;

// The most further addresses of one server.
inline constexpr size_t kMoreAddressesMax = 15;

// A process asks to be a member. The message has everything that must be equal for all, so that the
// coordinator can name a difference.
struct Join {
  Role role = Role::kWorker;
  int32_t rank = -1;  // wanted rank or server index; -1: any
  uint64_t incarnation = 0;
  std::string host;        // host identity: processes with the same one share a network stack
  std::string address;     // where this process accepts connections ("host:port"); servers only
  uint32_t shards = 0;     // servers only
  uint32_t link_mbit = 0;  // 0: unknown; counts as fast as the others
  uint32_t process = 0;    // process number on its host, for messages
  uint32_t worker_count = 0;
  uint32_t server_count = 0;
  uint32_t piece_bytes_max = 0;
  std::string version;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  std::string node;  // the host's name, for messages
  // Workers: a text that is the same for all processes of one contributor and for no others, and
  // the number of these processes. Empty: this process is a contributor by itself.
  std::string contributor;
  uint32_t contributor_size = 1;
  bool machines_sum = false;  // workers: those of a machine sum first, if they can
  // If set, it still meets the others of its contributor, and the coordinator admits none of them.
  bool meets = false;
  // Servers whose host has several interfaces: addresses of the other interfaces, in the same form.
  std::vector<std::string> more_addresses;
  // Workers: the number of workers of each machine, like MachineLayout::sizes; empty: not known.
  std::vector<uint32_t> local_sizes;
  bool takes_objects = false;  // workers: byteps_job_info has it

  friend bool operator==(const Join&, const Join&) = default;
};

struct Refused {
  StatusCode code = StatusCode::kRefused;
  std::string text;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// Names the missing processes, for people.
struct Waiting {
  std::string text;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

// A worker process. The processes with the same slot are one contributor.
struct WorkerInfo {
  Slot slot = 0;
  uint32_t rank = 0;  // no other process has it
  uint64_t incarnation = 0;
  std::string host;
  uint32_t process = 0;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  // If set, the worker has left in order, and other ranks may still need it: rounds that it has not
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
  // The weight of each shard's pieces since View::placed (plan/moves.h). Empty: the dealt pieces.
  std::vector<uint32_t> placed_weights;
  std::vector<std::string> more_addresses;  // as in Join
  friend bool operator==(const ServerInfo&, const ServerInfo&) = default;
};

// The members of the job and the owners of pieces. Epochs rise by one. A generation is all views
// with the same workers, except for lost ones, and the same servers, dead or alive.
struct View {
  uint64_t epoch = 0;    // 0: there is none
  uint32_t founder = 0;  // drawn by the coordinator that made the first view of this job
  uint32_t generation = 0;
  uint64_t began = 0;  // the epoch with which the generation began
  uint32_t piece_bytes_max = 0;
  std::vector<WorkerInfo> workers;
  std::vector<ServerInfo> servers;
  // Workers with which the generation began and that are no members any more. With them a member
  // that learns of the generation late counts ranks like all others.
  std::vector<WorkerInfo> gone;
  // The last epoch in this generation that moved pieces between the shards because of their links.
  // 0: there is none.
  uint64_t placed = 0;
  friend bool operator==(const View&, const View&) = default;
};

// Returns members and gone workers, by slot and rank. So a member that skips views has the same
// ranks and the same layouts by rank.
std::vector<WorkerInfo> WorkersOfGeneration(const View& view);

// Processes that take part as one. They have one slot, and one of them, the carrier, talks to the
// shards for all.
struct Contributor {
  Slot slot = 0;
  std::vector<WorkerInfo> processes;  // by rank; never empty
  const WorkerInfo& carrier() const { return processes.front(); }
  friend bool operator==(const Contributor&, const Contributor&) = default;
};
// Return contributors by slot: of the view's members, and of these processes.
std::vector<Contributor> ContributorsOf(const View& view);
std::vector<Contributor> ContributorsOf(std::vector<WorkerInfo> workers);

// A view comes into force in two steps (docs/membership.md). The coordinator asks all members of
// `present`, the view in force, to take `next` from no other coordinator.
struct Propose {
  uint64_t term = 0;  // the coordinator's; restarts raise it
  View present;
  View next;
  friend bool operator==(const Propose&, const Propose&) = default;
};
struct Promise {
  uint64_t term = 0;
  uint64_t epoch = 0;  // of the next view
  friend bool operator==(const Promise&, const Promise&) = default;
};
// Enough members have promised, so `view` is in force.
struct Commit {
  uint64_t term = 0;
  View view;
  friend bool operator==(const Commit&, const Commit&) = default;
};

// A coordinator that has been restarted asks members for a Report. A member that has a view already
// also reports unasked when it connects.
struct Query {
  uint64_t term = 0;
  friend bool operator==(const Query&, const Query&) = default;
};

// The facts that must be equal on all ranks in one use of a name.
struct TensorSpec {
  Op op = Op::kSum;
  DataType dtype = DataType::kFloat32;
  uint32_t root = 0;           // rank; broadcast only
  std::vector<int64_t> shape;  // allgather, alltoall: without the first dimension
  bool atomic = false;         // one receipt for the whole tensor
  Op combine = Op::kSum;       // reducescatter only
  uint32_t process_set = 0;    // the process set whose ranks take part; 0: all ranks
  std::string detail;          // other facts that must be equal, as a text for people
  uint8_t codec = 0;           // how its pieces are encoded (data.h); 0: they are not
  friend auto operator<=>(const TensorSpec&, const TensorSpec&) = default;
};
// Receivers refuse a longer detail.
inline constexpr size_t kDetailBytesMax = 1024;
// Limits of a declaration. Together they stay far below kControlBytesMax, and so does a text that
// quotes the declaration of every rank.
inline constexpr size_t kNameBytesMax = 4096;
inline constexpr size_t kDimensionsMax = 255;

// The ranks of a process set may use a name with any number of specs over time; each spec is a
// tensor of its own. Uses are counted together, over all specs, and the round of an operation is
// the number of its use (data.h). All ranks of the set must use the same tensor in one round.
//
// A name has one lifetime after the other in a process set. The coordinator numbers lifetimes, in
// ascending order. When all ranks have let go of all tensors of a lifetime, the coordinator forgets
// it, and the next use of the name begins another lifetime. 0: the rank does not know the name.
//
// A Use is one use of a name. `attempt` counts the failures in the lifetime; each attempt begins
// with round 1 and without tensors.
struct Use {
  uint32_t process_set = 0;
  uint32_t attempt = 0;
  uint64_t round = 1;
  uint32_t lifetime = 0;
  friend bool operator==(const Use&, const Use&) = default;
  // Uses of an earlier lifetime come before all uses of a later one.
  friend std::strong_ordering operator<=>(const Use& a, const Use& b) {
    return std::tie(a.process_set, a.lifetime, a.attempt, a.round) <=>
           std::tie(b.process_set, b.lifetime, b.attempt, b.round);
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
  uint32_t lifetime = 0;
  friend bool operator==(const Declare&, const Declare&) = default;
};

// Answers a Declare. All workers deal the pieces from `placement` (plan::PieceAssigner::State).
struct Declared {
  std::string name;
  uint32_t process_set = 0;
  uint32_t attempt = 0;
  TensorId tensor = 0;
  std::vector<uint64_t> placement;
  uint32_t lifetime = 0;
  friend bool operator==(const Declared&, const Declared&) = default;
};

// The attempt fails on every rank of the process set, from the round of `use` on, and its tensors
// retire. `also` has uses of this name in other sets, or of other names, with the same failure: a
// rank that has raised it in one of them has raised it in all.
struct DeclareFailed {
  std::string name;
  Use use;
  std::vector<TensorId> tensors;
  StatusCode code = StatusCode::kMismatch;
  std::string text;
  std::vector<NamedUse> also;
  friend bool operator==(const DeclareFailed&, const DeclareFailed&) = default;
};

// A worker tells once of each operation that has not ended for a while. A rank that goes back to a
// spec that it knows asks nobody, so only these messages show a difference then.
struct OverdueUse {
  std::string name;
  Use use;
  TensorId tensor = UINT32_MAX;  // UINT32_MAX: told before, and ended in an error since
  std::vector<Use> elsewhere;    // the sender's last uses of this name in other process sets
  bool stuck = false;            // the sender can begin nothing before it has ended
  friend bool operator==(const OverdueUse&, const OverdueUse&) = default;
};
struct ProcessSetRanks {
  uint32_t number = 0;
  std::vector<uint32_t> ranks;
  friend bool operator==(const ProcessSetRanks&, const ProcessSetRanks&) = default;
};
struct Overdue {
  std::vector<OverdueUse> uses;
  std::vector<ProcessSetRanks> process_sets;  // sets of `uses`, without 0: all ranks
  friend bool operator==(const Overdue&, const Overdue&) = default;
};

// The coordinator asks a stuck worker which of `uses` it has not begun, and the worker answers with
// these. It may have begun an earlier use of the same name, and no later one.
struct Unbegun {
  NamedUse stuck;
  std::vector<NamedUse> uses;
  friend bool operator==(const Unbegun&, const Unbegun&) = default;
};

// A worker tells its declarations to a coordinator that has lost them. The messages come before the
// worker's Report, in as many parts as necessary.
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

// A restarted coordinator, which has heard from every worker, tells servers: from `first` to before
// `end`, numbers that it does not give itself, no member of the job knows other tensors than these.
struct StillKnown {
  TensorId first = 0;
  TensorId end = 0;
  std::vector<TensorId> tensors;
  friend bool operator==(const StillKnown&, const StillKnown&) = default;
};

// A worker lets go of tensors that it has not used for long and whose last use ended well. It asks
// again (Declare) before it uses one of them.
struct LetGo {
  std::vector<TensorId> tensors;
  friend bool operator==(const LetGo&, const LetGo&) = default;
};
// The coordinator tells that all ranks have let go of these tensors. It also tells workers this of
// all tensors of these lifetimes, so that the next use of the name is the first one.
struct LifetimeNumber {
  std::string name;
  uint32_t process_set = 0;
  uint32_t number = 0;
  friend bool operator==(const LifetimeNumber&, const LifetimeNumber&) = default;
};
struct Forgotten {
  std::vector<TensorId> tensors;
  std::vector<LifetimeNumber> lifetimes;
  friend bool operator==(const Forgotten&, const Forgotten&) = default;
};

struct Report {
  Join self;          // the same as when it joined
  uint64_t term = 0;  // the highest term that it has met
  View committed;
  uint64_t promised_term = 0;
  View promised;       // epoch 0: no view beyond `committed`
  uint32_t syncs = 0;  // sync points that it has passed in the generation in force
  friend bool operator==(const Report&, const Report&) = default;
};

// A worker has finished all its operations and lets new workers in here; no operation may be in
// flight. The answer is a view that begins a generation, or GoOn if nobody waits. `point` numbers
// the sync points of a generation from 1, to tell a lost answer from one that is not due yet.
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

// A worker ends its membership in order. `clean`: it has no operation in flight.
struct Leave {
  bool clean = true;
  friend bool operator==(const Leave&, const Leave&) = default;
};

// The stage of a use of a name on one rank. Part of the wire format: never renumber.
enum class UseStage : uint8_t {
  kNotBegun = 0,
  kDeclares = 1,   // the coordinator has not answered the declaration yet
  kPrepares = 2,   // sizes, pieces, copies
  kExchanges = 3,  // its pieces go out, or it waits for answers
  kEnded = 4,
  kJoined = 5,  // the rank has joined and takes no part
};
inline constexpr UseStage kLastUseStage = UseStage::kJoined;
const char* TextFor(UseStage stage);

struct UseState {
  NamedUse use;
  TensorId tensor = UINT32_MAX;  // UINT32_MAX: no number yet
  UseStage stage = UseStage::kNotBegun;
  uint32_t age_ms = 0;   // since it began
  uint32_t left_ms = 0;  // until it passes its limit, at least 1; 0: no limit, or not known
  friend bool operator==(const UseState&, const UseState&) = default;
};
// The time from the begin to the end of an operation that has ended well on one rank. All ranks
// come to the end at about the same time, so the rank that took the least time came last.
struct Took {
  TensorId tensor = 0;
  uint64_t round = 0;
  uint32_t us = 0;
  friend bool operator==(const Took&, const Took&) = default;
};
// Shows the work of a worker to people. One decision rests on it: when a join ends at its limit.
struct Account {
  uint64_t ended = 0;  // operations of this session, those that failed included
  uint64_t failed = 0;
  uint64_t bytes = 0;          // which it gave to operations that ended well
  uint32_t open = 0;           // operations
  uint32_t idle_ms = 0;        // no operation has been open for so long
  std::vector<UseState> uses;  // the oldest open ones, and uses that it was asked about
  std::vector<ProcessSetRanks> process_sets;  // sets of `uses`, without 0: all ranks
  std::vector<Took> took;                     // since the last account
  friend bool operator==(const Account&, const Account&) = default;
};
inline constexpr size_t kUsesInAccountMax = 16;
inline constexpr size_t kTookInAccountMax = 256;
// Tells why a rank's use waits that passes its limit soon, or has passed it.
struct UseNote {
  NamedUse use;
  std::string others;     // the ranks that have not begun it, and what the first of them does
  uint32_t quiet_ms = 0;  // none of these ranks has ended an operation for so long
  friend bool operator==(const UseNote&, const UseNote&) = default;
};
// The sender lives. A worker gives an account of itself; the coordinator asks about uses.
struct Alive {
  std::optional<Account> account;
  std::vector<NamedUse> asked;
  std::vector<UseNote> notes;
  friend bool operator==(const Alive&, const Alive&) = default;
};

// Reasons to believe that a member is gone. Part of the wire format: never renumber.
enum class Suspicion : uint8_t {
  kClosed = 0,       // its connection broke
  kUnreachable = 1,  // the sender could not reach it again within the grace
  kNonsense = 2,     // it sent bytes that no correct member sends
  kGaveUp = 3,       // the sender means itself
  kExited = 4,       // the launcher saw the process end: it is proven dead
};
struct Suspect {
  Role role = Role::kServer;
  // The slot of a contributor, or the index of a server. A launcher knows no slots, so it gives the
  // rank of a worker. Nobody reads it in kGaveUp.
  uint32_t index = 0;
  uint64_t incarnation = 0;  // 0: the member that has the index
  Suspicion why = Suspicion::kClosed;
  std::string text;
  // The generation of the connection that was closed. A connection ends with its generation, so an
  // older one proves nothing. 0: the suspicion is about no connection.
  uint32_t generation = 0;
  friend bool operator==(const Suspect&, const Suspect&) = default;
};

// The job has ended for all members. The code is kOk if it ended in order, otherwise the reason.
struct JobOver {
  StatusCode code = StatusCode::kOk;
  std::string text;
  friend bool operator==(const JobOver&, const JobOver&) = default;
};

// The exchange of a worker with a shard while the worker's credit was used up, so that the links
// set the pace and not the program: the bytes of answered pieces, the time in which any piece was
// between push and answer at this shard, and the time of the measurement.
struct ShardRate {
  ShardId shard = 0;
  uint64_t bytes = 0;
  uint64_t busy_us = 0;
  uint64_t active_us = 0;
  friend bool operator==(const ShardRate&, const ShardRate&) = default;
};
// The measurements of a worker in the view of this epoch.
struct Rates {
  uint64_t epoch = 0;
  std::vector<ShardRate> shards;
  // The bytes and the time of the bursts that have ended (plan/exchange_meter.h).
  uint64_t burst_bytes = 0;
  uint64_t burst_us = 0;
  friend bool operator==(const Rates&, const Rates&) = default;
};

// control.cc defines copy, move, comparison and destruction. The tables of so many kinds would cost
// a second of compilation in every file that holds messages.
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
// The largest piece.
inline constexpr uint32_t kPieceBytesMax = uint32_t{64} << 20;

// The largest control message a receiver accepts.
inline constexpr size_t kControlBytesMax = size_t{16} << 20;
// Limits for a sender that divides its message into parts: the bytes of one part, and the most
// bytes that a use, or the number of a rank, takes of it.
inline constexpr size_t kControlPartBytes = size_t{1} << 20;
inline constexpr size_t kControlUseBytes = 32;

std::vector<std::byte> EncodeControl(const Message& message);

// Reads a message. kProtocol: the bytes are no message. Never reads outside `bytes`.
Result<Message> DecodeControl(ConstByteSpan bytes);

}  // namespace byteps::wire
