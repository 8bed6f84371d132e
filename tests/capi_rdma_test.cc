// Tests jobs over RDMA as their users ask for them, in one process, with the stand-in for
// libibverbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "byteps/byteps.h"
#include "src/transport/rdma/verbs_standin_for_test.h"
#include "tests/capi_job.h"

namespace byteps::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kElements = 300000;

std::vector<std::string> OverRdma(const std::string& transport) {
  return {"force_distributed=1", "job_secret=secret", "shared_links=0", "transport=" + transport,
          "rdma_library=" + standin::LibraryPath()};
}

class CApiRdma : public ::testing::Test {
 protected:
  CApiRdma() { standin::TheControl().Reset(); }
  ~CApiRdma() override {
    EXPECT_EQ(standin::TheControl().counts().not_ready, 0u);
    EXPECT_THAT(standin::TheControl().complaints(), ::testing::IsEmpty());
    EXPECT_TRUE(standin::TheControl().counts().nothing_is_open());
  }

  static void ExpectSums(CApiJob& job) {
    std::vector<float> data[2] = {std::vector<float>(kElements, 1.5F),
                                  std::vector<float>(kElements, 2.25F)};
    byteps_handle handles[2] = {};
    for (int rank : {0, 1}) handles[rank] = BeginSum(job.session(rank), data[rank]);
    for (int rank : {0, 1}) EndWell(job.session(rank), handles[rank]);
    for (int rank : {0, 1}) EXPECT_EQ(data[rank], std::vector<float>(kElements, 3.75F));
  }
};

TEST_F(CApiRdma, AJobThatNeedsRdmaBeginsOverItAndSumsOverIt) {
  CApiJob job(2, OverRdma("rdma"));
  ASSERT_TRUE(job.Open());
  const uint64_t before = standin::TheControl().counts().bytes;
  ExpectSums(job);
  // Each worker pushes its tensor, and gets the sum.
  EXPECT_GE(standin::TheControl().counts().bytes - before, 4 * kElements * sizeof(float));
}

TEST_F(CApiRdma, AutoLeavesRdmaInSoftwareAloneUnlessItIsNamed) {
  {
    CApiJob job(2, OverRdma("auto"));
    ASSERT_TRUE(job.Open());
    ExpectSums(job);
  }
  EXPECT_EQ(standin::TheControl().counts().messages, 0u);
  std::vector<std::string> named = OverRdma("auto");
  named.push_back("rdma_devices=standin0");
  CApiJob job(2, named);
  ASSERT_TRUE(job.Open());
  // The job begins over TCP, and changes soon.
  for (int i = 0; i < 1000 && standin::TheControl().counts().bytes < kElements; ++i) {
    ExpectSums(job);
  }
  EXPECT_GE(standin::TheControl().counts().bytes, kElements);
}

TEST_F(CApiRdma, WithoutADeviceTheStartEndsAndSaysWhatToDo) {
  CApiJob job(1, OverRdma("rdma"));
  standin::TheControl().HideDevices(true);
  EXPECT_THAT(WhyNot(job.WorkerSettings(0)),
              AllOf(HasSubstr("BYTEPS_TRANSPORT"), HasSubstr("/dev/infiniband"),
                    HasSubstr("BYTEPS_TRANSPORT=auto")));
  standin::TheControl().HideDevices(false);
  std::vector<std::string> settings = job.WorkerSettings(0);
  settings.push_back("rdma_devices=mlx5_0");
  EXPECT_THAT(WhyNot(settings), AllOf(HasSubstr("mlx5_0"), HasSubstr("standin0")));
  settings.push_back("rdma_library=/nowhere/libibverbs.so.1");
  EXPECT_THAT(WhyNot(settings), AllOf(HasSubstr("/nowhere"), HasSubstr("ibverbs-providers")));
}

TEST_F(CApiRdma, ATransportUnderTlsIsRefused) {
  std::vector<std::string> settings = OverRdma("rdma");
  settings.push_back("tls=1");
  CApiJob job(1, settings);
  EXPECT_THAT(WhyNot(job.WorkerSettings(0)), HasSubstr("nothing is encrypted over RDMA"));
}

}  // namespace
}  // namespace byteps::testing
