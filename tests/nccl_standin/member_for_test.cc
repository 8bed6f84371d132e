// One rank of a group, as a process of its own.
//
//   nccl_member RANK SIZE FIRST_GPU VERSION
//
// Reads a word from each line of standard input, and writes a line for each answer:
//   id          makes the name of a group and writes it
//   join NAME   joins the group. Its end is "met: " and the status
//   sum         sums numbers, gathers them, and writes "sum: " and the status, or what is wrong
//   hang        begins a launch, and writes "begun". Its end is "ended: " and the status
//   abort       aborts the group
//   leave       leaves the group, and writes what is left in the libraries
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "src/base/count_for_test.h"
#include "src/device/cuda/cuda_devices.h"
#include "src/device/group_line.h"
#include "src/device/nccl/nccl_groups.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::device {
namespace {

// One call, so that lines of two threads do not mix.
void Print(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

std::string HexOf(const GroupId& id) {
  std::string text;
  for (std::byte byte : id) {
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned>(byte));
    text += hex;
  }
  return text;
}

GroupId IdOf(const std::string& hex) {
  GroupId id{};
  for (size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::byte>(std::strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return id;
}

class Member {
 public:
  Member(uint32_t rank, uint32_t size)
      : rank_(rank),
        size_(size),
        devices_(cuda::FindDevices(standin::LibraryPath()).value()),
        groups_(nccl::FindGroups(standin::NcclPath()).value()),
        memory_(kCount * sizeof(int32_t)) {}

  void Do(const std::string& word) {
    if (word == "id") Print(HexOf(groups_->NewId().value()));
    if (word == "join") Join();
    if (word == "sum") Sum();
    if (word == "hang") Hang();
    if (word == "abort") line_->Abort({StatusCode::kPeerLost, "a rank is lost"});
    if (word == "leave") Leave();
  }

 private:
  static constexpr size_t kCount = 30000;

  static GroupLine::Done Prints(const std::string& what) {
    return [what](const Status& status) { Print(what + status.ToString()); };
  }
  std::byte* data() { return static_cast<std::byte*>(memory_.data()); }

  void Join() {
    std::string name;
    std::cin >> name;
    GroupPlace place{.id = IdOf(name), .rank = rank_, .size = size_, .device = "cuda:0"};
    auto warn = [](const std::string& text) { Print("warning: " + text); };
    line_ = std::make_unique<GroupLine>(
        std::shared_ptr<Device>(devices_, devices_->Open(0).value()), groups_, std::move(place),
        GroupLine::Owner{.met = Prints("met: "), .broken = Prints("broken: "), .warn = warn},
        GroupLine::Limits{});
  }

  // Rank r has r + i at the place i.
  void Sum() {
    std::vector<int32_t> numbers(kCount);
    for (size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<int32_t>(rank_ + i);
    standin::Bytes bytes(kCount * sizeof(int32_t));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    memory_.Set(bytes);
    const size_t run = bytes.size() / size_;
    std::vector<GroupRun> runs;
    for (uint32_t home = 0; home < size_; ++home) runs.push_back({home, home * run, run});
    Count done;
    Status status;
    line_->Reduce(data(), data(), runs, DataType::kInt32, Combine::kSum,
                  [&](const Status& reduced) {
                    status = reduced;
                    done.Add();
                  });
    line_->Gather(data(), runs, [&](const Status& gathered) {
      if (status.ok()) status = gathered;
      done.Add();
    });
    if (!done.Reaches(2)) return Print("sum: no end");
    const standin::Bytes got = memory_.Read();
    std::memcpy(numbers.data(), got.data(), got.size());
    for (size_t i = 0; i < kCount && status.ok(); ++i) {
      const size_t sum = size_ * i + size_ * (size_ - 1) / 2;
      if (numbers[i] != static_cast<int32_t>(sum))
        return Print("sum: wrong at " + std::to_string(i));
    }
    Print("sum: " + status.ToString());
  }

  void Hang() {
    const uint64_t before = nccl_stand_in_count().begun;
    line_->ReduceAll(data(), data(), kCount * 4, DataType::kInt32, Combine::kSum,
                     Prints("ended: "));
    while (nccl_stand_in_count().begun == before) std::this_thread::yield();
    Print("begun");
  }

  void Leave() {
    line_.reset();
    Print("left: " + std::to_string(nccl_stand_in_count().communicators) + " communicators, " +
          std::to_string(nccl_stand_in_count().ids) + " names, " +
          std::to_string(stand_in_count().streams) + " streams");
  }

  const standin::UserContext context_;
  const uint32_t rank_;
  const uint32_t size_;
  const std::shared_ptr<Devices> devices_;  // shared with the line; so the groups
  const std::shared_ptr<Groups> groups_;
  standin::UserMemory memory_;
  std::unique_ptr<GroupLine> line_;
};

}  // namespace
}  // namespace byteps::device

int main(int, char** arguments) {
  stand_in_first_gpu(std::atoi(arguments[3]));
  nccl_stand_in_version(std::atoi(arguments[4]));
  byteps::device::Member member(static_cast<uint32_t>(std::atoi(arguments[1])),
                                static_cast<uint32_t>(std::atoi(arguments[2])));
  std::string word;
  while (std::cin >> word) member.Do(word);
  return 0;
}
