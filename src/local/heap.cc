#include "src/local/heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace byteps::local {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kLargeUnitBytes = uint64_t{2} << 20;
// The address space of all heaps together: a rank maps as many heaps as its machine has ranks.
constexpr uint64_t kSpaceBytes = uint64_t{1} << 45;

uint64_t UpTo(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

size_t Heap::BytesFor(uint32_t ranks) {
  const auto pages = static_cast<uint64_t>(std::max<long>(sysconf(_SC_PHYS_PAGES), 1));
  const auto page = static_cast<uint64_t>(std::max<long>(sysconf(_SC_PAGESIZE), 1));
  uint64_t bytes = std::min(pages * page, kSpaceBytes / ranks);
  // The system kills a process that makes a larger file (ulimit -f).
  rlimit file{};
  if (getrlimit(RLIMIT_FSIZE, &file) == 0) bytes = std::min<uint64_t>(bytes, file.rlim_cur);
  return bytes / kPageBytes * kPageBytes;
}

Result<std::shared_ptr<Heap>> Heap::Create(size_t bytes) {
  UniqueFd own(memfd_create("byteps heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!own || ftruncate(own.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(own.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError(StatusCode::kExhausted, "no memory that ranks could share (memfd_create)");
  }
  // A seal against writing would keep this process from giving pages back. So the other ranks get a
  // descriptor that was opened for reading, and the file's mode keeps them from opening another
  // one.
  (void)fchmod(own.get(), S_IRUSR);
  const std::string path = "/proc/self/fd/" + std::to_string(own.get());
  UniqueFd for_others(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!for_others) for_others = UniqueFd(fcntl(own.get(), F_DUPFD_CLOEXEC, 0));  // without /proc
  if (!for_others)
    return SystemError(StatusCode::kExhausted, "no descriptor for memory that ranks could share");
  return std::make_shared<Heap>(std::move(own), std::move(for_others), bytes);
}

Heap::Heap(UniqueFd own, UniqueFd for_others, size_t bytes)
    : own_(std::move(own)), for_others_(std::move(for_others)), bytes_(bytes) {
  free_[0] = bytes;
}

Heap::~Heap() {
  if (base_.load() != nullptr) munmap(base_.load(), bytes_);
}

Status Heap::MapIfFirst() {
  if (base_.load() != nullptr) return Status::Ok();
  void* address =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, own_.get(), 0);
  if (address == MAP_FAILED)
    return SystemError(StatusCode::kExhausted, "no address space for shared tensors");
  madvise(address, bytes_, MADV_HUGEPAGE);  // a wish
  // A dump of the whole heap would touch all of it.
  madvise(address, bytes_, MADV_DONTDUMP);
  base_.store(static_cast<std::byte*>(address));
  return Status::Ok();
}

void Heap::LetGoIfLast() {
  if (!closed_ || !taken_.empty()) return;
  if (base_.load() != nullptr) munmap(base_.exchange(nullptr), bytes_);
  own_.Close();
  for_others_.Close();
}

// Takes the lowest place that is large enough.
Result<ByteSpan> Heap::Take(size_t bytes) {
  MutexLock lock(mutex_);
  const uint64_t unit = bytes < kLargeUnitBytes ? kPageBytes : kLargeUnitBytes;
  const uint64_t need = UpTo(std::max<uint64_t>(bytes, 1), kPageBytes);
  auto fits = [&](const auto& one) {
    return UpTo(one.first, unit) + need <= one.first + one.second;
  };
  auto place = bytes > bytes_ || closed_ ? free_.end() : std::ranges::find_if(free_, fits);
  if (place == free_.end()) {
    return Status(StatusCode::kExhausted, "no room for a shared tensor of " +
                                              std::to_string(bytes) + " bytes in a heap of " +
                                              std::to_string(bytes_));
  }
  Status mapped = MapIfFirst();
  if (!mapped.ok()) return mapped;
  auto [begin, size] = *place;
  const uint64_t offset = UpTo(begin, unit);
  taken_[offset] = need;
  free_.erase(place);
  if (offset > begin) free_[begin] = offset - begin;
  if (begin + size > offset + need) free_[offset + need] = begin + size - offset - need;
  return ByteSpan(base_.load() + offset, bytes);
}

bool Heap::Give(const std::byte* data) {
  MutexLock lock(mutex_);
  const std::byte* base = base_.load();
  if (base == nullptr || data < base) return false;
  auto found = taken_.find(static_cast<uint64_t>(data - base));
  if (found == taken_.end()) return false;
  auto [offset, bytes] = *found;
  fallocate(own_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  taken_.erase(found);
  PutFree(offset, bytes);
  LetGoIfLast();
  return true;
}

// Joins the free bytes with their free neighbours.
void Heap::PutFree(uint64_t offset, uint64_t bytes) {
  auto behind = free_.lower_bound(offset);
  if (behind != free_.end() && behind->first == offset + bytes) {
    bytes += behind->second;
    behind = free_.erase(behind);
  }
  if (behind != free_.begin()) {
    auto before = std::prev(behind);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

void Heap::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  LetGoIfLast();
}

std::optional<uint64_t> Heap::OffsetOf(ConstByteSpan bytes) const {
  const std::byte* base = base_.load();
  if (base == nullptr || bytes.data() < base) return {};
  const auto offset = static_cast<uint64_t>(bytes.data() - base);
  if (offset > bytes_ || bytes.size() > bytes_ - offset) return {};
  return offset;
}

}  // namespace byteps::local
