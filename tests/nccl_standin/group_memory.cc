#include "tests/nccl_standin/group_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <ctime>
#include <string>

namespace byteps::standin {
namespace {

constexpr char kMark[8] = "standin";
// A rank that was killed wakes nobody.
constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 20'000'000};

GroupFile* MapFile(int descriptor) {
  void* mapped =
      mmap(nullptr, sizeof(GroupFile), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<GroupFile*>(mapped);
}

// Takes a lock on the byte of a rank, or asks for the one that another rank would have.
bool LockByte(int descriptor, int command, int rank, short* found) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  const bool done = fcntl(descriptor, command, &lock) == 0;
  if (found != nullptr) *found = lock.l_type;
  return done;
}

}  // namespace

int MakeGroupFile(GroupName& name) {
  const int descriptor = memfd_create("stand-in group", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(GroupFile)) != 0) return -1;
  std::memcpy(name.mark, kMark, sizeof(kMark));
  name.process = getpid();
  name.descriptor = descriptor;
  if (getrandom(&name.nonce, sizeof(name.nonce), 0) != sizeof(name.nonce)) return -1;
  GroupFile* const file = MapFile(descriptor);
  if (file == nullptr) return -1;
  file->nonce = name.nonce;
  munmap(file, sizeof(GroupFile));
  return descriptor;
}

std::unique_ptr<GroupMemory> GroupMemory::Open(const GroupName& name, int rank) {
  if (std::memcmp(name.mark, kMark, sizeof(kMark)) != 0) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  GroupFile* const file = MapFile(descriptor);
  if (file == nullptr || file->nonce != name.nonce ||
      !LockByte(descriptor, F_OFD_SETLK, rank, nullptr)) {
    if (file != nullptr) munmap(file, sizeof(GroupFile));
    close(descriptor);
    return nullptr;
  }
  return std::make_unique<GroupMemory>(descriptor, rank, file);
}

GroupMemory::~GroupMemory() {
  munmap(file_, sizeof(GroupFile));
  close(descriptor_);
}

bool GroupMemory::Lives(int rank) const {
  if (rank == rank_) return true;
  short found = F_UNLCK;
  return LockByte(descriptor_, F_OFD_GETLK, rank, &found) && found != F_UNLCK;
}

void GroupMemory::Notify() {
  ++file_->changes;
  syscall(SYS_futex, &file_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool GroupMemory::Wait(const std::function<bool()>& is_true,
                       const std::function<bool()>& gives_up) {
  for (;;) {
    const uint32_t seen = file_->changes;
    if (is_true()) return true;
    if (gives_up()) return false;
    syscall(SYS_futex, &file_->changes, FUTEX_WAIT, seen, &kLookEvery, nullptr, 0);
  }
}

}  // namespace byteps::standin
