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
  std::vector<float> data = {1, 2};
  EndWell(job.session(0), BeginSum(job.session(0), data));
}

TEST(CApiTls, WithoutASecretItIsRefused) {
  CApiJob job(1, {"force_distributed=1", "tls=1"});
  EXPECT_THAT(WhyNot(job.WorkerSettings(0)), HasSubstr("set BYTEPS_JOB_SECRET"));
}

}  // namespace
}  // namespace byteps::testing
