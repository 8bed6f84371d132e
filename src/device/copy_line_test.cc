#include "src/device/copy_line.h"

#include "src/device/conformance.h"
#include "src/device/host/host_devices.h"

namespace byteps::device {
namespace {

TEST(CopyLine, NeighboursBecomeOneCopy) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1000);
  std::vector<std::byte> to(1000);
  Count ended;
  {
    CopyLine line(Lent(device));
    // While the line tells the end of the first copy, the others queue up.
    line.Copy(1, to.data(), from, 1, [&](const Status&) {
      for (size_t i = 0; i < 10; ++i) {
        line.Copy(1, to.data() + i * 10, from + i * 10, 10, [&](const Status&) { ended.Add(); });
      }
      // Neighbours in one memory only are no neighbours.
      for (size_t i = 0; i < 10; ++i) {
        line.Copy(1, to.data() + 500 + i * 10, from + 200 + i * 20, 10,
                  [&](const Status&) { ended.Add(); });
      }
    });
  }
  EXPECT_EQ(ended.now(), 20);
  EXPECT_EQ(device.copies(), 1u + 1u + 10u);
}

TEST(CopyLine, ManyCopiesAreSeveralBatches) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  Count ended;
  int failed = 0;
  {
    CopyLine line(Lent(device));
    line.Copy(1, &to, from, 1, [&](const Status&) {
      device.FailOnce(host::HostDevice::Step::kClose);  // of one batch
      for (size_t i = 0; i < 2 * CopyLine::kBatchCopies; ++i) {
        line.Copy(1, &to, from, 1, [&](const Status& status) {
          failed += status.ok() ? 0 : 1;
          ended.Add();
        });
      }
    });
  }
  EXPECT_EQ(ended.now(), static_cast<int>(2 * CopyLine::kBatchCopies));
  EXPECT_EQ(failed, static_cast<int>(CopyLine::kBatchCopies)) << "a batch has an error of its own";
}

// Nobody could catch an exception of the line's thread.
TEST(CopyLine, WithoutMemoryForAnErrorACopyFails) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  using Step = host::HostDevice::Step;
  for (Step step : {Step::kStream, Step::kCopy, Step::kClose, Step::kWait}) {
    CopyLine line(Lent(device));
    device.ThrowOnce(step);
    Count ended;
    Status how;
    line.Copy(1, &to, from, 1, [&](const Status& status) {
      how = status;
      ended.Add();
    });
    ASSERT_TRUE(ended.Reaches(1));
    EXPECT_EQ(how.code(), StatusCode::kExhausted) << static_cast<int>(step);
    line.Copy(1, &to, from, 1, [&](const Status& status) {
      how = status;
      ended.Add();
    });
    ASSERT_TRUE(ended.Reaches(2));
    EXPECT_TRUE(how.ok()) << how.ToString();
  }
}

}  // namespace
}  // namespace byteps::device
