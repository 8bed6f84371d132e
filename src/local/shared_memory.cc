#include "src/local/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>
#include <utility>

namespace byteps::local {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// In smaller memory a large page would be mostly empty.
constexpr size_t kLargePageBytes = size_t{2} << 20;

std::string Size(size_t bytes) { return std::to_string(bytes) + " bytes of shared memory"; }

// Returns another descriptor of the same memory, which cannot be mapped for writing.
UniqueFd ReadOnlyTwin(int fd) {
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

Result<SharedMemory> SharedMemory::Create(size_t bytes, Access others) {
  UniqueFd fd(memfd_create("byteps", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return SystemError(StatusCode::kExhausted, "no shared memory (memfd_create)");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemError(StatusCode::kExhausted, "no room for " + Size(bytes));
  }
  Result<SharedMemory> memory = MapWhole(std::move(fd), bytes, Access::kReadWrite);
  if (!memory.ok()) return memory;
  int seals = kSizeSeals | F_SEAL_SEAL;
  int own = memory->fd();
  if (others == Access::kReadOnly) {
    // The seal leaves memory writable that this process has mapped already.
    if (fcntl(own, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0) return memory;
    UniqueFd twin = ReadOnlyTwin(own);  // a kernel before 5.1
    if (!twin) return SystemError(StatusCode::kExhausted, "shared memory that others only read");
    if (fcntl(own, F_ADD_SEALS, seals) == 0) {
      memory->fd_ = std::move(twin);
      return memory;
    }
  } else if (fcntl(own, F_ADD_SEALS, seals) == 0) {
    return memory;
  }
  return SystemError(StatusCode::kExhausted, "cannot fix the size of " + Size(bytes));
}

Result<SharedMemory> SharedMemory::Map(UniqueFd fd, size_t bytes, Access access) {
  struct stat about{};
  if (fstat(fd.get(), &about) != 0) {
    return SystemError(StatusCode::kProtocol, "a process of this machine sent no shared memory");
  }
  int seals = fcntl(fd.get(), F_GET_SEALS);
  if (about.st_size != static_cast<off_t>(bytes) || seals < 0 ||
      (seals & kSizeSeals) != kSizeSeals) {
    return Status(StatusCode::kProtocol,
                  "a process of this machine sent other shared memory than was agreed: " +
                      std::to_string(about.st_size) + " bytes instead of " + std::to_string(bytes) +
                      ", or of a size that may change");
  }
  return MapWhole(std::move(fd), bytes, access);
}

Result<SharedMemory> SharedMemory::MapWhole(UniqueFd fd, size_t bytes, Access access) {
  if (bytes == 0) return SharedMemory(std::move(fd), {});
  int protection = access == Access::kReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    return SystemError(StatusCode::kExhausted, "cannot map " + Size(bytes));
  }
  // Asks for large pages. If the machine has none for shared memory, small ones do.
  if (bytes >= kLargePageBytes) madvise(address, bytes, MADV_HUGEPAGE);
  return SharedMemory(std::move(fd), {static_cast<std::byte*>(address), bytes});
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace byteps::local
