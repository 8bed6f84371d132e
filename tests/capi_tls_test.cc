// Tests a job under TLS, as its user asks for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "byteps/byteps.h"
#include "tests/capi_job.h"

namespace byteps::testing {
namespace {

using ::testing::HasSubstr;

// A process without TLS, or with another secret, gets an error at once; the job begins all the
// same.
TEST(CApiTls, OnlyWhoHasTlsAndTheSecretIsLetIn) {
  CApiJob job(1, {"force_distributed=1", "job_secret=secret", "tls=1"});
  std::vector<std::string> plain = job.WorkerSettings(0);
  std::vector<std::string> stranger = plain;
  plain.push_back("tls=0");
  stranger.push_back("job_secret=guessed");
  job.StartServices();
  EXPECT_THAT(WhyNot(plain), HasSubstr("BYTEPS_TLS must be the same everywhere"));
  EXPECT_THAT(WhyNot(stranger), HasSubstr("BYTEPS_JOB_SECRET"));
  ASSERT_TRUE(job.OpenSessions());
  float data[2] = {1, 2};
  const int64_t count = 2;
  byteps_request request{};
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = &count;
  request.dimensions = 1;
  request.input = request.output = data;
  byteps_handle handle = 0;
  byteps_error error{};
  ASSERT_EQ(byteps_start(job.session(0), &request, &handle, &error), BYTEPS_OK) << error.message;
  EXPECT_EQ(byteps_wait(job.session(0), handle, 60000, &error), BYTEPS_OK) << error.message;
}

TEST(CApiTls, WithoutASecretItIsRefused) {
  CApiJob job(1, {"force_distributed=1", "tls=1"});
  EXPECT_THAT(WhyNot(job.WorkerSettings(0)), HasSubstr("set BYTEPS_JOB_SECRET"));
}

}  // namespace
}  // namespace byteps::testing
