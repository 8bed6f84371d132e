#include "src/local/heaps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

namespace byteps::local {
namespace {

constexpr int kSealsOfSize = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Heaps::Heaps(uint32_t rank, std::shared_ptr<Heap> own, std::vector<UniqueFd> others)
    : rank_(rank), own_(std::move(own)) {
  for (UniqueFd& fd : others) views_.push_back({std::move(fd), {}});
}

Heaps::~Heaps() { Close(); }

bool Heaps::Map(uint32_t rank) {
  if (rank == rank_) return true;
  View& view = views_[rank];
  if (!view.bytes.empty()) return true;
  struct stat about{};
  // A heap whose size could change would make a reader fault.
  bool is_fixed = fstat(view.fd.get(), &about) == 0 &&
                  (fcntl(view.fd.get(), F_GET_SEALS) & kSealsOfSize) == kSealsOfSize;
  if (!is_fixed || about.st_size <= 0) return false;
  const auto bytes = static_cast<size_t>(about.st_size);
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, view.fd.get(), 0);
  if (address == MAP_FAILED) return false;
  madvise(address, bytes, MADV_HUGEPAGE);  // a wish
  madvise(address, bytes, MADV_DONTDUMP);
  view.bytes = {static_cast<const std::byte*>(address), bytes};
  return true;
}

void Heaps::Close() {
  for (View& view : views_) {
    if (!view.bytes.empty()) munmap(const_cast<std::byte*>(view.bytes.data()), view.bytes.size());
    view = View();
  }
}

const std::byte* Heaps::At(uint32_t rank, uint64_t offset, size_t bytes) const {
  const size_t all = rank == rank_ ? own_->bytes() : views_[rank].bytes.size();
  if (offset > all || bytes > all - offset) return nullptr;
  return rank == rank_ ? own_->At(offset) : views_[rank].bytes.data() + offset;
}

}  // namespace byteps::local
