#include "src/transport/rdma/device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "src/transport/rdma/rdma_host_for_test.h"

namespace byteps::transport {
namespace {

TEST(DeviceTest, WhatTheLibraryShowsIsListed) {
  StandinLibrary library;
  auto folder = std::filesystem::temp_directory_path() / ("sysfs" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "standin1" / "device" / "net" / "eth7");
  auto devices = ListDevices(library.verbs(), folder);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "standin0");
  EXPECT_FALSE(devices[0].is_hardware);
  EXPECT_TRUE(devices[1].is_hardware) << "its folder says so";
  ASSERT_EQ(devices[1].ports.size(), 1u);
  EXPECT_EQ(devices[1].ports[0].interfaces, std::vector<std::string>{"eth7"});
  EXPECT_TRUE(devices[1].ports[0].is_active);
  EXPECT_EQ(devices[1].ports[0].link, LinkLayer::kEthernet);
  ASSERT_EQ(devices[1].ports[0].gids.size(), 2u);
  EXPECT_FALSE(devices[1].ports[0].gids[0].is_roce_v2);
  EXPECT_TRUE(devices[1].ports[0].gids[1].is_roce_v2);
  EXPECT_EQ(devices[1].ports[0].gids[1].gid, GidOfAddress("127.0.0.1").value());
  library.control().HideDevices(true);
  EXPECT_TRUE(ListDevices(library.verbs()).empty());
}

TEST(DeviceTest, ADeviceThatIsGoneIsNamed) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "mlx5_7");
  ASSERT_EQ(device.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(device.status().message().find("mlx5_7"), std::string::npos);
}

TEST(DeviceTest, ADeviceSaysWhenItBreaks) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  EXPECT_TRUE(device->TakeEvents().empty());
  library.control().SetPortActive(0, false);
  EXPECT_EQ(device->TakeEvents().size(), 1u);
  EXPECT_FALSE(device->is_dead()) << "a cable may be plugged in again";
  library.control().KillDevice(0);
  EXPECT_EQ(device->TakeEvents().size(), 1u);
  EXPECT_TRUE(device->is_dead());
  EXPECT_FALSE(Device::Open(library.verbs(), "standin0").ok());
}

TEST(RegisteredMemoryTest, BuffersLieInSlabsOnceADeviceIsUsed) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(size_t{8} << 20);
  RegisteredMemory memory(budget);
  BufferPool pool(memory);
  BufferRef before = pool.Take(1000);
  EXPECT_FALSE(memory.KeyOf(before.data(), 1000, *device).has_value());
  EXPECT_EQ(memory.slab_bytes(), 0u);
  ASSERT_TRUE(memory.Use(*device).ok());
  BufferRef first = pool.Take(32768);
  BufferRef second = pool.Take(32768);
  EXPECT_TRUE(memory.KeyOf(first.data(), 32768, *device).has_value());
  EXPECT_FALSE(memory.KeyOf(first.data() + RegisteredMemory::kSlabBytes, 1, *device).has_value());
  EXPECT_EQ(memory.KeyOf(first.data(), 32768, *device),
            memory.KeyOf(second.data(), 32768, *device));
  std::memset(first.data(), 1, 32768);
  EXPECT_EQ(library.control().counts().registered_bytes, memory.slab_bytes());
  first = second = before = BufferRef();
  memory.Drop(*device);
  EXPECT_EQ(library.control().counts().registered_bytes, 0u);
}

TEST(RegisteredMemoryTest, AboveTheLimitBuffersAreOrdinaryMemory) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(2 * RegisteredMemory::kSlabBytes);
  RegisteredMemory memory(budget);
  {
    BufferPool pool(memory);
    ASSERT_TRUE(memory.Use(*device).ok());
    std::vector<BufferRef> all;
    for (int i = 0; i < 5; ++i) all.push_back(pool.Take(size_t{1} << 20));
    size_t reachable = 0;
    for (const BufferRef& one : all) {
      reachable += memory.KeyOf(one.data(), size_t{1} << 20, *device).has_value() ? 1 : 0;
    }
    EXPECT_EQ(reachable, 4u);
    EXPECT_EQ(memory.slab_bytes(), 2 * RegisteredMemory::kSlabBytes);
  }
  EXPECT_EQ(memory.slab_bytes(), RegisteredMemory::kSlabBytes) << "one stays for what comes next";
  memory.Drop(*device);
}

TEST(RegisteredMemoryTest, MemoryThatWasGivenBackServesAgain) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(size_t{64} << 20);
  RegisteredMemory memory(budget);
  ASSERT_TRUE(memory.Use(*device).ok());
  std::byte* kept = memory.Make(64);
  std::byte* first = memory.Make(4096);
  memory.Free(first, 4096);
  EXPECT_EQ(memory.Make(4096), first);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::byte*> large;
    for (int i = 0; i < 8; ++i) large.push_back(memory.Make(size_t{3} << 20));
    for (std::byte* one : large) memory.Free(one, size_t{3} << 20);
    EXPECT_EQ(memory.slab_bytes(), RegisteredMemory::kSlabBytes) << "nobody needs the large slabs";
  }
  memory.Free(first, 4096);
  memory.Free(kept, 64);
  memory.Drop(*device);
}

TEST(RegisteredMemoryTest, IfTheSystemRegistersNothingTheErrorSaysWhichLimitToRaise) {
  StandinLibrary library;
  library.control().LimitRegisteredBytes(0);
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(size_t{8} << 20);
  RegisteredMemory memory(budget);
  Status refused = memory.Use(*device);
  EXPECT_EQ(refused.code(), StatusCode::kExhausted);
  EXPECT_NE(refused.message().find("standin0 cannot reach this process' memory"), std::string::npos)
      << refused.message();
  EXPECT_EQ(memory.KeyOf(nullptr, 0, *device), std::nullopt);
}

TEST(RegisteredMemoryTest, ASlabThatCannotBeRegisteredServesAsOrdinaryMemory) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(size_t{8} << 20);
  RegisteredMemory memory(budget);
  {
    BufferPool pool(memory);
    ASSERT_TRUE(memory.Use(*device).ok());
    library.control().LimitRegisteredBytes(library.control().counts().registered_bytes);
    BufferRef in = pool.Take(size_t{2} << 20);
    BufferRef out = pool.Take(size_t{2} << 20);
    EXPECT_TRUE(memory.KeyOf(in.data(), 1, *device).has_value());
    EXPECT_FALSE(memory.KeyOf(out.data(), 1, *device).has_value());
    std::memset(out.data(), 1, size_t{2} << 20);
  }
  memory.Drop(*device);
}

TEST(RegisteredMemoryTest, WhatWasRefusedIsTriedAgainWhenThereIsMemory) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(size_t{8} << 20);
  RegisteredMemory memory(budget);
  ASSERT_TRUE(memory.Use(*device).ok());
  constexpr size_t kBytes = RegisteredMemory::kSlabBytes;
  std::byte* reached = memory.Make(kBytes);
  library.control().LimitRegisteredBytes(library.control().counts().registered_bytes);
  std::byte* refused = memory.Make(kBytes);
  EXPECT_FALSE(memory.KeyOf(refused, kBytes, *device).has_value());
  memory.Free(reached, kBytes);
  EXPECT_TRUE(memory.KeyOf(refused, kBytes, *device).has_value()) << "the other slab is gone";
  memory.Free(refused, kBytes);
  memory.Drop(*device);
}

// A child that wrote into memory of a device would get copies of pages, and the device would go on
// with the old ones.
TEST(RegisteredMemoryTest, AChildDoesNotSeeIt) {
  StandinLibrary library;
  auto device = Device::Open(library.verbs(), "standin0").value();
  SlabBudget budget(size_t{8} << 20);
  RegisteredMemory memory(budget);
  ASSERT_TRUE(memory.Use(*device).ok());
  std::byte* buffer = memory.Make(4096);
  std::memset(buffer, 7, 4096);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  pid_t child = fork();
  if (child == 0) {  // the kernel refuses to read what is not there
    _exit(write(pipe_ends[1], buffer, 1) < 0 ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  memory.Free(buffer, 4096);
  memory.Drop(*device);
}

}  // namespace
}  // namespace byteps::transport
