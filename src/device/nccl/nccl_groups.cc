#include "src/device/nccl/nccl_groups.h"

#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/device/nccl/library.h"

namespace byteps::device::nccl {
namespace {

static_assert(sizeof(GroupId) == UniqueId::kBytes);

int TypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32: return kFloat32;
    case DataType::kFloat64: return kFloat64;
    case DataType::kFloat16: return kFloat16;
    case DataType::kBfloat16: return kBfloat16;
    case DataType::kInt8: return kInt8;
    case DataType::kInt32: return kInt32;
    case DataType::kInt64: return kInt64;
    case DataType::kUint8: return kUint8;
    case DataType::kInt16:
    case DataType::kBool: break;
  }
  BYTEPS_CHECK(false);  // see CanReduce
  return kUint8;
}

int OperatorOf(Combine how) {
  switch (how) {
    case Combine::kSum: return kSum;
    case Combine::kProduct: return kProduct;
    case Combine::kMax: return kMax;
    case Combine::kMin: return kMin;
    case Combine::kAverage: return kAverage;
    default: break;
  }
  BYTEPS_CHECK(false);  // see CanReduceAll
  return kSum;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Library& library, Comm comm, uint32_t rank, uint32_t size)
      : library_(library), comm_(comm), rank_(rank), size_(size) {}

  Result<bool> Ask() override {
    if (comm_ == nullptr) return true;
    Code state = kSuccess;
    Status status = Check(library_.call().ncclCommGetAsyncError(comm_, &state), "a group of GPUs");
    if (status.ok()) status = Check(state, "a group of GPUs");
    if (!status.ok()) return status;
    if (state == kInProgress) return false;
    if (!leaves_) return true;
    status = Check(library_.call().ncclCommDestroy(comm_), "the end of a group of GPUs");
    if (!status.ok()) return status;
    comm_ = nullptr;
    return true;
  }

  // All of a launch is one group call, so NCCL launches it at once. After an error the group call
  // must be closed nevertheless.
  Status Begin(const Launch& launch, CopyStream& stream) override {
    Status status = Check(library_.call().ncclGroupStart(), "a launch");
    if (!status.ok()) return status;
    auto* const on = static_cast<Stream>(stream.handle());
    switch (launch.kind) {
      case Launch::Kind::kReduce: status = Reduce(launch, on); break;
      case Launch::Kind::kReduceAll: status = ReduceAll(launch, on); break;
      case Launch::Kind::kGather: status = Gather(launch, on); break;
    }
    Status closed = Check(library_.call().ncclGroupEnd(), "a launch");
    return status.ok() ? closed : status;
  }

  Status Leave() override {
    leaves_ = true;
    return Check(library_.call().ncclCommFinalize(comm_), "the end of a group of GPUs");
  }

  // Nobody could do anything after an error here.
  void Abort() override {
    if (comm_ != nullptr) library_.call().ncclCommAbort(comm_);
    comm_ = nullptr;
  }

 private:
  Status Check(Code code, const char* what) const { return library_.Check(code, what, comm_); }

  Status Reduce(const Launch& launch, Stream stream) const {
    const size_t element = SizeOf(launch.type);
    const int type = TypeOf(launch.type);
    const int how = OperatorOf(launch.how);
    if (AreEqualRuns(launch.runs, size_)) {
      const GroupRun& own = launch.runs[rank_];
      return Check(library_.call().ncclReduceScatter(launch.from + launch.runs[0].first,
                                                     launch.to + own.first, own.bytes / element,
                                                     type, how, comm_, stream),
                   "a reduce-scatter");
    }
    Status status;
    for (const GroupRun& run : launch.runs) {
      if (!status.ok() || run.bytes == 0) continue;
      status = Check(library_.call().ncclReduce(launch.from + run.first, launch.to + run.first,
                                                run.bytes / element, type, how,
                                                static_cast<int>(run.home), comm_, stream),
                     "a reduce");
    }
    return status;
  }

  Status ReduceAll(const Launch& launch, Stream stream) const {
    return Check(
        library_.call().ncclAllReduce(launch.from, launch.to, launch.bytes / SizeOf(launch.type),
                                      TypeOf(launch.type), OperatorOf(launch.how), comm_, stream),
        "an all-reduce");
  }

  Status Gather(const Launch& launch, Stream stream) const {
    if (AreEqualRuns(launch.runs, size_)) {
      const GroupRun& own = launch.runs[rank_];
      return Check(
          library_.call().ncclAllGather(launch.to + own.first, launch.to + launch.runs[0].first,
                                        own.bytes, kUint8, comm_, stream),
          "an all-gather");
    }
    Status status;
    for (const GroupRun& run : launch.runs) {
      if (!status.ok() || run.bytes == 0) continue;
      std::byte* const place = launch.to + run.first;
      status = Check(library_.call().ncclBroadcast(place, place, run.bytes, kUint8,
                                                   static_cast<int>(run.home), comm_, stream),
                     "a broadcast");
    }
    return status;
  }

  const Library& library_;
  Comm comm_ = nullptr;  // null: nothing is left of it
  const uint32_t rank_;
  const uint32_t size_;
  bool leaves_ = false;
};

class NcclGroups final : public Groups {
 public:
  explicit NcclGroups(Library library)
      : library_(std::move(library)), name_("NCCL " + library_.version()) {}

  const std::string& name() const override { return name_; }

  Result<GroupId> NewId() override {
    UniqueId made{};
    Status status =
        library_.Check(library_.call().ncclGetUniqueId(&made), "the name of a group", nullptr);
    if (!status.ok()) return status;
    GroupId id;
    std::memcpy(id.data(), made.bytes, sizeof(made.bytes));
    return id;
  }

  // The communicator is non-blocking: NCCL can abort no other one safely.
  Result<std::unique_ptr<Communicator>> Join(const GroupId& id, uint32_t rank,
                                             uint32_t size) override {
    UniqueId own{};
    std::memcpy(own.bytes, id.data(), sizeof(own.bytes));
    Config config;
    config.blocking = 0;
    Comm comm = nullptr;
    const Code code = library_.call().ncclCommInitRankConfig(&comm, static_cast<int>(size), own,
                                                             static_cast<int>(rank), &config);
    Status status = library_.Check(code, "joining a group of GPUs", nullptr);
    if (!status.ok()) {
      if (comm != nullptr) library_.call().ncclCommAbort(comm);
      return status;
    }
    return std::unique_ptr<Communicator>(
        std::make_unique<NcclCommunicator>(library_, comm, rank, size));
  }

 private:
  const Library library_;
  const std::string name_;
};

}  // namespace

Result<std::unique_ptr<Groups>> FindGroups(const std::string& library) {
  Result<Library> found = Library::Load(library);
  if (!found.ok()) return found.status();
  return std::unique_ptr<Groups>(std::make_unique<NcclGroups>(std::move(found).value()));
}

}  // namespace byteps::device::nccl
